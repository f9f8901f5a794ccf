"""quarantine.tsv has every column of the input."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from audit_samples import called_reliable, rows
from npugraph.auditing import Audit
from npugraph.auditing.quarantine import quarantine_table
from npugraph.data.io import ReadOptions
from npugraph.data.sources import load_graph

COUNT = len(rows())
TAKEN = np.isin(np.arange(COUNT), [0, 7, COUNT - 1])
# Of the further columns one is such that TSV cannot hold it as it is, and one is of numbers.
TABLE = pa.table(
    {
        **dict(zip(("from", "type", "to"), map(list, zip(*rows(), strict=True)), strict=True)),
        "note": [f"line one\n\tline {i}" for i in range(COUNT)],
        "seen": list(range(COUNT)),
    }
)


def taken_out(found: Audit, path: Path, options: ReadOptions | None = None) -> Audit:
    """Return the audit as if it were of a file, and of its rows some were taken out."""
    graph = dataclasses.replace(found.graph, inputs=load_graph(path, options).inputs)
    told = called_reliable(dataclasses.replace(found, graph=graph))
    told.__dict__["taken_out"] = TAKEN
    return told


@pytest.mark.parametrize("name", ["facts.csv", "facts.csv.gz", "facts.parquet"])
def test_further_columns_are_those_of_the_rows(done: Audit, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".parquet"):
        pyarrow.parquet.write_table(TABLE, path)
    else:
        with pa.output_stream(str(path), compression="detect") as stream:
            pyarrow.csv.write_csv(TABLE, stream)
    found = quarantine_table(taken_out(done, path))
    places = np.flatnonzero(TAKEN).tolist()
    assert found.to_pydict() == {
        **done.graph.to_table().filter(pa.array(TAKEN)).to_pydict(),
        "note": [f"line one line {i}" for i in places],
        "seen": [str(i) for i in places],
    }


def test_several_files_and_a_column_with_the_name_of_a_role(done: Audit, tmp_path: Path) -> None:
    half = COUNT // 2
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, part in (("a.csv", TABLE[:half]), ("b.csv", TABLE[half:].drop_columns("seen"))):
        table = part.drop_columns("note").append_column("head", pa.array(["x"] * len(part)))
        pyarrow.csv.write_csv(table, folder / name)
    found = taken_out(done, folder, ReadOptions(columns=("from", "type", "to")))
    table = quarantine_table(found)
    assert table.column_names == ["head", "relation", "tail", "seen", "head of the input"]
    assert table["seen"].to_pylist() == ["0", "7", None]
    assert table["head of the input"].to_pylist() == ["x"] * 3


def test_a_file_that_changed_gives_no_columns(
    done: Audit, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "facts.csv"
    for changed in (TABLE[::-1], TABLE[:-1]):
        pyarrow.csv.write_csv(TABLE, path)
        found = taken_out(done, path)
        pyarrow.csv.write_csv(changed, path)
        caplog.clear()
        assert quarantine_table(found).column_names == ["head", "relation", "tail"]
        assert "facts.csv has changed since it was read" in caplog.text


def test_the_file_has_them(done: Audit, tmp_path: Path) -> None:
    path, out = tmp_path / "facts.csv", tmp_path / "audit"
    pyarrow.csv.write_csv(TABLE, path)
    taken_out(done, path).write(out)
    with (out / "quarantine.tsv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert lines[0] == ["head", "relation", "tail", "note", "seen"]
    assert [line[4] for line in lines[1:]] == [str(i) for i in np.flatnonzero(TAKEN)]
