"""What the commands share: options, output, progress bars. Imports nothing heavy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from npugraph.data.io import ReadOptions
    from npugraph.graph import Splits

GraphArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[GRAPH]",
        help="A name ('npugraph datasets list'), a file of facts, or a folder with train, valid "
        "and test. Without it: the bundled graph 'world'.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
SeedOption = Annotated[int, typer.Option(help="Every random draw follows from it.", min=0)]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether a text file's first line names its columns. Default: found out.",
        show_default=False,
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="Columns of head,relation,tail[,confidence[,label]], by name or position from 0.",
        metavar="A,B,C",
        show_default=False,
    ),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Character between fields. Default: by the suffix.", show_default=False),
]


def say(message: str) -> None:
    """Print a line to stderr."""
    sys.stderr.write(message + "\n")


def emit(result: dict[str, Any], as_json: bool, show: Callable[[], None]) -> None:
    """Print the result: one JSON object, or what ``show`` prints for a person."""
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        show()


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table to stdout; numbers stand right."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        numeric = all(isinstance(row[i], int | float) for row in rows) and bool(rows)
        drawn.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(value) for value in row))
    Console(soft_wrap=False).print(drawn)


def _cell(value: object) -> str:
    from rich.markup import escape

    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"
    return escape(str(value))


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Show a progress bar with the time left on stderr; yields advance(steps, note)."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(title, total=total, note="")

        def advance(steps: int, note: str) -> None:
            shown.update(task, advance=steps, note=note)

        yield advance


def read_options(header: bool | None, columns: str | None, delimiter: str | None) -> ReadOptions:
    """Make the reader's options of the command's flags."""
    from npugraph.data.io import ReadOptions

    chosen = tuple(columns.split(",")) if columns else None
    return ReadOptions(header=header, columns=chosen, delimiter=delimiter)


def load_graph(
    graph: str | None, header: bool | None, columns: str | None, delimiter: str | None, seed: int
) -> Splits:
    """Find and read the graph a user asked for, and say on stderr what was read."""
    from npugraph.data.datasets import resolve

    splits = resolve(graph, read_options(header, columns, delimiter), seed)
    counts = splits.summary()
    say(
        f"{counts['name']}: {counts['entities']:,} entities, {counts['relations']:,} relations, "
        f"train {counts['train']:,}, valid {counts['valid']:,}, test {counts['test']:,} facts."
    )
    oddities = {
        "repeated facts": counts["duplicates"],
        "facts from an entity to itself": counts["self_loops"],
        "records with a literal, skipped": counts["skipped"],
    }
    for what, count in oddities.items():
        if count:
            say(f"note: {count:,} {what}.")
    return splits


def megabytes(count: float) -> str:
    """Write a number of bytes for a person."""
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB"
