"""Several files as one graph: a folder of part files, or a pattern such as ``facts/*.tsv.gz``."""

from __future__ import annotations

import glob
import logging
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from npugraph.data.io.encode import encode, joined
from npugraph.data.io.formats import COMPRESSION, RDF, TEXT, split_suffixes
from npugraph.data.io.layout import ReadOptions
from npugraph.data.io.read import SPLITS, number_file
from npugraph.errors import DataError
from npugraph.graph import KnowledgeGraph, joined_annotations

log = logging.getLogger(__name__)

FORMATS = (*TEXT, ".parquet", *RDF)


def is_pattern(name: str) -> bool:
    """Tell whether a name stands for several files; a file that is called so is itself."""
    return glob.has_magic(name) and not Path(name).exists()


def has_splits(folder: Path) -> bool:
    """Tell whether a folder holds a file of train, valid or test."""
    endings = [s + c for s in FORMATS for c in ("", *COMPRESSION)]
    return any((folder / (part + ending)).is_file() for part in SPLITS for ending in endings)


def find_files(name: str) -> list[Path]:
    """Return the files of facts in a folder, or those that a pattern stands for, by their names.

    Raises:
        DataError: there are none.
    """
    folder = Path(name)
    if folder.is_dir():
        every = sorted(path for path in folder.iterdir() if path.is_file())
        found = [p for p in every if _is_facts(p)]
        others = [p.name for p in every if p not in set(found) and _is_visible(p)]
        if not found:
            raise DataError(
                f"{folder}: no file of facts (.tsv, .csv, .parquet, .nt, .ttl, also .gz or .zst)."
            )
        if others:
            log.warning("%s: no facts are read from %s.", folder, _few(others))
        return found
    anchor = Path(folder.anchor)
    found = sorted(
        path
        for path in anchor.glob(str(folder.relative_to(anchor)))
        if path.is_file() and (_is_visible(path) or not _is_visible(folder))
    )
    if not found:
        raise DataError(f"{name}: no file is called so.")
    return found


def _is_facts(path: Path) -> bool:
    return split_suffixes(path)[0] in FORMATS and _is_visible(path)


def _is_visible(path: Path) -> bool:
    """Tell whether a file is none of those that tools leave beside parts: _SUCCESS, .x.crc."""
    return path.name[:1] not in (".", "_")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def read_parts(files: Sequence[Path], source: str, options: ReadOptions) -> KnowledgeGraph:
    """Read several files as one graph: the records of the first, then those of the second, ...

    Args:
        files: any formats; all are read with the same options.
        source: what the graph is called in messages.
        options: how to read.

    Returns:
        The graph; ``rows`` are numbers of records within their files.
    """
    facts, beside = zip(*(number_file(path, options) for path in files), strict=True)
    rdf = [each for each, about in zip(facts, beside, strict=True) if about is not None]
    note_blank_nodes(sum(has_blank_nodes(each.entities) for each in rdf))
    return encode([joined(facts)], [source], [joined_annotations(beside)])[0]


def note_blank_nodes(files: int) -> None:
    """Say so where the blank nodes of several RDF files may be mixed up."""
    if files > 1:
        log.warning(
            "Blank nodes that are called the same in several files are taken for one entity; give "
            "them names of their own if they are not."
        )


def has_blank_nodes(names: Sequence[pa.Array | pa.ChunkedArray]) -> bool:
    """Tell whether some entity of an RDF file has no name."""
    return any(pc.any(pc.starts_with(some, "_:"), min_count=0).as_py() for some in names)
