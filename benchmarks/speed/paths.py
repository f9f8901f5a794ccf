"""How long messages along edges take, beside the memory traffic that they need.

    PYTHONPATH=src python benchmarks/speed/paths.py --device cuda                    # drawn graph
    PYTHONPATH=src python benchmarks/speed/paths.py --device cuda --folder FB15K237  # a real one
    PYTHONPATH=src python benchmarks/speed/paths.py --device cuda --tune             # block sizes
    PYTHONPATH=src python benchmarks/speed/paths.py --device cpu --folder UMLS --questions 32

It needs PyTorch and the package's sources, nothing else. Prints one JSON line per setting. On a
GPU: milliseconds forward, and forward and backward, in bfloat16 and float32, for the first layer
(states only at the starts) and any other, in one order of additions and with atomic ones; each
kernel's time; the counted bytes (npugraph.kernels.paths_cuda), and the time they take at the copy
bandwidth measured in the same run, over the time measured: the share of the floor. ``counted``
lets every edge read its rows; ``least`` reads every row once. Rows come from the cache where they
fit, so the share of the counted floor can pass 1. ``layers`` adds up one first layer and five
others. Then the plain PyTorch reference, at fewer questions, since it makes every message. On a
CPU: the reference and what the package takes in its place.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from npugraph.kernels import paths, paths_cuda, paths_items, paths_reference

LAYERS = 6
# Questions at which the reference is timed on a GPU.
REFERENCE_QUESTIONS = 16
SIZES = (128, 1), (256, 1), (256, 2), (512, 2), (512, 4), (1024, 4), (1024, 8)
KERNELS = "forward", "coefficients", "by_source", "by_relation"


@dataclass(frozen=True)
class Work:
    """The arguments of one call, and a gradient of its result."""

    states: Tensor
    relations: Tensor
    start: Tensor
    query: Tensor
    weight: Tensor
    edges: paths.Edges
    slope: Tensor

    def call(self, function: Callable[..., Tensor], **options: bool) -> Callable[[bool], None]:
        """Return what runs a function forward, and backward where asked."""

        def run(backward: bool) -> None:
            given = [x.detach().requires_grad_() for x in (self.states, self.relations, self.query)]
            states, relations, query = given
            out = function(states, relations, self.start, query, self.weight, self.edges, **options)
            if backward:
                torch.autograd.grad(out, given, self.slope)

        return run


def drawn_facts(count: int, entities: int, relations: int, rng: torch.Generator) -> Tensor:
    """Draw facts about as uneven as FB15k-237's: hubs, and a few answers per question."""
    skew = (torch.arange(entities) + 20.0).pow(-0.8)
    pairs = torch.stack(
        [
            skew.multinomial(count // 4, replacement=True, generator=rng),
            (torch.arange(relations) + 5.0)
            .reciprocal()
            .multinomial(count // 4, replacement=True, generator=rng),
        ],
        1,
    )
    pairs = pairs[torch.randint(len(pairs), (count,), generator=rng)]
    # A relation has a range of its own, a tenth of the entities.
    answer = skew.multinomial(count, replacement=True, generator=rng)
    tail = (answer // 10 * 10 + pairs[:, 1] % 10).clamp_max(entities - 1)
    return torch.cat([pairs, tail[:, None]], 1)


def read_facts(folder: Path) -> tuple[Tensor, int, int]:
    """Read train.tsv or train.tsv.gz: facts, and how many entities and relations there are."""
    path = next(p for p in (folder / "train.tsv.gz", folder / "train.tsv") if p.exists())
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    rows = []
    for line in text.decode().splitlines():
        head, relation, tail = line.split("\t")[:3]
        ends = (names.setdefault(name, len(names)) for name in (head, tail))
        rows.append([next(ends), kinds.setdefault(relation, len(kinds)), next(ends)])
    return torch.tensor(rows), len(names), len(kinds)


def make_work(
    edges: paths.Edges, questions: int, width: int, dtype: torch.dtype, from_start: bool
) -> Work:
    """Draw states, vectors and a batch's weights: every tenth edge is hidden."""
    rng = torch.Generator(edges.device).manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng, device=edges.device).to(dtype)

    start = edges.source[
        torch.randint(len(edges), (questions,), generator=rng, device=edges.device)
    ]
    states = draw(edges.num_entities, questions, width).relu()
    if from_start:
        lanes = torch.arange(questions, device=edges.device)
        kept = states[start, lanes]
        states.zero_()[start, lanes] = kept
    return Work(
        states,
        draw(edges.num_relations, questions, width),
        start,
        draw(questions, width),
        (torch.rand(len(edges), generator=rng, device=edges.device) > 0.1).float(),
        edges,
        draw(edges.num_entities, questions, 4, width),
    )


def milliseconds(call: Callable[[], object], cuda: bool, least: float) -> float:
    """Return the mean time of a call over at least ``least`` seconds after a warm-up."""
    call()
    call()
    count = 0
    if cuda:
        torch.cuda.synchronize()
    started = time.perf_counter()
    while count < 3 or time.perf_counter() - started < least:
        call()
        count += 1
        if cuda:
            torch.cuda.synchronize()
    return (time.perf_counter() - started) / count * 1e3


def copy_bandwidth(least: float) -> float:
    """Return bytes per second, read and written, of a large copy on the GPU."""
    source = torch.empty(2**29, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / milliseconds(lambda: target.copy_(source), True, least) * 1e3


def kernel_times(call: Callable[[], object], repeats: int = 5) -> dict[str, float]:
    """Return the milliseconds per call of each GPU kernel, by name."""
    from torch.profiler import ProfilerActivity, profile

    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
    total: dict[str, float] = {}
    for event in found.key_averages():
        spent = float(event.device_time_total) / repeats / 1e3
        ours = event.key if hasattr(paths_cuda.kernels(), event.key) else "other"
        total[ours] = total.get(ours, 0.0) + spent
    return {name: round(spent, 4) for name, spent in sorted(total.items())}


def measure_gpu(
    work: Work, floor: dict[str, Any], from_start: bool, deterministic: bool, least: float
) -> dict[str, Any]:
    """Time one setting, and lay it beside the counted bytes."""
    run = work.call(paths.aggregate, from_start=from_start, deterministic=deterministic)
    forward = milliseconds(lambda: run(False), True, least)
    both = milliseconds(lambda: run(True), True, least)
    record: dict[str, Any] = {
        "forward_ms": forward,
        "both_ms": both,
        "kernels_ms": kernel_times(lambda: run(True)),
        "peak_GB": peak(lambda: run(True)),
    }
    if not from_start:
        shape = work.edges, *work.states.shape[1:], work.states.dtype
        for name, cached in (("counted", False), ("least", True)):
            moved = paths_cuda.traffic(*shape, cached=cached)
            record[f"{name}_GB"] = {kernel: moved[kernel] / 1e9 for kernel in KERNELS}
            needed = {kernel: moved[kernel] / floor["copy_GBps"] / 1e6 for kernel in KERNELS}
            record[f"{name}_share_forward"] = needed["forward"] / forward
            record[f"{name}_share_both"] = sum(needed.values()) / both
            record[f"{name}_share"] = {
                kernel: needed[kernel] / record["kernels_ms"].get(kernel, float("nan"))
                for kernel in KERNELS
            }
    return record


def peak(call: Callable[[], object]) -> float:
    """Return the GB that a call needs at its peak, beside what is there before."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return (torch.cuda.max_memory_allocated() - before) / 1e9


def on_gpu(edges: paths.Edges, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time every setting of the kernels, and the reference at fewer questions."""
    floor = {"copy_GBps": copy_bandwidth(options.seconds) / 1e9}
    for dtype in (torch.bfloat16, torch.float32):
        for deterministic in (True, False):
            spent = {}
            for from_start in (True, False):
                work = make_work(edges, options.questions, options.width, dtype, from_start)
                found = measure_gpu(work, floor, from_start, deterministic, options.seconds)
                spent[from_start] = found["both_ms"]
                name = {"dtype": str(dtype).removeprefix("torch."), "deterministic": deterministic}
                yield {**name, "from_start": from_start, **floor, **found}
            yield {**name, "layers": LAYERS, "ms": spent[True] + (LAYERS - 1) * spent[False]}
    work = make_work(edges, REFERENCE_QUESTIONS, options.width, torch.float32, False)
    for label, function in (("reference", paths_reference.aggregate), ("", paths.aggregate)):
        yield {**compare_line(work, function, True, options.seconds, label), "dtype": "float32"}


def compare_line(
    work: Work, function: Callable[..., Tensor], cuda: bool, least: float, label: str
) -> dict[str, Any]:
    """Time one implementation, forward and both."""
    run = work.call(function)
    return {
        "implementation": label or "compiled",
        "questions": work.states.shape[1],
        "forward_ms": milliseconds(lambda: run(False), cuda, least),
        "both_ms": milliseconds(lambda: run(True), cuda, least),
    }


def on_cpu(edges: paths.Edges, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time the reference and what the package takes in its place."""
    work = make_work(edges, options.questions, options.width, torch.float32, False)
    for label, function in (("reference", paths_reference.aggregate), ("", paths.aggregate)):
        yield compare_line(work, function, False, options.seconds, label)


def tune(edges: paths.Edges, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time the kernels in blocks of several sizes, and with items of several lengths."""
    work = make_work(edges, options.questions, options.width, torch.bfloat16, False)
    usual = paths_cuda.LAUNCH
    for size in SIZES:
        paths_cuda.LAUNCH = replace(usual, forward=size, source=size, relation=size)
        run = partial(work.call(paths.aggregate), True)
        yield {"size": size, "kernels_ms": kernel_times(run)}
    paths_cuda.LAUNCH = usual
    for longest in (32, 64, 128, 255):
        paths_items.LONGEST = longest
        run = partial(replace(work, edges=replace(edges)).call(paths.aggregate), True)
        yield {"longest": longest, "kernels_ms": kernel_times(run)}


def main() -> None:
    """Read the options, make the graph, print the lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--folder", type=Path, help="holds train.tsv or train.tsv.gz")
    parser.add_argument("--facts", type=int, default=154_000, help="at most so many facts")
    parser.add_argument("--questions", type=int, default=128)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=1.0, help="at least, per measurement")
    parser.add_argument("--tune", action="store_true", help="try sizes of blocks and items")
    options = parser.parse_args()
    rng = torch.Generator().manual_seed(0)
    facts, entities, relations = (
        read_facts(options.folder)
        if options.folder
        else (drawn_facts(options.facts, 14_541, 237, rng), 14_541, 237)
    )
    facts = facts[torch.randperm(len(facts), generator=rng)[: options.facts]]
    edges = paths.Edges.of(facts, entities, relations).to(options.device)
    cuda = options.device == "cuda"
    about = {
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "graph": options.folder.name if options.folder else "drawn",
        "entities": entities,
        "relations": edges.num_relations,
        "edges": len(edges),
        "pairs": paths_cuda.plan_of(edges).groups,
        "largest_degree": int(edges.target.bincount().max()),
        "questions": options.questions,
        "width": options.width,
    }
    print(json.dumps(about), flush=True)
    lines = tune if options.tune else on_gpu if cuda else on_cpu
    for line in lines(edges, options):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
