"""Cells on a cluster, through Ray: several on one GPU, on as many machines as there are.

The results are written here, where the bench runs. A cell leaves its checkpoints in the work folder
of the machine it runs on: where all machines share that folder, a stopped cell goes on anywhere.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npugraph import cluster
from npugraph.bench.cell import Circumstances, run_cell
from npugraph.bench.execute import Event
from npugraph.bench.graphs import remove_unused
from npugraph.bench.plan import Cell
from npugraph.bench.store import locked
from npugraph.errors import NpugraphError


class Cluster:
    """Runs cells as Ray tasks, each in a process of its own."""

    def __init__(self, how: Circumstances, address: str = cluster.LOCAL, threads: int = 1) -> None:
        """Connect to a cluster.

        Args:
            how: circumstances of the cells. ``workers`` of them share a GPU, where the cluster has
                any; so many processes has a local cluster.
            address: of the cluster, ``auto`` for the one this machine is part of, or ``local``
                for one on this machine alone that ends with the bench.
            threads: CPU threads per cell.
        """
        resources = cluster.join(address, how.workers * threads, threads)
        import ray
        from ray.util.queue import Queue

        self.how = how
        share = 0.0 if how.device == "cpu" or not resources.get("GPU") else 1 / how.workers
        self.queue: Any = Queue(actor_options={"num_cpus": 0})
        # One call per process: what a cell leaves behind goes with it, GPU memory too.
        options = {"num_cpus": threads, "num_gpus": share, "max_calls": 1, "max_retries": 0}
        self.task: Any = ray.remote(**options)(_work)
        self.capacity = cluster.capacity(resources, threads, share)
        self.cells: dict[str, Cell] = {}
        self.tasks: dict[Any, Cell] = {}

    def start(self, cell: Cell) -> None:
        """Hand a cell to the cluster."""
        self.cells[cell.key] = cell
        how = {**asdict(self.how), "work": str(self.how.work)}
        self.tasks[self.task.remote(cell.to_json(), how, self.queue)] = cell

    def wait(self, seconds: float) -> list[Event]:
        """Return what happened; waits at most so long for something to happen."""
        import ray

        ready, _ = ray.wait(list(self.tasks), num_returns=1, timeout=seconds)
        # Epochs first: they came before the end.
        found = []
        for key, record in self.queue.get_nowait_batch(self.queue.qsize()):
            if key in self.cells:
                found.append(Event(self.cells[key], epoch=record))
        for task in ready:
            cell = self.tasks.pop(task)
            del self.cells[cell.key]
            try:
                found.append(Event(cell, **ray.get(task)))
            except ray.exceptions.RayError as error:
                found.append(Event(cell, error=f"Its process was lost: {error}"))
        return found

    def stop(self, *cells: Cell) -> None:
        """Stop cells; they keep their checkpoints."""
        import ray

        keys = {cell.key for cell in cells}
        for task, cell in list(self.tasks.items()):
            if cell.key in keys:
                ray.cancel(task, force=True)
                del self.tasks[task], self.cells[cell.key]

    def close(self) -> None:
        """Stop all cells and leave the cluster."""
        self.stop(*self.tasks.values())
        cluster.leave()
        remove_unused(self.how.work)


def _work(values: dict[str, Any], how: dict[str, Any], queue: Any) -> dict[str, Any]:
    """Run a cell in a process of the cluster; return its result and cost, or its error."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    cell = Cell.from_json(values)
    circumstances = Circumstances(**{**how, "work": Path(how["work"])})
    folder = circumstances.work / "cells"
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / f"{cell.key}.lock"
    with locked(lock, wait=True):
        try:
            result, cost = run_cell(
                cell, circumstances, lambda record: queue.put((cell.key, record))
            )
        except NpugraphError as error:
            return {"error": str(error)}
        except Exception:
            return {"error": traceback.format_exc(limit=-3)}
    lock.unlink(missing_ok=True)
    return {"result": result, "cost": cost}
