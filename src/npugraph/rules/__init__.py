"""Rules a person can read, mined from the facts and applied to facts and queries.

Three kinds, all of the form "body holds between x and y => r(x, y)":

- inverse: ``q(y, x) => r(x, y)``, called symmetric where q = r;
- subsumption: ``q(x, y) => r(x, y)``, an equivalence where it holds both ways;
- composition: ``p(x, z), q(z, y) => r(x, y)``, either atom also turned round.

A body atom is a *directed relation* d in 0..2R-1: d < R is relation d as stored, d >= R is
relation d - R read from tail to head. An *instance* of a body is a pair of entities x != y that
it connects, however many ways z there are; paths do not turn back, so x, z and y all differ.
Loops (facts whose head is their tail) neither make nor match an instance, so no fact can be part
of its own body.

    support    = number of instances (x, y) with r(x, y) stored
    confidence = support / number of instances
    lower      = lower end of Wilson's 95% interval for the confidence; rules are ordered by it

An instance whose head is not stored counts against a rule, so on an incomplete graph confidence
understates the truth. A rule is applied to a fact *leave-one-out*: the instances that the fact
takes part in leave both counts first, so the verdict does not depend on whether it is stored.
"""

from npugraph.rules.edges import DirectedEdges
from npugraph.rules.mining import mine
from npugraph.rules.ruleset import Firings, Rule, RuleKind, RuleSet, wilson_lower

__all__ = ["DirectedEdges", "Firings", "Rule", "RuleKind", "RuleSet", "mine", "wilson_lower"]
