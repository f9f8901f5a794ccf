"""Which sources a result came from: the commit, and a hash of the modules that decide numbers.

The hash ignores comments, docstrings and formatting, and is the same under every version of Python
that the package runs on. It is no part of a cell's key: a finished cell stays finished when a
source changes, but its line says which sources it had (docs/bench.md).
"""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
# Modules, and packages with all that is in them, by which figures can change.
NUMERIC = (
    "arrays.py",
    "calibration",
    "data/corrupt",
    "data/perturb.py",
    "encoders",
    "graph.py",
    "kernels",
    "metrics.py",
    "model.py",
    "objectives",
    "ranking",
    "recipes",
    "samplers",
    "scorers",
    "seeds.py",
    "training",
    "triples.py",
)
# Digits of the hash: enough to tell the versions of one project apart.
DIGITS = 12


@cache
def provenance() -> dict[str, Any]:
    """Return what a line of results says of its sources.

    ``commit`` and ``dirty`` (whether a file of ``src`` differed from it) are None where the package
    does not run from a checkout, or where there is no git.
    """
    root = PACKAGE.parents[1]
    commit = _git(root, "rev-parse", "HEAD") if (root / ".git").exists() else None
    changed = None if commit is None else _git(root, "status", "--porcelain", "--", "src")
    return {
        "commit": commit,
        "dirty": None if changed is None else bool(changed),
        "source": source_hash(),
    }


@cache
def source_hash(package: Path = PACKAGE) -> str:
    """Return the hash of the numeric modules as they are on disk."""
    digest = hashlib.sha256()
    for path in numeric_files(package):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        shape = [path.relative_to(package).as_posix(), _shape(tree)]
        digest.update(json.dumps(shape).encode())
    return digest.hexdigest()[:DIGITS]


def numeric_files(package: Path = PACKAGE) -> list[Path]:
    """Return the modules that decide numbers, in a fixed order."""
    found: set[Path] = set()
    for name in NUMERIC:
        path = package / name
        found |= {path} if path.is_file() else set(path.rglob("*.py"))
    return sorted(found)


def named(sources: Iterable[str | None]) -> str:
    """Name the sources of some lines, for a reader.

    >>> named(["0f3a", None, "0f3a"])
    '0f3a (2 cells), unrecorded (1 cell)'
    """
    counts: dict[str | None, int] = {}
    for source in sources:
        counts[source] = counts.get(source, 0) + 1
    return ", ".join(
        f"{source or 'unrecorded'} ({count} cell{'s' if count > 1 else ''})"
        for source, count in counts.items()
    )


def _shape(node: Any) -> Any:
    """Return a syntax tree as nested lists, without docstrings, places and empty fields."""
    if isinstance(node, list):
        return [_shape(item) for item in node]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
        fields["body"] = fields["body"][1:]
    filled = {name: value for name, value in fields.items() if value not in (None, [])}
    return [type(node).__name__, *([name, _shape(value)] for name, value in filled.items())]


def _git(folder: Path, *words: str) -> str | None:
    """Return what git prints, or None where it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
