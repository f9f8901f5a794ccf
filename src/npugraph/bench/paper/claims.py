"""What the paper claims, held against our results: a verdict and the figures behind each."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from npugraph.bench.paper import printed
from npugraph.bench.paper.tables import PAPER_FILTER, beside_paper, graph_title, p_value
from npugraph.bench.summary import (
    TRAIN_SECONDS,
    Row,
    ranking,
    sweeps,
    timed_alike,
)
from npugraph.significance import mean_and_deviation, paired_test

Verdict = Literal["agrees", "disagrees", "undecided", "not run"]
# All claims are about MRR under the filter that the paper's figures go with.
MRR = ranking("mrr", PAPER_FILTER)
BASELINES = tuple(
    recipe
    for group, systems in printed.GROUPS.items()
    for recipe in systems.values()
    if group not in ("Chance", printed.NPUGRAPH)
)
# Where the paper is vague we must draw a line: "a bit" and "the level of the paper" are a tenth
# of MRR, "the order of the systems" is a rank correlation, "linear" a share of the variance.
TENTH, SAME_ORDER, LINEAR = 0.1, 0.7, 0.98
# With fewer systems a rank correlation says nothing.
FEWEST_RANKED = 4
# A verdict needs so many seeds on each side: fewer have no spread to hold a difference against.
FEWEST_SEEDS = 3
# Of two sides that were compared over the seeds, a p value from here on decides nothing.
UNDECIDED_FROM = 0.05
# What seeds decide: a claim holds, does not hold, or cannot be told; and why, in words.
Decision = tuple[bool | None, str]


@dataclass(frozen=True)
class Finding:
    """One claim in one place.

    Attributes:
        claim: what the paper says, in a few words.
        where: graph and rate.
        verdict: whether our results agree; ``undecided`` where there are fewer than three seeds per
            side, where the difference is within their spread, or where what is left to run could
            still turn it; ``not run`` where there is nothing to go by.
        evidence: the figures.
    """

    claim: str
    where: str
    verdict: Verdict
    evidence: str


class Measured:
    """The rows of all plans by graph, rate and recipe; where two plans have one, the fuller.

    Only graphs that the paper has or that stand for one of its graphs, and only perturbed ones.
    """

    def __init__(self, everything: Sequence[Row]) -> None:
        """Put the rows in the paper's order of graphs, rates rising."""
        found: dict[tuple[str, float], dict[str, Row]] = {}
        # Seeds that other sources than most have run are left out.
        everything = [row.of_one_source() for row in everything]
        for row in everything:
            cell = row.first
            if cell.sweep is None and cell.rate and cell.graph in printed.GRAPHS:
                rows = found.setdefault((cell.graph, cell.rate), {})
                known = rows.get(cell.recipe)
                if known is None or len(row.done) > len(known.done):
                    rows[cell.recipe] = row
        order = list(printed.GRAPHS)
        self.rows = dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0])))
        self.sweeps = sweeps(everything)

    def mean(self, graph: str, rate: float, recipe: str) -> float | None:
        """Return the mean MRR over seeds, or None where it was not run."""
        row = self.rows.get((graph, rate), {}).get(recipe)
        return None if row is None else row.mean(MRR)

    def baselines(self, graph: str, rate: float) -> dict[str, Row]:
        """Return the paper's baselines that have run, by recipe."""
        rows = self.rows.get((graph, rate), {})
        return {r: rows[r] for r in BASELINES if r in rows and rows[r].mean(MRR) is not None}

    def rates(self) -> dict[str, list[float]]:
        """Return the rates of each graph, rising."""
        found: dict[str, list[float]] = {}
        for graph, rate in self.rows:
            found.setdefault(graph, []).append(rate)
        return found


def findings(everything: Sequence[Row]) -> list[Finding]:
    """Hold the paper's claims against the rows of all plans, in the paper's order."""
    measured = Measured(everything)
    checks: list[Callable[[Measured], Iterator[Finding]]] = [
        npugraph_is_best,
        levels_agree,
        order_agrees,
        rate_hurts,
        gain_grows,
        parts_help,
        more_samples_help,
        time_is_linear,
        alpha_matters_little,
    ]
    return [finding for check in checks for finding in check(measured)]


def _at(graph: str, rate: float) -> str:
    return f"{beside_paper(graph)}, {rate:g}"


# --- what seeds can decide


def _is_more(first: Mapping[int, float], second: Mapping[int, float]) -> Decision:
    """Say whether the first side has more, by a paired test over the seeds that both have."""
    seeds = [seed for seed in first if seed in second]
    if len(seeds) < FEWEST_SEEDS:
        return None, _too_few(len(seeds))
    test = paired_test([first[seed] for seed in seeds], [second[seed] for seed in seeds])
    assert test is not None
    shown = p_value(test.p_value)
    p = f"p {shown[0]} {shown[1:]}" if shown.startswith("<") else f"p = {shown}"
    more = None if test.p_value >= UNDECIDED_FROM else test.difference > 0
    return more, f"paired t test {p}, n = {test.pairs}"


def _is_above(figures: Mapping[int, float], line: float) -> Decision:
    """Say on which side of a line the seeds lie, where they lie further off than they spread."""
    if len(figures) < FEWEST_SEEDS:
        return None, _too_few(len(figures))
    spread = mean_and_deviation(list(figures.values()))
    assert spread.deviation is not None
    spread_words = f"± {spread.deviation:.3f}, n = {spread.count}"
    return (
        None if abs(spread.mean - line) <= spread.deviation else spread.mean > line
    ), spread_words


def _too_few(seeds: int) -> str:
    count = {0: "no seed", 1: "one seed"}.get(seeds, f"{seeds} seeds")
    return f"{count}; a verdict needs {FEWEST_SEEDS}"


def _verdict(holds: bool | None) -> Verdict:
    if holds is None:
        return "undecided"
    return "agrees" if holds else "disagrees"


def _by_seed(per_key: Mapping[Any, Mapping[int, float]]) -> dict[int, dict[Any, float]]:
    """Turn figures by key and seed round, for the seeds that all keys have."""
    every = [set(figures) for figures in per_key.values()]
    return {
        seed: {key: figures[seed] for key, figures in per_key.items()}
        for seed in sorted(set.intersection(*every) if every else set())
    }


# --- the main tables


def npugraph_is_best(measured: Measured) -> Iterator[Finding]:
    """The paper: nPUGraph outperforms every baseline on every graph at every rate."""
    claim = "nPUGraph ranks better than every baseline"
    for (graph, rate), rows in measured.rows.items():
        if "npugraph" not in rows or not any(recipe in rows for recipe in BASELINES):
            continue
        ours, ran = rows["npugraph"], measured.baselines(graph, rate)
        if not ran or ours.mean(MRR) is None:
            yield Finding(claim, _at(graph, rate), "not run", "")
            continue
        best = max(ran.values(), key=lambda row: row.mean(MRR) or 0.0)
        holds, sure = _is_more(ours.figures(MRR), best.figures(MRR))
        verdict = _verdict(holds)
        if verdict == "agrees" and len(ran) < len(BASELINES):
            verdict = "undecided"
        evidence = (
            f"nPUGraph {ours.mean(MRR):.3f}, {best.first.label} {best.mean(MRR):.3f}, the best of "
            f"the {len(ran)} of {len(BASELINES)} baselines that have run; {sure}"
        )
        yield Finding(claim, _at(graph, rate), verdict, evidence)


def levels_agree(measured: Measured) -> Iterator[Finding]:
    """Not a claim in words: the figures themselves."""
    claim = "MRR lies within a tenth of the paper's, for every system"
    for (graph, rate), rows in measured.rows.items():
        pairs = _beside(graph, rate, rows)
        if not pairs:
            continue
        ran = [(row, theirs) for row, theirs in pairs if row.mean(MRR) is not None]
        if not ran:
            yield Finding(claim, _at(graph, rate), "not run", "")
            continue
        ratios = {row.first.label: (row.mean(MRR) or 0.0) / theirs - 1 for row, theirs in ran}
        parts = [f"{sum(abs(r) <= TENTH for r in ratios.values())} of {len(ran)} systems"]
        for word, sign in (("above", 1), ("below", -1)):
            off = [f"{s} {r:+.0%}" for s, r in ratios.items() if sign * r > TENTH]
            if off:
                parts.append(f"{word}: {', '.join(off)}")
        inside = [_is_within(row, theirs) for row, theirs in ran]
        open_ones = [
            row.first.label for (row, _), is_in in zip(ran, inside, strict=True) if is_in is None
        ]
        if open_ones:
            parts.append(f"too few seeds or too close: {', '.join(open_ones)}")
        holds = False if False in inside else None if None in inside else True
        yield Finding(claim, _at(graph, rate), _verdict(holds), "; ".join(parts))


def _is_within(row: Row, theirs: float) -> bool | None:
    """Say whether a system lies within a tenth of the paper's figure, where its seeds tell."""
    figures = row.figures(MRR)
    above_low, _ = _is_above(figures, (1 - TENTH) * theirs)
    above_high, _ = _is_above(figures, (1 + TENTH) * theirs)
    if above_low is None or above_high is None:
        return None
    return above_low and not above_high


def order_agrees(measured: Measured) -> Iterator[Finding]:
    """Not a claim in words: which system ranks above which."""
    claim = f"the systems stand in the paper's order (rank correlation from {SAME_ORDER:g})"
    for (graph, rate), rows in measured.rows.items():
        pairs = _beside(graph, rate, rows, stand_ins=True)
        if len(pairs) < FEWEST_RANKED:
            continue
        ran = [(row, theirs) for row, theirs in pairs if row.mean(MRR) is not None]
        if len(ran) < FEWEST_RANKED:
            yield Finding(claim, _at(graph, rate), "not run", "")
            continue
        rho = rank_correlation([row.mean(MRR) or 0.0 for row, _ in ran], [p for _, p in ran])
        evidence = f"Spearman's rho {rho:.2f} over {len(ran)} systems"
        # Whether that is sure can be told by the systems that have enough seeds.
        full = {row.first.label: (row, p) for row, p in ran if len(row.done) >= FEWEST_SEEDS}
        if len(full) < FEWEST_RANKED:
            reason = f"{len(full)} of them have {FEWEST_SEEDS} seeds"
            yield Finding(claim, _at(graph, rate), "undecided", f"{evidence}; {reason}")
            continue
        by_seed = _by_seed({label: row.figures(MRR) for label, (row, _) in full.items()})
        theirs = [p for _, p in full.values()]
        rhos = {seed: rank_correlation(list(f.values()), theirs) for seed, f in by_seed.items()}
        holds, sure = _is_above(rhos, SAME_ORDER)
        if len(full) < len(ran):
            mean = sum(rhos.values()) / len(rhos) if rhos else 0.0
            sure = f"{mean:.2f} {sure} for the {len(full)} with {FEWEST_SEEDS} seeds"
        yield Finding(claim, _at(graph, rate), _verdict(holds), f"{evidence}; {sure}")


def _beside(
    graph: str, rate: float, rows: Mapping[str, Row], stand_ins: bool = False
) -> list[tuple[Row, float]]:
    """Return each system's row with the paper's MRR, where the paper's entry can be right."""
    if graph in printed.STAND_INS and not stand_ins:
        return []
    found = []
    for recipe, row in rows.items():
        entry = printed.beside(graph, rate, recipe)
        if entry is not None and not printed.impossible(entry):
            found.append((row, entry.figures["mrr"]))
    return found


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rho; ties get their mean rank; 0 where one side is constant.

    >>> round(rank_correlation([1, 2, 3], [1, 3, 2]), 9)
    0.5
    """
    if min(len(set(first)), len(set(second))) < 2:
        return 0.0
    from scipy.stats import spearmanr

    return float(spearmanr(first, second).statistic)


# --- the rate


def rate_hurts(measured: Measured) -> Iterator[Finding]:
    """The paper: performance degrades as the rate increases, for all in most cases."""
    claim = "MRR falls as the rate rises, for most systems"
    for graph, rates in measured.rates().items():
        if len(rates) < 2:
            continue
        systems = {
            recipe: row for rate in rates for recipe, row in measured.rows[graph, rate].items()
        }
        fell = {}
        for recipe, row in systems.items():
            every = [measured.rows[graph, rate].get(recipe) for rate in rates]
            steps = [figures for r in every if r is not None and (figures := r.figures(MRR))]
            if len(steps) > 1:
                fell[row.first.label] = _falls(steps)
        where = f"{graph_title(graph)}, {rates[0]:g} to {rates[-1]:g}"
        if not fell:
            yield Finding(claim, where, "not run", "")
            continue
        counts = Counter(fell.values())
        evidence = f"{counts[True]} of {len(fell)} systems fall at every step"
        for verdict, word in ((False, "not"), (None, "within the spread, or too few seeds")):
            named = [label for label, falls in fell.items() if falls is verdict]
            evidence += f"; {word}: {', '.join(named)}" if named else ""
        holds = None
        if 2 * counts[True] > len(fell):
            holds = True
        elif 2 * counts[False] >= len(fell):
            holds = False
        yield Finding(claim, where, _verdict(holds), evidence)


def _falls(steps: Sequence[Mapping[int, float]]) -> bool | None:
    """Say whether the figures of each step are below those of the step before."""
    less = [_is_more(before, after)[0] for before, after in itertools.pairwise(steps)]
    return False if False in less else None if None in less else True


def gain_grows(measured: Measured) -> Iterator[Finding]:
    """The paper: the relative improvements are more significant under higher rates."""
    claim = (
        "nPUGraph's gain over the best baseline is larger at the highest rate than at the lowest"
    )
    for graph, rates in measured.rates().items():
        if len(rates) < 2 or not any("npugraph" in measured.rows[graph, r] for r in rates):
            continue
        ran = {r: set(measured.baselines(graph, r)) for r in rates}
        ran = {r: s for r, s in ran.items() if s and measured.mean(graph, r, "npugraph")}
        where = f"{graph_title(graph)}, {rates[0]:g} to {rates[-1]:g}"
        # A rate with more baselines would have a better best one.
        same = set.intersection(*ran.values()) if len(ran) > 1 else set()
        if not same:
            yield Finding(claim, where, "not run", "")
            continue
        gains = {rate: _gains(measured, graph, rate, same) for rate in ran}
        means = {rate: sum(g.values()) / len(g) for rate, g in gains.items() if g}
        shown = ", ".join(f"{gain:+.0%} at {rate:g}" for rate, gain in means.items())
        labels = [measured.rows[graph, rates[0]][r].first.label for r in BASELINES if r in same]
        holds, sure = _is_more(gains[max(gains)], gains[min(gains)])
        evidence = f"{shown}, over the best of {', '.join(labels)}; {sure}"
        yield Finding(claim, where, _verdict(holds), evidence)


def _gains(measured: Measured, graph: str, rate: float, baselines: set[str]) -> dict[int, float]:
    """Return, by seed, nPUGraph's MRR over that of the best of some baselines, less 1."""
    rows = measured.rows[graph, rate]
    best = max((rows[recipe] for recipe in baselines), key=lambda row: row.mean(MRR) or 0.0)
    ours, theirs = rows["npugraph"].figures(MRR), best.figures(MRR)
    return {seed: ours[seed] / theirs[seed] - 1 for seed in ours if seed in theirs}


# --- ablations and sweeps


def parts_help(measured: Measured) -> Iterator[Finding]:
    """The paper: without nPU, the encoder or self-training MRR is lower."""
    parts = {
        "npugraph/no-npu": "the nPU objective helps",
        "npugraph/no-lp-encoder": "choosing neighbours by the posterior helps",
        "npugraph/no-self-training": "self-training helps",
    }
    for (graph, rate), rows in measured.rows.items():
        for recipe, claim in parts.items():
            if recipe not in rows or "npugraph" not in rows:
                continue
            whole, without = rows["npugraph"].mean(MRR), rows[recipe].mean(MRR)
            if whole is None or without is None:
                yield Finding(claim, _at(graph, rate), "not run", "")
                continue
            evidence = f"{whole:.3f} with, {without:.3f} without"
            entry, full = (printed.beside(graph, rate, name) for name in (recipe, "npugraph"))
            if entry is not None and full is not None:
                evidence += f"; paper {full.figures['mrr']:.3f} and {entry.figures['mrr']:.3f}"
            holds, sure = _is_more(rows["npugraph"].figures(MRR), rows[recipe].figures(MRR))
            yield Finding(claim, _at(graph, rate), _verdict(holds), f"{evidence}; {sure}")


def _swept(measured: Measured, setting: str) -> Iterator[tuple[str, dict[float, Row]]]:
    """Yield (where, value -> row that has run) of each sweep of nPUGraph over a setting."""
    for (name, label, graph, rate), swept in measured.sweeps.items():
        if name == setting and swept[0].first.recipe == "npugraph":
            rows = {float(r.first.sweep[1]): r for r in swept if r.done and r.first.sweep}
            yield f"{label}, {_at(graph, rate)}", dict(sorted(rows.items()))


def _over_values(
    claim: str,
    measured: Measured,
    setting: str,
    decide: Callable[[Mapping[float, Mapping[int, float]]], Decision],
) -> Iterator[Finding]:
    """Judge the MRR of each sweep over a setting by its figures: value -> seed -> MRR."""
    for where, rows in _swept(measured, setting):
        if len(rows) < 2:
            yield Finding(claim, where, "not run", "")
            continue
        shown = ", ".join(f"{row.mean(MRR) or 0.0:.3f} at {value:g}" for value, row in rows.items())
        holds, sure = decide({value: row.figures(MRR) for value, row in rows.items()})
        yield Finding(claim, where, _verdict(holds), f"{shown}; {sure}")


def more_samples_help(measured: Measured) -> Iterator[Finding]:
    """The paper: performance improves as the number of unlabeled samples increases."""
    claim = "more unlabeled samples K rank better"
    yield from _over_values(
        claim, measured, "negatives", lambda by_k: _is_more(by_k[max(by_k)], by_k[min(by_k)])
    )


def time_is_linear(measured: Measured) -> Iterator[Finding]:
    """The paper: the training time grows linearly with the number of unlabeled samples."""
    claim = "training time grows linearly with K"
    for where, rows in _swept(measured, "negatives"):
        # Early stopping changes the number of epochs; the claim is about the time of one.
        times = {k: found for k, row in rows.items() if (found := _seconds_per_epoch(row))}
        if len(times) < 3:
            yield Finding(claim, where, "not run", "")
            continue
        if not timed_alike(rows.values()):
            evidence = "the cells ran on different machines or beside other work: no fair seconds"
            yield Finding(claim, where, "undecided", evidence)
            continue
        means = {k: sum(found.values()) / len(found) for k, found in times.items()}
        shown = ", ".join(f"{1000 * mean:.0f} at {k:g}" for k, mean in means.items())
        shares = {seed: linear_share(found) for seed, found in _by_seed(times).items()}
        holds, sure = _is_above(shares, LINEAR)
        evidence = (
            f"ms per epoch: {shown}; a line explains {linear_share(means):.1%} of the variance"
        )
        yield Finding(claim, where, _verdict(holds), f"{evidence}; {sure}")


def linear_share(times: Mapping[float, float]) -> float:
    """Return the share of the variance that a rising line explains; 0 where it falls.

    >>> linear_share({10: 1.0, 20: 2.0, 30: 3.0})
    1.0
    """
    from scipy.stats import linregress

    slope, _, r, *_ = linregress(list(times), list(times.values()))
    return float(r * r) if slope > 0 else 0.0


def _seconds_per_epoch(row: Row) -> dict[int, float]:
    """Return, by seed, the seconds of one epoch."""
    seconds = row.figures(TRAIN_SECONDS)
    epochs = {cell.seed: row.results[cell.key].get("epochs") for cell in row.done}
    return {s: seconds[s] / count for s, count in epochs.items() if count and s in seconds}


def alpha_matters_little(measured: Measured) -> Iterator[Finding]:
    """The paper: performance fluctuates a bit with different values of alpha."""

    def decide(by_alpha: Mapping[float, Mapping[int, float]]) -> Decision:
        by_seed = _by_seed(by_alpha)
        changes = {s: 1 - min(f.values()) / max(f.values()) for s, f in by_seed.items()}
        above, sure = _is_above(changes, TENTH)
        return (None if above is None else not above), sure

    claim = "MRR changes by less than a tenth over the values of α"
    yield from _over_values(claim, measured, "alpha", decide)
