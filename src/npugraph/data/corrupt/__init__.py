"""Draw false facts: for the protocol, which plants them, and for the audit's pools.

``kinds`` names what there is, in families; ``replace``, ``similar`` and ``caged`` say how a fact
of each kind comes about; ``draw`` draws many.

What is drawn is only known not to be stored: a graph that lacks facts may lack this one. The more
plausible a kind, the more often that is so.
"""

from npugraph.data.corrupt.draw import draw_false_facts, draw_pool, draw_with_origin
from npugraph.data.corrupt.kinds import FAMILIES, HEAD, NOISES, RANKED, TAIL, Noise, family
from npugraph.data.corrupt.replace import Roles
from npugraph.data.corrupt.similar import Ranker

__all__ = [
    "FAMILIES",
    "HEAD",
    "NOISES",
    "RANKED",
    "TAIL",
    "Noise",
    "Ranker",
    "Roles",
    "draw_false_facts",
    "draw_pool",
    "draw_with_origin",
    "family",
]
