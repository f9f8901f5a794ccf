"""What an explanation holds, in labels, ready for JSON or the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from npugraph.display import Shown
from npugraph.explaining.remarks import (
    Place,
    Remark,
    Speaks,
    column_remarks,
    issue_remarks,
    known_remarks,
)
from npugraph.graph import Side
from npugraph.names import Readable, ReadableNames, percent, shorten

Labels = tuple[str, str, str]
ContradictionKind = Literal["functional", "crowded", "type", "asymmetric", "loop", "unconfirmed"]


@dataclass(frozen=True)
class Supporting:
    """A rule that fires for the fact.

    Attributes:
        rule: the rule in words.
        kind: symmetric, inverse, subsumption or composition.
        confidence: share of the rule's other instances that are stored.
        lower: lower 95% bound of that share.
        support: other instances that are stored.
        body_count: other instances.
        sampled: whether the two counts are of a sample.
        ways: the stored facts that make the body true here, one entry per way.
    """

    rule: str
    kind: str
    confidence: float
    lower: float
    support: int
    body_count: int
    sampled: bool
    ways: tuple[tuple[Labels, ...], ...]


@dataclass(frozen=True)
class Contradicting:
    """A regularity of the stored facts that the fact breaks.

    Attributes:
        kind: which regularity.
        strength: lower 95% bound of the share of other cases that keep to it; for ``type``, the
            share of the entity's roles that are foreign to the relation.
        text: one sentence.
        facts: the stored facts that speak against it, where there are any.
    """

    kind: ContradictionKind
    strength: float
    text: str
    facts: tuple[Labels, ...]


@dataclass(frozen=True)
class Usage:
    """How usual an entity is on one side of the relation, the fact itself not counted.

    Attributes:
        side: the side the entity is on.
        entity: its name.
        count: other facts of the relation with the entity on this side.
        relation_count: other facts of the relation.
        share: count / relation_count, 0 where the relation has no other facts.
        percentile: share of the entities seen on this side that are seen there less often.
        degree: other facts the entity is in, on any side of any relation.
    """

    side: Side
    entity: str
    count: int
    relation_count: int
    share: float
    percentile: float
    degree: int


@dataclass(frozen=True)
class Similar:
    """An entity much like the head or tail, and what stands in its place on the other side.

    Attributes:
        side: the side of the fact that ``entity`` is like.
        entity: the similar entity.
        similarity: weighted share of the features (relation, neighbour) it has in common, 0 to 1.
        values: what the relation stores for it on the other side.
        agrees: whether that includes the value of this fact.
    """

    side: Side
    entity: str
    similarity: float
    values: tuple[str, ...]
    agrees: bool


@dataclass(frozen=True)
class Alternative:
    """Another entity in the place of the head or tail.

    Attributes:
        side: the side that is replaced.
        fact: the fact it makes.
        score: its score.
        gain: by how much that is above the score of the fact in question.
        collected: whether it is stored.
    """

    side: Side
    fact: Labels
    score: float
    gain: float
    collected: bool


@dataclass(frozen=True)
class Meant:
    """What an audit proposes instead of a suspect.

    Attributes:
        side: the side that is replaced.
        fact: the fact it makes.
        stored: whether that is stored already: the suspect is to be taken out then.
    """

    side: Side
    fact: Labels
    stored: bool

    @classmethod
    def instead_of(cls, fact: Labels, side: Side, label: str, stored: bool) -> Meant:
        """Return the proposal that puts a name at one side of a fact."""
        head, relation, tail = fact
        made = (label, relation, tail) if side == "head" else (head, relation, label)
        return cls(side, made, stored)


@dataclass(frozen=True)
class Audited:
    """What an audit tells of one fact.

    Attributes:
        probability: that it is true, and both ends of the interval; None where not told.
        untold: why not.
        meant: what the audit proposes instead.
        place: where all evidence together puts it; None: it was not judged, or is known.
        known: what a label or an answer says of it, None: nothing; what is known is stored.
        column_odds: by which factor columns of the input change the odds of its being wrong.
        columns: the names of these columns.
        issues: what was found about it without a model: kind and sentence of each.
    """

    probability: tuple[float | None, ...]
    untold: str
    meant: Meant | None
    place: Place | None = None
    known: bool | None = None
    column_odds: float | None = None
    columns: tuple[str, ...] = ()
    issues: tuple[tuple[str, str], ...] = ()

    def remarks(self) -> tuple[Remark, ...]:
        """Return what is to be said of it, in sentences."""
        place = () if self.place is None else self.place.remarks(self.probability[0])
        columns = column_remarks(self.column_odds, self.columns)
        return (*known_remarks(self.known), *place, *columns, *issue_remarks(self.issues))


@dataclass(frozen=True)
class EvidencePath:
    """A way along stored facts from head to tail that the model judges by.

    Attributes:
        facts: the facts in order.
        forward: for each, whether it is passed from its head to its tail.
        weight: by how much the score would fall without one of them, to first order, on average.
    """

    facts: tuple[Labels, ...]
    forward: tuple[bool, ...]
    weight: float

    def words(self, readable: Readable = shorten) -> str:
        """Return the path in one line; ``readable`` writes the names.

        >>> way = (("Ann", "mother_of", "Bo"), ("Cy", "lives_with", "Bo"))
        >>> EvidencePath(way, (True, False), 0.5).words()
        'Ann -mother_of-> Bo <-lives_with- Cy'
        """
        text = ""
        for (head, relation, tail), forward in zip(self.facts, self.forward, strict=True):
            first, last = (head, tail) if forward else (tail, head)
            arrow = f"-{readable(relation)}->" if forward else f"<-{readable(relation)}-"
            text = f"{text or readable(first)} {arrow} {readable(last)}"
        return text


@dataclass(frozen=True, repr=False)
class Explanation(Shown):
    """The evidence about one fact.

    Attributes:
        fact: head, relation and tail.
        ids: the same as ids.
        stored: whether the graph holds it.
        supporting: rules that fire, best first.
        contradicting: regularities it breaks, strongest first.
        usage: how usual head and tail are.
        similar: entities like the head and like the tail.
        scores: score of the fact by the side that was asked for; empty without a model.
        ranks: its filtered realistic rank by side; empty without a model.
        alternatives: the best scored other entities, by side.
        corrections: what may be meant instead: for each side the best stored and the best new
            alternative that score above the fact, highest gain first; none by an audit, which has
            tested what it proposes.
        meant: that proposal.
        paths: what a model that judges by paths rests on, heaviest first.
        probability: that the fact is true, where it was judged, else None.
        untold: why an audit tells no probability, in a sentence.
        known: what a label of the audit's input or an answer says; None: nothing.
        remarks: what an audit says of it, for it and against it: what is known, where all evidence
            together puts it, what columns of the input say, and issues found without a model.
        low: lower end of its 90% interval, where there is one.
        high: upper end.
        names: how names in it are shown, where not as they are.
    """

    fact: Labels
    ids: tuple[int, int, int]
    stored: bool
    supporting: tuple[Supporting, ...]
    contradicting: tuple[Contradicting, ...]
    usage: tuple[Usage, ...]
    similar: tuple[Similar, ...]
    scores: dict[str, float]
    ranks: dict[str, float]
    alternatives: tuple[Alternative, ...]
    corrections: tuple[Alternative, ...]
    paths: tuple[EvidencePath, ...]
    meant: Meant | None = None
    probability: float | None = None
    low: float | None = None
    high: float | None = None
    untold: str = ""
    known: bool | None = None
    remarks: tuple[Remark, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the state of the fact and how much speaks for it and against it."""
        rows: dict[str, object] = {"stored": self.stored}
        if self.probability is not None:
            rows["probability"] = self.probability
        rows |= {
            "for it": len(self.supporting) + len(self.said("for")),
            "against it": len(self.contradicting) + len(self.said("against")),
        }
        return f"Explanation of {self._words(self.fact)}", rows

    def mentioned(self) -> set[str]:
        """Return all names in it."""
        facts = [self.fact]
        facts += [fact for item in self.supporting for way in item.ways for fact in way]
        facts += [fact for item in self.contradicting for fact in item.facts]
        facts += [item.fact for item in (*self.alternatives, *self.corrections)]
        facts += [fact for path in self.paths for fact in path.facts]
        alone = [name for item in self.similar for name in (item.entity, *item.values)]
        return {name for fact in facts for name in fact} | set(alone)

    def name(self, name: str) -> str:
        """Return a name as it is shown."""
        return self.names.get(name) or shorten(name)

    def by_audit(self, told: Audited, readable: ReadableNames) -> Explanation:
        """Return it with what an audit tells of the fact; ``readable`` says how names are shown."""
        value, low, high = told.probability
        names = {} if told.meant is None else readable.differing(told.meant.fact)
        return dataclasses.replace(
            self,
            corrections=(),
            meant=told.meant,
            probability=value,
            low=low,
            high=high,
            untold=told.untold,
            # What is known to be wrong is no evidence, but it is in the input.
            stored=self.stored or told.known is not None,
            known=told.known,
            remarks=told.remarks(),
            names={**self.names, **names},
        )

    def said(self, speaks: Speaks) -> tuple[str, ...]:
        """Return what an audit says for the fact, or against it."""
        return tuple(one.text for one in self.remarks if one.speaks == speaks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return dataclasses.asdict(self)

    def to_text(self) -> str:
        """Return lines for the terminal.

        What agrees with what is known, or with the probability, comes first; what does not is said
        to be outweighed, where something is shown that outweighs it.
        """
        state = "stored" if self.stored else "not stored"
        lines = [f"{self._words(self.fact)}  [{state}]", *self._probability_lines()]
        verdict = self._verdict()
        both: dict[Speaks, list[str]] = {
            "for": [*self._remark_lines("for"), *self._for_lines(), *self._path_lines()],
            "against": [*self._remark_lines("against"), *self._against_lines()],
        }
        sections = [
            *self._weighed(both, verdict),
            ("How usual it is", list(self._usage_lines())),
            ("The nearest stored facts", list(self._nearest_lines())),
            ("What scores higher", list(self._ranked_lines())),
            ("Perhaps meant", [] if verdict == "for" else list(self._meant_lines())),
        ]
        for title, content in sections:
            if content:
                lines += [title, *content]
        return "\n".join(lines)

    def _words(self, fact: Labels) -> str:
        return f"({', '.join(map(self.name, fact))})"

    def _verdict(self) -> Speaks | None:
        """Return what is known, or more probable; None where neither is told."""
        if self.known is None and self.probability is None:
            return None
        right = self.probability is not None and self.probability >= 0.5
        return "for" if (right if self.known is None else self.known) else "against"

    def _probability_lines(self) -> list[str]:
        if self.known is not None:
            return [f"It is known to be {'right' if self.known else 'wrong'}."]
        if self.probability is None:
            return [f"No probability is told. {self.untold}"] if self.untold else []
        line = f"Probability of being true: {percent(self.probability)}"
        if self.low is not None and self.high is not None:
            line += f" (90% interval {percent(self.low)} to {percent(self.high)})"
        return [f"{line}. It is probably {'right' if self.probability >= 0.5 else 'wrong'}."]

    def _weighed(
        self, both: dict[Speaks, list[str]], verdict: Speaks | None
    ) -> Iterator[tuple[str, list[str]]]:
        """Yield the sections of what speaks for and against the fact; none is ever left out."""
        sides: tuple[Speaks, Speaks] = ("against", "for") if verdict == "against" else _SIDES
        for side in sides:
            title, other = f"What speaks {side} it", both[_OPPOSITE[side]]
            # What all evidence together says is not outweighed by a part of it.
            overall = any(one.kind == "place" and one.speaks == side for one in self.remarks)
            if verdict == _OPPOSITE[side] and both[side] and other and not overall:
                title += ", and is outweighed"
            yield title, both[side] or ["  Nothing was found."]

    def _remark_lines(self, speaks: Speaks) -> list[str]:
        return [f"  {text}" for text in self.said(speaks)]

    def _for_lines(self) -> Iterator[str]:
        for item in self.supporting:
            sampled = " sampled" if item.sampled else ""
            yield (
                f"  {item.rule} holds in {item.support:,} of {item.body_count:,} other{sampled} "
                f"cases ({item.confidence:.0%}), and here by:"
            )
            yield from (f"      {' and '.join(map(self._words, way))}" for way in item.ways)
        for one in self.similar:
            if one.agrees:
                yield (
                    f"  {self.name(one.entity)}, much like the {one.side}, also has "
                    f"{self.name(self.fact[1])} with the same {_OTHER[one.side]}."
                )

    def _path_lines(self) -> Iterator[str]:
        for path in self.paths:
            yield f"  The score rests on {path.words(self.name)} (weight {path.weight:.3f})."

    def _against_lines(self) -> Iterator[str]:
        for item in self.contradicting:
            yield f"  {item.text}"
            yield from (f"      {self._words(fact)}" for fact in item.facts)

    def _usage_lines(self) -> Iterator[str]:
        for one in self.usage:
            more = f", more often than {one.percentile:.0%} of its {one.side}s,"
            yield (
                f"  {self.name(one.entity)} is the {one.side} of {one.count:,} of "
                f"{one.relation_count:,} other facts of {self.name(self.fact[1])}"
                f"{more if one.percentile >= 0.005 else ''} and is in {one.degree:,} other facts."
            )

    def _nearest_lines(self) -> Iterator[str]:
        for one in self.similar:
            if one.values:
                values, share = ", ".join(map(self.name, one.values)), f"{one.similarity:.0%}"
                yield (
                    f"  {self.name(one.entity)}, like the {one.side} ({share} in common), has the "
                    f"{_OTHER[one.side]}s: {values}."
                )

    def _ranked_lines(self) -> Iterator[str]:
        for side, rank in self.ranks.items():
            end = self.fact[0] if side == "head" else self.fact[2]
            above = [a for a in self.alternatives if a.side == side and a.gain > 0]
            stop = ". Above it:" if above else "."
            yield (
                f"  As the {side}, {self.name(end)} ranks {rank:,.10g} among what is not stored "
                f"there (score {self.scores[side]:.4f}){stop}"
            )
            yield from (f"    {self._alternative_line(a)}" for a in above)

    def _meant_lines(self) -> Iterator[str]:
        if self.meant is not None:
            state = "stored already: take this one out" if self.meant.stored else "not stored"
            yield f"  {self._words(self.meant.fact)} ({state})"
        # What is stored already corrects nothing.
        yield from (self._alternative_line(a) for a in self.corrections if not a.collected)

    def _alternative_line(self, item: Alternative) -> str:
        state = "stored" if item.collected else "not stored"
        return f"  {self._words(item.fact)} (score {item.score:.4f}, {state})"


_OTHER = {"head": "tail", "tail": "head"}
_SIDES: tuple[Speaks, Speaks] = ("for", "against")
_OPPOSITE: dict[Speaks, Speaks] = {"for": "against", "against": "for"}


def why_untold(judged: bool, level: str, why: str) -> str:
    """Return why an audit tells no probability of a fact, by its verdict.

    >>> why_untold(True, "order", "Too few facts.")
    "The audit's verdict is 'order': Too few facts."
    """
    if not judged:
        return "The fact is neither stored nor among the proposals, so the audit did not judge it."
    return f"The audit's verdict is '{level}': {why}"
