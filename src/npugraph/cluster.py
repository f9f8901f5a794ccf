"""Joining a Ray cluster: one that is there, or one of this machine alone.

Ray is imported where it is needed; the rest of the package does without it.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Mapping
from typing import Any

from npugraph.children import THREAD_VARIABLES, environment
from npugraph.errors import SettingsError

# The address of a cluster on this machine alone, which ends with this process.
LOCAL = "local"
# Seconds after which nobody answers.
PATIENCE = 10


def check_ray() -> None:
    """Say what to do where Ray is not installed."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise SettingsError("A cluster needs Ray: pip install 'npugraph[cluster]'.") from None


def join(address: str, cpus: int, threads: int) -> dict[str, float]:
    """Join a cluster, and return what it has: numbers by name, such as CPU and GPU.

    Args:
        address: of the cluster, ``auto`` for the one this machine is part of, or ``local`` for one
            on this machine alone that ends with this process.
        cpus: how many CPUs a local cluster says that it has.
        threads: of each of its processes.
    """
    check_ray()
    import ray

    if ray.is_initialized():
        raise SettingsError(
            "This process has joined a Ray cluster already; leave it first: ray.shutdown()."
        )
    _check_address(address)
    options: dict[str, Any] = {"runtime_env": {"env_vars": _variables(threads)}}
    options |= {"log_to_driver": False, "logging_level": "ERROR"}
    if address == LOCAL:
        # What goes through Ray is small; the rest goes through files.
        options |= {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": 2**27}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        # Ray goes on about it for many lines.
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise SettingsError(f"No Ray cluster answers at {address!r} ({why}).") from None
    finally:
        # Ray sets one of its own, with which nobody learns that the work was stopped.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
    return dict(ray.cluster_resources())


def capacity(resources: Mapping[str, float], threads: int, gpu_share: float) -> int:
    """Return how many processes a cluster can run at once.

    >>> capacity({"CPU": 16, "GPU": 2}, threads=1, gpu_share=1 / 3)
    6
    """
    places = [resources.get("CPU", 0) / threads]
    if gpu_share:
        places.append(resources.get("GPU", 0) / gpu_share)
    # A third of a GPU three times is a little less than one.
    found = int(min(places) + 1e-6)
    if found < 1:
        raise SettingsError(
            f"Nothing fits the cluster: it has {resources.get('CPU', 0):g} CPUs and "
            f"{resources.get('GPU', 0):g} GPUs, and a process needs {threads} and {gpu_share:g}; "
            "ask for fewer threads, or for --device cpu."
        )
    return found


def leave() -> None:
    """Leave the cluster; a local one ends."""
    import ray

    ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address where nobody listens; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise SettingsError(f"No Ray cluster answers at {address!r} ({error}).") from None


def _variables(threads: int) -> dict[str, str]:
    """Return what Ray's processes are told: the package and the circumstances of this one."""
    told = environment(threads)
    names = ("PYTHONPATH", "NPUGRAPH_DATA", *THREAD_VARIABLES)
    return {name: told[name] for name in names if name in told}
