"""Write docs/formats.md from the schemas in src/npugraph/schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "src" / "npugraph" / "schemas"
PAGE = ROOT / "docs" / "formats.md"

INTRO = """# Formats

Written by `make formats-docs` from the JSON schemas (draft 2020-12) that come with the package, in
`npugraph/schemas`. Tests hold what the commands write to them.

Every `--json` object names its `schema`, such as `npugraph.audit/1`. Keys may be added under the
same number; the number rises when a key goes or means something else. Text files are UTF-8 with LF;
an empty field of a TSV file is a missing value. A name with a dot is a key within a key, `[]`
stands for every element of a list and `*` for every name.
"""
# The folders that commands write, with the files that have no keys or columns.
FOLDERS = {
    "run": (
        "Run folder of `fit`, and of every fold of an audit",
        {
            "model.safetensors": "Weights of the best epoch. Where N ranks have trained, the index "
            "of `model-K-1-of-N.safetensors` to `model-K-N-of-N.safetensors`, one file per rank.",
            "last.safetensors": "Latest weights, optimiser and random state: what resuming needs. "
            "Where N ranks have trained, an index, too.",
        },
    ),
    "audit": (
        "Folder of `audit`",
        {
            "report.html": "The same for a person: one file that needs nothing else.",
            "cleaned.tsv": "The input without the facts in quarantine, in its own format, header, "
            "columns and order: .csv, .nt, .ttl, .parquet, .gz as the input; a folder `cleaned` "
            "where the input is one.",
            "facts.tsv": "The input, where it was no file (a known graph, facts in memory).",
            "answers.sqlite": "Answers of the review desk; `--overwrite` never takes it away.",
            "trials/trial-N/": "One run folder per setting that was tried, on small graphs.",
            "folds/fold-N/": "One run folder per fold, of the view embedding.",
            "pairs/fold-N/": "The same, of the view pairs.",
            "path/fold-N/": "One run folder per half of the folds, of the view path.",
            "judged/": "What was judged as facts of a fold; read again by a "
            "further audit in the same folder, where nothing changed that it follows from.",
        },
    ),
    "perturbed": (
        "Folder of `perturb`",
        {
            "entities.txt": "Names of all entities, one per line.",
            "relations.txt": "Names of all relations, one per line.",
        },
    ),
    "tuned": (
        "Folder of `tune`",
        {
            "study.db": "The Optuna study, an SQLite file.",
            "study.lock": "Held by the process that works on the study.",
        },
    ),
    "bench": (
        "Folder of `bench run`",
        {
            "work/": "Checkpoints and perturbed graphs of cells that are not done.",
            "figures/": "What `bench figures` draws, as PNG and SVG.",
            ".lock": "Held by the process that runs the bench.",
        },
    ),
    "score": ("File of `score`", {}),
    "check": ("File of `check`", {}),
}
OTHERS = """### File of `interactions`

A graph: head, relation and tail, without a header (.tsv, .csv) or with these names (.parquet).
"""


def page() -> str:
    """Return the text of docs/formats.md."""
    parts = [INTRO, "## Objects of --json\n"]
    for path in sorted((SCHEMAS / "commands").glob("*.json")):
        parts.append(section(read(path), "###"))
    parts.append("## Files\n")
    for folder, (title, plain) in FOLDERS.items():
        parts.append(f"### {title}\n")
        if plain:
            parts.append("".join(f"- `{name}`: {text}\n" for name, text in plain.items()))
        for path in sorted((SCHEMAS / "files" / folder).glob("*.json")):
            parts.append(section(read(path), "####"))
    return "\n".join([*parts, OTHERS])


def read(path: Path) -> dict[str, Any]:
    """Read one schema."""
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def section(schema: dict[str, Any], level: str) -> str:
    """Return the heading, the description and the table of one schema."""
    lines = [f"{level} {schema['title']}\n", f"{schema['description']} Schema `{schema['$id']}`.\n"]
    found = list(rows(schema, ""))
    if found:
        lines.append("| key | type | what |\n|---|---|---|")
        lines += [f"| `{name}` | {kind} | {text} |" for name, kind, text in found]
    return "\n".join(lines) + "\n"


def rows(schema: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and description of every key of a schema, those within keys included."""
    required = schema.get("required", [])
    for name, value in schema.get("properties", {}).items():
        kind = type_name(value) + ("" if name in required else ", may be absent")
        yield prefix + name, kind, value.get("description", "")
        inner, path = inside(value, prefix + name)
        yield from rows(inner, path + ".")


def inside(schema: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    """Return the object within a list, a map or a choice with null, and how it is written."""
    if "anyOf" in schema:
        return inside(schema["anyOf"][0], path)
    if isinstance(schema.get("items"), dict):
        return inside(schema["items"], f"{path}[]")
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and "properties" in more:
        return inside(more, f"{path}.*")
    return schema, path


def type_name(schema: dict[str, Any]) -> str:
    """Return the type of a value in a word or two."""
    if "$ref" in schema:
        return "figures as beside it"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join("empty" if value is None else str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return f"{type_name(schema['anyOf'][0])} or null"
    kinds = schema.get("type", "any")
    return " or ".join([kinds] if isinstance(kinds, str) else kinds)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
