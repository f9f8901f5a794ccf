"""Jobs of an audit, and who runs them: this process, or those of a cluster.

A job is small and stands alone: it reads what it needs from the audit's folder, writes what it
found there in one step, and finds its own work again where it was interrupted. So any process may
run it, and again after another was killed. Nothing that it finds depends on who runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from npugraph.auditing.settings import Stage
from npugraph.cluster import check_ray
from npugraph.errors import SettingsError


class Job(Protocol):
    """One piece of an audit; it is pickled where another process runs it."""

    @property
    def needs(self) -> Path:
        """A file that whoever runs the job must see."""

    def run(self, say: Stage) -> None:
        """Do it; ``say`` is told of progress."""

    def __str__(self) -> str:
        """Return what it does, for messages."""


class Tasks(Protocol):
    """Who runs jobs.

    Attributes:
        workers: how many processes run them; 0: this one does.
    """

    workers: int

    def run(self, jobs: Sequence[Job], say: Stage) -> None:
        """Run all of them, in any order; returns when all are done."""


class InProcess:
    """Runs one job after the other here."""

    workers = 0

    def run(self, jobs: Sequence[Job], say: Stage) -> None:
        """Run all of them in their order."""
        for job in jobs:
            job.run(say)


def check_tasks(cluster: str | None, workers: int | None) -> None:
    """Refuse what cannot be before any work is done; see :func:`open_tasks`."""
    if workers is not None and workers < 1:
        raise SettingsError(f"workers={workers} must be at least 1.")
    if cluster is not None:
        check_ray()
    elif workers is not None:
        raise SettingsError(
            f"workers={workers} are processes of a cluster; add --cluster local for one on this "
            "machine."
        )


@contextmanager
def open_tasks(
    cluster: str | None = None, workers: int | None = None, device: str = "auto"
) -> Iterator[Tasks]:
    """Yield who runs the jobs of an audit; what was started for it ends with the block.

    Args:
        cluster: None: this process. Otherwise the address of a Ray cluster, ``auto`` or ``local``.
        workers: jobs at once at most; None: as many as the cluster has room for.
        device: of the trainings; on a GPU each job takes one.
    """
    check_tasks(cluster, workers)
    if cluster is None:
        yield InProcess()
        return
    from npugraph.auditing.on_ray import OnRay

    tasks = OnRay(cluster, workers, device)
    try:
        yield tasks
    finally:
        tasks.close()
