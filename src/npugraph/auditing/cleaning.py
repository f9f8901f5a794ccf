"""The cleaned graph, in the input's own format, and the patch that makes it of the input."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from torch import Tensor

from npugraph.auditing.result import Findings
from npugraph.auditing.tables import FACT
from npugraph.data.io import (
    ReadOptions,
    compress,
    digest,
    split_suffixes,
    write_table,
    write_text,
    written_whole,
)
from npugraph.data.io.formats import looks_like_header
from npugraph.errors import DataError, writing
from npugraph.graph import InputFile, KnowledgeGraph
from npugraph.patching import Decision, Fact, Made, Source, make_patch
from npugraph.patching.inputs import input_record
from npugraph.patching.patch import Why

log = logging.getLogger(__name__)

# The facts of an audit that is of no file of the user's.
OWN = "facts.tsv"


@dataclass(frozen=True)
class Cleaned:
    """What was written: the name of the cleaned file or folder, and the record of the input."""

    name: str
    input: dict[str, Any]


def write_cleaned(found: Findings, folder: Path) -> Cleaned:
    """Write the cleaned graph and patch.json into the folder of an audit.

    Where the facts are in no file, or the file has changed since it was read, they are written as
    facts.tsv first, and that is the input.
    """
    decisions = taken_out(found)
    files = found.graph.inputs
    made: Made | None = None
    if files:
        try:
            made = _made(files, decisions, found.name)
        except DataError as error:
            log.warning("%s The cleaned graph is written as TSV.", error)
    if made is None:
        files = (_write_own(found.graph, folder),)
        made = _made(files, decisions, found.name)
    name = _write_contents(made, files, folder)
    write_text(folder / "patch.json", made.patch.to_json())
    return Cleaned(name, input_record(files, folder))


def taken_out(found: Findings) -> list[Decision]:
    """Return what cleaning does: facts in quarantine go, and those known to be wrong."""
    chances = found.collected.probability[found.quarantine_rows].tolist()
    suspected = _facts(found.graph, found.collected.facts[found.quarantine_rows])
    known = _facts(found.graph, found.answers.wrong)
    return [
        *(_removed(fact, "quarantine", p) for fact, p in zip(suspected, chances, strict=True)),
        *(_removed(fact, "known", None) for fact in known),
    ]


def _removed(fact: Fact, why: Why, probability: float | None) -> Decision:
    return Decision("remove", fact, why=why, probability=probability)


def _facts(graph: KnowledgeGraph, facts: Tensor) -> list[Fact]:
    rows = graph.with_facts(facts).to_table().to_pylist()
    return [Fact(**row) for row in rows]


def _made(files: Sequence[InputFile], decisions: list[Decision], name: str) -> Made:
    options = ReadOptions(**files[0].options)
    return make_patch([Source(file.path, options, file.sha256) for file in files], decisions, name)


def _write_own(graph: KnowledgeGraph, folder: Path) -> InputFile:
    """Write the facts of a graph into the folder."""
    table = graph.to_table()
    if "confidence" in table.column_names and pc.any(pc.is_nan(table["confidence"])).as_py():
        # One of several sources had none, and a confidence cannot be empty.
        table = table.drop_columns("confidence")
    # Columns beyond the three would be misread without their names.
    named = table.num_columns > len(FACT) or _looks_named(table)
    path = folder / OWN
    write_table(table, path, header=named)
    return InputFile(path, digest(path), dataclasses.asdict(ReadOptions(header=named)))


def _looks_named(table: pa.Table) -> bool:
    """Tell whether the first fact would be taken for a header; then there is one."""
    return looks_like_header([str(value) for value in table.slice(0, 1).to_pylist()[0].values()])


def _write_contents(made: Made, files: Sequence[InputFile], folder: Path) -> str:
    """Write the cleaned files: one, or several into a folder; return its name."""
    _clear(folder)
    several = len(files) > 1
    if several:
        with writing(folder):
            (folder / "cleaned").mkdir(exist_ok=True)
    for file, data in zip(files, made.contents, strict=True):
        suffix, compression = split_suffixes(file.path)
        ending = suffix + (file.path.suffix if compression else "")
        name = f"cleaned/{file.path.name}" if several else f"cleaned{ending}"
        with written_whole(folder / name) as temporary:
            temporary.write_bytes(compress(data, compression))
    return "cleaned" if several else name


def _clear(folder: Path) -> None:
    """Remove what an earlier audit in this folder wrote as cleaned, in whatever format."""
    try:
        before = str(json.loads((folder / "audit.json").read_text(encoding="utf-8"))["cleaned"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    place = folder / before
    if before == "cleaned" and place.is_dir():
        shutil.rmtree(place)
    elif place.parent == folder and before.startswith("cleaned."):
        place.unlink(missing_ok=True)
