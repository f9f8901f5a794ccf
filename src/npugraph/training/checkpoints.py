"""When the state of a run is written, and where its best weights are meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from npugraph.model import Model
from npugraph.training.batch_loss import Training
from npugraph.training.run_folder import Progress, Run


@dataclass
class Checkpoints:
    """The best weights so far, and all that resuming needs, written every so often.

    Attributes:
        run: where to; None: nothing is written, and the best weights are kept here.
        seconds: least time between two checkpoints.
        best: weights that are better than those of the folder, until the next checkpoint.
        saved: when the last checkpoint was written.
    """

    run: Run | None = None
    seconds: float = 0.0
    best: dict[str, Tensor] = field(default_factory=dict)
    saved: float = field(default_factory=lambda: time.monotonic())

    def is_due(self) -> bool:
        """Tell whether there is a folder, and its last checkpoint is old enough."""
        if self.run is None:
            return False
        return self.run.peers.same(time.monotonic() - self.saved >= self.seconds)

    def keep_best(self, system: Model) -> None:
        """Write the weights as the best ones, or keep them here until the next checkpoint."""
        state = system.state_dict()
        if self.run is not None and self.is_due():
            self.run.save_best(state, system.share)
            self.best = {}
        else:
            self.best = {name: tensor.clone() for name, tensor in state.items()}

    def log(self, record: dict[str, Any]) -> None:
        """Append one line to the log of the folder."""
        if self.run is not None:
            self.run.log(record)

    def save(
        self, training: Training, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> None:
        """Write all that resuming needs; the best weights first, for they may be older."""
        if self.run is None:
            return
        if self.best:
            self.run.save_best(self.best, training.system.share)
            self.best = {}
        self.run.save_last(training, optimizer, progress)
        self.saved = time.monotonic()

    def restore_best(self, system: Model) -> None:
        """Load the best weights, from here or from the folder."""
        if self.run is not None and not self.best:
            self.run.load_best(system)
        else:
            system.load_state_dict(self.best)
