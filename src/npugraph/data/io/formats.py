"""What the reader and the writer agree on: the columns, their names, the formats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ROLES = ("head", "relation", "tail", "confidence", "label")
# How files name their columns; the first of several that a file has counts.
# fmt: off
HEADER_NAMES = {
    "head": [
        "head", "subject", "source", "from", "start", "node1", "entity1", "h", "s", "head_entity",
        "subj", "sub", "src", "start_id", "start_node", "source_node", "from_node", "from_id",
        "head_id", "subject_id", "source_id", "node_1", "entity_1", "arg1",
    ],
    "relation": [
        "relation", "predicate", "property", "rel", "edge", "type", "r", "p", "relationship",
        "rel_type", "relation_type", "edge_type", "edge_label", "pred", "link", "relation_id",
        "predicate_id", "property_id", "rel_id",
    ],
    "tail": [
        "tail", "object", "target", "to", "end", "node2", "entity2", "t", "o", "tail_entity",
        "obj", "dst", "dest", "destination", "end_id", "end_node", "target_node", "to_node",
        "to_id", "tail_id", "object_id", "target_id", "node_2", "entity_2", "arg2",
    ],
    "confidence": ["confidence", "probability", "weight", "score"],
    "label": ["label", "truth"],
}
# fmt: on
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


def named_roles(fields: Sequence[str]) -> dict[str, int]:
    """Return which columns hold what, by their names: role -> position.

    A column called label is the relation where no other one is.

    >>> named_roles(["From", "type", "To"])
    {'head': 0, 'relation': 1, 'tail': 2}
    >>> named_roles(["node1", "label", "node2"])
    {'head': 0, 'tail': 2, 'relation': 1}
    """
    words = [_word(name) for name in fields]
    found = {
        role: next(words.index(alias) for alias in aliases if alias in words)
        for role, aliases in HEADER_NAMES.items()
        if any(alias in words for alias in aliases)
    }
    if "head" in found and "tail" in found and "relation" not in found and "label" in found:
        found["relation"] = found.pop("label")
    return found


def looks_like_header(fields: Sequence[str]) -> bool:
    """Tell whether the first line of a text file names head, relation and tail.

    >>> looks_like_header(["Subject", "predicate", "object", "source"])
    True
    >>> looks_like_header(["h", "r", "t", "0.5"])
    False
    """
    found = named_roles(fields)
    return all(role in found for role in ROLES[:3]) and not any(map(_is_number, fields))


def might_be_header(fields: Sequence[str]) -> bool:
    """Tell whether a first line that is no header for sure has two words of one.

    >>> might_be_header(["from", "kind", "to"]), might_be_header(["Rome", "type", "city"])
    (True, False)
    """
    if looks_like_header(fields) or any(map(_is_number, fields)):
        return False
    found = named_roles(fields)
    return sum(found.get(role) == place for place, role in enumerate(ROLES[:3])) == 2


def _word(name: str) -> str:
    """Return a column's name in its plainest form: ``start_id`` for ``:START_ID``."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
