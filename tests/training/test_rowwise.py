"""Row-wise Adagrad: its formula, sparse and dense, in 16 bits, and what a step allocates."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph.encoders import Lookup
from npugraph.errors import SettingsError
from npugraph.fitting import fit
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.model import System
from npugraph.peers import ALONE
from npugraph.recipes import RECIPES
from npugraph.recipes.complex_n3 import ComplexN3Settings, build
from npugraph.training.memory import check_memory, plan_memory
from npugraph.training.optimizers import make_optimizer, state_bytes
from npugraph.training.rowwise import RowwiseAdagrad, rounded_at_random
from npugraph.training.run_folder import Run
from npugraph.training.step import descend
from rank_jobs import run_ranks, train
from recipe_cases import CASES, groups

# Of 40 entities a step looks up ten.
SPARSE: dict[str, Any] = {
    "d": 9,
    "optimizer": "rowwise-adagrad",
    "batch_size": 2,
    "negatives": 1,
    "epochs": 2,
    "validate_every": 1,
}


def graph(entities: int, facts: int, relations: int = 4) -> KnowledgeGraph:
    rng = torch.Generator().manual_seed(0)
    rows = torch.randint(entities, (facts, 3), generator=rng)
    rows[:, 1] %= relations
    names = (
        Vocabulary.of([str(i) for i in range(n)], kind)
        for n, kind in ((entities, "entity"), (relations, "relation"))
    )
    return KnowledgeGraph(*names, rows)


def splits(entities: int, facts: int) -> Splits:
    whole = graph(entities, facts)
    return Splits("drawn", whole, whole.select(torch.arange(20)), whole.select(torch.arange(0)))


def literal(
    table: list[list[float]], gradients: list[list[list[float]]], rate: float
) -> list[list[float]]:
    """Return a table after steps by the formula, number for number."""
    sums = [0.0] * len(table)
    table = [list(row) for row in table]
    for gradient in gradients:
        for i, row in enumerate(gradient):
            sums[i] += sum(g * g for g in row) / len(row)
            for j, g in enumerate(row):
                table[i][j] -= rate * g / (sums[i] ** 0.5 + 1e-10)
    return table


@pytest.mark.parametrize("sparse", [False, True])
def test_steps_follow_the_formula(sparse: bool) -> None:
    rng = torch.Generator().manual_seed(1)
    start = torch.randn(4, 3, generator=rng, dtype=torch.float64)
    # Row 2 is looked up twice, row 3 never.
    gradients = torch.randn(5, 4, 3, generator=rng, dtype=torch.float64)
    gradients[:, 3] = 0
    weight = nn.Parameter(start.clone())
    optimizer = RowwiseAdagrad([weight], lr=0.3)
    for gradient in gradients:
        if sparse:
            ids = torch.tensor([[2, 0, 1, 2]])
            values = torch.stack([gradient[2] * 0.25, gradient[0], gradient[1], gradient[2] * 0.75])
            weight.grad = torch.sparse_coo_tensor(ids, values, weight.shape, check_invariants=True)
        else:
            weight.grad = gradient.clone()
        optimizer.step()
    expected = literal(start.tolist(), gradients.tolist(), 0.3)
    np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-12)
    assert torch.equal(weight[3], start[3])
    assert optimizer.state[weight]["sum"].shape == (4,)


def test_a_vector_is_rows_of_one_number_each() -> None:
    weights = [nn.Parameter(torch.tensor([1.0, 2.0, 3.0])) for _ in range(2)]
    kinds = RowwiseAdagrad([weights[0]], lr=0.1), torch.optim.Adagrad([weights[1]], lr=0.1)
    for weight, optimizer in zip(weights, kinds, strict=True):
        for _ in range(3):
            descend((weight**2).sum(), optimizer)
    torch.testing.assert_close(weights[0], weights[1])


def test_rounding_at_random_has_the_right_mean_and_nearest_neighbours() -> None:
    rng = torch.Generator().manual_seed(3)
    values = torch.randn(40, generator=rng) * 10.0 ** torch.randint(-9, 9, (40,), generator=rng)
    draws = 4000
    rounded = rounded_at_random(values.expand(draws, -1).contiguous(), rng)
    assert rounded.dtype == torch.bfloat16
    low = (values.view(torch.int32) & -(2**16)).view(torch.float32)
    high = ((values.view(torch.int32) & -(2**16)) + 2**16).view(torch.float32)
    found = rounded.float()
    assert bool(((found == low) | (found == high)).all())
    gap = (high - low).abs()
    # Six standard errors of a mean of draws that are at most a gap apart.
    off = (found.double().mean(0) - values.double()).abs()
    assert bool((off < 6 * 0.5 * gap / draws**0.5).all())
    # Rounding to the nearest is off by more, for most numbers.
    nearest = (values.bfloat16().double() - values.double()).abs()
    assert int((nearest > off).sum()) > 30


def test_rounding_keeps_what_needs_none_and_what_is_no_number() -> None:
    values = torch.tensor([0.0, -0.0, 1.0, -2.5, torch.inf, -torch.inf, torch.nan])
    rounded = rounded_at_random(values, torch.Generator().manual_seed(0)).float()
    torch.testing.assert_close(rounded, values, rtol=0, atol=0, equal_nan=True)


def test_small_steps_are_not_lost_in_16_bits_and_follow_from_the_seed() -> None:
    def moved(seed: int) -> Tensor:
        weight = nn.Parameter(torch.ones(64, 8, dtype=torch.bfloat16))
        optimizer = RowwiseAdagrad([weight], lr=1e-3, seed=seed)
        for _ in range(50):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        return weight.detach().float()

    # The sum of 1e-3 / sqrt(k); each step alone is below half the distance to the next number.
    expected = 1 - 1e-3 * sum(k**-0.5 for k in range(1, 51))
    assert moved(0).mean().item() == pytest.approx(expected, abs=1e-3)
    assert torch.equal(moved(0), moved(0))
    assert not torch.equal(moved(0), moved(1))


class Largest(TorchDispatchMode):
    """Remembers the most numbers of a new tensor; of a sparse one, those that it holds."""

    def __init__(self, known: set[int]) -> None:
        super().__init__()
        self.known = known
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else (out,):
            if isinstance(one, Tensor):
                held = one._values() if one.is_sparse else one  # type: ignore[no-untyped-call]
                if held.untyped_storage().data_ptr() not in self.known:
                    self.most = max(self.most, held.numel())
        return out


@pytest.mark.parametrize(
    ("recipe", "values"),
    [
        ("complex-n3", {"negatives": 8}),
        ("complex-n3", {"negatives": 8, "table_precision": "bf16"}),
        ("distmult", {"negatives": 8, "penalty": 0.1}),
        ("rotate", {"negatives": 8}),
        ("transe", {"negatives": 8}),
    ],
)
def test_a_step_allocates_nothing_of_the_size_of_the_table(
    recipe: str, values: dict[str, Any]
) -> None:
    chosen, train = RECIPES[recipe], graph(20_000, 300)
    given = {"d": 8, "batch_size": 16, "optimizer": "rowwise-adagrad", "device": "cpu"}
    settings = chosen.settings(**given, **values)
    training = chosen.build(settings, train)
    optimizer = make_optimizer(training, settings)
    rng = torch.Generator().manual_seed(0)
    # The first step makes the sums, one number per row.
    descend(training.loss(torch.arange(16), rng), optimizer)
    known = {p.untyped_storage().data_ptr() for p in training.parameters()}
    known |= {b.untyped_storage().data_ptr() for b in training.buffers()}
    known |= {s["sum"].untyped_storage().data_ptr() for s in optimizer.state.values()}
    table = max(p.numel() for p in training.parameters())
    with Largest(known) as seen:
        descend(training.loss(torch.arange(16, 32), rng), optimizer)
    assert 0 < seen.most < table / 20
    assert state_bytes(training, settings) < 4 * table / 4
    # As Adagrad in its own form, the step would be as large as the table.
    plain = dataclasses.replace(
        settings,
        optimizer="adam",
        **({"table_precision": "float32"} if "table_precision" in values else {}),
    )
    training = chosen.build(plain, train)
    optimizer = make_optimizer(training, plain)
    with Largest(set()) as seen:
        descend(training.loss(torch.arange(16), rng), optimizer)
    assert seen.most >= table


@pytest.mark.parametrize("change", [{}, {"table_precision": "bf16"}])
def test_a_stopped_and_resumed_run_equals_an_unbroken_one(
    tmp_path: Any, change: dict[str, Any]
) -> None:
    class StopError(Exception):
        pass

    def stop(line: dict[str, Any]) -> None:
        if line["epoch"] == 1:
            raise StopError

    values = {**SPARSE, **change, "batch_size": 16, "device": "cpu"}
    data = splits(600, 120)
    whole = fit(data, "complex-n3", values, tmp_path / "whole")
    assert whole.system.sparse == "always"
    with pytest.raises(StopError):
        fit(data, "complex-n3", values, tmp_path / "cut", report=stop)
    resumed = fit(data, "complex-n3", values, tmp_path / "cut", resume=True)
    for one, two in zip(whole.system.parameters(), resumed.system.parameters(), strict=True):
        assert torch.equal(one, two)
        assert one.dtype == (torch.bfloat16 if change else torch.float32)
    last = [(tmp_path / run / "last.safetensors").read_bytes() for run in ("whole", "cut")]
    assert last[0] == last[1]
    assert Run.open(tmp_path / "cut").progress().epoch == 2


def test_sparse_steps_are_those_of_dense_ones() -> None:
    data = splits(600, 120)
    values = {**SPARSE, "batch_size": 16, "device": "cpu", "learning_rate": 0.5}
    sparse = fit(data, "complex-n3", values).system
    # A clip that never bites needs the whole gradient.
    dense = fit(data, "complex-n3", {**values, "clip": 1e9}).system
    assert (sparse.sparse, dense.sparse) == ("always", "never")
    for one, two in zip(sparse.parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_ranks_take_the_steps_of_one_process() -> None:
    one = train(ALONE, "groups", "complex-n3", SPARSE, None)
    for found in run_ranks(2, train, "groups", "complex-n3", SPARSE, None):
        for mine, theirs in zip(found["losses"], one["losses"], strict=True):
            assert mine == pytest.approx(theirs, abs=1e-4)
        assert found["widths"]["encoder.entities"] < one["widths"]["encoder.entities"]


def test_small_vectors_learn_as_large_ones_do() -> None:
    values = {"d": 16, "epochs": 20, "optimizer": "rowwise-adagrad", "device": "cpu"}
    values |= {"negatives": 20, "batch_size": 64, "share": 16}
    small, large = (
        fit("world", "complex-n3", {**values, "table_precision": kind})
        for kind in ("bf16", "float32")
    )
    assert small.progress.best_mrr > 0.8 * large.progress.best_mrr > 0.1
    system = small.system
    assert isinstance(system, System)
    assert isinstance(system.encoder, Lookup)
    assert system.encoder.entities.dtype == torch.bfloat16
    facts = small.splits.test.facts
    scores = system.score_all(facts[:, 0], facts[:, 1], "tail")
    assert scores.dtype == torch.float32
    wide = scores.gather(1, facts[:, 2:])[:, 0]
    torch.testing.assert_close(system.score_as(facts, "tail"), wide, rtol=1e-4, atol=1e-5)


def test_the_plan_counts_rows_and_not_tables() -> None:
    train, cpu = graph(20_000, 300), torch.device("cpu")

    def plan(**values: Any) -> tuple[int, int, int]:
        settings = ComplexN3Settings(d=8, batch_size=16, negatives=8, device="cpu", **values)
        found = plan_memory(build(settings, train), settings, 0, cpu)
        return found.weights, found.kept, found.most

    table = 4 * 16 * (20_000 + 2 * 4)
    rows = 4 * (20_000 + 2 * 4)
    weights, kept, most = plan(optimizer="rowwise-adagrad")
    assert weights == table
    assert kept == weights + rows + 100 * 300
    assert most < weights
    half = plan(optimizer="rowwise-adagrad", table_precision="bf16")
    assert half[0] == weights / 2
    assert half[1] == half[0] + rows + 100 * 300
    assert plan(optimizer="adam")[1] == 4 * weights + 100 * 300


def test_a_table_that_memory_cannot_hold_is_refused_before_it_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("npugraph.machine.free_memory", lambda: 2**20)
    sentence = (
        r"A table of 20,000 x 128 numbers takes 0.0 GiB and the main memory has 0.0 GiB free; "
        "lower d, or take a larger machine."
    )
    for recipe in ("complex-n3", "distmult"):
        d = 64 if recipe == "complex-n3" else 128
        settings = RECIPES[recipe].settings(d=d)  # type: ignore[call-arg]
        with pytest.raises(SettingsError, match=sentence):
            RECIPES[recipe].build(settings, graph(20_000, 10))


@pytest.mark.parametrize(
    ("change", "needed"),
    [
        ({"optimizer": "adagrad"}, "optimizer=rowwise-adagrad"),
        ({"negatives": 0}, "negatives above 0"),
        ({"clip": 1.0}, "clip=0"),
    ],
)
def test_vectors_of_16_bits_need_random_rounding(change: dict[str, Any], needed: str) -> None:
    values = {"table_precision": "bf16", "optimizer": "rowwise-adagrad", "negatives": 5}
    with pytest.raises(SettingsError, match=f"table_precision=bf16 needs {needed}; set it, too."):
        ComplexN3Settings(**{**values, **change})


def test_first_values_are_what_they_were() -> None:
    """Drawn in place, to the same bits as by the formula."""
    drawn = Lookup.normal((9, 5), (2, 5), 0.1, torch.Generator().manual_seed(4))
    rng = torch.Generator().manual_seed(4)
    assert torch.equal(drawn.entities, torch.randn(9, 5, generator=rng) * 0.1)
    even = Lookup.uniform((9, 5), (2, 5), (0.3, 0.7), torch.Generator().manual_seed(4))
    rng = torch.Generator().manual_seed(4)
    assert torch.equal(even.entities, (torch.rand(9, 5, generator=rng) * 2 - 1) * 0.3)
    half = Lookup.normal((9, 5), (2, 5), 0.1, torch.Generator().manual_seed(4), torch.bfloat16)
    assert torch.equal(half.entities, drawn.entities.bfloat16())


@pytest.mark.parametrize("name", CASES)
def test_every_recipe_can_be_trained_by_it(name: str) -> None:
    case = CASES[name]
    settings = case.settings(optimizer="rowwise-adagrad", epochs=1, valid_facts=4)
    fitted = fit(groups(), case.recipe, settings)
    assert fitted.progress.epoch == 1
    assert all(weight.isfinite().all() for weight in fitted.system.parameters())


def test_vectors_that_do_not_fit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npugraph.training.memory.free_bytes", lambda device: 10**9)
    settings = ComplexN3Settings(d=64, batch_size=16, negatives=8, optimizer="rowwise-adagrad")
    training = build(settings, graph(20_000, 300))
    training.system.encoder.entities = nn.Parameter(torch.empty(10**7, 128, device="meta"))
    with pytest.raises(SettingsError, match="cpu has 0.9 GiB free; lower batch_size=16 or d=64."):
        check_memory(training, settings, 0, torch.device("cpu"))
