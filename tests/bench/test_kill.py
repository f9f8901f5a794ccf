"""The bench is killed again and again, and leaves the file of one that was not."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.tiny import tiny_graph
from npugraph.children import environment

PLAN = """
name = "two"
graphs = ["GRAPH"]
[settings]
device = "cpu"
epochs = 6
validate_every = 1
batch_size = 64
d = 8
[[systems]]
label = "DistMult"
recipe = "distmult"
[[systems]]
label = "nPUGraph"
recipe = "npugraph"
[systems.settings]
warmup = 2
"""
EPOCH = re.compile(r"\] (\w+), .*: epoch (\d+) of 6")


@contextmanager
def bench(plan: Path, out: Path, workers: int) -> Iterator[subprocess.Popen[str]]:
    """Start the bench; what it says comes line by line from stderr."""
    words = ["bench", "run", plan, "--out", out, "--workers", workers, "--checkpoint-seconds", 0]
    with subprocess.Popen(
        [sys.executable, "-m", "npugraph", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(threads=1),
    ) as process:
        yield process


def run_until(process: subprocess.Popen[str], wanted: str) -> list[str]:
    """Return what the bench says, up to a line with a pattern."""
    assert process.stderr is not None
    heard = []
    for line in process.stderr:
        heard.append(line)
        if re.search(wanted, line):
            return heard
    raise AssertionError(f"never heard {wanted!r}, only:\n{''.join(heard)}")


def finish(plan: Path, out: Path, workers: int) -> list[str]:
    """Run the bench to its end; returns what it said."""
    with bench(plan, out, workers) as process:
        assert process.stderr is not None
        heard = list(process.stderr)
        assert process.wait() == 0, "".join(heard)
    return heard


def results(out: Path) -> bytes:
    return (out / "results.jsonl").read_bytes()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill")
    path = folder / "two.toml"
    path.write_text(PLAN.replace("GRAPH", tiny_graph(folder / "graph")))
    return path


@pytest.fixture(scope="module")
def unbroken(plan: Path) -> Path:
    """The folder of a bench that ran through."""
    out = plan.with_name("unbroken")
    finish(plan, out, 2)
    assert sorted(path.name for path in out.iterdir()) == [".lock", "costs.jsonl", "results.jsonl"]
    lines = [json.loads(line) for line in results(out).splitlines()]
    assert [(line["label"], line["status"]) for line in lines] == [
        ("DistMult", "done"),
        ("nPUGraph", "done"),
    ]
    return out


def test_killed_at_many_points_the_results_are_the_same_bytes(
    plan: Path, unbroken: Path, tmp_path: Path
) -> None:
    out = tmp_path / "0"
    points = (
        "started",
        "DistMult, .* epoch 3 of 6",
        "DistMult, .* done in",  # It is written, and nothing is tidy yet.
        "nPUGraph, .* epoch 4 of 6",
    )
    for number, point in enumerate(points, 1):
        with bench(plan, out, 1) as process:
            run_until(process, point)
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        # It goes on elsewhere.
        out = out.rename(tmp_path / str(number))
    heard = finish(plan, out, 1)
    # The first cell was finished, and what was killed in its fifth epoch did not begin anew.
    found = [match for line in heard if (match := EPOCH.search(line))]
    assert {match[1] for match in found} <= {"nPUGraph"}
    assert min((int(match[2]) for match in found), default=6) > 4
    assert results(out) == results(unbroken)
    assert not (out / "work").exists()


def test_interrupted_the_bench_ends_its_cells_and_says_how_to_go_on(
    plan: Path, unbroken: Path, tmp_path: Path
) -> None:
    with bench(plan, tmp_path, 2) as process:
        run_until(process, "epoch 2 of 6")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        rest = process.stderr.read()
        assert process.wait() == 130
    assert "is safe. Go on with the same command." in rest
    # Both cells are ended: nobody holds their locks.
    fcntl = pytest.importorskip("fcntl")
    for path in (tmp_path / "work" / "cells").glob("*.lock"):
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finish(plan, tmp_path, 2)
    assert results(tmp_path) == results(unbroken)
