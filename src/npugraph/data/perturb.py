"""The speculative protocol: make a clean graph noisy and incomplete, and keep the truth.

As in the nPUGraph paper: train and valid are merged; ``rate`` of their facts are flipped, of
which 90% are removals of true facts and 10% additions of false ones; the result is split 7:3
into new train and valid; test stays as it was. What was removed and what was planted is the
hidden truth: it is returned beside the dataset, written to a file of its own, and never read
by training.

The noise ``caged`` follows the published code of CAGED instead: ``rate`` is the share of all
facts, those of test among them, that are added, and nothing is removed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import torch
from torch import Tensor

from npugraph.data.corrupt import NOISES, Noise, draw_with_origin
from npugraph.data.io import write_splits, write_table, write_text
from npugraph.data.sources import GraphLike, load_splits
from npugraph.errors import DataError, SettingsError
from npugraph.graph import Splits, TripleIndex
from npugraph.seeds import generator
from npugraph.settings import as_settings

TRUTH_COLUMNS = ["head", "relation", "tail", "kind"]

# Train and valid facts in the paper's table of datasets. They do not follow from its own text.
PAPER_COUNTS: dict[tuple[str, float], tuple[int, int]] = {
    ("fb15k", 0.1): (340_968, 146_129),
    ("fb15k", 0.3): (276_940, 118_688),
    ("fb15k", 0.5): (213_380, 91_448),
    ("fb15k", 0.7): (150_485, 64_493),
    ("fb15k-237", 0.1): (184_803, 79_201),
    ("fb15k-237", 0.3): (149_229, 63_954),
    ("fb15k-237", 0.5): (113_772, 48_759),
    ("fb15k-237", 0.7): (78_531, 33_656),
    ("wn18", 0.1): (92_428, 39_612),
    ("wn18", 0.3): (72_462, 31_055),
    ("wn18", 0.5): (52_707, 22_588),
    ("wn18", 0.7): (34_984, 14_993),
}


@dataclass(frozen=True)
class PerturbSettings:
    """How a graph is perturbed.

    Attributes:
        rate: share of the merged facts that are flipped (``ptb_rate``), in [0, 1).
        noise: where a planted fact comes from, a kind of :mod:`npugraph.data.corrupt`.
        added_share: share of the flips that plant a false fact; the rest remove a true one. Not
            used with ``caged``, which removes nothing.
        train_share: share of the perturbed facts that become train; the rest become valid.
        seed: every draw follows from it.
    """

    rate: float = 0.3
    noise: Noise = "random"
    added_share: float = 0.1
    train_share: float = 0.7
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        if self.noise not in NOISES:
            raise SettingsError(f"noise={self.noise!r} must be one of {', '.join(NOISES)}.")
        for name in ("rate", "added_share", "train_share"):
            value = getattr(self, name)
            if not 0 <= value <= 1 or (name == "rate" and value == 1):
                raise SettingsError(f"{name}={value} must lie between 0 and 1.")
        if self.train_share in (0, 1):
            raise SettingsError(f"train_share={self.train_share} leaves train or valid empty.")


@dataclass(frozen=True)
class Truth:
    """What a perturbation hid: facts [n, 3] that were planted (false) or removed (true).

    ``origin`` [n, 3] is what each planted fact was made of, -1 where that is nothing; None where
    the truth was read from a file, which does not keep it.
    """

    planted: Tensor
    removed: Tensor
    origin: Tensor | None = None

    def clean_facts(self, splits: Splits) -> Tensor:
        """Return all facts known to be true: the given ones less the planted, plus the removed."""
        planted = TripleIndex(self.planted, splits.num_entities, splits.num_relations)
        given = splits.all_facts()
        return torch.cat([given[~planted.contains(given)], self.removed])


def perturb(
    graph: GraphLike, settings: PerturbSettings | Mapping[str, Any] | None = None
) -> tuple[Splits, Truth]:
    """Perturb the merged train and valid facts of a graph.

    Repeated facts count once, and facts labelled as wrong not at all. Planted facts are new: in
    none of train, valid and test.

    Args:
        graph: what ``load_graph`` takes; where it has no parts they are drawn by the seed.
        settings: how, or a dict of what is not as by default: ``{"rate": 0.1}``.

    Returns:
        The perturbed graph, and what was planted and removed.
    """
    settings = as_settings(PerturbSettings, settings)
    splits = load_splits(graph, settings.seed).without_wrong()
    merged, confidence = _merge(splits)
    num_added, num_removed = _counts(len(merged), len(splits.all_facts()), settings)
    order = torch.randperm(len(merged), generator=generator(settings.seed, "remove"))
    removed, kept = order[:num_removed], order[num_removed:]
    known = TripleIndex(
        torch.cat([merged, splits.test.facts]), splits.num_entities, splits.num_relations
    )
    # CAGED corrupts facts of test, too, and numbers all in the order of the files.
    corrupted = splits.all_facts() if settings.noise == "caged" else merged
    planted, origin = draw_with_origin(corrupted, known, num_added, settings.noise, settings.seed)
    facts = torch.cat([merged[kept], planted])
    if confidence is not None:
        # A planted fact looks like any other: its confidence is drawn from the given ones.
        rng = generator(settings.seed, "confidence")
        drawn = torch.randint(len(merged), (len(planted),), generator=rng)
        confidence = torch.cat([confidence[kept], confidence[drawn]])
    shuffle = torch.randperm(len(facts), generator=generator(settings.seed, "parts"))
    num_train = round(settings.train_share * len(facts))
    name = f"{splits.name}-ptb{settings.rate:g}-{settings.noise}-seed{settings.seed}"
    whole = splits.train.with_facts(facts, source=name)
    whole = dataclasses.replace(whole, confidence=confidence)
    train, valid = whole.select(shuffle[:num_train]), whole.select(shuffle[num_train:])
    return Splits(name, train, valid, splits.test), Truth(planted, merged[removed], origin)


def _counts(merged: int, every: int, settings: PerturbSettings) -> tuple[int, int]:
    """Return how many facts are planted and removed; ``every`` counts the test facts, too."""
    if settings.noise == "caged":
        return int(settings.rate * every), 0
    changed = round(settings.rate * merged)
    added = round(settings.added_share * changed)
    return added, changed - added


def _merge(splits: Splits) -> tuple[Tensor, Tensor | None]:
    """Return the distinct facts of train and valid, in key order, and their confidence."""
    facts = torch.cat([splits.train.facts, splits.valid.facts])
    index = TripleIndex(facts, splits.num_entities, splits.num_relations)
    if splits.train.confidence is None or splits.valid.confidence is None:
        return index.facts(), None
    given = torch.cat([splits.train.confidence, splits.valid.confidence])
    confidence = torch.empty(len(index), dtype=given.dtype)
    confidence[index.places(facts)] = given
    return index.facts(), confidence


def describe(splits: Splits, truth: Truth, settings: PerturbSettings, base: str) -> dict[str, Any]:
    """Return our counts, and the paper's beside them where it has that row."""
    total = len(splits.train) + len(splits.valid)
    paper = PAPER_COUNTS.get((base, settings.rate))
    return {
        "graph": base,
        **dataclasses.asdict(settings),
        "entities": splits.num_entities,
        "relations": splits.num_relations,
        "train": len(splits.train),
        "valid": len(splits.valid),
        "test": len(splits.test),
        "planted": len(truth.planted),
        "removed": len(truth.removed),
        "true_share": (total - len(truth.planted)) / total if total else 0.0,
        "paper": None if paper is None else {"train": paper[0], "valid": paper[1]},
    }


def save(splits: Splits, truth: Truth, stats: dict[str, Any], folder: Path) -> None:
    """Write train, valid, test, truth.tsv and stats.json into a folder."""
    write_splits(splits, folder)
    tables = []
    for kind, facts in (("planted", truth.planted), ("removed", truth.removed)):
        table = splits.train.with_facts(facts).to_table()
        tables.append(table.append_column("kind", pa.array([kind] * len(facts), pa.string())))
    write_table(pa.concat_tables(tables), folder / "truth.tsv", header=True)
    write_text(folder / "stats.json", json.dumps(stats, indent=2) + "\n")


def read_truth(splits: Splits) -> Truth | None:
    """Read the hidden truth of a perturbed graph, or None where there is none."""
    if splits.truth is None:
        return None
    if not splits.truth.is_file():
        raise DataError(f"{splits.truth}: the hidden truth of {splits.name!r} is no longer there.")
    # Not read_table: a graph perturbed at rate 0 has a truth without a single row.
    try:
        table = pyarrow.csv.read_csv(
            splits.truth,
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(TRUTH_COLUMNS, pa.string()), strings_can_be_null=False
            ),
        ).select(TRUTH_COLUMNS)
    except (pa.ArrowInvalid, KeyError) as error:
        raise DataError(f"{splits.truth}: no readable hidden truth ({error}).") from None
    planted, removed = (
        splits.train.encode(table.filter(pc.equal(table["kind"], name)))
        for name in ("planted", "removed")
    )
    return Truth(planted, removed)
