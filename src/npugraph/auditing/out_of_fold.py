"""Judge every fact by a system that never saw it.

A system trained on a wrong fact learns it by heart. So the facts are cut into folds; for each
fold a system is trained on the others, and only that system judges the facts of the fold, and a
pool of uncollected facts to compare them with.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from npugraph.auditing.features import FEATURES, Comparison
from npugraph.errors import RunError, SettingsError
from npugraph.fitting import Fitted, fit
from npugraph.graph import KnowledgeGraph, Splits, TripleIndex, distinct_tails, flip
from npugraph.model import Model
from npugraph.seeds import generator, number
from npugraph.settings import TrainSettings
from npugraph.training.run_folder import Run

Kind = Literal["random", "one-sided", "typed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Uncollected facts a kind at most.
POOL = 200_000


@dataclass(frozen=True)
class Folds:
    """Which fold each distinct fact of a graph is in.

    Attributes:
        graph: the distinct facts, in key order.
        fold: int64 [n], 0..count - 1.
        count: how many folds there are.
    """

    graph: KnowledgeGraph
    fold: Tensor
    count: int

    def splits(self, fold: int, valid_share: float, seed: int) -> Splits:
        """Return what a fold's system is trained and validated on; test is the fold itself."""
        others = torch.nonzero(self.fold != fold).squeeze(1)
        order = others[torch.randperm(len(others), generator=generator(seed, "valid", fold))]
        num_valid = max(1, round(valid_share * len(order)))
        valid, train = order[:num_valid], order[num_valid:].sort().values
        held_out = self.graph.select(self.fold == fold)
        return Splits(
            f"fold {fold + 1}", self.graph.select(train), self.graph.select(valid), held_out
        )


def make_folds(graph: KnowledgeGraph, count: int, seed: int) -> Folds:
    """Cut the distinct facts of a graph into ``count`` folds of equal size, seeded."""
    index = graph.index()
    if not 2 <= count <= len(index):
        raise SettingsError(f"folds={count} must lie between 2 and the {len(index)} facts.")
    place = torch.searchsorted(index.keys, index.key(graph.facts))
    first = torch.full((len(index),), len(graph)).scatter_reduce(
        0, place, torch.arange(len(graph)), "amin"
    )
    fold = torch.empty(len(index), dtype=torch.int64)
    order = torch.randperm(len(index), generator=generator(seed, "folds"))
    fold[order] = torch.arange(len(index)) % count
    return Folds(graph.select(first), fold, count)


def draw_pool(
    facts: Tensor, index: TripleIndex, kind: Kind, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw about one uncollected fact for each fact [n, 3]; those that are collected drop out.

    ``random`` draws head, relation and tail evenly. ``one-sided`` replaces one end of the fact by
    any entity, ``typed`` by one that is seen at that end of that relation. Returns the facts
    [m, 3] and which of their ends was replaced [m]: 0 the head, 2 the tail, -1 no single end.
    """
    count = len(facts)
    slot = torch.full((count,), -1)
    sizes = (index.num_entities, index.num_relations, index.num_entities)
    drawn = torch.stack([torch.randint(n, (count,), generator=rng) for n in sizes], 1)
    if kind != "random":
        slot = 2 * torch.randint(2, (count,), generator=rng)
        new = drawn[:, 0]
        if kind == "typed":
            known = index.facts()
            heads = _seen(flip(known), facts[:, 1], index, rng)
            tails = _seen(known, facts[:, 1], index, rng)
            new = torch.where(slot == 0, heads, tails)
        drawn = facts.clone()
        drawn[torch.arange(count), slot] = new
    fresh = ~index.contains(drawn)
    return drawn[fresh], slot[fresh]


def _seen(known: Tensor, relation: Tensor, index: TripleIndex, rng: torch.Generator) -> Tensor:
    """Draw for each relation [n] one of its distinct tails in the known facts [m, 3]: [n]."""
    tails, start, size = distinct_tails(known, index.num_entities, index.num_relations)
    chance = torch.rand(len(relation), generator=rng, dtype=torch.float64)
    return tails[start[relation] + (chance * size[relation]).long()]


@dataclass(frozen=True)
class Judged:
    """Facts with the features a system gave them that was not trained on them.

    Attributes:
        facts: int64 [n, 3].
        fold: int64 [n].
        features: float32 [n, len(FEATURES)].
        replaced: int64 [n], which end of a fact of a pool was replaced: 0, 2, or -1, no single end.
    """

    facts: Tensor
    fold: Tensor
    features: Tensor
    replaced: Tensor


@dataclass(frozen=True)
class CrossFit:
    """The collected facts of a graph, and pools of uncollected ones, judged out of fold.

    Attributes:
        folds: which fold each fact is in.
        systems: by fold, the system that was not trained on it.
        collected: the collected facts, in key order.
        pools: uncollected facts by kind.
    """

    folds: Folds
    systems: tuple[Model, ...]
    collected: Judged
    pools: dict[Kind, Judged]

    def comparison(self, fold: int, size: int, seed: int) -> Comparison:
        """Return what judges facts by the system of a fold, the same each time."""
        # Counts and roles come from the other folds alone, the validation facts among them.
        others = self.folds.graph.select(self.folds.fold != fold)
        return Comparison(self.systems[fold], others, size, generator(seed, "compare", fold))


def cross_fit(
    graph: KnowledgeGraph,
    recipe: str,
    settings: TrainSettings,
    *,
    folds: int = 5,
    size: int = 512,
    valid_share: float = 0.02,
    seed: int = 0,
    out: Path | None = None,
    report: Callable[[int, dict[str, Any]], object] | None = None,
) -> CrossFit:
    """Train a system a fold and judge every fact by the one that never saw it.

    Args:
        graph: the collected facts; repeats count once.
        recipe: a name of RECIPES.
        settings: the recipe's settings, with its own seed in every fold.
        folds: how many systems are trained.
        size: entities each question is compared with: so many at random, as many by role.
        valid_share: share of a fold's training facts that chooses its best epoch.
        seed: of the folds, the pools and the comparisons.
        out: a folder for one run a fold; a run that is there is gone on with.
        report: called with the fold and each epoch's metrics.
    """
    cut = make_folds(graph, folds, seed)
    index = cut.graph.index()
    systems = tuple(
        _fit_fold(cut, fold, recipe, settings, valid_share, seed, out, report).system
        for fold in range(folds)
    )
    features = torch.empty(len(cut.graph), len(FEATURES))
    empty = Judged(cut.graph.facts, cut.fold, features, torch.full_like(cut.fold, -1))
    fitted = CrossFit(cut, systems, empty, {})
    pools: dict[Kind, list[Judged]] = {kind: [] for kind in KINDS}
    for fold in range(folds):
        comparison = fitted.comparison(fold, size, seed)
        mine = cut.graph.facts[cut.fold == fold]
        fitted.collected.features[cut.fold == fold] = comparison.features(mine).cpu()
        for kind in KINDS:
            # Enough to learn from; a large graph needs no pool of its own size.
            rng = generator(seed, "pool", kind, fold)
            some = mine[torch.randperm(len(mine), generator=rng)[: POOL // folds]]
            pool, replaced = draw_pool(some, index, kind, rng)
            found = comparison.features(pool).cpu()
            pools[kind].append(Judged(pool, torch.full((len(pool),), fold), found, replaced))
    return replace(fitted, pools={kind: _join(parts) for kind, parts in pools.items()})


def _join(parts: list[Judged]) -> Judged:
    return Judged(
        *(torch.cat([getattr(part, f.name) for part in parts]) for f in dataclasses.fields(Judged))
    )


def _fit_fold(
    folds: Folds,
    fold: int,
    recipe: str,
    settings: TrainSettings,
    valid_share: float,
    seed: int,
    out: Path | None,
    report: Callable[[int, dict[str, Any]], object] | None,
) -> Fitted:
    """Train the system of one fold; its seed follows from the seed and the fold."""
    own = replace(settings, seed=number(seed, "fold", fold) % 2**31)
    splits = folds.splits(fold, valid_share, seed)
    folder = None if out is None else out / f"fold-{fold + 1}"
    resume = folder is not None and (folder / "settings.json").is_file()
    if folder is not None and resume:
        try:
            Run.open(folder).check_same(recipe, own, splits)
        except RunError as error:
            raise RunError(
                f"{folder} belongs to another graph, or to other folds, settings or seed; repeat "
                f"what was asked for then, or write to another folder. ({error})"
            ) from None
    tell = None if report is None else lambda record: report(fold, record)
    return fit(splits, recipe, own, folder, resume=resume, report=tell)
