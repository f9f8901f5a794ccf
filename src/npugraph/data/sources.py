"""Turn whatever a user has into a graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from npugraph.data import datasets
from npugraph.data.io import ReadOptions, read_graph, read_splits
from npugraph.graph import KnowledgeGraph, Splits


def load_graph(
    graph: str | Path | KnowledgeGraph | Splits | None = None, options: ReadOptions | None = None
) -> KnowledgeGraph:
    """Return a graph; it carries its parts where the source has them.

    Args:
        graph: nothing or ``world`` for the bundled graph, a name of the catalogue, a file of
            facts, a folder with train, valid and test, or a graph that is there already.
        options: how to read a file or folder.

    >>> load_graph("world").summary()["relations"]
    14
    """
    if isinstance(graph, KnowledgeGraph):
        return graph
    if isinstance(graph, Splits):
        return graph.whole()
    if graph is None:
        return datasets.load(datasets.BUNDLED)
    if isinstance(graph, str) and graph in (datasets.BUNDLED, *datasets.CATALOGUE):
        return datasets.load(graph)
    path = Path(graph)
    if path.is_dir():
        return read_splits(path, options).whole()
    if path.is_file():
        return replace(read_graph(path, options), name=_stem(path), path=path)
    raise datasets.unknown_graph(str(graph))


def load_splits(
    graph: str | Path | KnowledgeGraph | Splits | None = None,
    seed: int = 0,
    options: ReadOptions | None = None,
) -> Splits:
    """Return train, valid and test of a graph; drawn by ``seed`` where the source has none."""
    return graph if isinstance(graph, Splits) else load_graph(graph, options).split(seed)


def _stem(path: Path) -> str:
    """The file's name without its endings: `facts` for `facts.tsv.gz`."""
    return path.name.split(".")[0] or path.name
