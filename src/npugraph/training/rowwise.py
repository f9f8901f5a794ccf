"""Adagrad with one number per row of a table, for tables that are too large for more.

A table [n, w] in 32 bits takes 4 n w bytes, and what Adagrad keeps takes as much again; one number
per row takes 4 n. With sparse gradients a step touches the rows that it looked up and no others.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from npugraph.peers import ALONE, Peers
from npugraph.seeds import generator


class RowwiseAdagrad(torch.optim.Optimizer):
    """``G_i += mean_j g_ij^2``, then ``x_ij -= lr g_ij / (sqrt(G_i) + eps)``.

    What has one axis is taken as rows of one number, which is Adagrad. Gradients may be dense or
    sparse. Numbers of 16 bits are moved in 32 bits and rounded at random, see
    :func:`rounded_at_random`; the draws follow from the seed and the number of the step.

    Where ranks hold some of the columns each, the mean is over the columns of all of them: one
    number per row is added up over ``peers``, and any number of ranks takes the same steps.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        *,
        eps: float = 1e-10,
        seed: int = 0,
        peers: Peers = ALONE,
    ) -> None:
        """Train weights, or groups of them, with the step size ``lr``."""
        super().__init__(params, {"lr": lr, "eps": eps})
        self.seed = seed
        self.peers = peers
        own = [weight[:1].numel() if weight.dim() else 1 for weight in self._weights()]
        self.columns = [sum(of_all) for of_all in zip(*peers.each(own), strict=True)]

    def _weights(self) -> list[Tensor]:
        return [weight for group in self.param_groups for weight in group["params"]]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step."""
        number = 0
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and weight.numel():
                    self._move(weight, weight.grad, number, group["lr"], group["eps"])
                number += 1

    def _move(self, weight: Tensor, gradient: Tensor, number: int, lr: float, eps: float) -> None:
        table = weight.view(len(weight), -1) if weight.dim() > 1 else weight.view(-1, 1)
        ids, grad = rows_of(gradient, len(table))
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.int64)
            state["sum"] = torch.zeros(len(table), dtype=grad.dtype, device=table.device)
        state["step"] += 1
        squares = self.peers.sum(grad.square().sum(1)) / self.columns[number]
        total = state["sum"]
        if ids is None:
            total += squares
        else:
            total.index_add_(0, ids, squares)
            total = total[ids]
        move = grad * (-lr / (total.sqrt() + eps)).unsqueeze(1)
        if table.dtype == grad.dtype:
            table.add_(move) if ids is None else table.index_add_(0, ids, move)
            return
        moved = (table if ids is None else table[ids]).to(grad.dtype) + move
        rng = generator(
            self.seed, "rounding", number, int(state["step"]), self.peers.rank, device=table.device
        )
        rounded = rounded_at_random(moved, rng)
        table.copy_(rounded) if ids is None else table.index_copy_(0, ids, rounded)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state; its sums keep their 32 bits where the weights have 16."""
        super().load_state_dict(state_dict)
        weights = self._weights()
        for number, state in state_dict["state"].items():
            weight = weights[int(number)]
            self.state[weight]["sum"] = state["sum"].to(weight.device, copy=True)


def rows_of(grad: Tensor, count: int) -> tuple[Tensor | None, Tensor]:
    """Return the rows [m] that a gradient of ``count`` rows has, and their values [m, w].

    None: all of them. Values are of 32 bits at least, and a row that was looked up several times
    is summed in these.

    >>> grad = torch.sparse_coo_tensor([[2, 2]], torch.ones(2, 1), (3, 1))
    >>> ids, values = rows_of(grad, 3)
    >>> ids.tolist(), values.tolist()
    ([2], [[2.0]])
    """
    kind = torch.promote_types(grad.dtype, torch.float32)
    if not grad.is_sparse:
        return None, grad.reshape(count, -1).to(kind)
    # Looked at from within: outside of it a gradient must be summed up first, in its own type.
    parts = grad._indices(), grad._values().to(kind)
    whole = torch.sparse_coo_tensor(*parts, grad.shape, check_invariants=False).coalesce()
    return whole.indices()[0], whole.values().flatten(1)


def rounded_at_random(values: Tensor, rng: torch.Generator) -> Tensor:
    """Round numbers of 32 bits to bfloat16, up or down by chance, so that the mean is the number.

    The chance is how near a neighbour is. Steps that are smaller than half the distance of two
    neighbours would be lost by rounding to the nearest, every time.

    >>> rng = torch.Generator().manual_seed(0)
    >>> sorted(set(rounded_at_random(torch.full((99,), 1.001), rng).tolist()))
    [1.0, 1.0078125]
    """
    values = values.float()
    # The lower half of the bits is cut off; what is added before decides by the carry.
    noise = torch.randint(
        2**16, values.shape, dtype=torch.int32, generator=rng, device=values.device
    )
    cut = (values.view(torch.int32) + noise).bitwise_and_(-(2**16)).view(torch.float32)
    return torch.where(values.isfinite(), cut, values).to(torch.bfloat16)
