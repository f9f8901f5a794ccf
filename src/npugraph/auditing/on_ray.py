"""Jobs of an audit on a Ray cluster, one thread each.

A process that is killed, or whose machine is lost, is replaced by Ray, and the job goes on from
what it had written. One thread per job: the last bits of a sum depend on how many threads add it
up, and must not depend on the machine or on how many jobs run there.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from npugraph import cluster
from npugraph.auditing.settings import Stage
from npugraph.auditing.tasks import Job
from npugraph.errors import NpugraphError, RunError
from npugraph.training.loop import choose_device
from npugraph.version import __version__

THREADS = 1
# How often a job is begun again whose process was lost.
RETRIES = 3
# Seconds between two looks at the queue of events.
LOOK = 0.2


@dataclass(frozen=True)
class Driver:
    """What a worker must know of the process that runs the audit.

    Attributes:
        folder: where it runs; relative names of recipe files begin there.
        versions: by package.
    """

    folder: str
    versions: dict[str, str]

    @classmethod
    def here(cls) -> Driver:
        """Describe this process."""
        return cls(str(os.getcwd()), _versions())  # noqa: PTH109


class OnRay:
    """Runs jobs as Ray tasks."""

    def __init__(self, address: str, workers: int | None = None, device: str = "auto") -> None:
        """Join a cluster; see :func:`npugraph.auditing.tasks.open_tasks`."""
        gpus = int(choose_device(device).type == "cuda")
        have = cluster.join(address, workers or os.cpu_count() or 1, THREADS)
        try:
            room = cluster.capacity(have, THREADS, gpus)
            self.workers = room if workers is None else min(workers, room)
            import ray
            from ray.util.queue import Queue

            self._events: Any = Queue(actor_options={"num_cpus": 0})
            options = {"num_cpus": THREADS, "num_gpus": gpus, "max_retries": RETRIES}
            self._work: Any = ray.remote(**options)(_work)
            self._driver = Driver.here()
        except BaseException:
            cluster.leave()
            raise

    def run(self, jobs: Sequence[Job], say: Stage) -> None:
        """Run all of them; what is under way is stopped where one fails or this is interrupted."""
        import ray

        waiting, running = deque(jobs), dict[Any, Job]()
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    job = waiting.popleft()
                    running[self._work.remote(job, self._driver, self._events)] = job
                ended, _ = ray.wait(list(running), num_returns=1, timeout=LOOK)
                for name, progress in self._events.get_nowait_batch(self._events.qsize()):
                    say(name, progress)
                for one in ended:
                    _check(one, running.pop(one))
        finally:
            for one in running:
                ray.cancel(one, force=True)

    def close(self) -> None:
        """Leave the cluster; what still runs for this process ends."""
        cluster.leave()


def _check(ended: Any, job: Job) -> None:
    """Raise what a job that ended has raised."""
    import ray

    try:
        error = ray.get(ended)
    except ray.exceptions.RayTaskError:
        raise
    except ray.exceptions.RayError:
        raise RunError(
            f"The process that was to {job} was lost {RETRIES + 1} times; perhaps the memory does "
            "not suffice. The same command goes on from what is done."
        ) from None
    if error is not None:
        raise error


def _work(job: Job, driver: Driver, events: Any) -> NpugraphError | None:
    """Run a job in a process of the cluster; return what a user can do something about."""
    torch.set_num_threads(THREADS)
    with suppress(OSError):
        os.chdir(driver.folder)
    try:
        _check_worker(job, driver)
        job.run(lambda name, progress: events.put((name, progress)))
    except NpugraphError as error:
        return error
    return None


def _check_worker(job: Job, driver: Driver) -> None:
    """Refuse a machine that has other versions, or does not see the folder of the audit."""
    where = f"The worker on {socket.gethostname()}"
    for name, version in _versions().items():
        if version != driver.versions[name]:
            raise RunError(
                f"{where} has {name} {version}, and this machine {driver.versions[name]}; all "
                "machines of a cluster need the same."
            )
    if not job.needs.is_file():
        raise RunError(
            f"{where} does not see {job.needs}; all machines of a cluster need the audit's folder "
            "(--out) on one disk."
        )


def _versions() -> dict[str, str]:
    return {"npugraph": __version__, "torch": torch.__version__}
