"""Shares of kinds of wrong facts, from scores alone."""

from __future__ import annotations

import numpy as np
import pytest

from npugraph.calibration.noise_shares import equation, share_below, solve

ENDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)


def found_shares(true: dict[int, float], seed: int) -> np.ndarray:
    """Estimate the shares of two kinds among 20,000 facts; each is told by a value of its own."""
    rng = np.random.default_rng(seed)
    centre = [np.array([0.0, 0.0]), np.array([-5.0, 0.0]), np.array([0.0, -5.0])]

    def draw(kind: int, count: int) -> np.ndarray:
        return rng.normal(0, 1, (count, 2)) + centre[kind]

    wrong = [draw(kind, round(20_000 * share)) for kind, share in true.items()]
    collected = np.concatenate([draw(0, 20_000 - sum(map(len, wrong))), *wrong])
    samples = [collected, draw(1, 4000), draw(2, 4000)]
    rows = [equation([part[:, kind - 1] for part in samples], kind, ENDS)[0] for kind in (1, 2)]
    return solve(np.stack(rows), 1e-3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("true", [{1: 0.04}, {2: 0.1}, {1: 0.03, 2: 0.02}, {}])
def test_planted_shares_are_found(true: dict[int, float], seed: int) -> None:
    wanted = [true.get(kind, 0.0) for kind in (1, 2)]
    assert found_shares(true, seed) == pytest.approx(wanted, abs=0.005)


def test_the_density_amid_a_kind_is_that_of_collected_facts_in_its_lower_half() -> None:
    rng = np.random.default_rng(0)
    kind = rng.normal(-1, 1, 5000)
    collected = np.concatenate([rng.normal(3, 1, 9000), rng.normal(-1, 1, 1000)])
    _, amid = equation([collected, kind], 1, ENDS)
    assert amid == pytest.approx(0.1, abs=0.01)


def test_a_kind_without_an_equation_gets_nothing() -> None:
    equations = np.array([[10.0, 0.0, 0.4], [0.0, 0.0, 0.0]])
    assert solve(equations, 1e-6) == pytest.approx([0.04, 0.0], abs=1e-6)


def test_a_kind_without_an_equation_explains_nothing_of_the_others() -> None:
    equations = np.array([[0.0, 0.0, 0.0], [0.9, 1.0, 0.05]])
    assert solve(equations, 1e-6) == pytest.approx([0.0, 0.05], abs=1e-6)


def test_a_share_is_never_more_than_all() -> None:
    assert solve(np.array([[1.0, 5.0]]), 1e-6) == pytest.approx([1.0])


def test_ties_at_an_edge_are_below_it() -> None:
    assert share_below(np.array([1.0, 2.0, 2.0, 3.0]), np.array([2.0])) == pytest.approx([0.75])
