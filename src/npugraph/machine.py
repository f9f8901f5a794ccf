"""How much memory is free, and the sentence where it does not suffice."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from npugraph.errors import SettingsError


def free_memory() -> int | None:
    """Return how many bytes of main memory are free; None where that cannot be known."""
    file = Path("/proc/meminfo")
    if file.is_file():
        for line in file.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def free_bytes(device: torch.device) -> int | None:
    """Return how many bytes are free on a device; None where that cannot be known."""
    if device.type == "cuda":
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + reserved
    return free_memory()


def check_table(shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Refuse a table that main memory cannot hold, before it is drawn.

    >>> check_table((10, 10), torch.float32)
    """
    needed, free = shape[0] * shape[1] * dtype.itemsize, free_memory()
    if free is not None and needed > free:
        raise SettingsError(
            f"A table of {shape[0]:,} x {shape[1]:,} numbers takes {needed / 2**30:,.1f} GiB and "
            f"the main memory has {free / 2**30:,.1f} GiB free; lower d, or take a larger machine."
        )
