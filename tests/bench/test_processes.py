"""Cells in processes: whatever becomes of one, the bench hears of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.tiny import calm, made_up, made_up_cost, one_cell, tiny_graph, tiny_plan
from npugraph import children
from npugraph.bench import processes
from npugraph.bench.execute import Event
from npugraph.bench.plan import Cell
from npugraph.bench.processes import Processes
from npugraph.children import environment

CELLS = tiny_plan().cells()


def pretend(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the process of a cell do something else."""
    head = "import json, os, signal, sys, time\norder = json.loads(sys.stdin.readline())\n"
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-c", head + code))


def events(runner: Processes) -> list[Event]:
    """Return all that happens until no process is left."""
    found = []
    while runner.children:
        found += runner.wait(10.0)
    return found


def test_a_process_is_told_its_cell_and_its_lines_are_heard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = [{"epoch": {"epoch": 1}}, {"result": made_up(CELLS[0]), "cost": made_up_cost(CELLS[0])}]
    code = f"open('order.json', 'w').write(json.dumps(order))\nprint('hello')\nfor x in {lines!r}:"
    code += " print(json.dumps(x), flush=True)\n"
    code += "print('noise', file=sys.stderr)"
    pretend(monkeypatch, code)
    monkeypatch.chdir(tmp_path)
    runner = Processes(calm(tmp_path))
    runner.start(CELLS[0])
    assert events(runner) == [
        Event(CELLS[0], epoch={"epoch": 1}),
        Event(CELLS[0], result=lines[1]["result"], cost=lines[1]["cost"]),
    ]
    order = json.loads((tmp_path / "order.json").read_text())
    assert Cell.from_json(order["cell"]) == CELLS[0]
    assert order["how"] == {**asdict(calm(tmp_path)), "work": str(tmp_path)}
    # Nothing is kept of a cell that is done.
    assert list((tmp_path / "cells").iterdir()) == []
    runner.close()
    assert not (tmp_path / "cells").exists()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL; perhaps the memory"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV."),
        ("sys.exit('a\\n\\nb\\nc\\nd\\ne\\nf')", "ended with code 1.\nb\nc\nd\ne\nf"),
        ("raise MemoryError('no room')", "MemoryError: no room"),
        ("print(json.dumps({'error': 'A sentence.'}))", "A sentence."),
        # A line that is cut short is not read.
        ("print('{\"resu', end='', flush=True); sys.exit(4)", "ended with code 4."),
    ],
)
def test_a_process_that_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, expected: str
) -> None:
    pretend(monkeypatch, code)
    runner = Processes(calm(tmp_path))
    for cell in CELLS:
        runner.start(cell)
    found = events(runner)
    assert sorted(event.cell.label for event in found) == ["DistMult", "nPUGraph"]
    for event in found:
        assert expected in (event.error or "")
        assert event.result is None


def test_a_process_that_never_reads_its_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-c", "import os; os._exit(7)"))
    runner = Processes(calm(tmp_path))
    runner.start(CELLS[0])
    (event,) = events(runner)
    assert "ended with code 7" in (event.error or "")


@pytest.mark.parametrize("stubborn", [False, True])
def test_stopped_processes_are_gone_and_nothing_is_heard_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stubborn: bool
) -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    code += "print(json.dumps({'epoch': {'epoch': os.getpid()}}), flush=True)\ntime.sleep(600)"
    pretend(monkeypatch, code)
    monkeypatch.setattr(children, "GRACE", 0.2)
    runner = Processes(calm(tmp_path))
    pids = []
    for cell in CELLS:
        runner.start(cell)
        while len(pids) < len(runner.children):
            pids += [event.epoch["epoch"] for event in runner.wait(10.0) if event.epoch]
    runner.stop(CELLS[0])
    assert list(runner.children) == [CELLS[1].key]
    runner.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert runner.wait(0.5) == []


def order_of(cell: Cell, work: Path) -> str:
    how: dict[str, Any] = {**asdict(calm(work)), "work": str(work)}
    return json.dumps({"cell": cell.to_json(), "how": how, "sent": time.time()}) + "\n"


def worker() -> subprocess.Popen[str]:
    return subprocess.Popen(
        processes.COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(threads=1),
    )


def test_a_cells_process_ends_with_the_bench(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path / "g")
    cell = one_cell(graph, "distmult", d=8, epochs=10**6, patience=10**6, validate_every=10)
    with worker() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(order_of(cell, tmp_path))
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["epoch"]["epoch"] == 1
        # As when the bench is killed: its end of the pipe closes.
        process.stdin.close()
        assert process.wait(120) == 1
        process.stdin = None


def test_a_cells_error_is_one_sentence(tmp_path: Path) -> None:
    graph = tiny_graph(tmp_path / "g")
    cell = one_cell(graph, "complex-n3", d=8, learning_rate=1e38)
    with worker() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(order_of(cell, tmp_path))
        process.stdin.flush()
        lines = [json.loads(line) for line in process.stdout]
        assert process.wait(120) == 2
    assert list(lines[-1]) == ["error"]
    assert lines[-1]["error"].startswith("The loss is not a number in epoch")


def test_cores_are_shared_unless_somebody_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert environment(None, 2)["OMP_NUM_THREADS"] == "3"
    assert environment(5, 2)["OMP_NUM_THREADS"] == "5"
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert environment(None, 2)["OMP_NUM_THREADS"] == "4"
    assert environment(None, 99)["NUMBA_NUM_THREADS"] == "1"
