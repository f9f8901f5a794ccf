"""What the paper claims, held against our results: a verdict and the figures behind each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from npugraph.bench.paper import printed
from npugraph.bench.paper.tables import PAPER_FILTER, beside_paper, graph_title, p_value
from npugraph.bench.summary import (
    TRAIN_SECONDS,
    Row,
    compare_two,
    ranking,
    sweeps,
    timed_alike,
)

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
# Of two systems that were compared over several seeds, a p value from here on decides nothing.
UNDECIDED_FROM = 0.05


@dataclass(frozen=True)
class Finding:
    """One claim in one place.

    Attributes:
        claim: what the paper says, in a few words.
        where: graph and rate.
        verdict: whether our results agree; ``undecided`` where two systems are too close for the
            seeds there are, or where what is left to run could still turn it; ``not run`` where
            there is nothing to go by.
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


def _compare(first: Row, second: Row) -> tuple[Verdict, str]:
    """Say whether the first row is better than the second, and how sure that is.

    Both must have figures.
    """
    holds = _verdict((first.mean(MRR) or 0.0) > (second.mean(MRR) or 0.0))
    test = compare_two(first, second, MRR)
    if test is None:
        return holds, "too few seeds for a test"
    shown = p_value(test.p_value)
    p = f"p {shown[0]} {shown[1:]}" if shown.startswith("<") else f"p = {shown}"
    sure = f"paired t test {p}, n = {test.pairs}"
    return ("undecided" if test.p_value >= UNDECIDED_FROM else holds), sure


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
        verdict, sure = _compare(ours, best)
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
        ran = {label: (ours, theirs) for label, ours, theirs in pairs if ours is not None}
        if not ran:
            yield Finding(claim, _at(graph, rate), "not run", "")
            continue
        ratios = {label: ours / theirs - 1 for label, (ours, theirs) in ran.items()}
        parts = [f"{sum(abs(r) <= TENTH for r in ratios.values())} of {len(ran)} systems"]
        for word, sign in (("above", 1), ("below", -1)):
            off = [f"{s} {r:+.0%}" for s, r in ratios.items() if sign * r > TENTH]
            if off:
                parts.append(f"{word}: {', '.join(off)}")
        inside = all(abs(ratio) <= TENTH for ratio in ratios.values())
        yield Finding(claim, _at(graph, rate), _verdict(inside), "; ".join(parts))


def order_agrees(measured: Measured) -> Iterator[Finding]:
    """Not a claim in words: which system ranks above which."""
    claim = f"the systems stand in the paper's order (rank correlation from {SAME_ORDER:g})"
    for (graph, rate), rows in measured.rows.items():
        pairs = _beside(graph, rate, rows, stand_ins=True)
        if len(pairs) < FEWEST_RANKED:
            continue
        ran = [(ours, theirs) for _, ours, theirs in pairs if ours is not None]
        if len(ran) < FEWEST_RANKED:
            yield Finding(claim, _at(graph, rate), "not run", "")
            continue
        rho = rank_correlation(*zip(*ran, strict=True))
        yield Finding(
            claim,
            _at(graph, rate),
            _verdict(rho >= SAME_ORDER),
            f"Spearman's rho {rho:.2f} over {len(ran)} systems",
        )


def _beside(
    graph: str, rate: float, rows: Mapping[str, Row], stand_ins: bool = False
) -> list[tuple[str, float | None, float]]:
    """Return (label, our MRR, the paper's) of the systems whose entry can be right."""
    if graph in printed.STAND_INS and not stand_ins:
        return []
    found = []
    for recipe, row in rows.items():
        entry = printed.beside(graph, rate, recipe)
        if entry is not None and not printed.impossible(entry):
            found.append((row.first.label, row.mean(MRR), entry.figures["mrr"]))
    return found


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Spearman's rho; ties get their mean rank; 0 where one side is constant.

    >>> rank_correlation([1, 2, 3], [1, 3, 2])
    0.5
    """
    from scipy.stats import rankdata

    return _correlation(rankdata(first).tolist(), rankdata(second).tolist())


def _correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Return Pearson's correlation; 0 where one side is constant."""
    import numpy as np

    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else 0.0


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
            means = [m for rate in rates if (m := measured.mean(graph, rate, recipe)) is not None]
            if len(means) > 1:
                fell[row.first.label] = all(a > b for a, b in zip(means, means[1:], strict=False))
        where = f"{graph_title(graph)}, {rates[0]:g} to {rates[-1]:g}"
        if not fell:
            yield Finding(claim, where, "not run", "")
            continue
        evidence = f"{sum(fell.values())} of {len(fell)} systems fall at every step"
        others = [label for label, steady in fell.items() if not steady]
        evidence += f"; not: {', '.join(others)}" if others else ""
        yield Finding(claim, where, _verdict(2 * sum(fell.values()) > len(fell)), evidence)


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
        gains = {rate: _gain(measured, graph, rate, same) for rate in ran}
        shown = ", ".join(f"{gain:+.0%} at {rate:g}" for rate, gain in gains.items())
        labels = [measured.rows[graph, rates[0]][r].first.label for r in BASELINES if r in same]
        grows = gains[max(gains)] > gains[min(gains)]
        evidence = f"{shown}, over the best of {', '.join(labels)}"
        yield Finding(claim, where, _verdict(grows), evidence)


def _gain(measured: Measured, graph: str, rate: float, baselines: set[str]) -> float:
    """Return nPUGraph's MRR over that of the best of some baselines, less 1."""
    best = max(measured.mean(graph, rate, recipe) or 0.0 for recipe in baselines)
    return (measured.mean(graph, rate, "npugraph") or 0.0) / best - 1


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
            verdict, sure = _compare(rows["npugraph"], rows[recipe])
            yield Finding(claim, _at(graph, rate), verdict, f"{evidence}; {sure}")


def _swept(measured: Measured, setting: str) -> Iterator[tuple[str, dict[float, Row]]]:
    """Yield (where, value -> row that has run) of each sweep of nPUGraph over a setting."""
    for (name, label, graph, rate), swept in measured.sweeps.items():
        if name == setting and swept[0].first.recipe == "npugraph":
            rows = {float(r.first.sweep[1]): r for r in swept if r.done and r.first.sweep}
            yield f"{label}, {_at(graph, rate)}", dict(sorted(rows.items()))


def more_samples_help(measured: Measured) -> Iterator[Finding]:
    """The paper: performance improves as the number of unlabeled samples increases."""
    claim = "more unlabeled samples K rank better"
    for where, rows in _swept(measured, "negatives"):
        means = {k: m for k, row in rows.items() if (m := row.mean(MRR)) is not None}
        if len(means) < 2:
            yield Finding(claim, where, "not run", "")
            continue
        shown = ", ".join(f"{mean:.3f} at {k:g}" for k, mean in means.items())
        rises = means[max(means)] > means[min(means)]
        yield Finding(claim, where, _verdict(rises), shown)


def time_is_linear(measured: Measured) -> Iterator[Finding]:
    """The paper: the training time grows linearly with the number of unlabeled samples."""
    claim = "training time grows linearly with K"
    for where, rows in _swept(measured, "negatives"):
        # Early stopping changes the number of epochs; the claim is about the time of one.
        times = {k: t for k, row in rows.items() if (t := _seconds_per_epoch(row)) is not None}
        if len(times) < 3:
            yield Finding(claim, where, "not run", "")
            continue
        if not timed_alike(rows.values()):
            evidence = "the cells ran on different machines or beside other work: no fair seconds"
            yield Finding(claim, where, "undecided", evidence)
            continue
        r = _correlation(list(times), list(times.values()))
        shown = ", ".join(f"{1000 * t:.0f} at {k:g}" for k, t in times.items())
        evidence = f"ms an epoch: {shown}; a line explains {max(r, 0) ** 2:.1%} of the variance"
        yield Finding(claim, where, _verdict(r > 0 and r * r >= LINEAR), evidence)


def _seconds_per_epoch(row: Row) -> float | None:
    """Return the mean seconds of one epoch, or None where a figure is missing."""
    seconds = row.figures(TRAIN_SECONDS)
    epochs = {cell.seed: row.results[cell.key].get("epochs") for cell in row.done}
    each = [seconds[seed] / count for seed, count in epochs.items() if count and seed in seconds]
    return sum(each) / len(each) if each else None


def alpha_matters_little(measured: Measured) -> Iterator[Finding]:
    """The paper: performance fluctuates a bit with different values of alpha."""
    claim = "MRR changes by less than a tenth over the values of α"
    for where, rows in _swept(measured, "alpha"):
        means = {a: m for a, row in rows.items() if (m := row.mean(MRR)) is not None}
        if len(means) < 2:
            yield Finding(claim, where, "not run", "")
            continue
        shown = ", ".join(f"{mean:.3f} at {alpha:g}" for alpha, mean in means.items())
        change = 1 - min(means.values()) / max(means.values())
        yield Finding(claim, where, _verdict(change < TENTH), shown)


def _verdict(holds: bool) -> Verdict:
    return "agrees" if holds else "disagrees"
