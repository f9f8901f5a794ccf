"""Commands about recipes: recipes list, recipes show, tune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npugraph.cli.common import (
    ColumnsOption,
    DelimiterOption,
    GraphArgument,
    HeaderOption,
    JsonOption,
    SeedOption,
    bar,
    emit,
    load_splits,
    say,
    table,
)
from npugraph.cli.output import (
    OverwriteOption,
    check_folder,
    check_ours,
    clear_folder,
    stoppable,
)

if TYPE_CHECKING:
    from npugraph.graph import Splits
    from npugraph.tuning import Tuned

TrialsOption = Annotated[
    int, typer.Option(help="Trials in the study, earlier ones included.", min=1)
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="An Optuna storage that many workers share. Default: study.db in --out.",
        show_default=False,
    ),
]
FixOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Fix a setting, which is then not searched; may be repeated.",
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        metavar="MIN",
        help="Minutes after which no further trial starts.",
        min=0,
        show_default=False,
    ),
]

recipes = typer.Typer(no_args_is_help=True, help="The systems that can be trained by name.")


@recipes.command("list")
def list_recipes(as_json: JsonOption = False) -> None:
    """List the systems that can be trained by name.

    Example: npugraph recipes list
    """
    from npugraph.recipes import RECIPES
    from npugraph.recipes.origin import installed

    rows = [{"name": name, "summary": recipe.summary} for name, recipe in RECIPES.items()]
    rows += [
        {"name": name, "summary": f"Of an installed package: {point.value}"}
        for name, point in installed().items()
        if name not in RECIPES
    ]
    emit(
        "recipes.list",
        {"recipes": rows},
        as_json,
        lambda: table("Recipes", ("name", "summary"), [list(row.values()) for row in rows]),
    )


@recipes.command("show")
def show_recipe(
    name: Annotated[str, typer.Argument(help="A name of 'npugraph recipes list', or a .py file.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a system is, its source, its parts, its settings and what tune searches.

    Example: npugraph recipes show npugraph
    """
    from npugraph.recipes import get_recipe
    from npugraph.recipes.base import describe_space
    from npugraph.settings import describe

    recipe = get_recipe(name)
    described: dict[str, Any] = {
        "name": recipe.name,
        "summary": recipe.summary,
        "source": recipe.source,
        "parts": dict(recipe.parts),
        "settings": describe(recipe.settings),
        "space": describe_space(recipe.space),
    }

    def show() -> None:
        about = [["what", recipe.summary], ["source", recipe.source], *recipe.parts.items()]
        table(name, ("", ""), [list(row) for row in about])
        columns = ("name", "default", "help")
        rows = [[_word(row[key]) for key in columns] for row in described["settings"]]
        table("\nSettings", columns, rows)
        if recipe.space:
            found = [[row["name"], row["text"]] for row in described["space"]]
            table("\nSearched by tune", ("name", "values"), found)

    emit("recipes.show", described, as_json, show)


def _word(value: object) -> str:
    """Write a value as it is given on the command line."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def tune(
    graph: GraphArgument = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder for study.db, trials.tsv and best.json.")],
    recipe: Annotated[
        str, typer.Option(help="Which system to tune: a name, or a .py file.")
    ] = "complex-n3",
    trials: TrialsOption = 20,
    storage: StorageOption = None,
    assignments: FixOption = None,
    seed: SeedOption = 0,
    timeout: TimeoutOption = None,
    overwrite: OverwriteOption = False,
    header: HeaderOption = None,
    columns: ColumnsOption = None,
    delimiter: DelimiterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Search for the settings that do best on the validation facts; test facts are not looked at.

    Needs Optuna. After Ctrl-C the same command goes on with the study, which then has the trials
    of one that was never stopped. Trials worse than the median of the others are cut short.

    Example: npugraph tune umls --recipe complex-n3 --trials 30 --out tuned/umls
    """
    from npugraph import tuning
    from npugraph.settings import parse_assignments

    tuning.check_optuna()
    changes = parse_assignments(assignments or [])
    # Here too, so that a wrong name fails before any data is read.
    search = tuning.plan(recipe, changes, seed)
    check_folder(out)
    if overwrite:
        check_ours(out, "study")
    rows = out / "trials.tsv"
    with stoppable(out, "Go on with the same command.", rows.is_file, "study"):
        splits = load_splits(graph, header, columns, delimiter, seed)
        say(f"plan: {recipe}, {trials} trials over {', '.join(search.space)}.")
        if overwrite:
            clear_folder(out, "study")
        tuned = _tune(splits, recipe, out, trials, changes, storage, seed, timeout)
    result = _summary(tuned, graph or splits.name)
    emit("tune", result, as_json, lambda: _show_tuned(result))


def _tune(
    splits: Splits,
    recipe: str,
    out: Path,
    trials: int,
    changes: dict[str, str],
    storage: str | None,
    seed: int,
    timeout: float | None,
) -> Tuned:
    """Run the study and show how far it is."""
    from npugraph import tuning

    with bar("tuning", trials) as advance:
        done = 0

        def report(record: dict[str, Any]) -> None:
            nonlocal done
            advance(record["done"] - done, _note(record))
            done = record["done"]

        return tuning.tune(
            splits,
            recipe,
            out,
            trials,
            changes=changes,
            storage=storage,
            seed=seed,
            timeout=timeout,
            report=report,
        )


def _note(record: dict[str, Any]) -> str:
    """Say in a few words where the study is."""
    notes = []
    if record["state"] == "running":
        notes.append(f"trial {record['trial']}, epoch {record['epoch']}")
        if record["valid_mrr"] >= 0:
            notes.append(f"valid MRR {record['valid_mrr']:.4f}")
    if record["best_mrr"] is not None:
        notes.append(f"best {record['best_mrr']:.4f}")
    return ", ".join(notes)


def _summary(tuned: Tuned, graph: str) -> dict[str, Any]:
    states = [row["state"] for row in tuned.trials]
    return {
        "out": str(tuned.folder),
        "recipe": str(tuned.search.recipe),
        "graph": graph,
        "seed": tuned.search.seed,
        "valid_mrr": tuned.valid_mrr,
        "best": {name: getattr(tuned.best, name) for name in tuned.search.space},
        "states": {state: states.count(state) for state in dict.fromkeys(states)},
        "trials": tuned.trials,
    }


def _show_tuned(result: dict[str, Any]) -> None:
    rows = [["valid_mrr", f"{result['valid_mrr']:.4f}"]]
    rows += [[name, _word(value)] for name, value in result["best"].items()]
    rows += [[f"trials {state}", str(count)] for state, count in result["states"].items()]
    table(f"{result['recipe']} on {result['graph']}", ("", ""), rows)
    best = Path(result["out"]) / "best.json"
    say(
        f"Next: npugraph fit {result['graph']} --recipe {result['recipe']} --settings {best} "
        "--out RUN"
    )
