"""Commands about the bench: bench list, bench plan, bench run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from npugraph.cli.common import JsonOption, emit, say, table

bench = typer.Typer(no_args_is_help=True, help="Compare many systems by a plan; go on at any time.")

PlanArgument = Annotated[
    str, typer.Argument(metavar="PLAN", help="A name of 'npugraph bench list', or a TOML file.")
]
OutOption = Annotated[Path, typer.Option(help="Folder of results.jsonl and costs.jsonl.")]
DEFAULT_OUT = Path("out/bench")


@bench.command("list")
def list_plans(as_json: JsonOption = False) -> None:
    """List the plans that come with the package.

    Example: npugraph bench list
    """
    from npugraph.bench.plan import Plan, distinct, packaged

    plans = [Plan.read(name) for name in packaged()]
    rows = [
        {"name": plan.name, "cells": len(distinct(plan.cells())), "title": plan.title}
        for plan in plans
    ]
    columns = ("name", "cells", "title")
    emit(
        {"plans": rows},
        as_json,
        lambda: table("Plans", columns, [list(row.values()) for row in rows]),
    )


@bench.command("plan")
def show_plan(
    plan: PlanArgument, out: OutOption = DEFAULT_OUT, as_json: JsonOption = False
) -> None:
    """List the cells of a plan and what became of them.

    Example: npugraph bench plan smoke
    """
    from npugraph.bench.plan import Plan, distinct
    from npugraph.bench.store import Store

    read = Plan.read(plan)
    results = Store(out).results()
    rows = [
        {
            "key": cell.key,
            "cell": cell.title,
            "recipe": cell.recipe,
            "status": results.get(cell.key, {"status": "waiting"})["status"],
            "error": results.get(cell.key, {}).get("error"),
        }
        for cell in distinct(read.cells())
    ]
    columns = ("key", "cell", "recipe", "status")
    emit(
        {"plan": read.name, "title": read.title, "cells": rows},
        as_json,
        lambda: table(read.name, columns, [[row[c] for c in columns] for row in rows]),
    )


@bench.command("run")
def run_plan(
    plan: PlanArgument,
    out: OutOption = DEFAULT_OUT,
    workers: Annotated[int, typer.Option(help="Cells at once, on one GPU too.", min=1)] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            help="CPU threads a cell. Default: the cores, shared evenly.",
            min=1,
            show_default=False,
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Run this cell, finished or not; first digits suffice. May be repeated.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run the cells again that failed.")
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, ... in place of the plan's.", show_default=False),
    ] = None,
    limit_seconds: Annotated[
        float | None,
        typer.Option(help="A cell that takes longer has failed.", min=0, show_default=False),
    ] = None,
    stop_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Then stop, and keep checkpoints of the cells that run.",
            min=0,
            show_default=False,
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="Folder of checkpoints and perturbed graphs. Default: 'work' in --out.",
            show_default=False,
        ),
    ] = None,
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Least time between two checkpoints of a cell.", min=0)
    ] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Run the cells of a plan that are not finished yet, each in a process of its own.

    A cell that fails is recorded with its error, and the others go on. Ctrl-C is safe: the same
    command goes on where it was stopped. The exit code is 1 if a cell has failed.

    Example: npugraph bench run smoke --workers 2
    """
    from npugraph.bench.cell import Circumstances
    from npugraph.bench.execute import Limits, choose, execute
    from npugraph.bench.plan import Plan
    from npugraph.bench.processes import Processes
    from npugraph.bench.store import Store

    read, store = Plan.read(plan), Store(out)
    cells = choose(read, store, only or (), retry_failed)
    how = Circumstances(
        work=(work or out / "work").resolve(),
        device=device,
        workers=workers,
        plan=plan,
        checkpoint_seconds=checkpoint_seconds,
    )
    limits = Limits(workers, limit_seconds, stop_after)
    say(f"{read.name}: {len(cells)} cells to run.")
    try:
        now = execute(read, cells, store, Processes(how, threads), limits, say)
    except KeyboardInterrupt:
        say(f"\nStopped; {out} is safe. Go on with the same command.")
        raise
    result: dict[str, Any] = {
        "plan": read.name,
        "out": str(out),
        "ran": len(cells),
        "done": len(now.done),
        "failed": len(now.failed),
        "waiting": len(now.waiting),
    }
    emit(result, as_json, lambda: table(read.name, ("", ""), [list(r) for r in result.items()]))
    if now.failed:
        raise typer.Exit(1)
