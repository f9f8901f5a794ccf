"""The figures of the paper's tables, and a rule for those that cannot be right.

Tables 2 to 7 of the paper, in the order of its source: ranking at rate 0.3 (Table 2), ablations
(3), Twitter (4), and ranking at rates 0.1, 0.5 and 0.7 (5, 6, 7). scripts/build_paper_figures.py
read them out of the source into printed.tsv.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

NPUGRAPH = "nPUGraph"
# Seeds behind each figure and the level of its stars, as the captions say.
RUNS, LEVEL = 5, 0.01

# The graph of the paper that one of ours stands for.
GRAPHS = {"fb15k": "fb15k", "fb15k-237": "fb15k-237", "wn18": "wn18", "twitter-ego": "twitter"}
# Graphs of ours that stand for another one: figures side by side, but not comparable.
STAND_INS = {"twitter-ego": "twitter"}

# The groups of the paper's tables, with their systems: the paper's name -> our recipe.
GROUPS: dict[str, dict[str, str]] = {
    "Chance": {"Random": "random"},
    "Knowledge graph embedding": {
        "TransE": "transe",
        "TransR": "transr",
        "DistMult": "distmult",
        "ComplEx": "complex",
        "RotatE": "rotate",
    },
    "Graph neural networks": {"RGCN": "rgcn", "CompGCN": "compgcn"},
    "Uncertain knowledge graph embedding": {"UKGE": "ukge"},
    "Negative sampling": {"NSCaching": "nscaching", "SANS": "sans"},
    "Positive-unlabeled learning": {"PUDA": "puda"},
    "nPUGraph": {
        "nPUGraph w/o nPU": "npugraph/no-npu",
        "nPUGraph w/o LP-Encoder": "npugraph/no-lp-encoder",
        "nPUGraph w/o Self-Training": "npugraph/no-self-training",
        NPUGRAPH: "npugraph",
    },
}
# Systems that the paper does not have: variants of nPUGraph stand with it, others come last.
OURS = "Not in the paper"

# A figure printed with three places lies this far from the true one at most.
ROUNDING = 0.0005


@dataclass(frozen=True)
class PaperEntry:
    """The figures of one system on one graph.

    Attributes:
        table: number of the table in the paper.
        graph: fb15k, fb15k-237, wn18 or twitter.
        rate: the paper's ptb_rate.
        system: as the paper writes it.
        figures: metric (mrr, hits@10, ...) -> figure, as printed.
    """

    table: int
    graph: str
    rate: float
    system: str
    figures: Mapping[str, float]

    @property
    def hits(self) -> list[tuple[int, float]]:
        """Return (k, hits@k), k rising."""
        found = [(name.partition("@")[2], figure) for name, figure in self.figures.items()]
        return sorted((int(k), figure) for k, figure in found if k)


@cache
def entries() -> tuple[PaperEntry, ...]:
    """Return every row of the paper's Tables 2 to 7, in their order.

    >>> len(entries()), entries()[0].system, entries()[0].figures["mrr"]
    (165, 'TransE', 0.336)
    """
    text = (files("npugraph.bench.paper") / "printed.tsv").read_text(encoding="utf-8")
    return tuple(
        PaperEntry(
            int(row.pop("table")),
            row.pop("graph"),
            float(row.pop("rate")),
            row.pop("system"),
            MappingProxyType({name: float(figure) for name, figure in row.items() if figure}),
        )
        for row in csv.DictReader(text.splitlines(), delimiter="\t")
    )


@cache
def _by_key() -> Mapping[tuple[str, float, str], PaperEntry]:
    found: dict[tuple[str, float, str], PaperEntry] = {}
    for entry in entries():
        # The ablation table repeats two rows of Table 2 with fewer figures; the first one counts.
        found.setdefault((entry.graph, entry.rate, entry.system), entry)
    return found


def find(graph: str, rate: float, system: str) -> PaperEntry | None:
    """Return the paper's figures by its own names, or None where it has none.

    >>> find("fb15k-237", 0.3, "nPUGraph").figures["mrr"]
    0.287
    """
    return _by_key().get((graph, rate, system))


def system_of(recipe: str) -> str | None:
    """Return the paper's name of a recipe, or None where the paper does not have the system.

    >>> system_of("rotate"), system_of("complex-n3")
    ('RotatE', None)
    """
    for systems in GROUPS.values():
        for system, name in systems.items():
            if name == recipe:
                return system
    return None


def group_of(recipe: str) -> str:
    """Return the group of the table that a recipe stands in.

    >>> group_of("puda"), group_of("npugraph/bilinear"), group_of("complex-n3")
    ('Positive-unlabeled learning', 'nPUGraph', 'Not in the paper')
    """
    for group, systems in GROUPS.items():
        if recipe in systems.values():
            return group
    return NPUGRAPH if recipe.startswith("npugraph") else OURS


def beside(graph: str, rate: float, recipe: str) -> PaperEntry | None:
    """Return the paper's figures that stand beside ours, or None where it has none."""
    system = system_of(recipe)
    if system is None or graph not in GRAPHS:
        return None
    return find(GRAPHS[graph], rate, system)


def impossible(entry: PaperEntry) -> tuple[str, ...]:
    """Say what cannot be about an entry; nothing where it may be right.

    Hits and MRR are means over facts and runs, so what holds for every rank holds for them. Hits
    never fall as k rises. A rank in (j, k] has a reciprocal between 1/k and 1/(j+1), so with
    k_0 = 0 and hits@0 = 0

        MRR >= sum_i (hits@k_i - hits@k_(i-1)) / k_i
        MRR <= sum_i (hits@k_i - hits@k_(i-1)) / (k_(i-1) + 1) + (1 - hits@k_n) / (k_n + 1)

    Every figure may be off by half a unit of its last place; an entry is named only if no figures
    that round to the printed ones satisfy the rules. The first two hold for means of tied ranks,
    such as 1.5, as well; the upper bound of MRR does not.

    >>> impossible(find("wn18", 0.5, "CompGCN"))
    ('H@10 = 0.315 is below H@3 = 0.336',)
    """
    reasons = []
    for (j, fewer), (k, more) in itertools.pairwise(entry.hits):
        if more < fewer - 2 * ROUNDING - 1e-9:
            reasons.append(f"H@{k} = {more:.3f} is below H@{j} = {fewer:.3f}")
    low, high = mrr_bounds(entry.hits)
    mrr = entry.figures["mrr"]
    # The lower sum weighs the hits by weights that add up to 1, the upper one by a little less.
    if mrr < low - 2 * ROUNDING - 1e-9:
        reasons.append(f"MRR = {mrr:.3f} is below the least its hits allow, {low:.3f}")
    if mrr > high + 2 * ROUNDING + 1e-9:
        reasons.append(f"MRR = {mrr:.3f} is above the most its hits allow, {high:.3f}")
    return tuple(reasons)


def mrr_bounds(hits: list[tuple[int, float]]) -> tuple[float, float]:
    """Return the least and the largest MRR that go with hits (k, hits@k), k rising.

    >>> [round(end, 3) for end in mrr_bounds([(1, 0.2), (3, 0.3), (10, 0.5)])]
    [0.253, 0.345]
    """
    low = high = 0.0
    j, before = 0, 0.0
    for k, share in hits:
        low += (share - before) / k
        high += (share - before) / (j + 1)
        j, before = k, share
    return low, high + (1 - before) / (j + 1)


@cache
def impossible_entries() -> tuple[PaperEntry, ...]:
    """Return the entries that cannot be right, in the paper's order."""
    return tuple(entry for entry in entries() if impossible(entry))
