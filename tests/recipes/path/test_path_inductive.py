"""A trained path run on a graph with entities it never saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from npugraph.cli import app
from npugraph.data.io import write_splits, write_table
from npugraph.errors import DataError, SettingsError
from npugraph.fitting import Fitted, fit, on_graph
from npugraph.graph import KnowledgeGraph, Splits, Vocabulary
from npugraph.ranking.evaluate import evaluate
from recipe_cases import CASES, groups


def renamed(relations: str = "dbca") -> Splits:
    """The graph of groups with other names, and other numbers of its relations."""
    splits = groups()
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    entities = Vocabulary.of([f"n{i:02}" for i in range(40)], "entity")
    words = Vocabulary.of(list(relations), "relation")
    number = words.ids(list("abcd")) if set(relations) >= set("abcd") else torch.arange(4)

    def other(part: KnowledgeGraph) -> KnowledgeGraph:
        head, relation, tail = part.facts.unbind(1)
        return KnowledgeGraph(
            entities, words, torch.stack([order[head], number[relation], order[tail]], 1)
        )

    return Splits("renamed", *(other(part) for part in splits.parts().values()))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    folder = tmp_path_factory.mktemp("path") / "run"
    return fit(groups(), "path", CASES["path"].settings(epochs=2), folder), folder


def test_names_and_numbers_do_not_matter(run: tuple[Fitted, Path]) -> None:
    fitted, _ = run
    moved = on_graph(fitted, renamed("abcd").whole())
    figures = [evaluate(one)["filters"]["clean"]["mrr"] for one in (fitted, moved)]
    assert figures[0] == pytest.approx(figures[1])
    more = on_graph(fitted, renamed("abcd").train.with_facts(renamed("abcd").train.facts))
    assert len(more.splits.train) == len(groups().train)
    assert len(more.splits.test) == 0


def test_relations_keep_their_numbers(run: tuple[Fitted, Path]) -> None:
    """A graph with some of the relations only, which it numbers from 0."""
    fitted, _ = run
    train = groups().train
    some = train.facts[train.facts[:, 1] % 2 == 1]
    table = train.with_facts(some).to_table()
    moved = on_graph(fitted, table)
    assert torch.equal(moved.splits.train.facts[:, 1], some[:, 1])
    assert moved.splits.train.relations == train.relations
    expected = fitted.system.on_graph(train.with_facts(some)).score(some)
    torch.testing.assert_close(moved.system.score(moved.splits.train.facts), expected)


def test_unknown_relations_are_refused(run: tuple[Fitted, Path]) -> None:
    with pytest.raises(DataError, match="has the relation 'x', which the run was not trained on"):
        on_graph(run[0], renamed("abcdx").whole())


def test_other_recipes_know_their_own_graph_alone() -> None:
    fitted = fit(groups(), "complex-n3", CASES["complex-n3"].settings(epochs=1))
    with pytest.raises(SettingsError, match="a vector for every entity of its own graph"):
        on_graph(fitted, renamed("abcd").whole())


def test_commands_take_another_graph(run: tuple[Fitted, Path], tmp_path: Path) -> None:
    fitted, folder = run
    splits = renamed("abcd")
    write_splits(splits, tmp_path / "new")
    words = ["--graph", str(tmp_path / "new"), "--json", "--device", "cpu"]
    done = CliRunner().invoke(app, ["evaluate", str(folder), *words])
    expected = evaluate(fitted)["filters"]["clean"]["mrr"]
    assert json.loads(done.stdout)["filters"]["clean"]["mrr"] == pytest.approx(expected)
    write_table(splits.test.to_table(), tmp_path / "facts.tsv")
    out = tmp_path / "scored.tsv"
    command = ["score", str(folder), str(tmp_path / "facts.tsv"), "--out", str(out), *words]
    counts = json.loads(CliRunner().invoke(app, command).stdout)
    assert (counts["facts"], counts["unknown"]) == (len(splits.test), 0)
    scores = [float(line.split("\t")[3]) for line in out.read_text().splitlines()[1:]]
    assert scores == pytest.approx(fitted.system.score(groups().test.facts).tolist(), rel=1e-3)
