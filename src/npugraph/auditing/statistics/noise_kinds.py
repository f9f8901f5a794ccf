"""What kind of wrong facts a graph holds: the noise profile.

A wrong fact may be any three names thrown together, a fact with one end replaced by anything, or
one with an end replaced by something plausible. Pools of such facts can be drawn; what nobody
knows is how much of each is in the collected facts. With p_c the distribution of the collected
facts, p_true that of the true ones and p_k that of pool k,

    p_c(H) = beta p_true(H) + sum_k a_k p_k(H)      for every set H of facts,

and where no true facts lie the shares a_k are all that is left. Each pool j gives such sets: a
classifier tells its facts from the collected ones, and H_j(c) holds what scores below the c-th
quantile of the pool, for c up to a half. That gives one equation per pool
(:mod:`npugraph.calibration.noise_shares`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from npugraph.auditing.statistics.trees import Trees
from npugraph.auditing.thresholds import TUNED, Thresholds
from npugraph.calibration import noise_shares
from npugraph.errors import DataError
from npugraph.seeds import number

Floats = NDArray[np.floating]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NoiseProfile:
    """How much of each kind of wrong facts there seems to be.

    Attributes:
        share: by kind, its share of the collected facts.
        weight: by kind, how much its pool should count; sums to 1.
        equations: one row per kind, by the shares and a last column for what they come to,
            [k, k + 1]; empty where nobody kept them.
        amid: by kind, how dense collected facts are in the lower half of its pool, beside the
            pool. Wrong facts of a kind that would show have few true ones around them.
    """

    share: dict[str, float]
    weight: dict[str, float]
    equations: Floats = field(default_factory=lambda: np.zeros((0, 1)), compare=False, repr=False)
    amid: dict[str, float] = field(default_factory=dict)

    @classmethod
    def solve(
        cls, kinds: Sequence[str], equations: Floats, amid: Floats, ridge: float
    ) -> NoiseProfile:
        """Solve for the shares of kinds; one whose equation is all 0 gets none.

        The weights go with the squares of the shares: a few true facts in the low end of a kind
        look like a small share of it, and a pool of the wrong kind does more harm than a missing
        one.
        """
        share = noise_shares.solve(equations, ridge)
        weight = share**2
        if not weight.sum():
            weight = (np.diag(equations[:, :-1]) > 0).astype(float)
        weight = weight / weight.sum()
        return cls(
            dict(zip(kinds, share.tolist(), strict=True)),
            dict(zip(kinds, weight.tolist(), strict=True)),
            equations,
            dict(zip(kinds, amid.tolist(), strict=True)),
        )

    def weight_with(self, thresholds: Thresholds) -> dict[str, float]:
        """Return how much each pool counts where a score is learnt: the profile may miss errors.

        Errors that lie among true facts hardly show in the equations, so a kind may hide by as
        much as there are such facts. Where nothing shows, a little of every kind may be there, and
        all count about the same; the more shows, the less that is to be feared.

        >>> seen = {"typed": 0.03, "crowded": 0.0}
        >>> NoiseProfile(seen, {}, amid={"typed": 0.04, "crowded": 0.1}).weight_with(TUNED)
        {'typed': 0.53..., 'crowded': 0.46...}
        """
        shown = sum(self.share.values()) / thresholds.score_shown
        missed = thresholds.score_missed * max(1 - shown, 0.0)
        hidden = {kind: thresholds.score_hidden * amid for kind, amid in self.amid.items()}
        weight = {
            kind: share**2 + missed**2 + hidden.get(kind, 0.0) ** 2
            for kind, share in self.share.items()
        }
        total = sum(weight.values())
        return {kind: each / total for kind, each in weight.items()}

    def without(self, kinds: Container[str], ridge: float) -> NoiseProfile:
        """Return the profile by the equations of the other kinds, as if these were not known."""
        kept = [place for place, kind in enumerate(self.share) if kind not in kinds]
        names = [kind for kind in self.share if kind not in kinds]
        amid = np.array([self.amid[kind] for kind in names])
        return self.solve(names, self.equations[kept][:, [*kept, -1]], amid, ridge)


def noise_profile(
    collected: Floats,
    collected_fold: Ints,
    pools: Mapping[str, tuple[Floats, Ints]],
    *,
    thresholds: Thresholds = TUNED,
    seed: int = 0,
) -> NoiseProfile:
    """Estimate the noise profile of collected facts from features and folds.

    Args:
        collected: features of the collected facts, [n, f].
        collected_fold: their folds, [n].
        pools: by kind, features [m, f] and folds [m] of uncollected facts. A kind without facts
            in both halves of the folds gets no share.
        thresholds: what was tuned. Each classifier is trained on one half of the folds and judges
            the other; beyond ``profile_facts`` of a sort a sample is used.
        seed: every draw follows from it.
    """
    folds = np.unique(collected_fold)
    if len(folds) < 2:
        raise DataError("A noise profile needs facts of at least two folds.")
    # The halves go by the order of the folds, whatever numbers they have.
    known = [
        (features, np.searchsorted(folds, fold) % 2 == 1)
        for features, fold in ((collected, collected_fold), *pools.values())
    ]
    rng = np.random.default_rng(number(seed, "profile"))
    used = [_some(*sample, thresholds.profile_facts, rng) for sample in known]
    kinds = [k for k, (_, half) in enumerate(used) if k and half.any() and not half.all()]
    if not kinds:
        raise DataError("A noise profile needs uncollected facts in both halves of the folds.")
    equations, amid = np.zeros((len(pools), len(pools) + 1)), np.zeros(len(pools))
    places = np.array(kinds) - 1
    found, amid[places] = _equations([used[0], *(used[k] for k in kinds)], thresholds, seed)
    equations[np.ix_(places, np.append(places, len(pools)))] = found
    return NoiseProfile.solve(list(pools), equations, amid, thresholds.profile_ridge)


# Features [n, f], and which half of the folds each fact is in [n].
_Halved = tuple[Floats, NDArray[np.bool_]]


def _some(
    features: Floats, half: NDArray[np.bool_], most: int, rng: np.random.Generator
) -> _Halved:
    if len(half) <= most:
        return features, half
    chosen = np.sort(rng.permutation(len(half))[:most])
    return features[chosen], half[chosen]


def _equations(
    samples: list[_Halved], thresholds: Thresholds, seed: int
) -> tuple[Floats, list[float]]:
    """Return the equations [k, k + 1] of the kinds, and how dense collected facts are amid each.

    The first sample is the collected facts.
    """
    rows, amid = [], []
    for kind in range(1, len(samples)):
        scores = _scores(samples, kind, thresholds, seed)
        row, dense = noise_shares.equation(scores, kind, thresholds.profile_ends)
        rows.append(row)
        amid.append(dense)
    return np.stack(rows), amid


def _scores(samples: list[_Halved], kind: int, thresholds: Thresholds, seed: int) -> list[Floats]:
    """Score all samples by how collected they look beside one kind, each half by the other's."""
    scores: list[Floats] = [np.zeros(len(half)) for _, half in samples]
    for side in (False, True):
        parts = [samples[k][0][samples[k][1] == side] for k in (0, kind)]
        label = np.repeat([True, False], [len(part) for part in parts])
        each = np.where(label, len(parts[1]), len(parts[0])) * 2.0 / len(label)
        model = Trees.fit(
            np.concatenate(parts),
            label,
            each,
            rounds=thresholds.profile_rounds,
            leaves=thresholds.profile_leaves,
            seed=number(seed, "profile", kind) % 2**31,
        )
        for score, (features, half) in zip(scores, samples, strict=True):
            other = half != side
            if other.any():
                score[other] = model.log_odds(features[other])
    return scores
