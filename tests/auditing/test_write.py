"""The folder of an audit: nothing is lost, and what was done can be undone."""

from __future__ import annotations

import csv
import dataclasses
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch

from audit_samples import called_reliable, rows
from npugraph.auditing import Audit, Thresholds, write_audit
from npugraph.auditing.page import notes
from npugraph.auditing.tables import CORRECTED
from npugraph.data.io import read_graph
from npugraph.data.sources import load_graph
from npugraph.graph import Vocabulary
from npugraph.patching import apply_patch, read_patch, revert_patch
from npugraph.patching.inputs import find_sources
from patch_samples import FACT, facts_in, iri, write_as

FILES = {
    "audit.json",
    "cleaned.tsv",
    "facts.tsv",
    "issues.tsv",
    "missing.tsv",
    "patch.json",
    "evidence.parquet",
    "features.parquet",
    "history.parquet",
    "posterior.parquet",
    "quarantine.tsv",
    "report.html",
    "suspects.tsv",
}


@pytest.fixture(scope="module")
def cleaned(done: Audit) -> Audit:
    """The audit, sure of its figures, with a quarantine that holds repeated facts, too."""
    probability = done.collected.probability.copy()
    # The first rows of the input come twice, and one of them is put out.
    probability[done.place[[1, 60, 90]]] = 0.0
    judged = dataclasses.replace(
        done.collected, probability=probability, low=0 * probability, high=probability
    )
    settings = dataclasses.replace(
        done.settings, target_precision=0.97, thresholds=Thresholds(rare_facts=1)
    )
    return called_reliable(dataclasses.replace(done, collected=judged, settings=settings))


@pytest.fixture(scope="module")
def folder(cleaned: Audit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("files") / "new" / "audit"
    write_audit(cleaned, place)
    return place


def lines(path: Path) -> list[tuple[str, ...]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [tuple(line) for line in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def renamed(found: Audit, name: Callable[[str], str]) -> Audit:
    """Return an audit of a graph with other names; they must sort as the old ones do."""
    words = [
        Vocabulary(pa.array([name(label) for label in old.labels.to_pylist()]), old.kind)
        for old in (found.graph.entities, found.graph.relations)
    ]
    graph = dataclasses.replace(found.graph, entities=words[0], relations=words[1])
    return called_reliable(dataclasses.replace(found, graph=graph))


def test_every_file_is_there_and_nothing_else(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES


def test_cleaned_and_quarantine_are_the_input(folder: Path, cleaned: Audit) -> None:
    kept, taken = lines(folder / "cleaned.tsv"), lines(folder / "quarantine.tsv")
    assert Counter(kept) + Counter(taken) == Counter(rows())
    assert kept == [tuple(row.values()) for row in cleaned.cleaned.to_pylist()]
    assert taken == [tuple(row.values()) for row in cleaned.quarantine.to_pylist()]
    out = set(taken)
    assert len(taken) > len(out) > 2, "A repeated fact should be in quarantine."
    # In the order of the input, and a fact with all its repeats.
    assert kept == [row for row in rows() if row not in out]
    assert taken == [row for row in rows() if row in out]
    assert rows()[1] in out


def test_the_patch_makes_the_cleaned_graph_and_undoes_it(folder: Path, cleaned: Audit) -> None:
    patch, facts = read_patch(folder / "patch.json"), folder / "facts.tsv"
    assert lines(facts) == rows()
    (done,) = apply_patch(patch, facts)
    assert done.content == (folder / "cleaned.tsv").read_bytes()
    (undone,) = revert_patch(patch, folder / "cleaned.tsv")
    assert undone.content == facts.read_bytes()
    assert {one.fact for one in patch.decisions} == set(lines(folder / "quarantine.tsv"))
    for one in patch.decisions:
        assert (one.change, one.why) == ("remove", "quarantine")
        assert one.probability is not None
        assert 0 <= one.probability <= 1


@pytest.mark.parametrize("name", ["my facts.csv", "facts.nt", "facts.ttl.gz", "facts.parquet"])
def test_the_cleaned_graph_has_the_format_of_the_input(
    cleaned: Audit, tmp_path: Path, name: str
) -> None:
    path, out = tmp_path / name, tmp_path / "audit"
    write_as(path, rows())
    graph = dataclasses.replace(cleaned.graph, inputs=load_graph(path).inputs)
    found = called_reliable(dataclasses.replace(cleaned, graph=graph))
    if path.suffix in (".nt", ".gz"):
        # Names are IRIs there.
        found = renamed(found, iri)
    result = write_audit(found, out)
    assert result["cleaned"] == "cleaned" + name[name.index(".") :]
    assert not (out / "facts.tsv").exists()
    kept = facts_in(out / str(result["cleaned"]))
    wanted = [tuple(row.values()) for row in found.cleaned.select(FACT).to_pylist()]
    # Turtle has neither order nor repeats.
    assert (set(kept) == set(wanted)) if ".ttl" in name else (kept == wanted)
    record = json.loads((out / "audit.json").read_text(encoding="utf-8"))["input"]
    assert record["files"][0]["path"] == f"../{name}"
    assert find_sources({"input": record}, out)[0].path.samefile(path)


def test_an_input_that_changed_meanwhile_is_not_cleaned(
    cleaned: Audit, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, out = tmp_path / "facts.csv", tmp_path / "audit"
    write_as(path, rows())
    graph = dataclasses.replace(cleaned.graph, inputs=load_graph(path).inputs)
    path.write_text("a,r,b\n", encoding="utf-8")
    result = write_audit(called_reliable(dataclasses.replace(cleaned, graph=graph)), out)
    assert "has changed since it was audited" in caplog.text
    assert result["cleaned"] == "cleaned.tsv"
    assert lines(out / "facts.tsv") == rows()


def test_the_cleaned_graph_can_be_read_again(folder: Path) -> None:
    graph = read_graph(folder / "cleaned.tsv")
    assert len(graph) == len(lines(folder / "cleaned.tsv"))
    kept = lines(folder / "cleaned.tsv")
    assert graph.duplicates() == len(kept) - len(set(kept)) > 0


def test_lists_are_tables_with_a_header(folder: Path, cleaned: Audit) -> None:
    suspects = lines(folder / "suspects.tsv")
    named = ("head", "relation", "tail", "probability", "low", "high", "score")
    assert suspects[0] == (*named, *CORRECTED) == tuple(cleaned.suspects.column_names)
    assert len(suspects) == 1 + len(cleaned.suspects)
    assert [row[0] for row in suspects[1:]] == cleaned.suspects["head"].to_pylist()
    assert {row[7] for row in suspects[1:]} <= {"head", "tail", ""}
    assert all((row[7] == "") == (row[8] == "") for row in suspects[1:])
    missing = lines(folder / "missing.tsv")
    assert missing[0] == named == tuple(cleaned.missing.column_names)
    for row, value in zip(missing[1:], cleaned.missing["probability"].to_pylist(), strict=True):
        assert float(row[3]) == pytest.approx(value)


def test_the_posterior_is_complete(folder: Path, cleaned: Audit) -> None:
    table = pyarrow.parquet.read_table(folder / "posterior.parquet")
    assert table.equals(cleaned.posterior)
    assert int(np.sum(table["collected"].to_numpy())) == len(rows())


def test_the_record_holds_figures_and_settings(folder: Path, cleaned: Audit) -> None:
    record = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert record["settings"] == cleaned.settings.asked()
    thresholds = dataclasses.asdict(cleaned.settings.thresholds)
    assert record["thresholds"] == json.loads(json.dumps(thresholds))
    assert record["training"] == dataclasses.asdict(cleaned.training)
    assert record["facts"] == len(set(rows()))
    assert record["quarantined"] == len(cleaned.quarantine_rows)
    for what in ("expected_wrong", "expected_true"):
        assert record[f"{what}_low"] <= record[what] <= record[f"{what}_high"]


def test_a_list_of_missing_facts_that_was_cut_is_told(done: Audit, tmp_path: Path) -> None:
    count = len(done.proposed.facts)
    for most, more in ((3, count - 3), (count - 1, 1), (count, 0)):
        thresholds = Thresholds(most_missing=most, least_missing=0.0)
        settings = dataclasses.replace(done.settings, missing=None, thresholds=thresholds)
        found = called_reliable(dataclasses.replace(done, settings=settings))
        assert len(found.missing) == most
        said = [note for note in notes(found) if "missing.tsv" in note]
        what = "1 more fact has" if more == 1 else f"{more:,} more facts have"
        assert said == [
            f"missing.tsv was cut after {most:,} facts: {what} a probability of at least 0%. "
            "Ask for more with --missing N."
        ] * bool(more)
    told = dataclasses.replace(settings, thresholds=Thresholds(most_missing=2, least_missing=0.0))
    found = called_reliable(dataclasses.replace(done, settings=told))
    assert write_audit(found, tmp_path)["notes"][-1].startswith("missing.tsv was cut after 2 facts")
    asked = dataclasses.replace(told, missing=2)
    found = called_reliable(dataclasses.replace(done, settings=asked))
    assert not any("missing.tsv" in note for note in notes(found))


def test_the_report_shows_the_suspects(folder: Path, cleaned: Audit) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    for row in cleaned.suspects.to_pylist():
        assert (
            f'"head":"{row["head"]}","relation":"{row["relation"]}","tail":"{row["tail"]}"' in page
        )


def test_writing_again_gives_the_same_bytes(folder: Path, cleaned: Audit, tmp_path: Path) -> None:
    fresh = called_reliable(cleaned)
    write_audit(fresh, tmp_path)
    for name in FILES - {"posterior.parquet"}:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_columns_of_the_input_are_kept(cleaned: Audit, tmp_path: Path) -> None:
    count = len(cleaned.graph)
    confidence = torch.arange(count, dtype=torch.float64) / count
    graph = dataclasses.replace(cleaned.graph, confidence=confidence)
    write_audit(called_reliable(dataclasses.replace(cleaned, graph=graph)), tmp_path)
    parts = [read_graph(tmp_path / f"{name}.tsv") for name in ("cleaned", "quarantine")]
    values = [part.confidence.tolist() for part in parts if part.confidence is not None]
    assert sorted(value for part in values for value in part) == confidence.tolist()
    assert sum(map(len, parts)) == count
