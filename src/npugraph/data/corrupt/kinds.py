"""The kinds of false facts, and the families they are in."""

from __future__ import annotations

from typing import Literal, get_args

Noise = Literal[
    "random",
    "one-sided",
    "typed",
    "wrong-tail",
    "swapped",
    "relation",
    "relation-typed",
    "hard",
    "near-duplicate",
    "crowded",
    "one-source",
    "caged",
]
NOISES: tuple[Noise, ...] = get_args(Noise)
# Kinds whose facts look alike: what is learned from one of them holds for the others, too. To ask
# what happens with errors that nobody has thought of, leave out a whole family.
FAMILIES: dict[str, tuple[Noise, ...]] = {
    "arbitrary": ("random", "one-sided", "wrong-tail", "caged"),
    "plausible": ("typed", "hard", "near-duplicate", "crowded"),
    "wrong-relation": ("swapped", "relation", "relation-typed"),
    "one-source": ("one-source",),
}
# Kinds that need something that ranks the answers of a question.
RANKED: tuple[Noise, ...] = ("hard", "crowded")
# The columns of a fact that hold entities.
HEAD, TAIL = 0, 2


def family(kind: Noise) -> str:
    """Return the family of a kind.

    >>> family("hard")
    'plausible'
    """
    return next(name for name, kinds in FAMILIES.items() if kind in kinds)
