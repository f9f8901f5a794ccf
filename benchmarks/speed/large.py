"""ComplEx on as many entities as one GPU holds: facts per second, memory, hours per epoch.

    PYTHONPATH=src python -m benchmarks.speed.large                # for one H200
    PYTHONPATH=src python -m benchmarks.speed.large --table-precision bf16
    PYTHONPATH=src python -m benchmarks.speed.large --device cpu --entities 20000 --facts 100000 \
        --relations 50 --batches 512 --seconds 5

Entities, relations and facts are as many as Freebase has (86,054,151, 14,824 and 338,586,276), d =
64 complex numbers. Facts are drawn on the device, a chunk at a time: heads and tails with a skew,
four fifths of the tails by a rule from head and relation, so that there is something to learn. A
step is the package's own: both ends of each fact against candidates that runs of facts share,
softmax and N3 on the rows in use, sparse gradients, row-wise Adagrad. Candidates that make a fact
by chance are not looked for (at this size one in ten million does). Names, files and an index of
the facts are left out: it is the training step that is measured.

Each batch size gets an equal part of ``--seconds``; hours per epoch are extrapolated from the
steps that were taken, and the line says how many. The floor: every row that a step uses is read
and written once, and its sum likewise, at the copy bandwidth of the same run. It needs PyTorch and
the package's sources. Prints the first steps at once, then one JSON line per batch size.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from npugraph.encoders import Lookup
from npugraph.errors import NpugraphError, SettingsError
from npugraph.graph import SIDES
from npugraph.machine import free_bytes
from npugraph.model import Question, System
from npugraph.objectives import SoftmaxN3
from npugraph.ranking.sampled import named, ranks_among_sampled
from npugraph.samplers import Candidates
from npugraph.scorers import ComplEx
from npugraph.seeds import generator
from npugraph.training.rowwise import RowwiseAdagrad
from npugraph.training.step import descend

MODULE = "benchmarks.speed.large"
# Facts that are drawn at once.
CHUNK = 2**22
# Rows of a table that are filled at once.
ROWS = 2**20
WARMUP = 3
PUBLISHED = {
    "system": "dist-kge, one machine, ComplEx, d = 128 (Kochsiek and Gemulla 2021)",
    "seconds_per_epoch": 3929,
}


@dataclass(frozen=True)
class Sizes:
    """What is trained."""

    entities: int
    relations: int
    facts: int
    d: int
    negatives: int
    share: int
    dtype: torch.dtype
    device: torch.device
    seed: int

    @property
    def width(self) -> int:
        """Numbers per entity."""
        return 2 * self.d

    def bytes_kept(self) -> int:
        """Bytes of the tables and of one number per row."""
        rows = self.entities + 2 * self.relations
        return rows * (self.width * self.dtype.itemsize + 4)

    def bytes_of_step(self, batch: int) -> int:
        """About how many bytes a step takes: rows looked up, their gradients, sorted and moved."""
        rows = 4 * batch + 2 * self.runs(batch) * self.negatives
        return 10 * 4 * rows * self.width + 3 * 8 * CHUNK

    def runs(self, batch: int) -> int:
        """Runs of facts that share candidates."""
        return -(-batch // self.share)


def table(rows: int, sizes: Sizes, purpose: str) -> Tensor:
    """Draw a table on the device, some rows at a time."""
    made = torch.empty(rows, sizes.width, dtype=sizes.dtype, device=sizes.device)
    rng = generator(sizes.seed, purpose, device=sizes.device)
    for part in torch.split(made, ROWS):
        drawn = torch.randn(part.shape, generator=rng, device=sizes.device)
        part.copy_(drawn.mul_(1e-3))
    return made


def chunk_of_facts(number: int, sizes: Sizes, count: int = CHUNK) -> Tensor:
    """Draw facts [count, 3] on the device; they follow from the seed and the number alone."""
    rng = generator(sizes.seed, "facts", number, device=sizes.device)
    chance = torch.rand(4, count, generator=rng, device=sizes.device, dtype=torch.float64)
    head = (chance[0].square() * sizes.entities).long()
    relation = (chance[1].square() * sizes.relations).long()
    by_rule = (head * 48_271 + relation * 16_807 + 11) % sizes.entities
    by_chance = (chance[2].square() * sizes.entities).long()
    tail = torch.where(chance[3] < 0.8, by_rule, by_chance)
    return torch.stack([head, relation, tail], 1)


def batches(batch: int, sizes: Sizes) -> Iterator[Tensor]:
    """Yield batches of fresh facts, whole ones, without end."""
    number = 0
    while True:
        facts = chunk_of_facts(number, sizes, max(CHUNK if sizes.facts > CHUNK else 0, batch))
        yield from (part for part in torch.split(facts, batch) if len(part) == batch)
        number += 1


def questions(facts: Tensor, sizes: Sizes, rng: torch.Generator) -> list[Question]:
    """Ask both ends of a batch, each against candidates that runs of facts share."""
    shape = sizes.runs(len(facts)), sizes.negatives
    draws = [
        torch.randint(sizes.entities, shape, generator=rng, device=facts.device) for _ in SIDES
    ]
    return [
        Question(facts, side, Candidates(drawn)) for side, drawn in zip(SIDES, draws, strict=True)
    ]


def floor_bytes(asked: list[Question], sizes: Sizes) -> int:
    """Count the bytes that a step must move at least: its rows, their sums and its facts."""
    ends = [ids for one in asked for ids in one.ends()]
    pools = [one.candidates.ids.flatten() for one in asked if one.candidates is not None]
    entities = len(torch.unique(torch.cat([*ends, *pools])))
    relations = 2 * len(torch.unique(asked[0].facts[:, 1]))
    rows = 2 * (sizes.width * sizes.dtype.itemsize + 4) * (entities + relations)
    return rows + asked[0].facts.nbytes


def bandwidth(device: torch.device) -> float:
    """Return the bytes per second that a copy reads and writes."""
    numbers = 2**28 if device.type == "cuda" else 2**24
    source = torch.zeros(numbers, device=device)
    target = torch.empty_like(source)
    times = []
    for _ in range(5):
        wait(device)
        started = time.perf_counter()
        target.copy_(source)
        wait(device)
        times.append(time.perf_counter() - started)
    return 2 * source.nbytes / min(times)


def wait(device: torch.device) -> None:
    """Wait for what a GPU still does."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(device: torch.device) -> int:
    """Return the most memory so far: of tensors on a GPU, of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def check_room(sizes: Sizes, batch: int) -> None:
    """Refuse what does not fit the device."""
    needed, free = sizes.bytes_kept() + sizes.bytes_of_step(batch), free_bytes(sizes.device)
    print(
        f"plan: tables and sums {sizes.bytes_kept() / 1e9:,.1f} GB, with a step "
        f"{needed / 1e9:,.1f} GB; free {(free or 0) / 1e9:,.1f} GB",
        file=sys.stderr,
        flush=True,
    )
    if free is not None and needed > free:
        raise SettingsError(
            f"This needs about {needed / 1e9:,.1f} GB and {sizes.device} has {free / 1e9:,.1f} GB "
            "free; take fewer --entities, smaller --batches or --table-precision bf16."
        )


def measure(
    batch: int, system: System, optimizer: RowwiseAdagrad, sizes: Sizes, seconds: float
) -> dict[str, Any]:
    """Take steps until the time is over; return what was found."""
    objective, rng = SoftmaxN3(1e-3), generator(sizes.seed, "candidates", device=sizes.device)
    losses: list[Tensor] = []
    floors: list[int] = []
    taken, started = 0, time.perf_counter()
    # Looked at now and then: waiting for a GPU after every step would slow it down.
    look = 10 if sizes.device.type == "cuda" else 1
    for number, facts in enumerate(batches(batch, sizes)):
        if number == WARMUP:
            wait(sizes.device)
            started = time.perf_counter()
        if number % look == 0 and number > WARMUP:
            wait(sizes.device)
            if time.perf_counter() - started > seconds:
                break
        if number < WARMUP:
            started = time.perf_counter()
        asked = questions(facts, sizes, rng)
        scored = system.scored_together(asked)
        loss = torch.stack([objective(one) for one in scored]).mean()
        losses.append(descend(loss, optimizer))
        if number < WARMUP:
            # Before the clock counts: it takes a sort of its own.
            wait(sizes.device)
            spent = time.perf_counter() - started
            print(f"batch {batch:,}: step {number + 1} took {spent:.3f} s", file=sys.stderr)
            sys.stderr.flush()
            floors.append(floor_bytes(asked, sizes))
        else:
            taken += 1
    wait(sizes.device)
    spent = time.perf_counter() - started
    rate = taken * batch / spent
    return {
        "batch": batch,
        "steps": taken,
        "seconds": round(spent, 3),
        "facts_per_second": rate,
        "hours_per_epoch_extrapolated": sizes.facts / rate / 3600,
        "first_and_last_loss": [float(losses[0]), float(losses[-1])],
        "floor_bytes_per_fact": sum(floors) / len(floors) / batch,
    }


def run(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Train with each batch size; yield a record of each."""
    auto = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(auto if given.device == "auto" else given.device)
    dtype = torch.bfloat16 if given.table_precision == "bf16" else torch.float32
    counts = given.entities, given.relations, given.facts, given.d, given.negatives, given.share
    sizes = Sizes(*counts, dtype, device, given.seed)
    check_room(sizes, max(given.batches))
    speed = bandwidth(device)
    started = time.perf_counter()
    tables = table(sizes.entities, sizes, "entities"), table(2 * sizes.relations, sizes, "r")
    wait(device)
    print(f"tables drawn in {time.perf_counter() - started:.1f} s", file=sys.stderr, flush=True)
    ends = sizes.entities, sizes.relations
    system = System(Lookup(*tables), ComplEx(), *ends, reciprocal=True, sparse="always")
    optimizer = RowwiseAdagrad(system.parameters(), lr=0.1, seed=sizes.seed)
    held = chunk_of_facts(-1, sizes, given.ranked)
    for batch in given.batches:
        system.train()
        with torch.sparse.check_sparse_tensor_invariants(enable=False):  # type: ignore[no-untyped-call]
            found = measure(batch, system, optimizer, sizes, given.seconds / len(given.batches))
        least = found["floor_bytes_per_fact"] * found["facts_per_second"] / speed
        system.eval()
        ranked = named(*ranks_among_sampled(system, held, given.candidates, sizes.seed))
        yield {
            "entities": sizes.entities,
            "relations": sizes.relations,
            "facts": sizes.facts,
            "floats_per_entity": sizes.width,
            "table_precision": given.table_precision,
            "negatives": sizes.negatives,
            "share": sizes.share,
            **found,
            "copy_gb_per_second": speed / 1e9,
            "share_of_traffic_floor": least,
            "gb_kept": sizes.bytes_kept() / 1e9,
            "gb_peak": peak_bytes(device) / 1e9,
            "ranked_facts": len(held),
            "sampled_candidates": given.candidates,
            **ranked,
            "published": PUBLISHED,
            "seed": sizes.seed,
            "torch": torch.__version__,
            "machine": torch.cuda.get_device_name()
            if device.type == "cuda"
            else platform.machine(),
        }


def main(words: list[str] | None = None) -> None:
    """Read the options, train, print one JSON line per batch size."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--entities", type=int, default=86_054_151)
    parser.add_argument("--relations", type=int, default=14_824)
    parser.add_argument("--facts", type=int, default=338_586_276, help="of an epoch")
    parser.add_argument("--d", type=int, default=64, help="complex numbers per entity")
    parser.add_argument("--negatives", type=int, default=256, help="candidates of a run of facts")
    parser.add_argument("--share", type=int, default=256, help="facts that share candidates")
    parser.add_argument("--batches", type=int, nargs="+", default=[8192, 32_768, 131_072])
    parser.add_argument("--table-precision", choices=["float32", "bf16"], default="float32")
    parser.add_argument("--seconds", type=float, default=120.0, help="of all steps together")
    parser.add_argument("--ranked", type=int, default=1000, help="facts that are ranked at the end")
    parser.add_argument("--candidates", type=int, default=1000, help="drawn for that ranking")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    given = parser.parse_args(words)
    command = " ".join(["python -m benchmarks.speed.large", *(words or sys.argv[1:])])
    try:
        for record in run(given):
            line = json.dumps({"benchmark": "large", "command": command, **record})
            print(line, flush=True)
            if given.out:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
    except NpugraphError as error:
        raise SystemExit(f"error: {error}") from None
    except torch.OutOfMemoryError as error:
        raise SystemExit(f"error: the device is full: {str(error).splitlines()[0]}") from None


if __name__ == "__main__":
    main()
