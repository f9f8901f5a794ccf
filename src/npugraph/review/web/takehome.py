"""Taking answers home from the page: what is offered, by which command, and as a download."""

from __future__ import annotations

import io
import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi.responses import Response

from npugraph.review.export import FORMATS, Decided, Exported, export

# Titles, what each is for, and the file that its command writes.
TITLES = {
    "graph": ("The cleaned graph", "Your file with the corrections in it, in its own format", ""),
    "patch": ("A patch", "The decisions, to apply to your file and to take back", "patch.json"),
    "answers": ("The answers", "One row each, for a spreadsheet and back", "answers.csv"),
    "rdf12": ("RDF 1.2", "With probability, reviewer and time on reifiers", "reviewed.ttl"),
    "rdf-reified": ("RDF, reified", "The same for older tools", "reviewed.ttl"),
    "sparql": ("SPARQL UPDATE", "The changes for a triple store", "changes.ru"),
    "kgx": ("KGX", "Nodes and edges with knowledge level and agent", "kgx"),
    "quickstatements": ("QuickStatements", "The changes for Wikidata", "commands.txt"),
    "sql": ("SQL", "The changes of a table of facts", "changes.sql"),
}


@dataclass(frozen=True)
class Offer:
    """One way to take answers home: its format, a title, what it is for, the command."""

    format: str
    title: str
    what: str
    command: str


def offers(folder: Path, record: dict[str, Any]) -> list[Offer]:
    """Return all ways to take answers home from an audit."""
    found = []
    for format in FORMATS:
        title, what, name = TITLES.get(format, (format, "", format))
        words = ["npugraph", "export", str(folder), "--format", format]
        words += ["--out", name or f"cleaned{_suffixes(record)}"]
        found.append(Offer(format, title, what, shlex.join(words)))
    return found


def _suffixes(record: dict[str, Any]) -> str:
    """Return the suffixes of the audited file; none where there are several files."""
    files = (record.get("input") or {}).get("files") or [{"name": "facts.tsv"}]
    return "".join(Path(files[0]["name"]).suffixes[-2:]) if len(files) == 1 else ""


def round_trip(record: dict[str, Any]) -> list[str]:
    """Return the commands that change the audited file, and that take the change back."""
    files = (record.get("input") or {}).get("files") or [{"name": "facts.tsv"}]
    name = files[0]["name"] if len(files) == 1 else "FOLDER"
    return [
        shlex.join(["npugraph", word, "patch.json", name, "--in-place"])
        for word in ("apply", "revert")
    ]


def decided(folder: Path) -> dict[str, int]:
    """Return how many facts the answers remove, replace and add."""
    counts = {"remove": 0, "replace": 0, "add": 0}
    for decision in Decided.open(folder).decisions:
        counts[decision.change] += 1
    return counts


def download(folder: Path, format: str) -> Response:
    """Return what an export writes; several files come as one archive."""
    name, data = bundled(export(Decided.open(folder), format), format)
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(data, media_type="application/octet-stream", headers=headers)


def bundled(made: Exported, format: str) -> tuple[str, bytes]:
    """Return one file: the only one, or an archive of all."""
    if len(made.files) == 1:
        return made.files[0]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in made.files:
            # A fixed time: equal answers give equal bytes.
            archive.writestr(zipfile.ZipInfo(name), data)
    return f"{format}.zip", packed.getvalue()
