"""What memory training will take, told from what was built; refused where there is too little.

The parts are counted from shapes; what libraries load when they are first used was measured
(benchmarks/speed/memory.py holds the plan to the measured peak).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from npugraph.errors import SettingsError
from npugraph.kernels import cpu
from npugraph.samplers import Shared
from npugraph.scorers import MLP, RotatE, TransE, TransR
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import Training
from npugraph.training.optimizers import state_tables

# What PyTorch loads for its first optimiser and its first backward pass.
LIBRARIES = 190 * 10**6
# What numba loads and compiles, for what is done by compiled loops.
COMPILER = 150 * 10**6
COMPILED = (TransE, RotatE, TransR, MLP, Shared)
# Indices of a training fact, and what is left of sorting them.
FACT_BYTES = 100


@dataclass(frozen=True)
class MemoryPlan:
    """About how many bytes training takes, by what for; on a GPU, those of the GPU.

    Where several ranks train, all but the total are those of one rank.

    Attributes:
        weights: of the system.
        kept: weights, their gradient, the optimiser's state, and the indices of the facts.
        most: the most of what comes and goes: a training step, or a ranking.
        libraries: what PyTorch and numba load when they are first used.
        ranks: how many ranks share the memory: those of this machine, but each has its own GPU.
    """

    weights: int
    kept: int
    most: int
    libraries: int
    ranks: int = 1

    @property
    def total(self) -> int:
        """All of it, of all ranks."""
        return self.ranks * (self.kept + self.most + self.libraries)


def plan_memory(
    training: Training, settings: TrainSettings, valid_facts: int, device: torch.device
) -> MemoryPlan:
    """Tell what memory of a device a training takes that is validated on so many facts.

    >>> from npugraph.data.datasets import bundled
    >>> from npugraph.recipes import get_recipe
    >>> recipe = get_recipe("complex-n3")
    >>> training = recipe.build(recipe.settings(d=8, device="cpu"), bundled())
    >>> plan_memory(training, recipe.settings(d=8), 100, torch.device("cpu")).weights % 64
    0
    """
    on_gpu = device.type == "cuda"
    weights = sum(p.numel() * p.element_size() for p in training.parameters())
    kept = 2 * weights + state_tables(training, settings) + FACT_BYTES * len(training.facts)
    ranked = min(valid_facts, settings.valid_facts or valid_facts)
    scores = training.validation_bytes(ranked, device)
    # Beside what a step holds, the gradient of a table is made in parts as large as the table.
    most = max(2 * weights + training.step_bytes(settings.batch_size, device), weights + scores)
    libraries = 0
    if not on_gpu:
        loops = cpu.available() and any(isinstance(part, COMPILED) for part in training.modules())
        libraries = LIBRARIES + (COMPILER if loops else 0)
    ranks = 1 if on_gpu else training.system.share.peers.local_size
    return MemoryPlan(weights, kept, most, libraries, ranks)


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


def check_memory(
    training: Training, settings: TrainSettings, valid_facts: int, device: torch.device
) -> None:
    """Refuse a training that does not fit the memory, and say what makes it smaller."""
    plan = plan_memory(training, settings, valid_facts, device)
    free = free_bytes(device)
    if free is None or plan.total <= free:
        return
    now = [f"{name}={getattr(settings, name)}" for name in training.memory_settings]
    whose = "Training"
    if plan.ranks > 1:
        whose = f"Training on {plan.ranks} ranks"
        now.append(f"--ranks {plan.ranks}")
    needed = f"{plan.total / 2**30:,.1f} GiB"
    raise SettingsError(
        f"{whose} needs about {needed} and {device} has {free / 2**30:,.1f} GiB free; "
        f"lower {' or '.join(now)}{training.memory_way_out}."
    )
