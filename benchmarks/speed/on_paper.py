"""What `fit` needs for graphs up to ten billion facts, on paper: the tables of docs/scale.md.

    python -m benchmarks.speed.on_paper

Counted from shapes, not measured. ComplEx, d = 64 (128 numbers per entity), four facts per entity
as in Freebase, row-wise Adagrad, 256 candidates that 256 facts share, float32; an H200 as its maker
states it: 141 GB, 4.8 TB/s, 67 TFLOP/s in float32.
"""

from __future__ import annotations

MODULE = "benchmarks.speed.on_paper"
FACTS_PER_ENTITY = 4
WIDTH = 128
CANDIDATES = 256
GPU_BYTES, GPU_BANDWIDTH, GPU_FLOPS = 141e9, 4.8e12, 67e12
# Two cores: what a matrix product of float32 reaches there, about.
CPU_FLOPS = 1e11
# Facts and their index, on every rank; npugraph.training.memory.FACT_BYTES.
FACT_BYTES = 100
SIZES = (10**6, 10**7, 10**8, 10**9, 10**10)


def table_bytes(facts: float, size: int = 4) -> float:
    """Return the bytes of the vectors and of one number per row."""
    return facts / FACTS_PER_ENTITY * (WIDTH * size + 4)


def ranks(facts: float) -> int:
    """Return how many GPUs hold columns of the vectors beside all facts; 0: no number does."""
    left = GPU_BYTES - FACT_BYTES * facts
    return 0 if left <= 0 else max(1, -int(-table_bytes(facts) // left))


def flops(facts: float) -> float:
    """Return the operations of an epoch: both sides, forwards, and twice that backwards."""
    return facts * 2 * 3 * 2 * WIDTH * CANDIDATES


def traffic(facts: float) -> float:
    """Return the least bytes of an epoch: two ends and two candidates per fact, in and out."""
    return facts * (4 * 2 * (4 * WIDTH + 4) + 24)


def bottleneck(facts: float) -> str:
    """Name what gives out first."""
    if not ranks(facts):
        return "facts and index, which every rank holds: no GPU has the memory"
    if ranks(facts) > 1:
        return "facts and index, which every rank holds"
    if table_bytes(facts) < 1e9:
        return "none; two cores do"
    return "products of a step; vectors fit one GPU"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> duration(0.0059), duration(90), duration(7200)
    ('5.9 ms', '90 s', '2.0 h')
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds > 0.01 else f"{1000 * seconds:.1f} ms"
    return f"{seconds:.0f} s" if seconds < 3600 else f"{seconds / 3600:,.1f} h"


def lookup_lines() -> list[str]:
    """Return the table of entity vectors."""
    lines = [
        "| facts | vectors, float32 | bf16 | facts and index, per rank | GPUs | an epoch at least, "
        "GPU | two cores | bottleneck |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for facts in SIZES:
        gpus = ranks(facts)
        time = max(flops(facts) / GPU_FLOPS, traffic(facts) / GPU_BANDWIDTH) / max(1, gpus)
        cells = [
            f"{facts:,}",
            f"{table_bytes(facts) / 1e9:,.2f} GB",
            f"{table_bytes(facts, 2) / 1e9:,.2f} GB",
            f"{FACT_BYTES * facts / 1e9:,.1f} GB",
            str(gpus or "none suffices"),
            duration(time) if gpus else "-",
            duration(flops(facts) / CPU_FLOPS),
            bottleneck(facts),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def path_lines() -> list[str]:
    """Return the table of paths: d = 32, six layers, every question of both directions once."""
    lines = ["| facts | bytes per question | a pass over all questions, one GPU |", "|---|---|---|"]
    for facts in SIZES[:3]:
        # Every edge reads a state per layer, forwards, and twice that backwards.
        moved = 2 * facts * 32 * 4 * 6 * 3
        hours = duration(moved * 2 * facts / GPU_BANDWIDTH)
        lines.append(f"| {facts:,} | {moved / 1e9:,.1f} GB | {hours} |")
    return lines


def main() -> None:
    """Print both tables."""
    print("\n".join([*lookup_lines(), "", *path_lines()]))


if __name__ == "__main__":
    main()
