"""How long a training step of nPUGraph takes, beside the least memory traffic it could have.

    python -m benchmarks.speed.npugraph_step --device cuda        # the paper's setting on a GPU
    python -m benchmarks.speed.npugraph_step --device cpu --peer  # heads alone; PyKEEN's ERMLP

On a GPU: milliseconds per step (batch 256, K = 50, d = 128, FB15k-237 at rate 0.3), replayed and
plain, the bytes that must at least move (counted below), and the time they would take at the
copy bandwidth measured in the same run. On the CPU: positive facts per second, with and without the
encoder, each fact with random uncollected ones of its own and with shared ones, and of PyKEEN's
ERMLP at the same batch, K, d and hidden size, with and without a setting of the C library's
allocator; its better figure counts. Note that ERMLP has one head, nPUGraph two.
Appends JSON lines to benchmarks/results/npugraph_step.jsonl.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks import common
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.encoders import NeighbourAttention
from npugraph.graph import Splits
from npugraph.recipes.npugraph.recipe import NPUGraphSettings, build
from npugraph.training.optimizers import make_optimizer
from npugraph.training.step import StepRecorder, descend

MODULE = "benchmarks.speed.npugraph_step"
RESULTS = common.RESULTS / "npugraph_step.jsonl"
# Facts that share their random uncollected ones, in the second measurement on the CPU.
SHARE = 32


def seconds_per_call(call: Callable[[], object], least: float = 3.0) -> float:
    """Return the mean time of a call, over at least ``least`` seconds after a warm-up."""
    for _ in range(8):
        call()
    synchronise()
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < least:
        for _ in range(5):
            call()
        count += 5
        synchronise()
    return (time.perf_counter() - started) / count


def synchronise() -> None:
    """Wait for the GPU where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def copy_bandwidth(device: torch.device) -> float:
    """Return bytes a second, read and written, of a large copy."""
    source = torch.empty(2**28, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds_per_call(lambda: target.copy_(source), 1.0)


def least_bytes(settings: NPUGraphSettings, splits: Splits, edges: int) -> int:
    """Count what a step must at least read and write once, in bytes.

    Tables (E + 2R rows of d): Adam reads weight, gradient and two moments and writes three; the
    gradient is written once. Encoder: entities in and out, and their gradients; per edge, its four
    numbers, a weight and its gradient. Heads: both projections of every entity for both heads and
    their gradients, written and read once. Hidden layers stay on the chip.
    """
    rows = splits.num_entities + 2 * splits.num_relations
    tables = rows * settings.d * 8
    encoder = 4 * splits.num_entities * settings.d + edges * (4 * 2 + 2)
    heads = 2 * 2 * 4 * splits.num_entities * settings.hidden
    return 4 * (tables + encoder + heads)


def make_step(
    settings: NPUGraphSettings, splits: Splits, device: torch.device, graph: bool
) -> tuple[Callable[[Tensor], None], int]:
    """Return what takes a step on a batch, and the number of edges of the encoder."""
    training = build(settings, splits.train)
    training.to(device)
    training.system.train()
    optimizer, rng = make_optimizer(training, settings), torch.Generator(device).manual_seed(0)
    recorder = StepRecorder(rng, graph)

    def step(rows: Tensor) -> None:
        if not recorder.replay(rows):
            with recorder.recording(rows) as batch:
                descend(training.loss(batch, rng), optimizer)

    encoder = training.system.encoder
    edges = len(encoder.edge_fact) if isinstance(encoder, NeighbourAttention) else 0
    return step, edges


def time_step(
    settings: NPUGraphSettings, splits: Splits, device: torch.device, graph: bool
) -> tuple[float, int]:
    """Return seconds per step, and the number of edges."""
    step, edges = make_step(settings, splits, device, graph)
    rows: Tensor = torch.randperm(len(splits.train))[: settings.batch_size].to(device)
    return seconds_per_call(lambda: step(rows)), edges


def on_gpu(splits: Splits) -> dict[str, Any]:
    """Time a step at the paper's setting against the floor of its memory traffic."""
    device = torch.device("cuda")
    settings = NPUGraphSettings(device="cuda", precision="tf32")
    torch.set_float32_matmul_precision("high")
    replayed, edges = time_step(settings, splits, device, graph=True)
    plain, _ = time_step(settings, splits, device, graph=False)
    bandwidth = copy_bandwidth(device)
    floor = least_bytes(settings, splits, edges) / bandwidth
    return {
        "machine": torch.cuda.get_device_name(),
        "ms_replayed": 1e3 * replayed,
        "ms_plain": 1e3 * plain,
        "ms_floor": 1e3 * floor,
        "share_of_floor": floor / replayed,
        "bandwidth_tb_s": bandwidth / 1e12,
        "edges": edges,
    }


def on_cpu(splits: Splits, peer: bool, batch: int, hidden: int) -> dict[str, Any]:
    """Measure positive facts per second of nPUGraph, and of PyKEEN's ERMLP."""
    device = torch.device("cpu")
    result: dict[str, Any] = {
        "machine": common.machine(cuda=False),
        "batch": batch,
        "hidden": hidden,
    }
    for share in (1, SHARE):
        for name, encoder in (("heads_only", "none"), ("with_encoder", "attention")):
            settings = NPUGraphSettings(
                device="cpu",
                batch_size=batch,
                hidden=hidden,
                encoder=encoder,  # type: ignore[arg-type]
                share=share,
            )
            seconds, _ = time_step(settings, splits, device, graph=False)
            result[name if share == 1 else f"{name}_shared"] = batch / seconds
    if peer:
        result["share"] = SHARE
        for name, setting in (("pykeen_ermlp", ""), ("pykeen_ermlp_allocator", common.ALLOCATOR)):
            result[name] = peer_in_own_process(batch, hidden, setting)
        best = max(result["pykeen_ermlp"], result["pykeen_ermlp_allocator"])
        result["ratio"] = result["heads_only"] / best
        result["ratio_shared"] = result["heads_only_shared"] / best
    return result


def peer_in_own_process(batch: int, hidden: int, setting: str) -> float:
    """Return positive facts per second of PyKEEN's ERMLP, under a setting of the allocator."""
    words = ["--worker", "--batch", str(batch), "--hidden", str(hidden)]
    return float(common.in_own_process(MODULE, words, {"GLIBC_TUNABLES": setting}))


def time_ermlp(splits: Splits, batch: int, hidden: int, negatives: int = 50) -> float:
    """Return seconds per step of PyKEEN's ERMLP: its model, its loss, its sampler, Adam."""
    from pykeen.losses import MarginRankingLoss
    from pykeen.models import ERMLP
    from pykeen.sampling import BasicNegativeSampler
    from pykeen.triples import CoreTriplesFactory

    factory = CoreTriplesFactory(splits.train.facts, splits.num_entities, splits.num_relations)
    model = ERMLP(
        triples_factory=factory, embedding_dim=128, hidden_dim=hidden, loss=MarginRankingLoss()
    )
    sampler = BasicNegativeSampler(
        mapped_triples=factory.mapped_triples, num_negs_per_pos=negatives, filtered=False
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    facts = splits.train.facts[torch.randperm(len(splits.train))[:batch]]
    model.train()

    def step() -> None:
        corrupted, _ = sampler.sample(facts)
        optimizer.zero_grad()
        positive = model.score_hrt(facts)
        negative = model.score_hrt(corrupted.reshape(-1, 3)).view(batch, -1)
        loss = model.loss.process_slcwa_scores(positive, negative)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return seconds_per_call(step)


def main() -> None:
    """Measure and append the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    splits, _ = perturb(load("fb15k-237").split(), PerturbSettings())
    if arguments.worker:
        print(arguments.batch / time_ermlp(splits, arguments.batch, arguments.hidden))
        return
    if arguments.device == "cuda":
        result = on_gpu(splits)
    else:
        result = on_cpu(splits, arguments.peer, arguments.batch, arguments.hidden)
    result |= {
        "command": common.command(MODULE, sys.argv[1:]),
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }
    common.append(arguments.out, result)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
