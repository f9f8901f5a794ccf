"""Probabilities by answers: what an audit said, corrected by relation and by source.

::

    logit P(true) = a + b x + c z + u[relation] + v[source],    b >= 0

x is the score of a fact, a log-odds, with slopes of its own at the low end; further views z of the
fact may add c z, either way. Before the answers c is 0, b is
1 and a is what the audit's probabilities say, where there are any to trust. Effects of
relations and of sources are pooled: a relation with two answers stays near the others. P(true)
never falls as the score rises within a relation and source, the views being the same.

Which facts were answered need not be random: facts chosen by what is in the formula (the most
suspicious ones, those of a relation) are as good as random ones, given the formula. Facts that
somebody chose otherwise, such as errors that were stumbled on, say which facts differ and
not how many are wrong; so chosen answers get a level of their own, near that of the
random ones, and answers of unknown origin one that is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri

from npugraph.arrays import Floats, Ints, finite, probabilities, same_length
from npugraph.auditing.statistics.answers.laplace import Posterior, Problem, fit
from npugraph.errors import DataError

# How facts came to be answered.
RANDOM, CHOSEN, UNKNOWN = 0, 1, 2
# Probability of a fact of a fairly low score, where nothing else is known, and how far its log-odds
# may lie from that; where an audit gives probabilities, their mean tells it better.
USUAL_TRUE = 0.95
LEVEL_DEVIATION = 2.0
# How far the level of chosen answers may lie from that of the random ones, as log-odds.
LEVEL_OF = {CHOSEN: 0.5, UNKNOWN: 10.0}
# Fewer answers change no probability.
LEAST_ANSWERS = 20
# Facts that are judged at once.
CHUNK = 1 << 15
# Shares of the facts below which the scores have slopes of their own.
KNOTS = (0.02, 0.1, 0.3)
# Slope of a score at least, so that it orders facts of equal probability.
LEAST_SLOPE = 0.02
# How far the slope of a score may lie from 1, and what all views may add together, as log-odds.
SLOPE_DEVIATION, VIEWS_DEVIATION = 0.75, 0.4
# Standard deviation of scores beyond which they are no log-odds, and made narrower.
WIDEST = 3.0


@dataclass(frozen=True, eq=False)
class Predictors:
    """What an audit says of all facts, made once; answers come later.

    Attributes:
        columns: [n, k], higher is more plausible.
        mean: the slope each of them is expected to have [k].
        deviation: how far it may lie from that [k].
        least: below which it must not be [k].
        level: expected log-odds of a fact whose columns are 0.
        relation: 0.. [n].
        source: 0.. [n].
    """

    columns: Floats
    mean: Floats
    deviation: Floats
    least: Floats
    level: float
    relation: Ints
    source: Ints

    @classmethod
    def of(
        cls,
        score: ArrayLike,
        *,
        probability: ArrayLike | None = None,
        relation: ArrayLike | None = None,
        source: ArrayLike | None = None,
        views: ArrayLike | None = None,
    ) -> Predictors:
        """Take what is known of n facts.

        Args:
            score: [n], higher is more plausible; best a log-odds, such as that of an audit.
            probability: of being true [n]; its mean is where the answers begin. None where an audit
                promises none.
            relation: whole numbers [n], from 0.
            source: likewise, such as the document a fact is from.
            views: more numbers [n, v], such as the features behind the score; they count for
                nothing until answers say otherwise, and either way.
        """
        columns = _segments(_scaled(finite(score, "score")))
        size, own = len(columns[0]), len(columns)
        level = float(logit(USUAL_TRUE))
        if probability is not None:
            known = probabilities(probability)
            same_length(known, columns[0], "probability and score")
            level = _level(np.sum(columns, axis=0), float(known.mean()))
        more = np.asarray(views if views is not None else np.zeros((size, 0)))
        columns += [_standard(finite(view, "view")) for view in more.T]
        extra = more.shape[1]
        return cls(
            np.column_stack(columns),
            np.repeat([1.0, 0.0], [own, extra]),
            np.repeat([SLOPE_DEVIATION, VIEWS_DEVIATION / max(extra, 1) ** 0.5], [own, extra]),
            np.repeat([LEAST_SLOPE, -np.inf], [own, extra]),
            level,
            _codes(relation, size, "relation"),
            _codes(source, size, "source"),
        )


def _scaled(values: Floats) -> Floats:
    """Return scores [n] with median 0, at most as wide as log-odds usually are, tails cut off."""
    low, middle, high = np.quantile(values, [0.001, 0.5, 0.999])
    kept = np.clip(values, low, high) - middle
    narrowed: Floats = kept / max(1.0, float(kept.std()) / WIDEST)
    return narrowed


def _standard(values: Floats) -> Floats:
    """Return a view [n] with mean 0 and standard deviation 1, tails cut off; 0 where constant."""
    kept = np.clip(values, *np.quantile(values, [0.001, 0.999]))
    kept = kept - kept.mean()
    standard: Floats = kept / max(float(kept.std()), 1e-12)
    return standard


def _level(log_odds: Floats, share: float) -> float:
    """Return what to add to log-odds [n] so that the mean probability is a share of true facts."""
    low, high = -20.0, 20.0
    wanted = min(max(share, 0.5), 0.995)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(log_odds + middle).mean() < wanted else (low, middle)
    return (low + high) / 2


def _segments(values: Floats) -> list[Floats]:
    """Cut scores [n] into parts that sum to them, so that each part may have a slope of its own.

    Wrong facts lie at the low end, and how steeply they end differs: the lowest scores may be those
    of errors, or of true facts that nobody could know.
    """
    knots = np.quantile(values, KNOTS)
    lows, highs = np.append(-np.inf, knots), np.append(knots, np.inf)
    # Every part is 0 where the next one begins, but for the last: the sum is 0 in the middle.
    return [
        np.clip(values, low, high) - (high if np.isfinite(high) else low)
        for low, high in zip(lows, highs, strict=True)
    ]


def _codes(group: ArrayLike | None, count: int, name: str) -> Ints:
    """Return whole numbers [n]; all 0 where there is no such grouping."""
    if group is None:
        return np.zeros(count, dtype=np.int64)
    codes = np.asarray(group)
    if codes.shape != (count,) or codes.dtype.kind not in "iu" or (codes < 0).any():
        raise DataError(f"{name} must hold one whole number from 0 for each of the {count} facts.")
    return codes.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Answered:
    """Answers on facts; those on which nobody is sure are left out.

    Attributes:
        rows: places of the facts [m], each once.
        true: bool [m].
        drawn: RANDOM, CHOSEN or UNKNOWN [m].
    """

    rows: Ints
    true: NDArray[np.bool_]
    drawn: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, kept: NDArray[np.bool_]) -> Answered:
        """Return some of the answers."""
        return Answered(self.rows[kept], self.true[kept], self.drawn[kept])


@dataclass(frozen=True, eq=False)
class Recalibrated:
    """Probabilities of all facts after the answers.

    Attributes:
        probability: of being true [n]; answered facts are judged like the others.
        low: lower end of its 90% interval [n].
        high: upper end [n].
        relation_spread: how far relations differ, a standard deviation of log-odds.
        source_spread: how far sources do.
        slopes: of the columns.
    """

    probability: Floats
    low: Floats
    high: Floats
    relation_spread: float
    source_spread: float
    slopes: Floats


def recalibrate(facts: Predictors, answers: Answered, *, level: float = 0.9) -> Recalibrated:
    """Return the probabilities of all facts after some answers.

    A million facts take about a second.

    Args:
        facts: what the audit says of them.
        answers: at least 20.
        level: share of the intervals that should hold the truth.

    >>> rng = np.random.default_rng(0)
    >>> score = rng.normal(size=1000)
    >>> true = rng.random(1000) < expit(2 * score + 1)
    >>> rows = np.arange(200)
    >>> said = Answered(rows, true[rows], np.zeros(200, dtype=np.int64))
    >>> found = recalibrate(Predictors.of(score), said).probability
    >>> bool(abs(found - expit(2 * score + 1)).mean() < 0.05)
    True
    """
    if len(answers) < LEAST_ANSWERS:
        raise DataError(f"{len(answers)} answers are too few; {LEAST_ANSWERS} are needed.")
    return Fitted.of(facts, answers).judge(facts, np.arange(len(facts.columns)), level)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A posterior, and where the effects of relations and sources stand in it.

    Attributes:
        posterior: of the effects.
        levels: effects of the levels of chosen answers; they come after the intercept.
        first: which grouping is held densely: ``relation`` or ``source``.
        places: by grouping, where the effect of each group is; -1 without answers.
    """

    posterior: Posterior
    levels: int
    first: str
    places: dict[str, Ints]

    @property
    def second(self) -> str:
        """The grouping that is not held densely."""
        return "source" if self.first == "relation" else "relation"

    @classmethod
    def of(cls, facts: Predictors, answers: Answered) -> Fitted:
        """Learn from the answers."""
        kinds = [kind for kind in LEVEL_OF if (answers.drawn == kind).any()]
        ones = np.ones((len(answers), 1))
        levels = [(answers.drawn == kind)[:, None].astype(float) for kind in kinds]
        shared = np.hstack([ones, *levels, facts.columns[answers.rows]])
        # Answers of unknown origin alone say nothing of the level: it stays where it was.
        told = (answers.drawn != UNKNOWN).any()
        level = LEVEL_DEVIATION if told else 0.01
        deviation = np.concatenate([[level], [LEVEL_OF[kind] for kind in kinds], facts.deviation])
        least = np.concatenate([np.full(1 + len(kinds), -np.inf), facts.least])
        mean = np.concatenate([[facts.level], np.zeros(len(kinds)), facts.mean])
        codes, places = {}, {}
        for name in ("relation", "source"):
            group = getattr(facts, name)
            seen, codes[name] = np.unique(group[answers.rows], return_inverse=True)
            places[name] = np.full(int(group.max()) + 1, -1)
            # A single group differs from nothing.
            if len(places[name]) > 1:
                places[name][seen] = np.arange(len(seen))
        counts = {name: int(place.max()) + 1 for name, place in places.items()}
        first, second = sorted(counts, key=lambda name: counts[name])
        problem = Problem(
            answers.true.astype(np.float64),
            shared,
            mean,
            deviation**-2,
            least,
            (codes[first], codes[second]),
            (counts[first], counts[second]),
        )
        return cls(fit(problem), len(kinds), first, places)

    def judge(self, facts: Predictors, rows: Ints, level: float = 0.9) -> Recalibrated:
        """Return the probabilities of some facts.

        The mean over what is not known of the level and the groups is taken at the
        most probable slopes, so that it never falls where the score rises; the interval is
        about the slopes, too.
        """
        slopes = self.posterior.effects[1 + self.levels :][: facts.columns.shape[1]]
        level_only = _Uncertainty.of(self, slopes, slopes_known=True)
        everything = _Uncertainty.of(self, slopes)
        width = float(ndtri((1 + level) / 2))
        judged = np.empty((3, len(rows)))
        # Parts that stay in the cache are judged twice as fast.
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            columns = facts.columns[rows[part]]
            groups = (
                self.places[self.first][getattr(facts, self.first)[rows[part]]],
                self.places[self.second][getattr(facts, self.second)[rows[part]]],
            )
            log_odds = self._log_odds(columns, groups)
            # The mean of a logistic curve over a normal distribution (MacKay 1992).
            varied = level_only(np.zeros((1, columns.shape[1])), groups)
            judged[0, part] = expit(log_odds / np.sqrt(1 + np.pi / 8 * varied))
            deviation = width * np.sqrt(everything(columns, groups))
            judged[1, part] = expit(log_odds - deviation)
            judged[2, part] = expit(log_odds + deviation)
        probability, low, high = judged
        spreads = self.spreads()
        return Recalibrated(
            probability,
            np.minimum(low, probability),
            np.maximum(high, probability),
            spreads["relation"],
            spreads["source"],
            slopes,
        )

    def spreads(self) -> dict[str, float]:
        """Return how far the groups of each grouping differ; 0 where there is one group only."""
        pairs = zip((self.first, self.second), self.posterior.spreads, strict=True)
        return {name: spread if len(self.places[name]) > 1 else 0.0 for name, spread in pairs}

    def _log_odds(self, columns: Floats, groups: tuple[Ints, Ints]) -> Floats:
        """Return the most probable log-odds of facts [n]."""
        start, dense = 1 + self.levels + columns.shape[1], len(self.posterior.curvature)
        effects = self.posterior.effects
        log_odds: Floats = effects[0] + columns @ effects[1 + self.levels : start]
        log_odds += np.append(effects[start:dense], 0.0)[groups[0]]
        log_odds += np.append(effects[dense:], 0.0)[groups[1]]
        return log_odds


@dataclass(frozen=True, eq=False)
class _Uncertainty:
    """The variance of log-odds, in parts; the last place of a grouping is a group without answers.

    Attributes:
        shared: covariance of the level and the slopes [k, k].
        with_groups: covariance of these with the effects of either grouping [k, g + 1].
        own: variance of the effects of either grouping [g + 1].
        between: covariance of the two groupings [g + 1, h + 1].
    """

    shared: Floats
    with_groups: tuple[Floats, Floats]
    own: tuple[Floats, Floats]
    between: Floats

    @classmethod
    def of(cls, fitted: Fitted, slopes: Floats, *, slopes_known: bool = False) -> _Uncertainty:
        """Take it from a posterior; ``slopes_known`` takes the slopes for known."""
        posterior, first = fitted.posterior, 1 + fitted.levels
        start = first + len(slopes)
        kept = np.ones(len(posterior.curvature), dtype=bool)
        kept[first:start] = not slopes_known
        covariance = np.zeros_like(posterior.curvature)
        covariance[np.ix_(kept, kept)] = np.linalg.inv(posterior.curvature[np.ix_(kept, kept)])
        joint = covariance @ posterior.cross
        second = posterior.own + np.einsum("dg,dg->g", posterior.cross, joint)
        # Of a group without answers no more is known than how far groups differ.
        spreads = fitted.spreads()
        unseen = [spreads[name] ** 2 for name in (fitted.first, fitted.second)]
        used = np.r_[0, first:start]
        return cls(
            covariance[np.ix_(used, used)],
            (_padded(covariance[used, start:]), _padded(joint[used])),
            (np.append(np.diag(covariance)[start:], unseen[0]), np.append(second, unseen[1])),
            _padded(_padded(joint[start:]).T).T,
        )

    def __call__(self, columns: Floats, groups: tuple[Ints, Ints]) -> Floats:
        """Return the variance of facts [n] by their columns [n, k], or one row for all."""
        known = np.hstack([np.ones((len(columns), 1)), columns])
        total = ((known @ self.shared) * known).sum(1)
        for own, covariance, group in zip(self.own, self.with_groups, groups, strict=True):
            # Known slopes have no covariance with anything.
            used = covariance.any(1)
            together = np.ascontiguousarray(covariance[used].T)[group] * known[:, used]
            total = total + own[group] + 2 * together.sum(1)
        return np.asarray(total + 2 * self.between[groups])


def _padded(values: Floats) -> Floats:
    """Return values [r, c] with one more column of zeros, which -1 finds."""
    return np.hstack([values, np.zeros((len(values), 1))])
