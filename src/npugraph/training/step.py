"""One training step: plain, or recorded once as a CUDA graph and replayed.

A step at the paper's batch size is some two hundred small kernels. Launched one by one they
leave a large GPU idle most of the time; replayed as one graph they do not.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Loss = Callable[[Tensor, torch.Generator], Tensor]


class Stepper:
    """Takes optimiser steps and adds up the loss, weighted by the size of each batch."""

    def __init__(
        self,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        clip: float = 0.0,
    ) -> None:
        """``loss`` maps a batch's numbers and a generator to a scalar; ``clip`` 0 clips nothing."""
        self.clip = clip
        self.loss = loss
        self.optimizer = optimizer
        self.rng = torch.Generator(device=device)
        self.total = torch.zeros((), device=device)

    def forget(self) -> None:
        """Drop what was recorded of a step; a plain step records nothing."""

    def begin(self, seed: int) -> None:
        """Begin an epoch: seed the sampler's generator and forget the loss."""
        self.rng.manual_seed(seed)
        self.total.zero_()

    def __call__(self, rows: Tensor) -> None:
        """Take one step on the facts of these numbers [b]."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(rows, self.rng)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.clip:
            trained = [p for group in self.optimizer.param_groups for p in group["params"]]
            torch.nn.utils.clip_grad_norm_(trained, self.clip)
        self.optimizer.step()
        self.total += loss.detach() * len(rows)


class GraphStepper(Stepper):
    """Replays a recorded step for batches of one size; other sizes take plain steps.

    The step must work on fixed tensors: whatever changes between steps is copied into them. When
    the training changes its tensors, ``forget`` makes the next batches record anew.
    """

    WARMUP = 3

    def __init__(
        self,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        clip: float = 0.0,
    ) -> None:
        """As for the plain stepper; the device must be a GPU."""
        super().__init__(loss, optimizer, device, clip)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.rows = torch.empty(0, dtype=torch.int64, device=device)
        self.seen = 0

    def forget(self) -> None:
        """Drop the recording."""
        self.graph = None
        self.seen = 0

    def __call__(self, rows: Tensor) -> None:
        """Replay the recording on these facts, or take a plain step and perhaps record."""
        if self.graph is not None and len(rows) == len(self.rows):
            self.rows.copy_(rows)
            self.graph.replay()
            return
        if self.seen < self.WARMUP or len(rows) != len(self.rows):
            # Plain steps on a side stream: what libraries set up on first use must not be recorded.
            if len(rows) > len(self.rows):
                self.rows, self.seen = rows.clone(), 0
            self.seen += 1
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                super().__call__(rows)
            torch.cuda.current_stream().wait_stream(stream)
            return
        self._record()
        self(rows)

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.rng)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            super().__call__(self.rows)
        self.graph = graph
