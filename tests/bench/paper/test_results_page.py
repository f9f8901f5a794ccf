"""The page of results is what the results give; bench table and bench figures write."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from doc_files import stale
from npugraph.bench.plan import BenchPlan
from npugraph.bench.store import Store
from npugraph.cli import main
from script_files import load_script

from ..bench_samples import lines

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    return load_script("build_results_docs")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with made-up results of two packaged plans."""
    folder = tmp_path / "bench"
    for name in ("k-sweep", "ablation"):
        results, costs = lines(BenchPlan.read(name).cells())
        for key, line in results.items():
            Store(folder).add(line, costs[key])
    return folder


# --- the page


def test_the_page_and_all_beside_it_are_up_to_date(builder: ModuleType) -> None:
    files, drawings = builder.build()
    assert stale(files) == [], "run: python scripts/build_results_docs.py"
    assert {path for path in files if path.parent == builder.FOLDER} == set(
        builder.FOLDER.iterdir()
    )
    for drawing in drawings:
        for suffix in (".png", ".svg"):
            assert (ROOT / "docs" / "figures" / f"{drawing.name}{suffix}").is_file()


def test_the_page_can_be_read() -> None:
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
    assert "made-up" not in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / "docs" / link.partition("#")[0]).exists(), link


def test_the_page_without_results_says_so(builder: ModuleType, tmp_path: Path) -> None:
    files, drawings = builder.build(tmp_path)
    text = files[builder.PAGE]
    assert drawings == []
    assert "**not run** on" in text
    assert "**agrees**" not in text
    assert "None yet: nothing that could be drawn has run." in text


def test_recipes_of_paths_stand_beside_the_paper(builder: ModuleType, tmp_path: Path) -> None:
    def line(recipe: str, seed: int, mrr: float, **more: object) -> str:
        cell = {"graph": "wn18", "rate": 0.3, "noise": "random", "seed": seed, "kind": "ranking"}
        return json.dumps({**cell, "recipe": recipe, "perturbed": {"mrr": mrr}, **more}) + "\n"

    results = tmp_path / "paths.jsonl"
    text = line("path", 0, 0.5) + line("path", 1, 0.6) + line("npugraph-plus", 0, 0.7)
    # Parts, other noise and seeds that settings were chosen by are no figures of a recipe.
    text += line("npugraph-plus", 0, 0.1, part="paths") + line("path", 2, 0.1, noise="typed")
    results.write_text(text + line("path", 10, 0.1))
    found = builder.paths_section(results)
    assert "| path | .550 ± .071 | 0.493 |" in found
    assert "| npugraph-path | not run | 0.493 |" in found
    assert "| npugraph-plus | .700 | 0.493 |" in found
    assert builder.paths_section(tmp_path / "none.jsonl") == ""


def test_every_cell_is_in_the_csv_file(builder: ModuleType, store: Path) -> None:
    files, _ = builder.build(store)
    lines = list(csv.DictReader(files[builder.FOLDER / "cells.csv"].splitlines()))
    by_key = {line["key"]: line for line in lines}
    assert len(by_key) == len(lines)
    results = Store(store).results()
    for plan in builder.Everything.read(store).plans:
        for cell in plan.cells():
            line = by_key[cell.key]
            assert plan.name in line["plans"].split()
            assert line["command"].endswith(f"--only {cell.key}")
            assert json.loads(line["settings"]) == json.loads(json.dumps(cell.settings))
            assert line["status"] == ("done" if cell.key in results else "not run")
            if cell.key in results:
                assert float(line["mrr clean"]) == results[cell.key]["metrics"]["clean"]["mrr"]


def test_a_finished_cell_of_no_plan_is_in_the_csv_file(builder: ModuleType, store: Path) -> None:
    line = next(iter(Store(store).results().values()))
    Store(store).add({**line, "key": "of my own"})
    files, _ = builder.build(store)
    own = [
        line
        for line in csv.DictReader(files[builder.FOLDER / "cells.csv"].splitlines())
        if line["key"] == "of my own"
    ]
    assert [(line["plans"], line["status"]) for line in own] == [("", "done")]


def test_the_page_with_results_has_verdicts_and_figures(builder: ModuleType, store: Path) -> None:
    files, drawings = builder.build(store)
    text = files[builder.PAGE]
    assert "- more unlabeled samples K rank better: **undecided** on nPUGraph, FB15k-237 at" in text
    claims = list(csv.DictReader(files[builder.FOLDER / "claims.csv"].splitlines()))
    assert any("one seed; a verdict needs 3" in line["evidence"] for line in claims)
    names = {drawing.name for drawing in drawings}
    assert "k-sweep-negatives-fb15k-237-0.3" in names
    shown = {name for name in names if "-curves-" not in name}
    assert set(re.findall(r"!\[.*?\]\(figures/(.*?)\.png\)", text)) == shown


def test_the_impossible_entries_and_the_other_graph_are_named(
    builder: ModuleType, tmp_path: Path
) -> None:
    files, _ = builder.build(tmp_path)
    wrong = files[builder.FOLDER / "impossible.csv"]
    (line,) = [line for line in csv.DictReader(wrong.splitlines()) if line["system"] == "UKGE"][:1]
    assert (line["table"], line["graph"], line["rate"]) == ("6", "FB15k", "0.5")
    assert line["why"] == "MRR = 0.257 is above the most its hits allow, 0.236"
    assert "Twitter-ego is **another graph** than the paper's" in files[builder.PAGE]


def test_the_hand_written_notes_are_on_the_page(builder: ModuleType, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("## Why\n\nBecause.\n", encoding="utf-8")
    assert "\n\n## Why\n\nBecause.\n\n" in builder.build(tmp_path, notes)[0][builder.PAGE]


# --- the commands


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["npugraph", "bench", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.mark.parametrize(
    ("form", "start"), [("md", "# nPUGraph"), ("tex", "% ablation"), ("html", "<!doctype html>")]
)
def test_table_prints_each_format(
    form: str, start: str, store: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    code = command(monkeypatch, "table", "ablation", "--out", str(store), "--format", form)
    assert code == 0
    out = capsys.readouterr().out
    assert out.startswith(start)
    assert "not run" not in out


def test_table_writes_a_file_and_json(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    to = tmp_path / "new" / "table.html"
    words = ("table", "ablation", "--out", str(store), "--format", "html", "--to", str(to))
    assert command(monkeypatch, *words, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    cells = len(BenchPlan.read("ablation").cells())
    assert printed["state"] == f"{cells} cells: {cells} done."
    assert to.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_an_unknown_format_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "table", "ablation", "--format", "htm") == 2
    assert "Did you mean 'html'?" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    to = tmp_path / "file" / "t.md"
    assert command(monkeypatch, "table", "ablation", "--to", str(to)) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_figures_are_written_and_listed(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "figures", "k-sweep", "--out", str(store), "--json") == 0
    files = [Path(file) for file in json.loads(capsys.readouterr().out)["files"]]
    assert store / "figures" / "k-sweep-negatives-fb15k-237-0.3.svg" in files
    assert all(file.is_file() for file in files)


def test_figures_of_nothing_are_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "figures", "k-sweep", "--out", str(tmp_path)) == 0
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "no results of k-sweep" in seen.err
    assert not (tmp_path / "figures").exists()
