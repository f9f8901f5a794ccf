"""Commands about the bench: bench list, plan, run, merge, table, figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from npugraph.cli.common import JsonOption, duration, emit, say, table
from npugraph.cli.output import check_folder, stoppable

if TYPE_CHECKING:
    from npugraph.bench.cell import Circumstances
    from npugraph.bench.execute import Runner
    from npugraph.bench.plan import Cell
    from npugraph.bench.store import Store

bench = typer.Typer(no_args_is_help=True, help="Compare many systems by a plan; go on at any time.")

PlanArgument = Annotated[
    str, typer.Argument(metavar="PLAN", help="A name of 'npugraph bench list', or a TOML file.")
]
OutOption = Annotated[Path, typer.Option(help="Folder of results.jsonl and costs.jsonl.")]
DeviceOption = Annotated[
    str | None, typer.Option(help="cpu, cuda, ... in place of the plan's.", show_default=False)
]
WorkersOption = Annotated[
    int, typer.Option(help="Cells at once, on one GPU too; on each, with --cluster.", min=1)
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        help="CPU threads per cell. Default: the cores, shared evenly.",
        min=1,
        show_default=False,
    ),
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY",
        help="Run this cell, finished or not; first digits suffice. May be repeated.",
    ),
]
RetryOption = Annotated[
    bool, typer.Option("--retry-failed", help="Run the cells again that failed.")
]
CurrentOption = Annotated[
    bool,
    typer.Option(
        "--current", help="Run finished cells again whose numeric sources are not those of now."
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Ray cluster: its address, 'auto', or 'local' for this machine alone.",
        show_default=False,
    ),
]
LimitOption = Annotated[
    float | None,
    typer.Option(help="A cell that takes longer has failed.", min=0, show_default=False),
]
StopOption = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Then stop, and keep the checkpoints of cells that run.",
        min=0,
        show_default=False,
    ),
]
WorkOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of checkpoints and perturbed graphs. Default: 'work' in --out.",
        show_default=False,
    ),
]
CheckpointOption = Annotated[
    float, typer.Option(help="Least time between two checkpoints of a cell.", min=0)
]
SharedOption = Annotated[
    bool,
    typer.Option(
        "--shared",
        help="Other work runs on this machine meanwhile: mark the seconds as not comparable.",
    ),
]
DEFAULT_OUT = Path("out/bench")


@bench.command("list")
def list_plans(as_json: JsonOption = False) -> None:
    """List the plans that come with the package.

    Example: npugraph bench list
    """
    from npugraph.bench.plan import BenchPlan, distinct, packaged

    plans = [BenchPlan.read(name) for name in packaged()]
    rows = [
        {"name": plan.name, "cells": len(distinct(plan.cells())), "title": plan.title}
        for plan in plans
    ]
    columns = ("name", "cells", "title")
    emit(
        "bench.list",
        {"plans": rows},
        as_json,
        lambda: table("Plans", columns, [list(row.values()) for row in rows]),
    )


@bench.command("plan")
def show_plan(
    plan: PlanArgument,
    out: OutOption = DEFAULT_OUT,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time a few steps of cells that nothing is known of.")
    ] = False,
    device: DeviceOption = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="MACHINE",
            help="Estimate by cells that ran on such a machine, as in H200. Default: this one.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the cells of a plan, what became of them, and about how long each takes.

    Example: npugraph bench plan smoke --measure
    """
    from npugraph.bench import estimate as estimates
    from npugraph.bench.cell import machine as machine_of
    from npugraph.bench.plan import BenchPlan, distinct
    from npugraph.bench.sources import source_hash
    from npugraph.bench.store import Store
    from npugraph.errors import SettingsError
    from npugraph.training.loop import choose_device

    if machine and measure:
        raise SettingsError("--measure times this machine; leave out --on.")
    read, store = BenchPlan.read(plan), Store(out)
    cells, results = distinct(read.cells()), store.results()
    where = machine or machine_of(choose_device(device or cells[0].device))
    found = estimates.estimate(cells, results, store.costs(), where)
    if measure:
        found = estimates.measure(found, out / "work", device, say)
    rows = [_cell_row(item, results.get(item.cell.key, {})) for item in found]
    left = [item for item, row in zip(found, rows, strict=True) if row["status"] != "done"]
    summary: dict[str, Any] = {"plan": read.name, "title": read.title, "machine": where}
    for name, items in (("all", found), ("left", left)):
        seconds, unknown = estimates.total_seconds(items)
        summary[name] = {"cells": len(items), "seconds": round(seconds, 1), "unknown": unknown}
    done = [row for row in rows if row["status"] == "done"]
    summary["other_sources"] = sum(row["source"] != source_hash() for row in done)
    emit("bench.plan", {**summary, "cells": rows}, as_json, lambda: _show_plan(summary, rows))


def _cell_row(item: Any, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": item.cell.key,
        "cell": item.cell.title,
        "recipe": item.cell.recipe,
        "status": line.get("status", "waiting"),
        "source": line.get("source"),
        "error": line.get("error"),
        "seconds": None if item.seconds is None else round(item.seconds, 1),
        "basis": item.basis,
    }


def _show_plan(summary: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    from npugraph.names import counted

    columns = ("key", "cell", "status", "seconds", "basis")
    shown = [
        {**r, "seconds": "-" if r["seconds"] is None else f"{r['seconds']:,.0f}"} for r in rows
    ]
    table(summary["plan"], columns, [[row[c] for c in columns] for row in shown])
    for name, words in (("all", "cells in all"), ("left", "of them to run")):
        part = summary[name]
        unknown = f", and {part['unknown']} of which nothing is known" if part["unknown"] else ""
        time = duration(part["seconds"])
        say(f"{part['cells']} {words}: about {time} on one {summary['machine']}{unknown}.")
    if summary["other_sources"]:
        say(
            f"{counted(summary['other_sources'], 'finished cell')} ran with other numeric sources "
            "than those of now; 'npugraph bench run --current' runs them again."
        )
    if summary["left"]["unknown"]:
        say("--measure times a few steps of each.")


@bench.command("merge")
def merge(
    folders: Annotated[list[Path], typer.Argument(help="Folders of results from elsewhere.")],
    out: OutOption = DEFAULT_OUT,
    as_json: JsonOption = False,
) -> None:
    """Take over finished cells from other folders, such as those of another machine.

    Example: npugraph bench merge laptop/bench --out out/bench
    """
    from npugraph.bench.store import Store
    from npugraph.errors import DataError

    store, added = Store(out), {}
    for folder in folders:
        if not (folder / "results.jsonl").is_file():
            raise DataError(f"{folder} holds no results.jsonl to take cells from.")
    with store.alone():
        for folder in folders:
            added[str(folder)] = store.merge(Store(folder))
    emit(
        "bench.merge",
        {"out": str(out), "added": added},
        as_json,
        lambda: table(str(out), ("from", "cells"), [list(row) for row in added.items()]),
    )


@bench.command("run")
def run_plan(
    plan: PlanArgument,
    out: OutOption = DEFAULT_OUT,
    workers: WorkersOption = 1,
    threads: ThreadsOption = None,
    only: OnlyOption = None,
    retry_failed: RetryOption = False,
    current: CurrentOption = False,
    device: DeviceOption = None,
    cluster: ClusterOption = None,
    limit_seconds: LimitOption = None,
    stop_after: StopOption = None,
    work: WorkOption = None,
    checkpoint_seconds: CheckpointOption = 30.0,
    shared: SharedOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run the cells of a plan that are not finished yet, each in a process of its own.

    A cell that fails is recorded with its error, and the others go on. Ctrl-C is safe: the same
    command goes on where it was stopped. The exit code is 1 if a cell has failed.

    Example: npugraph bench run smoke --workers 2
    """
    from npugraph.bench.cell import Circumstances
    from npugraph.bench.execute import Limits, choose, execute
    from npugraph.bench.plan import BenchPlan
    from npugraph.bench.store import Store

    read, store = BenchPlan.read(plan), Store(out)
    check_folder(out)
    cells = choose(read, store, only or (), retry_failed, current)
    place = (work or out / "work").resolve()
    how = Circumstances(place, device, workers, plan, checkpoint_seconds, shared)
    _announce(read.name, cells, store, device)
    with stoppable(out, "Go on with the same command.", lambda: _has_kept(out, place)):
        runner, at_once = _runner(how, cluster, threads)
        limits = Limits(at_once, limit_seconds, stop_after)
        now = execute(read, cells, store, runner, limits, say)
    result: dict[str, Any] = {
        "plan": read.name,
        "out": str(out),
        "done": len(now.done),
        "failed": len(now.failed),
        "waiting": len(now.waiting),
    }
    emit(
        "bench.run",
        result,
        as_json,
        lambda: table(read.name, ("", ""), [list(r) for r in result.items()]),
    )
    if now.failed:
        raise typer.Exit(1)


def _has_kept(out: Path, work: Path) -> bool:
    """Tell whether a bench that was stopped has anything to go on from."""
    return (out / "results.jsonl").is_file() or any(work.rglob("last.safetensors"))


def _runner(how: Circumstances, cluster: str | None, threads: int | None) -> tuple[Runner, int]:
    """Return who runs the cells, and how many at once."""
    if cluster is None:
        from npugraph.bench.processes import Processes

        return Processes(how, threads), how.workers
    from npugraph.bench.cluster import Cluster

    runner = Cluster(how, cluster, threads or 1)
    return runner, runner.capacity


def _announce(name: str, cells: Sequence[Cell], store: Store, device: str | None) -> None:
    """Say what will run and about how long it takes."""
    from npugraph.bench import estimate as estimates
    from npugraph.bench.cell import machine
    from npugraph.names import counted
    from npugraph.training.loop import choose_device

    if not cells:
        say(f"{name}: all cells are finished.")
        return
    where = machine(choose_device(device or cells[0].device))
    found = estimates.estimate(cells, store.results(), store.costs(), where)
    seconds, unknown = estimates.total_seconds(found)
    time = f"about {duration(seconds)} on one {where}" if unknown < len(cells) else ""
    more = (
        f"{unknown} of unknown length ('npugraph bench plan {name} --measure')" if unknown else ""
    )
    told = ", and ".join(filter(None, (time, more)))
    say(f"{name}: {counted(len(cells), 'cell')} to run, {told}.")


@bench.command("table")
def show_table(
    plan: PlanArgument,
    out: OutOption = DEFAULT_OUT,
    form: Annotated[
        str, typer.Option("--format", metavar="md|tex|html", help="What to write.")
    ] = "md",
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write here, not to stdout.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the table of a plan: our figures, the paper's, and what was not run.

    Example: npugraph bench table table-0.3 --out benchmarks/results/bench --format html --to t.html
    """
    from dataclasses import asdict

    from npugraph.bench.paper.tables import FORMATS, make_table
    from npugraph.bench.plan import BenchPlan
    from npugraph.bench.store import Store
    from npugraph.data.io import write_text
    from npugraph.errors import DataError, SettingsError, nearest

    if form not in FORMATS:
        hint = nearest(form, list(FORMATS))
        raise SettingsError(f"--format {form} must be {', '.join(FORMATS)}.{hint}")
    read, store = BenchPlan.read(plan), Store(out)
    made = make_table(read, store.results(), store.costs())
    if to is not None:
        try:
            to.parent.mkdir(parents=True, exist_ok=True)
            write_text(to, FORMATS[form](made))
        except OSError as error:
            raise DataError(f"{to} cannot be written ({error.strerror}).") from None
        say(f"{to}: {made.state}")
    emit(
        "bench.table",
        asdict(made),
        as_json,
        lambda: None if to else typer.echo(FORMATS[form](made), nl=False),
    )


@bench.command("figures")
def draw_figures(
    plans: Annotated[
        list[str], typer.Argument(metavar="PLAN...", help="Plans; their rates are put together.")
    ],
    out: OutOption = DEFAULT_OUT,
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where to. Default: 'figures' in --out.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Draw learning curves, MRR over the rate, and sweeps of a setting; PNG and SVG.

    Example: npugraph bench figures table-0.3 sweep-rates --out benchmarks/results/bench
    """
    from npugraph.bench.paper.figures import make_figures, write_figures
    from npugraph.bench.plan import BenchPlan
    from npugraph.bench.store import Store

    read, store = [BenchPlan.read(plan) for plan in plans], Store(out)
    drawings = make_figures(read, store.results(), store.costs())
    if not drawings:
        say(f"{out} has no results of {', '.join(plans)} that could be drawn.")
    files = [str(path) for path in write_figures(drawings, to or out / "figures")]
    emit(
        "bench.figures",
        {"files": files},
        as_json,
        lambda: typer.echo("".join(f"{f}\n" for f in files), nl=False),
    )
