"""Facts over few entities, as lists, sets and tensors."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from npugraph.triples import Triple


def as_tensor(facts: list[Triple]) -> torch.Tensor:
    """Return facts as rows of ids [n, 3]."""
    return torch.tensor(facts, dtype=torch.int64).reshape(-1, 3)


def as_set(facts: torch.Tensor) -> set[Triple]:
    """Return the distinct rows."""
    return {(h, r, t) for h, r, t in facts.tolist()}


@st.composite
def small_facts(draw: st.DrawFn) -> tuple[list[Triple], int, int]:
    """Facts, with repeats, over at most five entities and three relations."""
    num_entities, num_relations = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    entity, relation = st.integers(0, num_entities - 1), st.integers(0, num_relations - 1)
    facts = draw(st.lists(st.tuples(entity, relation, entity), max_size=25))
    return facts, num_entities, num_relations
