"""Compiled loops give what the plain tensor operations give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from npugraph.compiling import Loop
from npugraph.graph import SIDES
from npugraph.kernels import (
    Norm,
    cpu,
    dispatch,
    distances,
    distances_against,
    gathered_perceptron,
    perceptron_scores,
)
from npugraph.samplers.uniform import Answered

pytest.importorskip("numba", reason="the compiled loops need numba: pip install 'npugraph[fast]'")

NORMS: tuple[Norm, ...] = ("l1", "l2", "modulus")
DTYPES = (torch.float32, torch.float64)


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """More threads than the machine may have, and fewer rows than threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LEAST_WORK", 2**60)
    monkeypatch.setattr(dispatch, "LEAST_CELLS", 2**60)


def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "LEAST_WORK", 0)
    monkeypatch.setattr(dispatch, "LEAST_CELLS", 0)
    called: list[str] = []
    run = cpu.run

    def record(loop: Loop, *rest: Any) -> None:
        called.append(loop.__name__)
        run(loop, *rest)

    monkeypatch.setattr(cpu, "run", record)
    monkeypatch.setattr(cpu, "called", called, raising=False)


def numbers(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=rng, dtype=torch.float64).to(dtype)


def close(found: Tensor, expected: Tensor) -> None:
    tight = 1e-10 if found.dtype == torch.float64 else 2e-5
    torch.testing.assert_close(found, expected, rtol=tight, atol=10 * tight)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 17])
def test_perceptron_scores(
    dtype: torch.dtype, rows: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, table = numbers(rows, 9, dtype=dtype), numbers(2100, 9, dtype=dtype, seed=1)
    weight = numbers(9, dtype=dtype, seed=2)
    plain(monkeypatch)
    expected = perceptron_scores(query, table, weight)
    compiled(monkeypatch)
    close(perceptron_scores(query, table, weight), expected)
    assert cpu.called == ["perceptron_table"]  # type: ignore[attr-defined]


def test_units_that_are_off_leave_exact_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch)
    query = -10 - numbers(5, 9, dtype=torch.float32).abs()
    table = numbers(1500, 9, dtype=torch.float32, seed=1).clamp(max=5)
    scores = perceptron_scores(query, table, numbers(9, dtype=torch.float32, seed=2))
    assert scores.unique().tolist() == [0.0]


@pytest.mark.parametrize("norm", NORMS)
def test_the_same_entity_scores_the_same_wherever_it_stands(
    norm: Norm, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(monkeypatch)
    points = numbers(7, 8, dtype=torch.float32)
    entities = numbers(1, 8, dtype=torch.float32, seed=1).expand(1100, 8)
    found = distances(points, entities, norm)
    assert torch.equal(found, found[:, :1].expand_as(found))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_distances_to_all_entities(
    norm: Norm, dtype: torch.dtype, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, entities = numbers(5, 8, dtype=dtype), numbers(1030, 8, dtype=dtype, seed=1)
    plain(monkeypatch)
    expected = distances(points, entities, norm)
    compiled(monkeypatch)
    close(distances(points, entities, norm), expected)
    assert len(cpu.called) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 6, 3), (4, 1, 5), (3, 2, 70)])
def test_distances_of_groups_and_their_gradients(
    norm: Norm,
    dtype: torch.dtype,
    shape: tuple[int, int, int],
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups, facts, count = shape
    grad = numbers(groups, facts, count, dtype=dtype, seed=3)

    def gradients() -> list[Tensor]:
        points = numbers(groups, facts, 80, dtype=dtype).requires_grad_()
        entities = numbers(groups, count, 80, dtype=dtype, seed=1).requires_grad_()
        found = distances(points, entities, norm)
        found.backward(grad)
        assert points.grad is not None
        assert entities.grad is not None
        return [found.detach(), points.grad, entities.grad]

    plain(monkeypatch)
    expected = gradients()
    compiled(monkeypatch)
    for one, other in zip(gradients(), expected, strict=True):
        close(one, other)
    assert len(cpu.called) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 6, 3), (4, 1, 5), (3, 2, 70)])
def test_distances_to_own_rows_and_pools_and_their_gradients(
    norm: Norm,
    dtype: torch.dtype,
    shape: tuple[int, int, int],
    threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups, share, count = shape
    facts = groups * share - (share > 1)  # the last run is shorter
    grad = numbers(facts, 1 + count, dtype=dtype, seed=3)

    def gradients() -> list[Tensor]:
        inputs = [
            numbers(*size, dtype=dtype, seed=seed).requires_grad_()
            for seed, size in enumerate([(facts, 80), (facts, 80), (groups, count, 80)])
        ]
        found = distances_against(inputs[0], inputs[1], inputs[2], norm)
        found.backward(grad)
        return [found.detach(), *(x.grad for x in inputs if x.grad is not None)]

    plain(monkeypatch)
    expected = gradients()
    compiled(monkeypatch)
    found = gradients()
    assert len(found) == 4
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert len(cpu.called) == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 60, 9), (5, 7, 20), (30, 2, 4)])
def test_candidates_that_make_a_collected_fact(
    shape: tuple[int, int, int], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, share, count = shape
    rng = torch.Generator().manual_seed(5)
    sizes = torch.tensor([12, 3, 12])  # few entities: repeated facts, queries and candidates
    collected = (torch.rand(90, 3, generator=rng) * sizes).long()
    answered = Answered(collected, 12, 3)
    asked = groups * share - (share > 1)  # the last run is shorter
    facts = collected[torch.randint(90, (asked,), generator=rng)]
    ids = torch.randint(12, (groups, count), generator=rng)
    plain(monkeypatch)
    expected = [answered.among(facts, ids, side) for side in SIDES]
    compiled(monkeypatch)
    found = [answered.among(facts, ids, side) for side in SIDES]
    assert expected[0].any() or len(facts) == 1
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert cpu.called == ["answered"] * 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("norm", NORMS)
def test_the_gradient_is_finite_where_a_point_is_an_entity(
    norm: Norm, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(monkeypatch)
    points = numbers(2, 3, 8, dtype=torch.float32).requires_grad_()
    distances(points, points.detach(), norm).sum().backward()
    assert points.grad is not None
    assert torch.isfinite(points.grad).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_gathered_perceptron_and_its_gradients(
    dtype: torch.dtype, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = torch.randint(11, (6, 5), generator=torch.Generator().manual_seed(4))

    def gradients() -> list[Tensor]:
        inputs = [
            numbers(*shape, dtype=dtype, seed=seed).requires_grad_()
            for seed, shape in enumerate([(6, 70), (11, 70), (6, 70)])
        ]
        found = gathered_perceptron(inputs[0], inputs[1], ids, inputs[2])
        found.backward(numbers(6, 5, dtype=dtype, seed=9))
        return [found.detach(), *(x.grad for x in inputs if x.grad is not None)]

    plain(monkeypatch)
    expected = gradients()
    compiled(monkeypatch)
    found = gradients()
    assert len(found) == 4
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert len(cpu.called) == 2  # type: ignore[attr-defined]


def test_nan_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(monkeypatch)
    points = numbers(2, 8, dtype=torch.float32)
    points[0, 3] = torch.nan
    entities = numbers(50, 8, dtype=torch.float32, seed=1)
    for norm in NORMS:
        found = distances(points, entities, norm)
        assert found[0].isnan().all()
        assert found[1].isfinite().all()


def test_small_work_mixed_dtypes_and_half_precision_stay_with_torch() -> None:
    one, two = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert dispatch.on_cpu(dispatch.LEAST_WORK, one)
    assert not dispatch.on_cpu(dispatch.LEAST_WORK - 1, one)
    assert not dispatch.on_cpu(dispatch.LEAST_WORK, one, two)
    assert not dispatch.on_cpu(dispatch.LEAST_WORK, one.half())
