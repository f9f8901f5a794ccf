"""Graphs in and out of files: TSV, CSV, Parquet, N-Triples and Turtle.

Errors name the file and the line.
"""

from npugraph.data.io.checks import check_table
from npugraph.data.io.content import compress, digest, read_content
from npugraph.data.io.encode import encode_tables
from npugraph.data.io.formats import RDF, TEXT, split_suffixes
from npugraph.data.io.layout import Layout, ReadOptions, text_layout
from npugraph.data.io.parts import find_files, has_splits, is_pattern, read_parts
from npugraph.data.io.read import (
    find_part,
    read_graph,
    read_own_table,
    read_splits,
    read_table,
)
from npugraph.data.io.remote import check_target, is_address, local_copy, local_folder
from npugraph.data.io.spill import needs_spill, read_spilled
from npugraph.data.io.write import (
    check_format,
    write_splits,
    write_table,
    write_text,
    written_whole,
)

__all__ = [
    "RDF",
    "TEXT",
    "Layout",
    "ReadOptions",
    "check_format",
    "check_table",
    "check_target",
    "compress",
    "digest",
    "encode_tables",
    "find_files",
    "find_part",
    "has_splits",
    "is_address",
    "is_pattern",
    "local_copy",
    "local_folder",
    "needs_spill",
    "read_content",
    "read_graph",
    "read_own_table",
    "read_parts",
    "read_spilled",
    "read_splits",
    "read_table",
    "split_suffixes",
    "text_layout",
    "write_splits",
    "write_table",
    "write_text",
    "written_whole",
]
