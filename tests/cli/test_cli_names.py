"""Labels and short IRIs from an RDF file to the terminal; the files keep the names as given."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from npugraph.cli import app

PREFIX = "@prefix : <http://x.org/> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
FAST = (
    "--set", "d=4", "--set", "epochs=2", "--set", "search=false", "--device", "cpu", "--folds", "2",
    "--budget", "5", "--set", "missing=5",
)  # fmt: skip


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """An audit of a labelled graph, and what it printed."""
    folder = tmp_path_factory.mktemp("names")
    lines = [':livesIn rdfs:label "lives in" .']
    for i in range(40):
        lines += [
            f':p{i} rdfs:label "Person {i:02}" ; :livesIn :t{i % 5} ; :knows :p{(i + 5) % 40} .'
        ]
    lines += [f':t{i} rdfs:label "Town {i}"@en ; :in :land{i % 2} .' for i in range(5)]
    (folder / "g.ttl").write_text(PREFIX + "\n".join(lines) + "\n", encoding="utf-8")
    words = ["audit", str(folder / "g.ttl"), "--out", str(folder / "audit"), *FAST]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    return folder / "audit", done.stdout


def test_the_terminal_shows_labels_and_the_files_the_names(audited: tuple[Path, str]) -> None:
    folder, printed = audited
    assert "http://x.org/" not in printed
    assert "Person" in printed or "Town" in printed
    suspects = (folder / "suspects.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert suspects
    assert all(line.startswith("http://x.org/") for line in suspects)
    shown = dict(
        zip(*pyarrow.parquet.read_table(folder / "names.parquet").to_pydict().values(), strict=True)
    )  # noqa: E501
    assert shown["http://x.org/p3"] == "Person 03"
    assert shown["http://x.org/livesIn"] == "lives in"
    assert shown["http://x.org/land1"] == "land1"


def test_the_report_shows_labels_and_keeps_the_names(audited: tuple[Path, str]) -> None:
    page = (audited[0] / "report.html").read_text(encoding="utf-8")
    assert "lives in" in page
    assert 'title="http://x.org/' in page


@pytest.mark.parametrize(
    "fact",
    [
        ("http://x.org/p3", "http://x.org/livesIn", "http://x.org/t1"),
        ("Person 03", "lives in", "Town 1"),
    ],  # noqa: E501
)
def test_explain_takes_names_and_labels(audited: tuple[Path, str], fact: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, ["explain", str(audited[0]), *fact, "--device", "cpu"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert done.stdout.startswith("(Person 03, lives in, Town 1)  [not stored]\n")
    assert "other facts of lives in" in done.stdout
    assert "http://x.org/" not in done.stdout
