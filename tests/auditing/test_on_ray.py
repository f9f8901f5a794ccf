"""Audits whose trainings and folds are tasks of Ray, on one cluster of two workers."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from audit_samples import FAST, rows, sample
from npugraph.auditing import Audit, AuditSettings, audit
from npugraph.auditing.tasks import check_tasks, open_tasks
from npugraph.children import environment
from npugraph.cluster import join
from npugraph.errors import RunError, SettingsError

ASKED = AuditSettings(
    folds=2, budget=5, missing=10, explained=2, compared=8, device="cpu", seed=3, search=False
)
# Long enough for somebody to be killed in the middle of it.
LONG = {**FAST, "epochs": 40, "patience": 40}
# Otherwise Ray's workers stand back behind all other processes of the machine.
NOT_BEHIND = {"RAY_worker_niceness": "0"}

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="needs Ray: pip install 'npugraph[cluster]'",
)
Stage = Callable[[str, dict[str, Any]], object]


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Yield the address of a cluster; starting one takes seconds."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in NOT_BEHIND.items():
            patch.setenv(name, value)
        made = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 2, "include_dashboard": False},
        )
    yield str(made.address)
    made.shutdown()


def run(out: Path, stage: Stage | None = None, **by: Any) -> Audit:
    """Audit the sample into a folder; in this process with one thread, as a worker has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        found = audit(sample(), ASKED, LONG, out=out, stage=stage, **by)
        found.write(out)
    finally:
        torch.set_num_threads(threads)
    return found


def files(out: Path) -> dict[str, bytes]:
    """Return what all files of a folder hold, times aside."""
    found = {}
    for path in sorted(out.rglob("*")):
        if path.name == "metrics.jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            timeless = [{k: v for k, v in line.items() if "seconds" not in k} for line in lines]
            found[str(path.relative_to(out))] = json.dumps(timeless).encode()
        elif path.is_file():
            found[str(path.relative_to(out))] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the files of an audit in this process."""
    out = tmp_path_factory.mktemp("here")
    run(out)
    return files(out)


def assert_same(found: dict[str, bytes], wanted: dict[str, bytes]) -> None:
    assert found.keys() == wanted.keys()
    assert [name for name in found if found[name] != wanted[name]] == []


@needs_ray
@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_writes_the_same_files(
    workers: int, cluster: str, unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    run(tmp_path, lambda *event: told.append(event), cluster=cluster, workers=workers)
    assert_same(files(tmp_path), unbroken)
    assert {"folds/fold-1/model.safetensors", "judged/fold-2.safetensors"} <= unbroken.keys()
    (cost,) = (progress["cost"] for name, progress in told if name == "plan")
    assert cost.workers == workers
    assert f"{workers} worker" in cost.sentence()
    epochs = [(p["fold"], p["epoch"]) for name, p in told if name == "epoch"]
    assert sorted(epochs) == [(fold, epoch) for fold in (0, 1) for epoch in range(1, 41)]
    assert [name for name, _ in told].count("judged") == 2


@needs_ray
def test_a_worker_that_is_killed_is_replaced(
    cluster: str, unbroken: dict[str, bytes], tmp_path: Path
) -> None:
    killed: list[int] = []
    after: list[int] = []

    def kill(name: str, progress: dict[str, Any]) -> None:
        if name == "epoch" and progress["epoch"] >= 5 and not killed:
            killed.extend(workers_of(cluster))
            for process in killed:
                os.kill(process, signal.SIGKILL)
        elif name == "judged":
            after.extend(workers_of(cluster))

    run(tmp_path, kill, cluster=cluster, workers=2)
    assert killed
    assert not set(killed) & set(after)
    assert_same(files(tmp_path), unbroken)


@needs_ray
def test_interrupted_the_command_ends_its_workers(tmp_path: Path) -> None:
    out, facts = tmp_path / "out", tmp_path / "facts.tsv"
    facts.write_text("".join("\t".join(row) + "\n" for row in rows()), encoding="utf-8")
    # So many epochs that no training ends before the other has begun, however busy the machine is.
    asked = ["folds=2", "search=False", "validate_every=1", "d=4"]
    asked += ["epochs=1000000", "patience=1000000"]
    words = ["audit", facts, "--out", out, "--device", "cpu", "--cluster", "local", "--workers", 2]
    words += [word for one in asked for word in ("--set", one)]
    with subprocess.Popen(
        [sys.executable, "-m", "npugraph", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(threads=1) | NOT_BEHIND,
    ) as process:
        while process.poll() is None and len(list(out.glob("folds/*/last.safetensors"))) < 2:
            time.sleep(0.1)
        children = below(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait() == 130, said
    assert f"Stopped; {out} is safe. The same command goes on from there." in said
    assert any(words.startswith("ray::") for words in children.values())
    # They end, if not at once.
    end = time.monotonic() + 60
    while children.items() & processes().items() and time.monotonic() < end:
        time.sleep(0.1)
    assert not children.items() & processes().items()


def below(process: int) -> dict[int, str]:
    """Return the commands of all processes that a process has started."""
    everything = processes()
    found, new = dict[int, str](), {process}
    while new:
        new = {one for one in everything if parent(one) in new}
        found |= {one: everything[one] for one in new}
    return found


def workers_of(address: str) -> list[int]:
    """Return the processes that run a job of an audit on a cluster, by what Ray calls them."""
    return [
        process
        for process, words in processes().items()
        if words.startswith("ray::_work") and address in processes().get(parent(process), "")
    ]


def processes() -> dict[int, str]:
    """Return the command of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found[int(path.parent.name)] = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def parent(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])


@needs_ray
def test_what_is_wrong_is_one_sentence(cluster: str, tmp_path: Path) -> None:
    from npugraph.auditing.trainings import Train

    # As a machine that does not see the disk.
    with open_tasks(cluster, 1) as tasks, pytest.raises(RunError) as raised:
        tasks.run([Train(tmp_path / "elsewhere", "complex-n3", {})], lambda *_: None)
    assert "does not see" in str(raised.value)
    assert "need the audit's folder (--out) on one disk" in str(raised.value)
    with (
        open_tasks(cluster, 1),
        pytest.raises(SettingsError, match="has joined a Ray cluster already"),
    ):
        join(cluster, 1, 1)
    with pytest.raises(SettingsError, match=r"No Ray cluster answers at '127\.0\.0\.1:1'"):
        join("127.0.0.1:1", 1, 1)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match=r"pip install 'npugraph\[cluster\]'"):
        check_tasks("local", 2)


def test_workers_are_those_of_a_cluster() -> None:
    with pytest.raises(SettingsError, match="workers=2 are processes of a cluster; add --cluster"):
        check_tasks(None, 2)
    with pytest.raises(SettingsError, match="workers=0 must be at least 1"):
        audit(sample(), ASKED, FAST, workers=0, cluster="local")
