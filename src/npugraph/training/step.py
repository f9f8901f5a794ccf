"""One training step: taken as it is written, or recorded once as a CUDA graph and replayed.

A step at the paper's batch size is some two hundred small kernels. Launched one by one they
leave a large GPU idle most of the time; replayed as one graph they do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from npugraph.peers import ALONE, Peers

# Plain steps before one is recorded: what libraries set up on first use must not be.
WARMUP = 3


def descend(
    loss: Tensor,
    optimizer: torch.optim.Optimizer,
    clip: float = 0.0,
    peers: Peers = ALONE,
) -> Tensor:
    """Move what the optimiser trains against a loss; return the loss without its gradient.

    ``clip`` is the largest norm of the gradient; 0 means any. ``peers`` are ranks that each have a
    part of the gradient, by their own questions. The gradient is dropped at once, so that the next
    forward pass has its memory.
    """
    loss.backward()  # type: ignore[no-untyped-call]
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    peers.add_gradients(trained)
    if clip:
        torch.nn.utils.clip_grad_norm_(trained, clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


class StepRecorder:
    """Records a step once and replays it for batches of one size; others are taken as they come.

        if not recorder.replay(rows):
            with recorder.recording(rows) as batch:
                total += descend(training.loss(batch, rng), optimizer) * len(batch)

    A recorded step works on fixed tensors: whatever changes between steps is copied into them, and
    draws come from ``rng``. When the training changes its tensors, ``forget`` makes the next
    batches record anew. Unless ``enabled``, which needs a GPU, nothing is ever recorded.
    """

    def __init__(self, rng: torch.Generator, enabled: bool) -> None:
        """Record steps that draw from ``rng``."""
        self.rng = rng
        self.enabled = enabled
        self.rows = torch.empty(0, dtype=torch.int64, device=rng.device)
        self.forget()

    def forget(self) -> None:
        """Drop what was recorded."""
        self.graph: torch.cuda.CUDAGraph | None = None
        self.seen = 0

    def replay(self, rows: Tensor) -> bool:
        """Take the recorded step on the facts of these numbers [b]; tell whether there is one."""
        if self.graph is None or len(rows) != len(self.rows):
            return False
        self.rows.copy_(rows)
        self.graph.replay()
        return True

    @contextmanager
    def recording(self, rows: Tensor) -> Iterator[Tensor]:
        """Give the batch that the step in the body is to be taken on; record it if it is time."""
        if not self.enabled:
            yield rows
        elif self.seen < WARMUP or len(rows) != len(self.rows):
            # On a side stream, as recording asks for.
            if len(rows) > len(self.rows):
                self.rows, self.seen = rows.clone(), 0
            self.seen += 1
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                yield rows
            torch.cuda.current_stream().wait_stream(stream)
        else:
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(self.rng)
            with torch.cuda.graph(graph):
                yield self.rows
            self.graph = graph
            # Recording does not run what it records.
            self.replay(rows)
