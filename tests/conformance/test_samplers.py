"""What every sampler promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from npugraph import samplers
from npugraph.graph import SIDES, Side
from npugraph.samplers import (
    SANS,
    AllEntities,
    Candidates,
    Generated,
    NSCaching,
    Sampler,
    Uncollected,
    Uniform,
    neighbourhoods,
    of_each_fact,
)

NUM_ENTITIES, NUM_RELATIONS, WIDTH = 7, 2, 8
SIZES = NUM_ENTITIES, NUM_RELATIONS
Make = Callable[[Tensor, int], Sampler]


def alike(facts: Tensor, side: Side, ids: Tensor) -> Tensor:
    """Score all candidates the same, so that a cache holds any of them."""
    return torch.zeros(ids.shape, device=ids.device)


def make_cache(facts: Tensor, seed: int) -> Sampler:
    rng = torch.Generator().manual_seed(seed)
    return NSCaching(facts, *SIZES, alike, rng, count=4, cache=5, extra=3)


def make_sans(kind: str) -> Make:
    def make(facts: Tensor, seed: int) -> Sampler:
        near = neighbourhoods(facts, NUM_ENTITIES, kind, 2, 30, seed)
        return SANS(facts, *SIZES, near, 4)

    return make


def make_generated(share: int) -> Make:
    def make(facts: Tensor, seed: int) -> Sampler:
        rng = torch.Generator().manual_seed(seed)
        return Generated(Uniform(facts, *SIZES, 4, share), WIDTH, 2, rng)

    return make


CASES: dict[str, Make] = {
    "all": lambda facts, seed: AllEntities(),
    "uniform": lambda facts, seed: Uniform(facts, *SIZES, 4),
    "uniform, shared": lambda facts, seed: Uniform(facts, *SIZES, 4, share=3),
    "caches": make_cache,
    "hops": make_sans("hops"),
    "walks": make_sans("walks"),
    "generated": make_generated(1),
    "generated, shared": make_generated(3),
}
DRAW = [name for name in CASES if name != "all"]
every_sampler = pytest.mark.parametrize("name", DRAW)
every_side = pytest.mark.parametrize("side", SIDES)

fact = st.tuples(
    st.integers(0, NUM_ENTITIES - 1),
    st.integers(0, NUM_RELATIONS - 1),
    st.integers(0, NUM_ENTITIES - 1),
)
# Of 98 facts; queries with no entity left, loops and repeats are common.
graphs = st.lists(fact, min_size=1, max_size=60)
FACTS = torch.tensor(
    [(0, 0, 1), (1, 0, 2), (2, 1, 3), (0, 1, 3), (3, 0, 4), (4, 1, 1), (0, 0, 1), (5, 0, 5)]
)
ROWS = torch.arange(len(FACTS))


def rng_of(seed: int, device: str = "cpu") -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def draw(sampler: Sampler, rows: Tensor, side: Side, rng: torch.Generator) -> Candidates:
    drawn = sampler.candidates(FACTS.to(rows.device)[rows], rows, side, rng)
    assert drawn is not None
    return drawn


def parts(drawn: Candidates) -> list[Tensor]:
    return [part for part in (drawn.ids, drawn.counts, drawn.vectors) if part is not None]


def facts_made(
    facts: Tensor, drawn: Candidates, side: Side, counted: bool = True
) -> set[tuple[int, ...]]:
    """Return the facts made by the candidates that count, or by those that do not."""
    ids = of_each_fact(drawn.ids, len(facts))
    made = facts.unsqueeze(1).repeat(1, ids.shape[1], 1)
    made[..., 2 if side == "tail" else 0] = ids
    assert drawn.counts is not None
    return {tuple(row) for row in made[drawn.counts[:, : ids.shape[1]] == counted].tolist()}


def test_every_sampler_is_under_test() -> None:
    defined = {
        kind
        for kind in vars(samplers).values()
        if isinstance(kind, type) and issubclass(kind, Sampler) and kind is not Sampler
    }
    assert defined == {type(make(FACTS, 0)) for make in CASES.values()}


def test_every_entity_is_a_candidate_where_nothing_is_drawn() -> None:
    rng = rng_of(0)
    assert AllEntities().candidates(FACTS, ROWS, "tail", rng) is None
    assert torch.equal(rng.get_state(), rng_of(0).get_state())


@every_sampler
@every_side
@pytest.mark.parametrize("rows", [[4], [6, 0, 0], [7, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5]])
def test_candidates_have_the_promised_shape(name: str, side: Side, rows: list[int]) -> None:
    drawn = draw(CASES[name](FACTS, 0), torch.tensor(rows), side, rng_of(1))
    groups, count = drawn.ids.shape
    assert drawn.ids.dtype == torch.int64
    assert count == 4
    assert groups == (-(-len(rows) // 3) if "shared" in name else len(rows))
    assert 0 <= drawn.ids.min() <= drawn.ids.max() < NUM_ENTITIES
    if drawn.vectors is not None:
        assert drawn.vectors.shape == (groups, 2, WIDTH)
        assert drawn.vectors.isfinite().all()
        count += 2
    assert drawn.counts is not None
    assert drawn.counts.dtype == torch.bool
    assert drawn.counts.shape == (len(rows), count)
    # Only those of entities may be collected facts.
    assert drawn.counts[:, 4:].all()


@every_sampler
@given(graphs, st.integers(0, 2**32), st.sampled_from(SIDES), st.integers(1, 12))
@settings(max_examples=40)
def test_what_counts_is_never_a_training_fact_and_what_does_not_is_one(
    name: str, rows: list[tuple[int, int, int]], seed: int, side: Side, batch: int
) -> None:
    facts = torch.tensor(rows)
    sampler, rng = CASES[name](facts, seed), rng_of(seed)
    for _ in range(2):
        chosen = torch.randint(len(facts), (batch,), generator=rng)
        drawn = sampler.candidates(facts[chosen], chosen, side, rng)
        assert drawn is not None
        assert not facts_made(facts[chosen], drawn, side) & set(rows)
        assert facts_made(facts[chosen], drawn, side, counted=False) <= set(rows)


@every_sampler
@every_side
def test_held_out_facts_are_drawn_like_any_other(name: str, side: Side) -> None:
    """Whoever looked at them would know not to: they are all two steps away."""
    held_out = {(0, 0, 3), (4, 1, 2)} if side == "tail" else {(3, 0, 1), (0, 1, 1)}
    facts = torch.cat([FACTS, torch.tensor([(4, 1, 0), (3, 1, 2)])])
    rows = torch.arange(len(facts))
    sampler, rng, seen = CASES[name](facts, 0), rng_of(5), set()
    for _ in range(200):
        drawn = sampler.candidates(facts, rows, side, rng)
        assert drawn is not None
        seen |= facts_made(facts, drawn, side)
    assert held_out <= seen


@every_sampler
@every_side
def test_every_draw_comes_from_the_given_generator(name: str, side: Side) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()

    def draws(seed: int) -> list[Tensor]:
        sampler, rng = CASES[name](FACTS, 0), rng_of(seed)
        return [part for _ in range(5) for part in parts(draw(sampler, ROWS, side, rng))]

    first, again, other = draws(1), draws(1), draws(2)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(first, draws(1), strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@every_sampler
@every_side
def test_its_state_can_be_restored(name: str, side: Side) -> None:
    """What it remembers is in its state, what follows from the facts and the seed is not."""
    sampler, other = CASES[name](FACTS, 0), CASES[name](FACTS, 0)
    rng = rng_of(1)
    for _ in range(3):
        draw(sampler, ROWS, side, rng)
    other.load_state_dict({key: value.clone() for key, value in sampler.state_dict().items()})
    for _ in range(3):
        one, same = (draw(made, ROWS, side, rng_of(2)) for made in (sampler, other))
        assert all(torch.equal(a, b) for a, b in zip(parts(one), parts(same), strict=True))
    remembers = {"caches": {"tail_cache", "head_cache"}}
    learned = {key for key, _ in sampler.named_parameters()}
    assert set(sampler.state_dict()) == learned | remembers.get(name, set())


def test_a_cache_without_its_state_draws_something_else() -> None:
    sampler = make_cache(FACTS, 0)
    rng = rng_of(1)
    for _ in range(3):
        draw(sampler, ROWS, "tail", rng)
    drawn = [draw(made, ROWS, "tail", rng_of(2)).ids for made in (sampler, make_cache(FACTS, 0))]
    assert not torch.equal(*drawn)


@every_sampler
def test_its_tensors_are_parameters_and_buffers(name: str) -> None:
    """Anything else would be left behind by .to(device)."""
    for module in CASES[name](FACTS, 0).modules():
        assert not [key for key, value in vars(module).items() if isinstance(value, Tensor)]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_sampler
@every_side
def test_it_moves_to_a_gpu(name: str, side: Side) -> None:
    sampler, rng = CASES[name](FACTS, 0).to("cuda"), rng_of(1, "cuda")
    known = {tuple(row) for row in FACTS.tolist()}
    for _ in range(5):
        drawn = draw(sampler, ROWS.cuda(), side, rng)
        assert all(part.device.type == "cuda" for part in parts(drawn))
        assert not facts_made(FACTS.cuda(), drawn, side) & known


# --- what samplers are made of


@every_side
@given(graphs, st.integers(0, 2**32))
@settings(max_examples=40)
def test_uncollected_entities_are_all_there_are(
    side: Side, rows: list[tuple[int, int, int]], seed: int
) -> None:
    """Where nothing is left the fact itself comes back; it never counts."""
    facts = torch.tensor(rows)
    uncollected = Uncollected(facts, *SIZES)
    drawn = uncollected.draw(facts, side, 5, rng_of(seed))
    made = facts.unsqueeze(1).repeat(1, 5, 1)
    made[..., 2 if side == "tail" else 0] = drawn
    free = uncollected.free(facts, side)
    for row, others, left in zip(rows, made.tolist(), free.tolist(), strict=True):
        assert all((tuple(other) in set(rows)) == (left == 0) for other in others)
        assert left or all(tuple(other) == row for other in others)
