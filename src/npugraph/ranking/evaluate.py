"""Judge a trained system: filtered ranking of its test facts, with the filters people use."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from npugraph.data.io import ReadOptions, read_table
from npugraph.data.perturb import read_truth
from npugraph.display import Shown
from npugraph.errors import DataError
from npugraph.graph import SIDES, Splits, TripleIndex
from npugraph.metrics import auroc, average_precision, ece
from npugraph.model import Model, Trained
from npugraph.ranking.ranks import CARDINALITIES, Floats, Ranks, rank, relation_cardinality

Part = Literal["valid", "test"]
Group = Literal["relation", "cardinality"]
FILTERS = ("clean", "perturbed", "raw")
# How many facts are scored at once.
CHUNK = 2**16
SHOWN_METRICS = ("mrr", "hits@1", "hits@10")
NOISE_METRICS = ("noise_auroc", "noise_ap", "ece")


class Evaluation(Shown, dict[str, Any]):
    """The metrics of a ranking, a dict: graph, part, facts, seconds, and ``filters`` by name.

    >>> Evaluation(graph="toy", part="test", facts=2, filters={}, seconds=0.1)["facts"]
    2
    """

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the main metrics of each filter."""
        rows = {
            f"{name} filter": ", ".join(f"{key} {found[key]:.4f}" for key in SHOWN_METRICS)
            for name, found in self["filters"].items()
        }
        return f"{self['facts']:,} {self['part']} facts of {self['graph']!r}, ranked", rows


def known_facts(splits: Splits, name: str) -> Tensor:
    """Return the facts [m, 3] that a filter takes out of the candidates.

    - ``clean``: every fact known to be true. For a perturbed graph that is the hidden truth:
      what was given, less the planted facts, plus the removed ones.
    - ``perturbed``: the facts of the files as given, planted ones included.
    - ``raw``: none.
    - anything else is the path of a file of facts.
    """
    if name == "raw":
        return torch.empty(0, 3, dtype=torch.int64)
    if name == "perturbed":
        return splits.all_facts()
    if name == "clean":
        truth = read_truth(splits)
        return splits.all_facts() if truth is None else truth.clean_facts(splits)
    path = Path(name)
    if not path.is_file():
        raise DataError(f"{name!r} is no filter: use {', '.join(FILTERS)} or a file of facts.")
    table, _ = read_table(path, ReadOptions())
    return splits.train.encode(table)


def rank_part(
    fitted: Trained,
    filters: Sequence[str],
    part: Part = "test",
    *,
    memory_budget: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Ranks:
    """Rank every fact of a part under every filter, in one pass over the scores."""
    splits = fitted.splits
    facts = splits.parts()[part].facts
    if len(facts) == 0:
        raise DataError(f"The {part} part of {splits.name!r} holds no facts to rank.")
    return rank(
        fitted.system.score_all,
        facts.to(fitted.system.device),
        splits.num_entities,
        splits.num_relations,
        {name: known_facts(splits, name) for name in filters},
        memory_budget=memory_budget,
        progress=progress,
    )


def count_queries(splits: Splits, part: Part) -> int:
    """Return how many distinct queries ranking a part takes: what its progress counts."""
    facts = splits.parts()[part].facts
    return len(torch.unique(facts[:, :2], dim=0)) + len(torch.unique(facts[:, 1:], dim=0))


def evaluate(
    fitted: Trained,
    filters: Sequence[str] = ("clean",),
    part: Part = "test",
    *,
    by: Sequence[Group] = (),
    memory_budget: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Evaluation:
    """Return metrics per filter: pooled, per side, with the other two rank kinds, and by group."""
    started = time.perf_counter()
    ranks = rank_part(fitted, filters, part, memory_budget=memory_budget, progress=progress)
    results = {}
    for name in filters:
        result: dict[str, Any] = dict(ranks.metrics(name))
        for side in SIDES:
            result[side] = ranks.metrics(name, sides=(side,))
        for kind in ("optimistic", "pessimistic"):
            result[kind] = ranks.metrics(name, kind=kind)
        for group in by:
            result[f"by_{group}"] = _by(ranks, name, fitted.splits, group)
        results[name] = result
    return Evaluation(
        graph=fitted.splits.name,
        part=part,
        facts=len(ranks.facts),
        filters=results,
        seconds=round(time.perf_counter() - started, 3),
    )


def _by(ranks: Ranks, name: str, splits: Splits, group: Group) -> dict[str, Any]:
    relation = ranks.facts[:, 1]
    if group == "relation":
        return ranks.table(name, relation, splits.train.relations.labels.to_pylist())
    classes = relation_cardinality(splits.train.facts, splits.num_entities, splits.num_relations)
    return ranks.table(name, classes[relation], CARDINALITIES)


def noise_judge(splits: Splits) -> Callable[[Model], dict[str, float]] | None:
    """Return a judge that logs how well the posterior tells planted facts from true ones.

    It opens the hidden truth, so it must only ever log. ``noise_auroc`` is over the training
    facts, ``noise_auroc_held_out`` over the validation facts, which were not trained on.
    Returns None where the graph was not perturbed.
    """
    truth = read_truth(splits)
    if truth is None:
        return None
    planted = TripleIndex(truth.planted, splits.num_entities, splits.num_relations)
    true_train = ~planted.contains(splits.train.facts)
    true_valid = ~planted.contains(splits.valid.facts)

    def judge(system: Model) -> dict[str, float]:
        known = system.collected_probability(splits.train.facts.to(system.device))
        if known is None:
            return {}
        held_out = splits.valid.facts.to(system.device)
        collected = torch.ones(len(held_out), dtype=torch.bool, device=system.device)
        value = system.probability(held_out, collected)
        assert value is not None
        return {
            "noise_auroc": auroc(true_train, known.cpu()),
            "noise_auroc_held_out": auroc(true_valid, value.cpu()),
        }

    return judge


def noise_metrics(fitted: Trained) -> dict[str, float | None]:
    """Return how well a trained system tells the planted facts of its graph from the true ones.

    ``noise_auroc`` and ``noise_ap`` (of the false facts) order the training facts, those with
    ``_held_out`` the validation facts, by the system's probability of being true where it has
    one, else by its score. ``ece`` is the calibration error of that probability. A figure that
    does not exist is None; all are where the graph was not perturbed.
    """
    names = [f"{kind}{part}" for part in ("", "_held_out") for kind in NOISE_METRICS]
    truth = read_truth(fitted.splits)
    if truth is None:
        return dict.fromkeys(names)
    splits = fitted.splits
    planted = TripleIndex(truth.planted, splits.num_entities, splits.num_relations)
    figures: list[float | None] = []
    for part in ("train", "valid"):
        facts = splits.parts()[part].facts
        false = planted.contains(facts).numpy()
        value, is_probability = _credibility(fitted, facts, trained=part == "train")
        figures += [auroc(~false, value), average_precision(false, -value)]
        figures.append(ece(value, ~false) if is_probability else None)
    # Not a number: there are no planted facts, or none but planted ones.
    return {
        name: None if figure is None or math.isnan(figure) else figure
        for name, figure in zip(names, figures, strict=True)
    }


@torch.no_grad()
def _credibility(fitted: Trained, facts: Tensor, trained: bool) -> tuple[Floats, bool]:
    """Return the probability or else the score of collected facts [n, 3]: [n], and which it is."""
    system = fitted.system.eval()
    facts = facts.to(system.device)
    known = system.collected_probability(facts) if trained else None
    if known is not None:
        return known.double().cpu().numpy(), True
    scores, probabilities = [], []
    for rows in torch.split(facts, CHUNK):
        probability = system.probability(rows, torch.ones_like(rows[:, 0], dtype=torch.bool))
        if probability is None or probability.isnan().any():
            scores.append(system.score(rows).double().cpu())
        else:
            probabilities.append(probability.double().cpu())
    return torch.cat(probabilities or scores).numpy(), bool(probabilities)


def index_of_known(
    fitted: Trained, parts: Sequence[str] = ("train", "valid", "test")
) -> TripleIndex:
    """Return the index of the facts of some parts of the run's graph, on the system's device."""
    splits = fitted.splits
    facts = torch.cat([splits.parts()[part].facts for part in parts])
    index = TripleIndex(facts, splits.num_entities, splits.num_relations)
    return index.to(fitted.system.device)
