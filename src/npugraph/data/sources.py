"""Turn whatever a user has into a graph."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor

from npugraph.data import datasets
from npugraph.data.frames import graph_from_memory, rows_of
from npugraph.data.io import (
    ReadOptions,
    digest,
    find_files,
    has_splits,
    is_pattern,
    local_copy,
    needs_spill,
    read_graph,
    read_parts,
    read_spilled,
    read_splits,
)
from npugraph.graph import InputFile, KnowledgeGraph, Splits
from npugraph.settings import as_path

log = logging.getLogger(__name__)

# What load_graph takes; frames of other libraries have no type that could be named here.
GraphLike: TypeAlias = Any


def load_graph(
    graph: GraphLike = datasets.BUNDLED,
    options: ReadOptions | None = None,
    *,
    spill: str | os.PathLike[str] | None = None,
) -> KnowledgeGraph:
    """Return a graph; it carries its parts where the source has them.

    Args:
        graph: one of

            - a name of the catalogue, or ``world``, the bundled graph;
            - a file of facts, or a folder with train, valid and test, as str or Path, or an
              address of fsspec such as ``s3://bucket/facts.tsv``;
            - a folder of other files of facts, or a pattern (``facts/*.tsv.gz``): all of them;
            - a DataFrame (pandas, polars, ...) or Arrow table with the columns head, relation,
              tail and, if wanted, confidence and label; a dict of such columns;
            - an array [n, 3] of names or of ids from 0, numpy or torch; a list of facts;
            - a dict of parts, each any of the above: ``{"train": ..., "valid": ..., "test": ...}``;
            - a KnowledgeGraph or Splits.
        options: how to read a file, and which columns are which.
        spill: a folder where DuckDB numbers the names, for files that do not fit memory. Without
            it, reading spills to where temporary files are, if it must: where it would hold more
            than half of the free memory.

    >>> load_graph("world").summary()["relations"]
    14
    >>> load_graph({"head": ["Rome"], "relation": ["capital_of"], "tail": ["Italy"]}).num_entities
    2
    """
    if isinstance(graph, KnowledgeGraph):
        return graph
    if isinstance(graph, Splits):
        return graph.whole()
    if not isinstance(graph, str | os.PathLike):
        return replace(graph_from_memory(graph, options or ReadOptions()), name="graph")
    if isinstance(graph, str) and graph in (datasets.BUNDLED, *datasets.CATALOGUE):
        return datasets.load(graph)
    path, options = local_copy(graph), options or ReadOptions()
    if graph and path.is_dir() and has_splits(path):
        if spill is not None:
            log.warning("%s: train, valid and test are read without spilling.", path)
        splits = read_splits(path, options)
        files = [Path(part.source) for part in splits.parts().values()]
        return replace(splits.whole(), inputs=_inputs(files, options))
    if graph and (path.is_dir() or is_pattern(str(graph))):
        return _several(find_files(str(path)), path, options, spill)
    if path.is_file():
        if spill is not None or needs_spill([path], str(path)):
            found = read_spilled([path], str(path), options, _folder(spill))
        else:
            found = read_graph(path, options)
        return replace(found, name=_stem(path), path=path, inputs=_inputs([path], options))
    raise datasets.unknown_graph(str(graph))


def load_splits(
    graph: GraphLike = datasets.BUNDLED,
    seed: int = 0,
    options: ReadOptions | None = None,
    *,
    spill: str | os.PathLike[str] | None = None,
) -> Splits:
    """Return train, valid and test of a graph; drawn by ``seed`` where the source has none."""
    if isinstance(graph, Splits):
        return graph
    return load_graph(graph, options, spill=spill).split(seed)


def facts_of(graph: KnowledgeGraph, facts: Any) -> Tensor:
    """Return facts as ids [m, 3] of a graph: names in any form that load_graph takes, or ids."""
    rows = rows_of(facts, ReadOptions())
    return rows if isinstance(rows, Tensor) else graph.encode(rows)


def _several(
    files: list[Path], path: Path, options: ReadOptions, spill: str | os.PathLike[str] | None
) -> KnowledgeGraph:
    """Read the files of a folder without splits, or of a pattern, as one graph."""
    if spill is not None or needs_spill(files, str(path)):
        found = read_spilled(files, str(path), options, _folder(spill))
    else:
        found = read_parts(files, str(path), options)
    folder = path if path.is_dir() else files[0].parent
    # Patches tell the files of a graph apart by their names.
    apart = len({file.name for file in files}) == len(files)
    return replace(
        found,
        name=folder.resolve().name,
        path=folder,
        inputs=_inputs(files, options) if apart else (),
    )


def _folder(spill: str | os.PathLike[str] | None) -> Path | None:
    return None if spill is None else as_path(spill, "the folder to spill to")


def _inputs(files: list[Path], options: ReadOptions) -> tuple[InputFile, ...]:
    """Return the record of files that have just been read."""
    how = {name: value for name, value in asdict(options).items() if name != "beside"}
    return tuple(InputFile(path, digest(path), how) for path in files)


def _stem(path: Path) -> str:
    """The file's name without its endings: `facts` for `facts.tsv.gz`."""
    return path.name.split(".")[0] or path.name
