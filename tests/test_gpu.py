"""The GPU gives what the CPU gives. Skipped where there is no GPU."""

import pytest
import torch

import kernel_checks
from npugraph import kernels
from npugraph.data.datasets import bundled
from npugraph.fitting import fit
from npugraph.graph import TripleIndex
from npugraph.kernels import cuda
from npugraph.ranking.evaluate import evaluate
from npugraph.ranking.ranks import rank
from npugraph.recipes import get_recipe
from npugraph.recipes.complex_n3 import ComplexN3Settings
from npugraph.recipes.npugraph.recipe import NPUGraphSettings
from npugraph.scorers import ComplEx, DistMult, RotatE, TransE
from npugraph.settings import make_settings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SCORERS = [DistMult(), ComplEx(), TransE(1), TransE(2), RotatE(9.0), RotatE(norm="l2")]


def test_membership_is_the_same():
    world = bundled().split()
    index = world.train.index()
    asked = torch.randint(0, 14, (5000, 3), generator=torch.Generator().manual_seed(0))
    on_gpu = TripleIndex(world.train.facts.cuda(), world.num_entities, world.num_relations)
    assert torch.equal(on_gpu.keys.cpu(), index.keys)
    assert torch.equal(on_gpu.contains(asked.cuda()).cpu(), index.contains(asked))


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda s: f"{type(s).__name__}")
def test_ranks_are_the_same(scorer):
    world = bundled().split()
    rng = torch.Generator().manual_seed(1)
    entities = torch.randn(
        world.num_entities, scorer.entity_width(16), generator=rng, dtype=torch.float64
    )
    relations = torch.randn(
        world.num_relations, scorer.relation_width(16), generator=rng, dtype=torch.float64
    )
    results = []
    for device in ("cpu", "cuda"):
        e, r = entities.to(device), relations.to(device)
        results.append(
            rank(
                lambda known, relation, side, e=e, r=r: scorer.score_all(
                    e[known], r[relation], e, side
                ),
                world.test.facts.to(device),
                world.num_entities,
                world.num_relations,
                {"known": world.all_facts()},
                memory_budget=2**20,
            )
        )
    for side in ("head", "tail"):
        cpu, cuda = (result.by_filter["known"][side] for result in results)
        assert (cpu.optimistic == cuda.optimistic).all()
        assert (cpu.pessimistic == cuda.pessimistic).all()
        assert (cpu.candidates == cuda.candidates).all()


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_training_learns(precision):
    settings = ComplexN3Settings(d=32, epochs=20, device="cuda", precision=precision)
    fitted = fit(bundled(), "complex-n3", settings)
    assert fitted.system.device.type == "cuda"
    assert evaluate(fitted)["filters"]["clean"]["mrr"] > 0.3


def npu_settings(**changes):
    return NPUGraphSettings(
        **{"d": 16, "hidden": 16, "epochs": 6, "warmup": 3, "negatives": 8, "validate_every": 2}
        | {"batch_size": 128, "device": "cuda"}
        | changes
    )


def test_replayed_steps_equal_plain_steps():
    """Same draws, same sums up to the order of additions, through the change at the warm-up."""
    losses = [
        [
            record["loss"]
            for record in fit(bundled(), "npugraph", npu_settings(cuda_graph=g)).metrics
        ]
        for g in (True, False)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


RECORDED = {
    "transe": {"sides": "halves"},
    "transr": {"sides": "halves", "d": 16},
    "distmult": {"share": 16},
    "complex": {},
    "rotate": {},
    "rgcn": {"dropout": 0.0},
    "compgcn": {"dropout": 0.0, "hidden_dropout": 0.0, "filters": 8, "learning_rate": 0.001},
    "ukge": {},
    "nscaching": {"sides": "halves"},
    "sans": {},
    "puda": {},
    "complex-n3": {"d": 32},
}


@pytest.mark.parametrize("recipe", RECORDED)
def test_recorded_steps_of_a_recipe_equal_plain_steps(recipe):
    common = {"epochs": 3, "batch_size": 256, "device": "cuda", "learning_rate": 0.01}
    losses = []
    for recorded in (True, False):
        changes = {**common, **RECORDED[recipe], "cuda_graph": recorded}
        settings = make_settings(get_recipe(recipe).settings, changes)
        losses.append([record["loss"] for record in fit(bundled(), recipe, settings).metrics])
    assert losses[0] == pytest.approx(losses[1], rel=2e-3)


def test_kernels_of_distances_equal_the_plain_operations():
    kernel_checks.check_distances("cuda", ((64, 1, 128, 200), (4, 16, 50, 100)), 1e-4)
    kernel_checks.check_scores("cuda")


def test_kernels_of_perceptrons_equal_the_plain_operations():
    kernel_checks.check_perceptrons("cuda", ((256, 26, 512, 1000), (64, 400, 130, 77)), 1e-4)


def test_products_with_an_odd_number_of_entities_are_the_same():
    rng = torch.Generator().manual_seed(0)
    query, entities = (torch.randn(n, 256, generator=rng).cuda() for n in (100, 1001))
    plain = query @ entities.T
    assert not cuda.misaligned(query, entities)
    torch.set_float32_matmul_precision("high")
    try:
        assert cuda.misaligned(query, entities)
        found = kernels.products(query, entities)
    finally:
        torch.set_float32_matmul_precision("highest")
    torch.testing.assert_close(found, plain, rtol=1e-2, atol=0.1)


def test_npugraph_on_the_gpu_equals_the_cpu_before_training():
    """The same weights give the same scores, posteriors and first loss on both devices."""
    world = bundled().split()
    results = []
    for device in ("cpu", "cuda"):
        settings = npu_settings(device=device, dropout=0.0, hidden_dropout=0.0)
        training = get_recipe("npugraph").build(settings, world.train)
        training.to(torch.device(device))
        probability, plausibility = training.judge_collected()
        known = world.test.facts[:50, 0].to(device)
        relation = world.test.facts[:50, 1].to(device)
        scores = training.system.score_all(known, relation, "tail")
        results.append([x.detach().cpu().double() for x in (probability, plausibility, scores)])
    for on_cpu, on_gpu in zip(*results, strict=True):
        assert torch.allclose(on_cpu, on_gpu, atol=1e-5)
