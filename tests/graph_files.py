"""Graph files for tests: write them, read their rows back, read the refusal of a bad one."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from npugraph.data.io import ReadOptions, read_graph, split_suffixes
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph

Row = tuple[object, ...]
NAMES = ("head", "relation", "tail", "confidence", "label")
NAMED = "id\twho\twhat\twhom\thow sure\tright\n1\ta\tr\tb\t0.5\t1\n"
UNNAMED = "1\ta\tr\tb\t0.5\t1\n"
PREFIX = "@prefix : <http://x/> .\n"


def write(path: Path, content: str | bytes) -> Path:
    """Write text or bytes, compressed by the last suffix."""
    data = content.encode() if isinstance(content, str) else content
    compression = split_suffixes(path)[1]
    with pa.output_stream(str(path), compression=compression) as stream:
        stream.write(data)
    return path


def rows_of(graph: KnowledgeGraph) -> list[Row]:
    return [tuple(row.values()) for row in graph.to_table().to_pylist()]


def table_of(rows: list[Row]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({name: list(column) for name, column in zip(NAMES, columns, strict=False)})


def refusal(path: Path, options: ReadOptions | None = None) -> str:
    """Read a bad file; return what the error says after the file's name.

    Every such error is one line that begins with the file and ends as a sentence does.
    """
    with pytest.raises(DataError) as caught:
        read_graph(path, options)
    message = str(caught.value)
    assert message.startswith(str(path))
    rest = message.removeprefix(str(path))
    assert re.match(r"(, line \d+)?: ", rest), message
    assert re.search(r"[^.?][.?]$", rest), message
    assert "\n" not in message
    # Beyond the sentence itself only a hint in the form of a question is allowed.
    sentences = re.split(r"(?<=\.) (?=[A-Z])", re.sub(r"\([^()]*\)", "", rest))
    assert all(extra.endswith("?") for extra in sentences[1:]), message
    return rest
