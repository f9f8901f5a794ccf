"""docs/results.md is what the results give; bench table and bench figures print and write."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

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


def test_the_page_is_up_to_date(builder: ModuleType) -> None:
    text, drawings = builder.page()
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == text, "run: python scripts/build_results_docs.py"
    for drawing in drawings:
        for suffix in (".png", ".svg"):
            assert (ROOT / "docs" / "figures" / f"{drawing.name}{suffix}").is_file()


def test_no_made_up_result_is_on_the_page() -> None:
    assert "made-up" not in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


def test_the_page_without_results_says_so(builder: ModuleType, tmp_path: Path) -> None:
    text, drawings = builder.page(tmp_path)
    assert drawings == []
    assert "### Not run yet" in text
    assert "### Agrees" not in text
    assert "None yet: nothing that could be drawn has run." in text
    for plan in builder.plans():
        assert all(cell.key in text for cell in plan.cells())


def test_the_page_with_results_has_verdicts_and_figures(builder: ModuleType, store: Path) -> None:
    text, drawings = builder.page(store)
    assert "### Undecided" in text
    assert "### Does not agree" in text
    names = {drawing.name for drawing in drawings}
    assert "k-sweep-negatives-fb15k-237-0.3" in names
    assert set(re.findall(r"!\[.*?\]\(figures/(.*?)\.png\)", text)) == names


def test_the_page_names_the_impossible_entries_and_the_other_graph(
    builder: ModuleType, tmp_path: Path
) -> None:
    text, _ = builder.page(tmp_path)
    assert "| 6 | FB15k, 0.5 | UKGE | MRR = 0.257 is above the most its hits allow, 0.236 |" in text
    assert "**twitter-ego**, which is another" in text


def test_the_hand_written_notes_are_on_the_page(builder: ModuleType, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("## Why\n\nBecause.\n", encoding="utf-8")
    assert "\n\n## Why\n\nBecause.\n\n" in builder.page(tmp_path, notes)[0]


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
