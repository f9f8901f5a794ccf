"""Writes docs/recipes.md from the table of recipes and the lines of results.

    python scripts/build_recipe_docs.py            # write it
    python scripts/build_recipe_docs.py --check    # fail where it is not up to date

What a recipe is comes from its Recipe object, figures from the bench's results in
benchmarks/results/bench and from benchmarks/results/speculative.jsonl. A test checks that the page
is up to date.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from npugraph.bench.store import Store
from npugraph.recipes import RECIPES
from npugraph.recipes.base import Recipe
from npugraph.settings import TrainSettings, describe

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "recipes.md"
RESULTS = ROOT / "benchmarks" / "results"
# How a run was made, not what it is.
NOT_SHOWN = ("device", "seed")

HEAD = """\
# Recipes

<!-- Made by scripts/build_recipe_docs.py: change the recipes or the results, and run it again. -->

A recipe is a named system. `npugraph recipes list` and `npugraph recipes show NAME` print what
stands here, `npugraph fit --recipe NAME` trains one, and
[`npugraph tune --recipe NAME`](tune.md) searches its settings. The order is that of the paper's
table; references of our own follow.
"""
SHARED = """\
## Settings of every recipe

Set with `--set name=value`. A recipe's table lists its other settings, and these again where its
default is another one or where `tune` searches them.
"""
MEASURED = """\
Test facts, filtered, realistic ranks. Settings are those that differ from the defaults above."""

PERTURBED = """\
On perturbed graphs (graph, rate, noise); clean / perturbed filter; noise AUROC among training facts
/ among held-out facts:"""
CLEAN = ("graph", "seed", "MRR", "H@1", "H@3", "H@10", "best epoch", "settings", "machine")
SPECULATIVE = ("graph", "seed", "MRR", "H@10", "noise AUROC", "settings", "note")
# What systems did before there was a setting for it.
ONCE = {"posterior_momentum": 0.0}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file, one a line; none where there is no file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def bench_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the finished cells of the bench, each with its machine and its figures by filter."""
    store = Store(folder)
    costs = store.costs()
    return [
        {**line, **line["metrics"], "machine": costs.get(key, {}).get("machine", "")}
        for key, line in store.results().items()
        if line["status"] == "done"
    ]


def value(given: Any) -> str:
    """Write a setting's value as on the command line."""
    if isinstance(given, bool):
        return str(given).lower()
    if given is None:
        return "none"
    return f"{given:g}" if isinstance(given, float) else str(given)


def number(given: float | None) -> str:
    """Write a figure with three digits, or a dash where there is none."""
    return "-" if given is None else f"{given:.3f}"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |"
        for line in lines
    )


def changed_settings(line: dict[str, Any], recipe: Recipe) -> str:
    """Return the settings of a result that differ from the recipe's defaults."""
    defaults = {row["name"]: row["default"] for row in describe(recipe.settings)}
    changed = [
        f"{name}={value(given)}"
        for name, given in {**ONCE, **line.get("settings", {})}.items()
        if name in defaults and given != defaults[name] and name not in NOT_SHOWN
    ]
    return f"`{' '.join(changed)}`" if changed else "defaults"


def clean_rows(lines: list[dict[str, Any]], recipe: Recipe) -> list[list[str]]:
    """Return the rows of a recipe's results on clean graphs."""
    return [
        [
            line["graph"],
            str(line["seed"]),
            *(number(line["clean"].get(name)) for name in ("mrr", "hits@1", "hits@3", "hits@10")),
            str(line["best_epoch"]),
            changed_settings(line, recipe),
            line["machine"],
        ]
        for line in lines
        if line["recipe"] == recipe.name and line["rate"] == 0
    ]


def speculative_rows(lines: list[dict[str, Any]], recipe: Recipe) -> list[list[str]]:
    """Return the rows of a recipe's results on perturbed graphs."""

    def pair(line: dict[str, Any], name: str) -> str:
        figures = (line.get(kind, {}).get(name) for kind in ("clean", "perturbed"))
        return " / ".join(number(figure) for figure in figures)

    def auroc(line: dict[str, Any]) -> str:
        names = ("noise_auroc", "noise_auroc_held_out")
        return " / ".join(number(line.get(name)) for name in names)

    return [
        [
            f"{line['graph']}, {value(line.get('rate'))} {line.get('noise', '')}",
            str(line.get("seed", "-")),
            pair(line, "mrr"),
            pair(line, "hits@10"),
            auroc(line),
            changed_settings(line, recipe),
            line.get("note", ""),
        ]
        for line in lines
        if line.get("recipe") == recipe.name and line.get("rate") != 0
    ]


def measured(recipe: Recipe, folder: Path) -> str:
    """Return the section of a recipe's figures."""
    parts = []
    lines = bench_lines(folder / "bench")
    clean = clean_rows(lines, recipe)
    if clean:
        parts.append("On clean graphs:\n\n" + markdown_table(CLEAN, clean))
    noisy = speculative_rows([*lines, *read_lines(folder / "speculative.jsonl")], recipe)
    if noisy:
        parts.append(PERTURBED + "\n\n" + markdown_table(SPECULATIVE, noisy))
    if not parts:
        return "### Measured\n\nNo figures yet."
    return "\n\n".join(["### Measured", MEASURED, *parts])


def parent(recipe: Recipe) -> Recipe | None:
    """Return the recipe that a variant, such as npugraph/printed, is one of."""
    name = recipe.name.partition("/")[0]
    return None if name == recipe.name else RECIPES[name]


def settings_table(recipe: Recipe) -> str:
    """Return the settings that the shared table, or that of the parent, does not have like this."""
    base = parent(recipe)
    known = {r["name"]: r["default"] for r in describe(base.settings if base else TrainSettings)}
    searched = base.space if base else {}
    rows = [
        [f"`{row['name']}`", value(row["default"]), str(values or ""), row["help"]]
        for row in describe(recipe.settings)
        for values in [recipe.space.get(row["name"])]
        if known.get(row["name"], ...) != row["default"] or values != searched.get(row["name"])
    ]
    shown = markdown_table(("setting", "default", "tune searches", "meaning"), rows)
    return f"{shown}\n\nOtherwise as {base.name}." if base else shown


def section(recipe: Recipe, folder: Path) -> str:
    """Return the section of one recipe."""
    about = [recipe.summary.strip(), f"Source: {recipe.source}."]
    notes = " ".join((recipe.settings.__doc__ or "").replace("``", "`").split())
    if notes != about[0]:
        about.append(notes)
    parts = markdown_table(("part", ""), list(recipe.parts.items()))
    pieces = [f"## {recipe.name}", *about[:2], parts, *about[2:], settings_table(recipe)]
    if not recipe.space:
        pieces.append("There is nothing for `tune` to search.")
    return "\n\n".join([*pieces, measured(recipe, folder)])


def page(folder: Path = RESULTS) -> str:
    """Return the whole page; ``folder`` holds the lines of results."""
    names = [[f"[{name}](#{anchor(name)})", r.summary] for name, r in RECIPES.items()]
    shared = [[f"`{r['name']}`", value(r["default"]), r["help"]] for r in describe(TrainSettings)]
    pieces = [
        HEAD + "\n" + markdown_table(("recipe", "what it is"), names),
        SHARED + "\n" + markdown_table(("setting", "default", "meaning"), shared),
        *(section(recipe, folder) for recipe in RECIPES.values()),
    ]
    return "\n\n".join(pieces) + "\n"


def anchor(name: str) -> str:
    """Return the link of a heading, as GitHub makes it."""
    return name.replace("/", "")


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail where it is not up to date")
    if not parser.parse_args().check:
        PAGE.write_text(page(), encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
        sys.exit("docs/recipes.md is not up to date: run python scripts/build_recipe_docs.py")


if __name__ == "__main__":
    main()
