"""Graphs in and out of files: TSV, CSV, Parquet, N-Triples and Turtle.

Errors name the file and the line.
"""

from npugraph.data.io.formats import TEXT, split_suffixes
from npugraph.data.io.read import (
    ReadOptions,
    check_table,
    encode_tables,
    find_part,
    read_graph,
    read_splits,
    read_table,
)
from npugraph.data.io.write import (
    check_format,
    write_splits,
    write_table,
    write_text,
    written_whole,
)

__all__ = [
    "TEXT",
    "ReadOptions",
    "check_format",
    "check_table",
    "encode_tables",
    "find_part",
    "read_graph",
    "read_splits",
    "read_table",
    "split_suffixes",
    "write_splits",
    "write_table",
    "write_text",
    "written_whole",
]
