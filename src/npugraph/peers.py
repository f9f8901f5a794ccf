"""The processes that train one system together, by its dimensions or by its questions.

By dimensions: every rank holds some of the columns. A score that is a sum over dimensions is the
sum of what each rank makes of its own ones. The gradient of a sum with respect to each of its parts
is the same, so nothing is sent backwards.

By questions: every rank holds all weights and answers its share of the questions of a step. The
scores of all are put together, each rank takes the loss of the whole step, and the gradients, each
by a rank's own questions, are added up.

The sum over the ranks lives here, and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from npugraph.errors import RankError, RunError, SettingsError

# What torchrun, and ``npugraph fit --ranks``, tell a process.
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
T = TypeVar("T")


@dataclass(frozen=True)
class Peers:
    """This process among those that train one system; by default it is alone.

    Attributes:
        rank: its number, from 0.
        size: how many there are.
        local_rank: its number among those of this machine.
        local_size: how many there are on this machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    def sums(self, parts: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the sums over the ranks of tensors, by one exchange; gradients pass unchanged."""
        if self.size == 1:
            return parts
        found: tuple[Tensor, ...] = _Sum.apply(*parts)  # type: ignore[no-untyped-call]
        return found

    def sum(self, part: Tensor) -> Tensor:
        """Return the sum over the ranks of one tensor."""
        return self.sums([part])[0]

    def rows(self, own: Callable[[slice], Tensor], count: int) -> Tensor:
        """Return rows [count, ...] that the ranks make together, each a run of its own.

        ``own`` makes the rows of a slice, at least one: a rank without any needs a gradient, too.
        Gradients pass to the own rows alone.
        """
        if self.size == 1:
            return own(slice(0, count))
        first, last = self.run(count)
        made = own(slice(first, max(last, first + 1)))[: last - first]
        before, after = (made.new_zeros(n, *made.shape[1:]) for n in (first, count - last))
        return self.sum(torch.cat([before, made, after]))

    def run(self, count: int) -> tuple[int, int]:
        """Return the first of ``count`` things that is this rank's, and the one after the last.

        >>> [Peers(rank, 3).run(8) for rank in range(3)]
        [(0, 2), (2, 5), (5, 8)]
        """
        return count * self.rank // self.size, count * (self.rank + 1) // self.size

    def add_gradients(self, weights: Iterable[Tensor]) -> None:
        """Give weights the sum over the ranks of their gradients, by one exchange."""
        if self.size == 1:
            return
        weights = list(weights)
        grads = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
        for weight, total in zip(weights, self.sums(grads), strict=True):
            weight.grad = total.to(weight.dtype)

    def lengths(self, parts: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return lengths of whole vectors, given those of each rank's columns; no gradient."""
        if self.size == 1:
            return parts
        return [total.sqrt() for total in self.sums([part.square() for part in parts])]

    def same(self, value: T) -> T:
        """Return what the first rank says, so that all decide alike."""
        if self.size == 1:
            return value
        box = [value]
        with _others():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def each(self, value: T) -> list[T]:
        """Return what every rank says."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        with _others():
            dist.all_gather_object(found, value)
        return found

    def wait(self) -> None:
        """Wait until every rank is here."""
        self.each(None)

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """Let the ranks of a machine do the body one after the other: it takes much memory."""
        turns = max(self.each(self.local_size))
        for _ in range(self.local_rank):
            self.wait()
        yield
        for _ in range(turns - self.local_rank):
            self.wait()

    def check_same(self, known: Mapping[str, object]) -> None:
        """Refuse ranks that differ in what they know: versions, settings, facts."""
        first, *others = self.each(dict(known))
        for rank, other in enumerate(others, start=1):
            for name, value in first.items():
                if other.get(name) != value:
                    raise RunError(
                        f"Rank {rank} has {name}={other.get(name)} where rank 0 has {value}; every "
                        "rank needs the same versions, settings and facts."
                    )

    def own_device(self, device: torch.device) -> torch.device:
        """Return the GPU of this rank where GPUs are asked for, one per rank; else the device."""
        if self.size == 1 or device.type != "cuda":
            return device
        if self.local_size > torch.cuda.device_count():
            raise SettingsError(
                f"{self.local_size} ranks on this machine need a GPU each, and there are "
                f"{torch.cuda.device_count()}; take fewer ranks, or --set device=cpu."
            )
        return torch.device("cuda", self.local_rank)

    def leave(self) -> None:
        """End the exchange with the others."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


ALONE = Peers()


def join(device: torch.device | str = "cpu") -> Peers:
    """Meet the other ranks, as the environment names them; alone where it names none.

    The variables are those of torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and, for several
    ranks on a machine, LOCAL_RANK and LOCAL_WORLD_SIZE. Sums go through gloo on a CPU and nccl on
    a GPU.
    """
    if "RANK" not in os.environ or os.environ.get("WORLD_SIZE", "1") == "1":
        return ALONE
    peers = _told()
    own = peers.own_device(torch.device(device))
    if own.type == "cuda":
        torch.cuda.set_device(own)
    if not dist.is_initialized():
        with _others():
            dist.init_process_group("cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo")
    return peers


def _told() -> Peers:
    """Return what the environment says of this rank."""
    missing = [name for name in VARIABLES if not os.environ.get(name)]
    if missing:
        raise SettingsError(
            f"This process is told to be one of several, but {missing[0]} is not set; start it by "
            "torchrun, or by npugraph fit --ranks."
        )
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local = int(os.environ.get("LOCAL_RANK", rank))
        return Peers(rank, size, local, int(os.environ.get("LOCAL_WORLD_SIZE", size)))
    except ValueError as error:
        raise SettingsError(f"A rank is told by numbers, in the environment: {error}.") from None


@contextmanager
def _others() -> Iterator[None]:
    """Say in a sentence that another rank does not answer."""
    try:
        yield
    except RuntimeError as error:
        why = str(error).strip().splitlines()[0][:200]
        raise RankError(
            f"Another rank was lost, so this one ends ({why}); go on with the same command and "
            "--resume."
        ) from None


class _Sum(torch.autograd.Function):
    """Adds tensors over the ranks; backwards each rank's part gets the gradient of the sum."""

    @staticmethod
    def forward(ctx: Any, *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [part.dtype for part in parts]
        # In half precision the order of the ranks would show.
        wide = [part.float() if part.dtype.itemsize < 4 else part for part in parts]
        # A copy, too: what made the parts may still need them.
        flat = torch.cat([part.reshape(-1) for part in wide])
        with _others():
            dist.all_reduce(flat)
        pieces = torch.split(flat, [part.numel() for part in parts])
        return tuple(piece.view_as(part) for piece, part in zip(pieces, parts, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        return tuple(grad.to(kind) for grad, kind in zip(grads, ctx.dtypes, strict=True))


@dataclass(frozen=True)
class Share:
    """What of a system a rank holds: some columns of its tables, or all of it.

    Attributes:
        peers: the ranks.
        dimensions: how many dimensions all of them hold together.
        blocks: the tables that are cut, by name, and in how many blocks of that many columns their
            numbers stand: complex numbers in two halves are two. Empty: every rank holds the whole
            system, and several ranks share the questions.
    """

    peers: Peers = ALONE
    dimensions: int = 0
    blocks: Mapping[str, int] = field(default_factory=dict)

    def own(self) -> tuple[int, int]:
        """Return the first own dimension and the one after the last.

        >>> [Share(Peers(rank, 3), 8).own() for rank in range(3)]
        [(0, 2), (2, 5), (5, 8)]
        """
        return self.peers.run(self.dimensions)

    @property
    def by_questions(self) -> bool:
        """Whether several ranks hold the whole system each, and share the questions."""
        return self.peers.size > 1 and not self.blocks

    @property
    def gradients(self) -> Peers:
        """The ranks whose gradients are parts of one: those that share the questions."""
        return self.peers if self.by_questions else ALONE

    def cut(self, table: Tensor, blocks: int) -> Tensor:
        """Return the own columns of a whole table [n, blocks * dimensions].

        >>> Share(Peers(1, 2), 2).cut(torch.tensor([[1, 2, 10, 20]]), 2).tolist()
        [[2, 20]]
        """
        first, last = self.own()
        own = table.view(len(table), blocks, self.dimensions)[:, :, first:last]
        # Copied, or the whole table would be kept.
        return own.flatten(1).contiguous()


WHOLE = Share()
