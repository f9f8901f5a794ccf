"""An interpretable model of collection: which facts get stored, by how frequent their parts are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from npugraph.errors import DataError
from npugraph.graph import TripleIndex
from npugraph.metrics import auroc
from npugraph.rules.edges import Bools, Floats, Ints, check_facts
from npugraph.seeds import number

FREQUENCIES = ("relation facts", "head facts", "tail facts", "head in relation", "tail in relation")
HELD_OUT = 0.2


class _Frequencies:
    """Counts behind the features of a fact, each without the fact itself."""

    def __init__(self, facts: Tensor, num_entities: int, num_relations: int) -> None:
        check_facts(facts, num_entities, num_relations)
        self.sizes = num_entities, num_relations
        self.index = TripleIndex(facts, num_entities, num_relations)
        head, relation, tail = self.index.facts().numpy().T
        self.relation = np.bincount(relation, minlength=num_relations)
        self.degree = np.bincount(np.concatenate([head, tail]), minlength=num_entities)
        self.heads = np.unique(head * num_relations + relation, return_counts=True)
        self.tails = np.unique(tail * num_relations + relation, return_counts=True)

    def candidates(self, uncollected: Tensor) -> Tensor:
        """Return the distinct candidates [m, 3]; refuse collected ones and too few of either."""
        check_facts(uncollected, *self.sizes)
        found = TripleIndex(uncollected, *self.sizes).facts()
        overlap = int(self.index.contains(found).sum())
        if overlap:
            raise DataError(f"{overlap} uncollected candidates are collected; leave them out.")
        if min(len(self.index), len(found)) < 5:
            raise DataError(
                f"{len(self.index)} collected facts and {len(found)} uncollected candidates are "
                "too few to fit; give at least 5 of each."
            )
        return found

    def features(self, facts: Tensor) -> Floats:
        """Return log(1 + count) of each feature, float64 [n, 5]."""
        check_facts(facts, *self.sizes)
        stored = self.index.contains(facts).numpy().astype(np.int64)
        head, relation, tail = facts.numpy().T
        loop = stored * (head == tail)
        counts = [
            self.relation[relation] - stored,
            self.degree[head] - stored - loop,
            self.degree[tail] - stored - loop,
            _look_up(self.heads, head * self.sizes[1] + relation) - stored,
            _look_up(self.tails, tail * self.sizes[1] + relation) - stored,
        ]
        return np.log1p(np.stack(counts, axis=1).astype(np.float64))


def _look_up(table: tuple[Ints, Ints], key: Ints) -> Ints:
    """Return the counts of keys [n], 0 for a key that is not in the table."""
    keys, counts = table
    if not len(keys):
        return np.zeros_like(key)
    place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
    return np.where(keys[place] == key, counts[place], 0)


@dataclass(frozen=True, eq=False)
class CollectionModel:
    """Logistic regression of collected against uncollected on log(1 + frequency).

        logit P(collected) = intercept + sum over features of weight * (x - mean) / scale

    Frequencies leave out the fact itself, so a collected fact has no head start. The two classes
    weigh the same, so probabilities are relative to a coin flip; the weights are what to read: one
    standard deviation more of a feature multiplies the odds of being collected by exp(weight).

    Attributes:
        features: names of the features: facts of the relation, facts with the head or tail
            entity anywhere, and facts of the relation with it on the same side.
        weights: standardised coefficients, float64 [5].
        per_doubling: change of the log-odds when 1 + count doubles, float64 [5].
        intercept: log-odds at the mean.
        mean: float64 [5].
        scale: float64 [5], standard deviations; 1 where a feature is constant.
        auroc: area under ROC on the held-out fifth.
        collected: number of collected facts used.
        uncollected: number of uncollected candidates used.
    """

    features: tuple[str, ...]
    weights: Floats
    per_doubling: Floats
    intercept: float
    mean: Floats
    scale: Floats
    auroc: float
    collected: int
    uncollected: int
    _frequencies: _Frequencies

    @classmethod
    def fit(
        cls,
        collected: Tensor,
        uncollected: Tensor,
        num_entities: int,
        num_relations: int,
        *,
        seed: int = 0,
    ) -> CollectionModel:
        """Fit on collected facts [n, 3] and uncollected candidates [m, 3].

        What the weights mean depends on the candidates: against random ones they
        say what collected facts look like; against known true facts that were not collected,
        they say what decides collection.

        Args:
            collected: the stored facts, which are also what frequencies are counted on.
            uncollected: candidates that are not stored.
            num_entities: E.
            num_relations: R.
            seed: of the held-out fifth.
        """
        collected, uncollected = collected.cpu(), uncollected.cpu()
        frequencies = _Frequencies(collected, num_entities, num_relations)
        facts, candidates = frequencies.index.facts(), frequencies.candidates(uncollected)
        x = frequencies.features(torch.cat([facts, candidates]))
        y = np.repeat([1, 0], [len(facts), len(candidates)])
        test = _held_out(y, seed)
        mean, scale = x.mean(axis=0), x.std(axis=0)
        scale = np.where(scale > 1e-12, scale, 1.0)
        x = (x - mean) / scale
        weights, intercept = _regress(x[~test], y[~test])
        held_out = auroc(y[test] == 1, x[test] @ weights)
        weights, intercept = _regress(x, y)
        return cls(
            FREQUENCIES,
            weights,
            weights / scale * np.log(2),
            intercept,
            mean,
            scale,
            held_out,
            len(facts),
            len(candidates),
            frequencies,
        )

    def probability(self, facts: Tensor) -> Floats:
        """Return the chance of being collected, classes equally weighted, for facts [n, 3]: [n]."""
        x = (self._frequencies.features(facts.cpu()) - self.mean) / self.scale
        logit: Floats = x @ self.weights + self.intercept
        return 0.5 * (1 + np.tanh(logit / 2))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        rows = zip(self.features, self.weights, self.per_doubling, strict=True)
        return {
            "features": [
                {"name": name, "weight": float(weight), "per_doubling": float(doubling)}
                for name, weight, doubling in rows
            ],
            "intercept": self.intercept,
            "auroc": self.auroc,
            "collected": self.collected,
            "uncollected": self.uncollected,
        }

    def to_text(self) -> str:
        """Return lines for the terminal, heaviest feature first."""
        order = np.argsort(-np.abs(self.weights), kind="stable")
        lines = [
            f"Chance of being collected: {self.collected:,} collected against "
            f"{self.uncollected:,} uncollected, AUROC {self.auroc:.3f} held out",
            f"  {'feature':<18} {'weight':>8} {'odds per doubling':>18}",
        ]
        odds = np.exp(self.per_doubling)
        lines += [
            f"  {self.features[i]:<18} {self.weights[i]:>8.3f} {odds[i]:>18.2f}" for i in order
        ]
        return "\n".join(lines)


def _regress(x: Floats, y: Ints) -> tuple[Floats, float]:
    """Return weights [5] and intercept of a ridge-penalised logistic regression."""
    # Imported here: it takes a second, and explanations do without.
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(class_weight="balanced", max_iter=1000).fit(x, y)
    return model.coef_[0], float(model.intercept_[0])


def _held_out(y: Ints, seed: int) -> Bools:
    """Choose a fifth of each class, at least one."""
    rng = np.random.default_rng(number(seed, "collection", "held-out"))
    chosen = np.zeros(len(y), bool)
    for label in (0, 1):
        rows = np.flatnonzero(y == label)
        chosen[rng.permutation(rows)[: max(int(HELD_OUT * len(rows)), 1)]] = True
    return chosen
