"""Pools of uncollected facts: what is drawn for each, and what they stand beside."""

from __future__ import annotations

import torch

from npugraph.auditing.pools import further_answers
from npugraph.seeds import generator


def test_further_answers_are_those_of_the_same_question() -> None:
    """Four tails for (0, 0, ?), two heads for (?, 0, 9), and one fact alone."""
    facts = torch.tensor(
        [(0, 0, 1), (0, 0, 2), (0, 0, 3), (0, 0, 4), (5, 0, 9), (6, 0, 9), (7, 1, 8)]
    )
    ends = torch.tensor([2, 2, 2, 2, 0, 0, 2])
    every = further_answers(facts, ends, 1.0, generator(0, "test"))
    assert every.tolist() == [[3, 0]] * 4 + [[0, 1]] * 2 + [[0, 0]]
    none = further_answers(facts, ends, 0.0, generator(0, "test"))
    assert not none.any()


def test_most_of_them_are_in_other_folds() -> None:
    facts = torch.tensor([(0, 0, tail) for tail in range(1, 2001)])
    found = further_answers(facts, torch.full((2000,), 2), 0.8, generator(0, "test"))
    assert abs(float(found[:, 0].mean()) / 1999 - 0.8) < 0.01
    assert torch.equal(
        found, further_answers(facts, torch.full((2000,), 2), 0.8, generator(0, "test"))
    )


def test_no_facts_have_no_further_answers() -> None:
    nothing = torch.zeros(0, 3, dtype=torch.int64)
    assert further_answers(nothing, nothing[:, 0], 0.8, generator(0, "test")).shape == (0, 2)
