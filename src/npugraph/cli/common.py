"""What the commands share: options, output, messages, progress. Imports nothing heavy."""

from __future__ import annotations

import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npugraph.version import __version__

if TYPE_CHECKING:
    from npugraph.data.io import ReadOptions
    from npugraph.graph import KnowledgeGraph, Splits

GraphArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        help="A name ('npugraph datasets list'), a file of facts, a folder with train, valid "
        "and test, or a folder or pattern ('facts/*.tsv.gz') of files that are one graph. "
        "Without it: the bundled graph 'world'.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
SeedOption = Annotated[int, typer.Option(help="Every random draw follows from it.", min=0)]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; may be repeated."),
]
TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-recipe",
        help="Execute the run's own recipe file although it has changed since.",
    ),
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
        help="Which columns hold head, relation, tail and, if wanted, confidence and label: names, "
        "or positions from 0.",
        metavar="A,B,C",
        show_default=False,
    ),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(help="Character between fields. Default: by the suffix.", show_default=False),
]
SpillOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Read files that do not fit memory: DuckDB numbers their names in this folder. "
        "Default: only where reading would take more than half of the free memory, in the "
        "system's folder for temporary files.",
        show_default=False,
    ),
]

log = logging.getLogger(__name__)

# Where stderr is no terminal: seconds and share of the work from one progress line to the next.
LINE_SECONDS, LINE_SHARE = 5.0, 0.1
# A reader of the log wants to see that the work is still alive.
LONGEST_SILENCE = 600.0


class _Stderr(logging.Handler):
    """Writes records to what stderr is at that moment: a progress bar takes its place."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


class _Words(logging.Formatter):
    """The message alone; what is worth a look is marked as a note."""

    def format(self, record: logging.LogRecord) -> str:
        mark = "note: " if record.levelno >= logging.WARNING else ""
        return mark + super().format(record)


def show_messages(verbose: bool = False, quiet: bool = False) -> None:
    """Show what the package logs on stderr.

    By default: what the commands say and every note. ``verbose``: all stages and epochs, with the
    time and the module. ``quiet``: notes alone.
    """
    package, own = logging.getLogger("npugraph"), logging.getLogger("npugraph.cli")
    for handler in [h for h in package.handlers if isinstance(h, _Stderr)]:
        package.removeHandler(handler)
    handler = _Stderr()
    long = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(long if verbose else _Words())
    package.addHandler(handler)
    package.setLevel(logging.DEBUG if verbose else logging.WARNING)
    own.setLevel(logging.WARNING if quiet else logging.INFO)


def say(message: str) -> None:
    """Say on stderr what a command does; not with --quiet."""
    log.info("%s", message)


# Schemas of which a key went or changed its meaning: how often, plus 1.
NUMBERS = {"explain": 2}


def emit(schema: str, result: dict[str, Any], as_json: bool, show: Callable[[], None]) -> None:
    """Print the result of a command: one JSON object, or what ``show`` prints for a person.

    The object begins with its schema, such as ``npugraph.bench.plan/1``, and the package's
    version; ``npugraph/schemas/commands`` says what it holds.
    """
    if as_json:
        about = {"schema": f"npugraph.{schema}/{NUMBERS.get(schema, 1)}", "version": __version__}
        sys.stdout.write(json.dumps(_finite({**about, **result}), allow_nan=False) + "\n")
    else:
        show()


def _finite(value: Any) -> Any:
    """Return a value for JSON, which has no word for nan and infinity: they become null."""
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    """Show progress with the time left on stderr; yields advance(steps, note).

    A terminal gets a bar; a file or a pipe gets a plain line now and then.
    """
    if not log.isEnabledFor(logging.INFO):
        yield lambda steps, note: None
        return
    if not sys.stderr.isatty():
        lines = ProgressLines(title, total)
        yield lines.advance
        lines.end()
        return
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


class ProgressLines:
    """Progress as plain lines, for a log file: few, and each with the time left."""

    def __init__(self, title: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing done of ``total`` steps."""
        self.title, self.total, self.clock = title, total, clock
        self.started = self.said = clock()
        self.done = self.done_then = 0

    def advance(self, steps: int, note: str) -> None:
        """Count steps; write a line where one is due."""
        self.done += steps
        now = self.clock()
        silence, share = now - self.said, (self.done - self.done_then) / max(self.total, 1)
        if silence < LONGEST_SILENCE and (silence < LINE_SECONDS or share < LINE_SHARE):
            return
        self.said, self.done_then = now, self.done
        spent = now - self.started
        left = ""
        if 0 < self.done < self.total:
            left = f", about {duration(spent / self.done * (self.total - self.done))} left"
        say(f"{self._count()} in {duration(spent)}{left}{note and ': '}{note}")

    def end(self) -> None:
        """Write the last line."""
        say(f"{self._count()} in {duration(self.clock() - self.started)}, finished.")

    def _count(self) -> str:
        return f"{self.title}: {self.done:,} of {self.total:,}"


def duration(seconds: float) -> str:
    """Write a time for a person.

    >>> duration(8.4), duration(200), duration(20_000)
    ('8 s', '3 min 20 s', '5 h 33 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def read_options(
    header: bool | None,
    columns: str | None,
    delimiter: str | None,
    beside: tuple[str, ...] = (),
) -> ReadOptions:
    """Make the reader's options of the command's flags."""
    from npugraph.data.io import ReadOptions

    chosen = tuple(columns.split(",")) if columns else None
    return ReadOptions(header=header, columns=chosen, delimiter=delimiter, beside=beside)


def load_graph(
    graph: str | None,
    header: bool | None,
    columns: str | None,
    delimiter: str | None,
    beside: tuple[str, ...] = (),
    spill: Path | None = None,
) -> KnowledgeGraph:
    """Find and read the graph a user asked for, and say on stderr what was read."""
    from npugraph.data.sources import load_graph as load

    options = read_options(header, columns, delimiter, beside)
    found = load(graph or "world", options, spill=spill)
    _announce(found.summary())
    return found


def load_splits(
    graph: str | None,
    header: bool | None,
    columns: str | None,
    delimiter: str | None,
    seed: int,
    spill: Path | None = None,
) -> Splits:
    """Read a graph as ``load_graph``, cut by ``seed`` where it has no parts of its own."""
    from npugraph.data.sources import load_splits as load

    options = read_options(header, columns, delimiter)
    found = load(graph or "world", seed, options, spill=spill)
    _announce(found.summary())
    return found


def _announce(counts: dict[str, Any]) -> None:
    """Say what was read, and what is odd about it."""
    from npugraph.names import counted

    parts = [f"{part} {counts[part]:,}" for part in ("train", "valid", "test") if part in counts]
    facts = f"{', '.join(parts)} facts" if parts else counted(counts["facts"], "fact")
    entities = counted(counts["entities"], "entity", "entities")
    say(f"{counts['name']}: {entities}, {counted(counts['relations'], 'relation')}, {facts}.")
    oddities = {
        "duplicates": ("repeated fact", ""),
        "self_loops": ("fact from an entity to itself", "facts from an entity to itself"),
        "skipped": (
            "record that is no fact between entities: a literal, or about another record",
            "records that are no facts between entities: literals, or about other records",
        ),
    }
    for name, (one, many) in oddities.items():
        if counts[name]:
            log.warning("%s.", counted(counts[name], one, many))


def megabytes(count: float) -> str:
    """Write a number of bytes for a person."""
    return f"{count / 2**20:,.0f} MiB" if count < 2**30 else f"{count / 2**30:,.1f} GiB"
