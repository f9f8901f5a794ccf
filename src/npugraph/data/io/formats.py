"""What the reader and the writer agree on: the columns, their names, the formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ROLES = ("head", "relation", "tail", "confidence", "label")
HEADER_NAMES = {
    "head": ("head", "subject", "source", "from", "h", "s", "head_entity"),
    "relation": ("relation", "predicate", "property", "rel", "r", "p", "edge"),
    "tail": ("tail", "object", "target", "to", "t", "o", "tail_entity"),
    "confidence": ("confidence", "probability", "weight", "score"),
    "label": ("label", "truth"),
}
TEXT = {".tsv": "\t", ".txt": "\t", ".csv": ","}
RDF = {".nt": "N_TRIPLES", ".ttl": "TURTLE"}
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}


def split_suffixes(path: Path) -> tuple[str, str | None]:
    """Return a file's format suffix and its compression.

    >>> split_suffixes(Path("train.tsv.gz"))
    ('.tsv', 'gzip')
    """
    suffix = path.suffix.lower()
    if suffix in COMPRESSION:
        return Path(path.stem).suffix.lower(), COMPRESSION[suffix]
    return suffix, None


def looks_like_header(fields: Sequence[str]) -> bool:
    """Tell whether the first line of a text file names head, relation and tail.

    >>> looks_like_header(["Subject", "predicate", "object", "source"])
    True
    """
    low = [name.strip().lower() for name in fields]
    return all(any(name in HEADER_NAMES[role] for name in low) for role in ROLES[:3])
