"""False facts as the published code of CAGED draws them, draw by draw.

Q. Zhang et al., Contrastive Knowledge Graph Error Detection, CIKM 2022; code at
https://github.com/DEEP-PolyU/CAGED_CIKM22. The figures of that paper, and of those that compare
with it, are on graphs made so:

- train, valid and test are one list of N facts, in the order of the files; names get ids in the
  order in which they turn up, a fact's head before its tail;
- Python's ``random`` is seeded (0 in the paper), and n = int(rate N) false facts are added;
- ``sample`` takes n // 2 of all facts but the last; of each ``randint`` replaces head, relation or
  tail, a third each, and draws again while the result is stored;
- n // 2 more are three ids of ``randint``, drawn again while the result is stored.

A false fact that is drawn twice counts once here; there it would be in the graph twice.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor

from npugraph.arrays import first_by_key, first_of_each
from npugraph.errors import DataError
from npugraph.graph import TripleIndex

# Draws after which a fact is taken to have no false neighbour.
TRIES = 10_000


def draw_caged(facts: Tensor, known: TripleIndex, wanted: int, seed: int) -> Tensor:
    """Draw two times ``wanted // 2`` false facts [m, 3], less those that are drawn twice.

    Args:
        facts: all facts [n, 3], in the order of the files.
        known: what is stored.
        wanted: how many to draw.
        seed: of Python's generator.
    """
    entities = _in_order_of_appearance(facts[:, [0, 2]].flatten())
    relations = _in_order_of_appearance(facts[:, 1])
    names = (entities.tolist(), relations.tolist(), entities.tolist())
    stored = set(map(tuple, known.facts().tolist()))
    rng = random.Random(seed)
    half = wanted // 2
    chosen = rng.sample(range(max(len(facts) - 1, 0)), min(half, max(len(facts) - 1, 0)))
    if len(chosen) < half:
        raise DataError(f"{half} of {len(facts)} facts cannot be replaced; try a lower rate.")

    def draw(fact: list[int], columns: tuple[int, ...]) -> list[int]:
        for _ in range(TRIES):
            made = list(fact)
            for column in columns:
                made[column] = names[column][rng.randint(0, len(names[column]) - 1)]
            if tuple(made) not in stored:
                return made
        raise DataError(
            f"After {TRIES:,} draws with noise 'caged' a false fact is still stored: the graph has "
            "no room for it; try another noise."
        )

    made = [draw(fact, (rng.randint(0, 2),)) for fact in facts[chosen].tolist()]
    made += [draw([0, 0, 0], (0, 1, 2)) for _ in range(half)]
    drawn = torch.tensor(made, dtype=torch.int64).view(-1, 3)
    return drawn[first_of_each(known.codes(drawn))]


def _in_order_of_appearance(ids: Tensor) -> Tensor:
    """Return the distinct ids, that which turns up first first."""
    return ids[first_by_key(ids).sort().values]
