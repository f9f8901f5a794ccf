"""What memory training will take, told from what was built; refused where there is too little.

The parts are counted from shapes; what libraries load when they are first used was measured
(benchmarks/speed/memory.py holds the plan to the measured peak).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from npugraph.compiling import available
from npugraph.errors import SettingsError
from npugraph.machine import free_bytes
from npugraph.samplers import Shared
from npugraph.scorers import MLP, RotatE, TransE, TransR
from npugraph.settings import TrainSettings
from npugraph.training.batch_loss import Training
from npugraph.training.optimizers import state_bytes

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
    # Sparse gradients are no larger than what a step looks up, and a part of that.
    gradient = 0 if training.system.has_sparse_steps(device) else weights
    kept = weights + gradient + state_bytes(training, settings) + FACT_BYTES * len(training.facts)
    ranked = min(valid_facts, settings.valid_facts or valid_facts)
    scores = training.validation_bytes(ranked, device)
    # Beside what a step holds, the gradient of a table is made in parts as large as the table.
    step = training.step_bytes(settings.batch_size, device)
    most = max(2 * gradient + step, gradient + scores)
    libraries = 0
    if not on_gpu:
        loops = available() and any(isinstance(part, COMPILED) for part in training.modules())
        libraries = LIBRARIES + (COMPILER if loops else 0)
    ranks = 1 if on_gpu else training.system.share.peers.local_size
    return MemoryPlan(weights, kept, most, libraries, ranks)


def check_memory(
    training: Training, settings: TrainSettings, valid_facts: int, device: torch.device
) -> None:
    """Refuse a training that does not fit the memory, and say what makes it smaller."""
    plan = plan_memory(training, settings, valid_facts, device)
    free = free_bytes(device)
    if free is None or plan.total <= free:
        return
    names = list(training.memory_settings)
    if "d" not in names and hasattr(settings, "d") and 2 * plan.kept > plan.total:
        # It is the vectors that are too large, not the step.
        names.append("d")
    now = [f"{name}={getattr(settings, name)}" for name in names]
    whose = "Training"
    if plan.ranks > 1:
        whose = f"Training on {plan.ranks} ranks"
        now.append(f"--ranks {plan.ranks}")
    needed = f"{plan.total / 2**30:,.1f} GiB"
    raise SettingsError(
        f"{whose} needs about {needed} and {device} has {free / 2**30:,.1f} GiB free; "
        f"lower {' or '.join(now)}{training.memory_way_out}."
    )
