"""Writes docs/recipes.md and docs/recipes/ from the table of recipes and the lines of results.

    python scripts/build_recipe_docs.py            # write them
    python scripts/build_recipe_docs.py --check    # fail where one is not up to date

What a recipe is comes from its Recipe object, figures from the bench's results in
benchmarks/results/bench and from benchmarks/results/speculative.jsonl. The page has a paragraph per
recipe; all settings and all figures are in docs/recipes/. A test checks that they are up to date.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doc_files import DOCS, RESULTS, Everything, asked_to_check, check, csv_text, paragraph, write
from npugraph.bench.paper import printed
from npugraph.bench.paper.claims import MRR, Measured
from npugraph.bench.paper.tables import as_printed, graph_title, shown
from npugraph.bench.summary import ranking
from npugraph.recipes import RECIPES
from npugraph.recipes.base import Recipe
from npugraph.settings import describe

PAGE = DOCS / "recipes.md"
FOLDER = DOCS / "recipes"
# How a run was made, not what it is.
NOT_SHOWN = ("device", "seed")
# What systems did before there was a setting for it.
ONCE = {"posterior_momentum": 0.0}
# The rate of the paper's main table.
RATE = 0.3

HEAD = """\
# Recipes

<!-- Made by scripts/build_recipe_docs.py: change the recipes or the results, and run it again. -->

A recipe is a named system: an encoder, a scorer, a sampler of candidates, an objective. The order
is that of the paper's table; references of our own follow.

    npugraph recipes list                       # all of them
    npugraph recipes show rotate                # parts, settings, what tune searches
    npugraph fit facts.tsv --recipe rotate --set d=100 --out runs/rotate

[`npugraph tune`](tune.md) searches a recipe's settings. More than stands here:

- [settings.csv](recipes/settings.csv): every setting of every recipe: default, what `tune`
  searches, meaning;
- [measured.csv](recipes/measured.csv): every figure of every recipe, with the settings that differ
  from the defaults.

Where it stands: MRR of the test facts. *At rate 0.3*: facts planted and removed, perturbed filter,
mean over the seeds, the paper's figure in brackets. *As published*: the graph as it is. These were
not always the default settings; [results](results.md) has the tables.
"""


# --- the page


def entry(recipe: Recipe, found: Everything, measured: Measured) -> str:
    """Return the paragraph of one recipe; a variant says only what its parent does not."""
    base = parent(recipe)
    parts = [
        f"{name}: {what}"
        for name, what in recipe.parts.items()
        if base is None or base.parts.get(name) != what
    ]
    pieces = [f"**{recipe.name}**. {recipe.summary.strip()}"]
    if parts:
        pieces.append(f"{_sentence('; '.join(parts))}")
    notes = " ".join((recipe.settings.__doc__ or "").replace("``", "`").split())
    # The first sentence of the settings only names them.
    more = notes.partition(". ")[2]
    if more:
        pieces.append(_sentence(more))
    if base is None:
        pieces.append(f"Source: {recipe.source}.")
    pieces.append(standing(recipe.name, found, measured))
    return paragraph(" ".join(pieces))


def standing(recipe: str, found: Everything, measured: Measured) -> str:
    """Say where a recipe stands, in a sentence or two."""
    noisy = []
    for graph in printed.GRAPHS:
        row = measured.rows.get((graph, RATE), {}).get(recipe)
        if row is not None and row.done:
            theirs = None
            if graph not in printed.STAND_INS:
                theirs = printed.beside(graph, RATE, recipe)
            beside = f" ({as_printed(theirs.figures['mrr'])})" if theirs else ""
            noisy.append(f"{graph_title(graph).partition(',')[0]} {shown(row, MRR)}{beside}")
    clean = {
        row.first.graph: f"{graph_title(row.first.graph)} {shown(row, ranking('mrr', 'clean'))}"
        for row in found.rows
        if row.first.rate == 0 and row.first.recipe == recipe and row.done
    }
    said = []
    if noisy:
        said.append(f"At rate {RATE:g}: {', '.join(noisy)}.")
    if clean:
        said.append(f"As published: {', '.join(clean.values())}.")
    return " ".join(said) or "Not measured yet."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def parent(recipe: Recipe) -> Recipe | None:
    """Return the recipe that a variant, such as npugraph/printed, is one of."""
    name = recipe.name.partition("/")[0]
    return None if name == recipe.name else RECIPES[name]


def page(found: Everything) -> str:
    """Return the page."""
    measured = Measured(found.rows)
    entries = [entry(recipe, found, measured) for recipe in RECIPES.values()]
    return "\n\n".join([HEAD.rstrip(), *entries]) + "\n"


# --- all settings and all figures, beside the page


def setting_lines() -> Iterator[dict[str, Any]]:
    """Yield every setting of every recipe."""
    for recipe in RECIPES.values():
        for row in describe(recipe.settings):
            yield {
                "recipe": recipe.name,
                "setting": row["name"],
                "default": value(row["default"]),
                "tune searches": str(recipe.space.get(row["name"], "")),
                "meaning": row["help"],
            }


def value(given: Any) -> str:
    """Write a setting's value as on the command line."""
    if isinstance(given, bool):
        return str(given).lower()
    if given is None:
        return "none"
    return f"{given:g}" if isinstance(given, float) else str(given)


def measured_lines(found: Everything, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every finished run of every recipe, in the order of the recipes."""
    lines = [
        {**line, **line["metrics"], "machine": found.costs.get(key, {}).get("machine", "")}
        for key, line in found.results.items()
        if line["status"] == "done"
    ]
    path = folder / "speculative.jsonl"
    if path.is_file():
        lines += map(json.loads, path.read_text(encoding="utf-8").splitlines())
    for recipe in RECIPES.values():
        for line in lines:
            if line["recipe"] == recipe.name:
                yield _measured_line(line, recipe)


PLAIN = ("recipe", "graph", "rate", "noise", "seed")
JUDGED = ("noise_auroc", "noise_auroc_held_out", "best_epoch", "note", "machine", "source")
METRICS = ("mrr", "hits@1", "hits@3", "hits@10")


def _measured_line(line: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    ranked = {
        f"{metric} {name}": line.get(name, {}).get(metric)
        for name in ("clean", "perturbed")
        for metric in METRICS
    }
    changed = {"changed settings": changed_settings(line, recipe)}
    return {**{n: line.get(n) for n in (*PLAIN, *JUDGED)}, **ranked, **changed}


def changed_settings(line: dict[str, Any], recipe: Recipe) -> str:
    """Return the settings of a result that differ from the recipe's defaults."""
    defaults = {row["name"]: row["default"] for row in describe(recipe.settings)}
    return " ".join(
        f"{name}={value(given)}"
        for name, given in {**ONCE, **line.get("settings", {})}.items()
        if name in defaults and given != defaults[name] and name not in NOT_SHOWN
    )


def build(folder: Path = RESULTS) -> dict[Path, str]:
    """Return all files by path; ``folder`` holds the lines of results."""
    found = Everything.read(folder / "bench")
    settings = ("recipe", "setting", "default", "tune searches", "meaning")
    ranked = [f"{metric} {name}" for name in ("clean", "perturbed") for metric in METRICS]
    columns = (*PLAIN, *ranked, *JUDGED, "changed settings")
    return {
        PAGE: page(found),
        FOLDER / "settings.csv": csv_text(settings, setting_lines()),
        FOLDER / "measured.csv": csv_text(columns, measured_lines(found, folder)),
    }


def main() -> None:
    """Write everything, or check it."""
    if asked_to_check(__doc__):
        check(build())
    else:
        write(build(), FOLDER)


if __name__ == "__main__":
    main()
