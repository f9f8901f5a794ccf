"""Exact filtered ranking of heads and tails over all entities.

Works on any ``score_all(known, relation, side) -> scores [q, E]``; no model is needed. Each
distinct query is scored once, whatever the number of test facts that share it. Scores stream in
chunks that fit a memory budget.

The rank of the true entity among the candidates, with ties (Berrendorf et al. 2020):

- optimistic: 1 + the number of candidates that score higher;
- pessimistic: 1 + the number of other candidates that score at least as high;
- realistic: the mean of the two, the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from npugraph.errors import DataError
from npugraph.graph import SIDES, Side, TripleIndex, flip, mean_answers

ScoreAll = Callable[[Tensor, Tensor, Side], Tensor]
RankKind = Literal["realistic", "optimistic", "pessimistic"]
Metrics = dict[str, float]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
HITS = (1, 3, 10, 30, 50, 100)
CPU_BUDGET = 32 * 2**20
GPU_BUDGET = 2 * 2**30
CARDINALITIES = ("1-1", "1-n", "n-1", "n-n")


@dataclass(frozen=True)
class SideRanks:
    """Ranks of one side under one filter; float64 arrays [n], one entry a fact.

    Attributes:
        optimistic: rank with ties decided in our favour.
        pessimistic: rank with ties decided against us.
        candidates: how many entities were ranked, the true one included.
    """

    optimistic: Floats
    pessimistic: Floats
    candidates: Floats

    def of(self, kind: RankKind) -> Floats:
        """Return the ranks [n] of one kind."""
        if kind == "realistic":
            return np.divide(self.optimistic + self.pessimistic, 2)
        return self.optimistic if kind == "optimistic" else self.pessimistic


@dataclass(frozen=True)
class Ranks:
    """Ranks of every fact: by filter name, then by the side that was asked for."""

    facts: Ints
    by_filter: dict[str, dict[Side, SideRanks]]

    def metrics(
        self,
        filter_name: str,
        *,
        kind: RankKind = "realistic",
        sides: Sequence[Side] = SIDES,
        where: NDArray[np.bool_] | None = None,
        hits: Sequence[int] = HITS,
    ) -> Metrics:
        """Return MRR, mean rank, Hits@k and the adjusted mean rank index, sides pooled.

        Args:
            filter_name: which filter's ranks.
            kind: how ties count.
            sides: which sides to pool.
            where: bool mask [n] of the facts to take; all where None.
            hits: the k of Hits@k.
        """
        chosen = [self.by_filter[filter_name][side] for side in sides]
        pick = slice(None) if where is None else where
        ranks = np.concatenate([side.of(kind)[pick] for side in chosen])
        candidates = np.concatenate([side.candidates[pick] for side in chosen])
        return summarise(ranks, candidates, hits)

    def table(self, filter_name: str, groups: Ints, names: Sequence[str]) -> dict[str, Metrics]:
        """Return the metrics of each group of facts; ``groups`` [n] holds places in ``names``."""
        present = np.unique(groups)
        return {names[g]: self.metrics(filter_name, where=groups == g) for g in present}


def summarise(ranks: Floats, candidates: Floats, hits: Sequence[int] = HITS) -> Metrics:
    """Return the metrics of ranks [n] among ``candidates`` [n].

    The adjusted mean rank index is ``1 - (MR - 1) / (E[MR] - 1)``: 1 is perfect, 0 is chance.

    >>> summarise(np.array([1.0, 2.0]), np.array([3, 3]), hits=(1,))["mrr"]
    0.75
    """
    if len(ranks) == 0:
        return {
            "mrr": 0.0,
            "mean_rank": 0.0,
            "count": 0,
            **{f"hits@{k}": 0.0 for k in hits},
            "amri": 0.0,
        }
    expected = float(np.mean((candidates + 1) / 2))
    mean = float(ranks.mean())
    return {
        "mrr": float(np.mean(1.0 / ranks)),
        "mean_rank": mean,
        **{f"hits@{k}": float(np.mean(ranks <= k)) for k in hits},
        "amri": 1.0 - (mean - 1.0) / (expected - 1.0) if expected > 1 else 0.0,
        "count": len(ranks),
    }


def rank(
    score_all: ScoreAll,
    facts: Tensor,
    num_entities: int,
    num_relations: int,
    filters: Mapping[str, Tensor],
    *,
    memory_budget: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Ranks:
    """Rank the true head and tail of every fact among all entities.

    Args:
        score_all: scores every entity as the missing side of queries [q]: returns [q, E].
        facts: int64 [n, 3], on the device the scores are computed on.
        num_entities: E.
        num_relations: R.
        filters: name -> known true facts [m, 3] whose entities are no candidates; the true
            entity of the fact itself always is one. An empty tensor means raw ranks.
        memory_budget: bytes for the scores and one buffer of their size; by default 32 MiB on
            the CPU (it stays in cache) and 2 GiB on a GPU. One query is the least.
        progress: called with the number of queries done since the last call.

    Returns:
        The ranks, per filter and side, in the order of ``facts``.
    """
    if not filters:
        raise DataError("Ranking needs at least one filter; give an empty one for raw ranks.")
    on_cpu = facts.device.type == "cpu"
    budget = memory_budget or (CPU_BUDGET if on_cpu else GPU_BUDGET)
    chunk = max(1, budget // (8 * num_entities))
    by_filter: dict[str, dict[Side, SideRanks]] = {name: {} for name in filters}
    for side in SIDES:
        turn = flip if side == "head" else lambda rows: rows
        indexes = {
            name: TripleIndex(turn(known.to(facts.device)), num_entities, num_relations)
            for name, known in filters.items()
        }
        queries = _Queries(turn(facts), num_entities, num_relations)
        ranked = _rank_side(score_all, side, queries, indexes, chunk, progress)
        for name, ranks in ranked.items():
            by_filter[name][side] = ranks
    return Ranks(facts.cpu().numpy(), by_filter)


class _Queries:
    """The distinct (known, relation) pairs of some facts, and the targets of each.

    Queries with more targets come first, so that round j of the counting (the j-th target of
    each query) always works on a leading slice of the score matrix, without copying rows.
    """

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        pair = facts[:, 0] * num_relations + facts[:, 1]
        distinct, inverse, count = torch.unique(pair, return_inverse=True, return_counts=True)
        order = torch.argsort(count, descending=True, stable=True)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        self.known = distinct[order] // num_relations
        self.relation = distinct[order] % num_relations
        self.count = count[order]
        query_of_fact = place[inverse]
        # Facts in query order: fact number, target, and where each query's facts begin.
        self.fact = torch.argsort(query_of_fact, stable=True)
        self.target = facts[self.fact, 2]
        self.start = torch.cumsum(self.count, 0) - self.count

    def __len__(self) -> int:
        return len(self.known)


def _rank_side(
    score_all: ScoreAll,
    side: Side,
    queries: _Queries,
    indexes: Mapping[str, TripleIndex],
    chunk: int,
    progress: Callable[[int], object] | None,
) -> dict[str, SideRanks]:
    shape = (3, len(queries.fact))
    results = {name: torch.empty(shape, dtype=torch.float64) for name in indexes}
    buffer: Tensor | None = None
    for first in range(0, len(queries), chunk):
        rows = slice(first, min(first + chunk, len(queries)))
        known, relation = queries.known[rows], queries.relation[rows]
        num_entities = next(iter(indexes.values())).num_entities
        scores = _check_scores(score_all(known, relation, side), len(known), num_entities)
        if buffer is None:
            # Zeros and ones are summed; float32 counts exactly up to 2**24, and faster than bool.
            dtype = torch.float32 if num_entities < 2**24 else torch.float64
            buffer = torch.empty(scores.shape, dtype=dtype, device=scores.device)
        for name, index in indexes.items():
            fact, ranks = _rank_chunk(scores, buffer, queries, rows, index)
            results[name][:, fact] = ranks
        if progress is not None:
            progress(len(known))
    return {name: SideRanks(*result.numpy()) for name, result in results.items()}


def _check_scores(scores: Tensor, num_queries: int, num_entities: int) -> Tensor:
    """Refuse scores of the wrong shape or without a value; return them fit to be masked."""
    if scores.shape != (num_queries, num_entities):
        raise DataError(
            f"score_all returned shape {tuple(scores.shape)} where ({num_queries}, {num_entities}) "
            "was asked for: one row a query, one column an entity."
        )
    if not scores.is_floating_point():
        scores = scores.double()
    # Rows that share their memory (expand) would be masked together; inference tensors never.
    scores = scores.clone() if scores.is_inference() else scores.detach().contiguous()
    refuse_nan(scores)
    return scores


def refuse_nan(scores: Tensor) -> None:
    """Refuse scores that are not numbers; the sum is a fast first look."""
    if scores.sum().isnan() and scores.isnan().any():
        raise DataError("A score is not a number; the model has diverged or is broken.")


def _rank_chunk(
    scores: Tensor, buffer: Tensor, queries: _Queries, rows: slice, index: TripleIndex
) -> tuple[Tensor, Tensor]:
    """Rank every target of some queries: fact numbers [p], and ranks and candidates [3, p]."""
    known, relation, count = queries.known[rows], queries.relation[rows], queries.count[rows]
    start = queries.start[rows]
    pairs = slice(int(start[0]), int(start[-1] + count[-1]))
    target = queries.target[pairs]
    row_of_pair = torch.repeat_interleave(torch.arange(len(known), device=known.device), count)
    true_score = scores[row_of_pair, target]
    row, entity = index.tails(known, relation)
    kept = scores[row, entity]
    # Not-a-number loses every comparison, whatever the scores are: a filtered entity never counts.
    scores[row, entity] = torch.nan
    masked = scores[row_of_pair, target].isnan()
    higher, at_least = _count(scores, buffer, true_score, count, start - start[0])
    scores[row, entity] = kept
    num_known = torch.bincount(row, minlength=len(known))[row_of_pair]
    candidates = index.num_entities - num_known + masked.long()
    # The target itself is among those that score at least as high, unless the filter hid it.
    ranks = torch.stack([1 + higher, at_least + masked, candidates]).double()
    return queries.fact[pairs].cpu(), ranks.cpu()


def _count(
    scores: Tensor, buffer: Tensor, true_score: Tensor, count: Tensor, start: Tensor
) -> tuple[Tensor, Tensor]:
    """Count, for each target, the scores above it and the scores at least as high: [p] each."""
    higher = torch.empty(len(true_score), device=scores.device, dtype=buffer.dtype)
    at_least = torch.empty_like(higher)
    rounds = int(count[0])
    # How many queries have more than j targets: count is in descending order.
    wide = torch.bincount(count, minlength=rounds + 1).flip(0).cumsum(0).flip(0)[1:].tolist()
    for j in range(rounds):
        place = start[: wide[j]] + j
        threshold = true_score[place].unsqueeze(1)
        part, ones = scores[: wide[j]], buffer[: wide[j]]
        torch.gt(part, threshold, out=ones)
        higher[place] = ones.sum(1)
        torch.ge(part, threshold, out=ones)
        at_least[place] = ones.sum(1)
    return higher, at_least


def relation_cardinality(facts: Tensor, num_entities: int, num_relations: int) -> Ints:
    """Classify every relation as 1-1, 1-n, n-1 or n-n: places in CARDINALITIES, int64 [R].

    As in Bordes et al. (2013): a side is "n" when it has 1.5 or more entities on average.
    A relation without facts counts as 1-1.
    """
    facts = facts.cpu()
    many_tails = mean_answers(facts, num_relations) >= 1.5
    many_heads = mean_answers(flip(facts), num_relations) >= 1.5
    return (many_tails.long() + 2 * many_heads.long()).numpy()


@dataclass(frozen=True)
class Prediction:
    """One ranked answer to a query."""

    entity: int
    score: float
    known: bool


def top_k(
    score_all: ScoreAll,
    known: int,
    relation: int,
    side: Side,
    k: int,
    index: TripleIndex,
    *,
    only_new: bool = False,
) -> list[Prediction]:
    """Return the k best entities for the missing side of one query.

    Args:
        score_all: as in :func:`rank`.
        known: the entity that is given.
        relation: the relation that is given.
        side: which side is missing.
        k: how many answers; fewer come back where there are fewer candidates.
        index: the facts that count as known.
        only_new: leave out the answers that are known facts.
    """
    device = index.keys.device
    ids = torch.tensor([known], device=device)
    relations = torch.tensor([relation], device=device)
    scores = score_all(ids, relations, side)[0].clone()
    refuse_nan(scores)
    everyone = torch.arange(len(scores), device=device)
    given = ids.expand_as(everyone)
    middle = relations.expand_as(everyone)
    ends = (given, everyone) if side == "tail" else (everyone, given)
    is_known = index.contains(torch.stack([ends[0], middle, ends[1]], dim=1))
    allowed = everyone[~is_known] if only_new else everyone
    best = scores[allowed].topk(min(k, len(allowed)))
    chosen = allowed[best.indices]
    return [
        Prediction(e, s, bool(q))
        for e, s, q in zip(
            chosen.tolist(), best.values.tolist(), is_known[chosen].tolist(), strict=True
        )
    ]
