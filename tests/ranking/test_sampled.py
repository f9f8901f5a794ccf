"""Ranks among sampled candidates: counted by hand, and never called by the name of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from npugraph.cli import app
from npugraph.encoders import Lookup
from npugraph.errors import DataError
from npugraph.fitting import Fitted, fit
from npugraph.graph import SIDES, TripleIndex
from npugraph.model import System
from npugraph.ranking.evaluate import evaluate, known_facts
from npugraph.ranking.sampled import evaluate_among_sampled, ranks_among_sampled
from npugraph.scorers import DistMult
from npugraph.seeds import generator
from recipe_cases import groups


def system(entities: int = 30) -> System:
    rng = torch.Generator().manual_seed(0)
    # Few values, so that there are ties.
    tables = (torch.randint(-1, 2, (n, 3), generator=rng).float() for n in (entities, 2))
    return System(Lookup(*tables), DistMult(), entities, 2).eval()


def test_ranks_are_those_counted_by_hand() -> None:
    model, rng = system(), torch.Generator().manual_seed(1)
    facts = torch.randint(30, (17, 3), generator=rng)
    facts[:, 1] %= 2
    known = TripleIndex(facts, 30, 2)
    ranks, candidates = ranks_among_sampled(model, facts, 12, seed=5, known=known)
    expected = []
    for side in SIDES:
        drawn = torch.randint(30, (12,), generator=generator(5, "sampled candidates", side, 0))
        for head, relation, tail in facts.tolist():
            own = float(model.score(torch.tensor([[head, relation, tail]])))
            rank, count = 1.0, 1
            for entity in drawn.tolist():
                other = (head, relation, entity) if side == "tail" else (entity, relation, tail)
                if bool(known.contains(torch.tensor([other]))[0]):
                    continue
                score = float(model.score(torch.tensor([other])))
                count += 1
                rank += 1.0 if score > own else 0.5 if score == own else 0.0
            expected.append((rank, count))
    assert list(zip(ranks.tolist(), candidates.tolist(), strict=True)) == expected


def test_the_same_seed_gives_the_same_sample() -> None:
    model, facts = system(), torch.tensor([[0, 0, 1], [2, 1, 3]])
    first = ranks_among_sampled(model, facts, 9, seed=1)
    assert (ranks_among_sampled(model, facts, 9, seed=1)[0] == first[0]).all()
    found = [ranks_among_sampled(model, facts, 9, seed=seed)[0].tolist() for seed in range(9)]
    assert len({tuple(one) for one in found}) > 1
    with pytest.raises(DataError, match="0 candidates cannot be ranked; draw at least one."):
        ranks_among_sampled(model, facts, 0)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    out = tmp_path_factory.mktemp("fitted") / "run"
    return fit(groups(), "complex-n3", {"d": 4, "epochs": 3, "device": "cpu"}, out), out


def keys(value: Any) -> set[str]:
    if not isinstance(value, dict):
        return set()
    return set(value) | {key for inner in value.values() for key in keys(inner)}


def test_a_figure_among_sampled_candidates_is_not_called_mrr(fitted: tuple[Fitted, Path]) -> None:
    trained, out = fitted
    found = evaluate_among_sampled(trained, 10, ("clean", "raw"))
    assert found["sampled_candidates"] == 10
    assert set(found["filters"]) == {"clean", "raw"}
    whole = evaluate(trained)["filters"]["clean"]["mrr"]
    assert found["filters"]["clean"]["mrr_among_sampled"] > whole
    assert not keys(found) & {"mrr", "hits@10", "mean_rank"}
    # The filter takes known facts out.
    facts = trained.splits.test.facts
    index = TripleIndex(known_facts(trained.splits, "clean"), 40, 4)
    filtered, raw = (ranks_among_sampled(trained.system, facts, 10, 0, k)[1] for k in (index, None))
    assert filtered.sum() < raw.sum()

    words = ["evaluate", str(out), "--device", "cpu", "--candidates", "10"]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["sampled_candidates"] == 10
    assert not keys(said) & {"mrr", "hits@10", "mean_rank"}
    shown = CliRunner().invoke(app, words).output
    assert "sampled" in shown
    refused = CliRunner().invoke(app, [*words, "--by", "relation"])
    assert str(refused.exception).startswith("--by needs ranks among all entities")
