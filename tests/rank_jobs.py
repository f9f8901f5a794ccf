"""Ranks of a training as processes of a test, and what they do there.

They are forked from a server that has imported all they need, so that they start in no time.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook
from typer.testing import CliRunner

from benchmarks.quality.ranks import losses
from npugraph import fitting
from npugraph.cli import app
from npugraph.data.sources import load_splits
from npugraph.errors import NpugraphError
from npugraph.fitting import fit
from npugraph.graph import Splits
from npugraph.peers import Peers, Share, join
from npugraph.training import memory, shards
from recipe_cases import groups

Job = Callable[..., Any]
# The second is what PyTorch imports for its first optimiser.
PRELOADED = ["npugraph.fitting", "torch._dynamo", "npugraph.cli", "typer.testing", "pandas"]


def run_ranks(size: int, job: Job, *given: Any) -> list[Any]:
    """Call ``job(peers, *given)`` on so many ranks; return what each says, or its error.

    None: the rank was killed.
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOADED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = []
    for rank in range(size):
        here, there = server.Pipe(duplex=False)
        told = (rank, size, port, job, given, there)
        process = server.Process(target=_rank, args=told, daemon=True)
        process.start()
        there.close()
        started.append((process, here))
    return [_answer(process, here) for process, here in started]


def _answer(process: Any, here: Connection) -> Any:
    try:
        return here.recv()
    except EOFError:
        return None
    finally:
        process.join()


def _rank(rank: int, size: int, port: int, job: Job, given: tuple[Any, ...], to: Any) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1"}
    os.environ["MASTER_PORT"] = str(port)
    peers = join()
    try:
        said = job(peers, *given)
    except NpugraphError as error:
        to.send(error)
        return
    to.send(said)
    peers.leave()


def all_losses(peers: Peers, cases: Mapping[str, tuple[Any, ...]]) -> dict[str, list[float]]:
    """Return the losses of several recipes on UMLS; each is given its settings, steps and type."""
    return {recipe: losses(peers, "umls", recipe, *case) for recipe, case in cases.items()}


def all_losses_apart(peers: Peers, cases: Mapping[str, tuple[Any, ...]]) -> dict[str, list[float]]:
    """As :func:`all_losses`, but nothing is added over the ranks."""
    Peers.sums = lambda self, parts: parts  # type: ignore[method-assign]
    return all_losses(peers, cases)


def all_losses_kept(peers: Peers, cases: Mapping[str, tuple[Any, ...]]) -> dict[str, list[float]]:
    """As :func:`all_losses`, but every rank keeps its gradients for itself."""
    Peers.add_gradients = lambda self, weights: None  # type: ignore[method-assign]
    return all_losses(peers, cases)


def graph_of(name: str) -> Splits:
    return load_splits("umls", 0) if name == "umls" else groups()


def train(
    peers: Peers,
    graph: str,
    recipe: str,
    values: dict[str, Any],
    out: Path | None,
    resume: bool = False,
) -> dict[str, Any]:
    """Train as fit does; return how it went."""
    chosen = {**values, "device": "cpu"}
    fitted = fit(graph_of(graph), recipe, chosen, out, resume=resume, peers=peers)
    return {
        "progress": asdict(fitted.progress),
        "losses": [line["loss"] for line in fitted.metrics],
        "weights": sum(p.detach().double().sum().item() for p in fitted.system.parameters()),
        "widths": {n: t.shape[1] for n, t in fitted.system.state_dict().items() if t.dim() == 2},
    }


def train_killed(peers: Peers, step: int, *given: Any) -> Any:
    """Train, but the last rank is killed at a step."""
    count = 0

    def killing(*_: Any) -> None:
        nonlocal count
        count += 1
        if peers.rank == peers.size - 1 and count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    register_optimizer_step_pre_hook(killing)
    return train(peers, *given)


def train_killed_writing(peers: Peers, name: str, times: int, *given: Any) -> Any:
    """Train, but rank 0 is killed before it puts an index in place for the n-th time."""
    write, count = shards._write, 0

    def killing(tensors: Any, record: Any, path: Path) -> None:
        nonlocal count
        count += path.name == name
        if path.name == name and count == times:
            os.kill(os.getpid(), signal.SIGKILL)
        write(tensors, record, path)

    shards._write = killing
    return train(peers, *given)


def train_short_of_memory(peers: Peers, *given: Any) -> Any:
    """Train where there is almost no memory."""
    memory.free_bytes = lambda device: 10_000
    return train(peers, *given)


def join_again(peers: Peers) -> bool:
    """Join where the processes have met before, as Ray Train lets them."""
    return dist.is_initialized() and join() == peers and peers.each(peers.rank) == [0, 1]


def other_version(peers: Peers, version: str, d: int) -> Any:
    """Begin a training where the last rank has another version, or other settings."""
    if peers.rank == peers.size - 1:
        fitting.__version__ = version
    else:
        d = 4
    return train(peers, "groups", "complex-n3", {"d": d, "epochs": 1}, None)


def square(peers: Peers) -> tuple[float, float, str]:
    """Return the square of a sum over ranks, its gradient by the own part, and a sum's type."""
    part = torch.tensor(1.0 + peers.rank, requires_grad=True)
    total, _ = peers.sums([part, torch.ones(2)])
    total.square().backward()
    kind = peers.sum(torch.ones(1, dtype=torch.bfloat16)).dtype
    assert part.grad is not None
    return float(total.detach()), float(part.grad), str(kind)


def save_state(peers: Peers, out: Path, times: int) -> None:
    """Write this rank's part of STATE so often."""
    share = Share(peers, DIMENSIONS, BLOCKS)
    cut = {
        name: share.cut(tensor, SAVED[name]) if name in SAVED else tensor
        for name, tensor in STATE.items()
    }
    for number in range(times):
        shards.save(cut, {"number": str(number)}, out / "last.safetensors", share)


def command(peers: Peers, *words: str) -> tuple[int, str, str]:
    """Call the command line on every rank, as torchrun does; return code, stdout and stderr."""
    done = CliRunner().invoke(app, list(words))
    if isinstance(done.exception, NpugraphError):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


DIMENSIONS = 7
BLOCKS = {"model/pairs": 2, "model/angles": 1, "optimizer/0": 2}
SAVED = {"model/pairs": 2, "model/angles": 1, "optimizer/0/sum": 2}
STATE = {
    "model/pairs": torch.arange(3.0 * 14).view(3, 14),
    "model/angles": torch.arange(5.0 * 7).view(5, 7),
    "model/other": torch.ones(2, 14),
    "optimizer/0/sum": -torch.arange(3.0 * 14).view(3, 14),
    "optimizer/0/step": torch.tensor(9.0),
}
