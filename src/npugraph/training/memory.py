"""The memory that training takes: planned before it starts, refused where there is too little."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from npugraph.errors import SettingsError
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import Training


def planned_bytes(training: Training, settings: TrainSettings, device: torch.device) -> int:
    """Return about how many bytes training takes.

    That is the weights, their gradients and up to two optimiser states, and what a step holds.
    """
    weights = sum(p.numel() * p.element_size() for p in training.parameters())
    return 4 * weights + training.step_bytes(settings.batch_size, device)


def free_bytes(device: torch.device) -> int | None:
    """Return how many bytes are free on a device; None where that cannot be known."""
    if device.type == "cuda":
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + reserved
    file = Path("/proc/meminfo")
    if file.is_file():
        for line in file.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def check_memory(training: Training, settings: TrainSettings, device: torch.device) -> None:
    """Refuse a training that does not fit the memory, and say what makes it smaller."""
    needed, free = planned_bytes(training, settings, device), free_bytes(device)
    if free is None or needed <= free:
        return
    now = [f"{name}={getattr(settings, name)}" for name in training.memory_settings]
    raise SettingsError(
        f"Training needs about {needed / 2**30:,.1f} GiB and {device} has {free / 2**30:,.1f} GiB "
        f"free; lower {' or '.join(now)}."
    )
