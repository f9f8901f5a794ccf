"""Inline SVG plots, drawn from numbers alone: colours and fonts come from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from npugraph.report.data import Estimate, Reliability, YieldPoint
from npugraph.report.formats import nice_ticks, percent

# One frame for both plots, in user units; the page scales it.
WIDTH, HEIGHT = 480, 350
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 40, 56


@dataclass(frozen=True)
class _Frame:
    """Maps data to user units; both axes start at 0.

    x' = left + (x / x_high) * width of the plot, y' = bottom - (y / y_high) * height of the plot.
    """

    x_high: float
    y_high: float

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / self.x_high

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.y_high

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)


def reliability_chart(reliability: Reliability, name: str = "reliability") -> Markup:
    """Draw predicted probability (x) against the observed share of true facts (y), both 0..1.

    Points on the dashed diagonal are right on average; whiskers are 90% intervals; the area of a
    point grows with the number of facts in its bin. ``name`` tells two such plots of a page apart.
    """
    frame = _Frame(1.0, 1.0)
    ticks = [i / 4 for i in range(5)]
    most = max((bin_.count for bin_ in reliability.bins), default=0)
    parts = _axes(frame, ticks, ticks, _share_label, _share_label)
    parts += _axis_titles("predicted probability of being true", "observed share of true facts")
    parts.append(f'<path class="guide" d="{frame.path([(0, 0), (1, 1)])}"/>')
    for bin_ in reliability.bins:
        x, observed = frame.x(bin_.predicted), bin_.observed
        if observed.low is not None and observed.high is not None:
            parts.append(
                f'<path class="whisker" d="M{x:.1f} {frame.y(observed.low):.1f}'
                f'V{frame.y(observed.high):.1f}"/>'
            )
        radius = 3 + 5 * math.sqrt(bin_.count / most) if most else 3
        parts.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{frame.y(observed.value):.1f}" '
            f'r="{radius:.1f}"/>'
        )
    return _svg(name, "Reliability of the probabilities", _describe_reliability(reliability), parts)


def yield_chart(points: Sequence[YieldPoint], wrong_share: float | None) -> Markup:
    """Draw wrong facts found (y) against facts reviewed (x).

    Args:
        points: budgets rising; the curve starts at (0, 0).
        wrong_share: share of wrong facts in the graph; gives the line of reviewing at random.
    """
    tops = [max(p.expected.value, p.expected.high or 0, p.observed or 0) for p in points]
    x_ticks = nice_ticks(max((p.budget for p in points), default=0))
    y_ticks = nice_ticks(max(tops, default=0))
    last = points[-1].budget if points else 0
    frame = _Frame(x_ticks[-1], y_ticks[-1])
    parts = _axes(frame, x_ticks, y_ticks, _count_label, _count_label)
    parts += _axis_titles("facts reviewed, most suspicious first", "wrong facts found")
    band = [(p.budget, p.expected.low, p.expected.high) for p in points]
    low = [(float(b), lo) for b, lo, hi in band if lo is not None and hi is not None]
    high = [(float(b), hi) for b, lo, hi in band if lo is not None and hi is not None]
    if low:
        parts.append(f'<path class="band" d="{frame.path([(0, 0), *high, *reversed(low)])}Z"/>')
    if wrong_share is not None and last:
        # The line leaves the frame where the graph is dirtier than the list; cut it there.
        end = min(last, y_ticks[-1] / wrong_share) if wrong_share else last
        parts.append(f'<path class="guide" d="{frame.path([(0, 0), (end, end * wrong_share)])}"/>')
    expected = [(float(p.budget), p.expected.value) for p in points]
    parts.append(f'<path class="line" d="{frame.path([(0, 0), *expected])}"/>')
    observed = [(float(p.budget), p.observed) for p in points if p.observed is not None]
    if observed:
        parts.append(f'<path class="line observed" d="{frame.path([(0, 0), *observed])}"/>')
    return _svg("yield", "Wrong facts found against facts reviewed", _describe_yield(points), parts)


def range_bar(estimate: Estimate, low: float, high: float) -> Markup:
    """Draw a value and its interval on a track that runs from ``low`` to ``high``.

    Positions are percentages of the width, so that the bar fills any cell:
    x(v) = 2 + 96 (v - low) / (high - low), which keeps the dot inside the track.
    """

    def place(value: float) -> float:
        inside = min(max(value, low), high)
        return 2 + 96 * (inside - low) / (high - low)

    parts = ['<rect class="track" x="0" y="6" width="100%" height="2" rx="1"/>']
    if low < 0 < high:
        parts.append(f'<rect class="zero" x="{place(0):.1f}%" y="1" width="1" height="12"/>')
    if estimate.low is not None and estimate.high is not None:
        start, end = place(estimate.low), place(estimate.high)
        parts.append(
            f'<rect class="range" x="{start:.1f}%" y="5" width="{max(end - start, 0.5):.1f}%" '
            'height="4" rx="2"/>'
        )
    parts.append(f'<circle class="dot" cx="{place(estimate.value):.1f}%" cy="7" r="3.5"/>')
    return Markup(
        '<svg class="rangebar" width="100%" height="14" aria-hidden="true" focusable="false">'
        f"{''.join(parts)}</svg>"
    )


def _svg(name: str, title: str, description: str, parts: Sequence[str]) -> Markup:
    opening = Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" focusable="false" '
        'aria-labelledby="{n}-title {n}-desc"><title id="{n}-title">{t}</title>'
        '<desc id="{n}-desc">{d}</desc>'
    ).format(w=WIDTH, h=HEIGHT, n=name, t=title, d=description)
    return opening + Markup("".join(parts)) + Markup("</svg>")


def _axes(
    frame: _Frame,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
    x_label: Callable[[float], str],
    y_label: Callable[[float], str],
) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tick in y_ticks:
        y = frame.y(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" class="end">{y_label(tick)}</text>')
    for tick in x_ticks:
        x = frame.x(tick)
        # The last label would be cut at the edge if it were centred there.
        place = "end" if x > right - 12 else "middle"
        parts.append(f'<path class="grid" d="M{x:.1f} {bottom}v5"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 21}" class="{place}">{x_label(tick)}</text>')
    return parts


def _axis_titles(x_title: str, y_title: str) -> list[str]:
    # The title of the upright axis lies flat above it, where it can be read.
    return [
        f'<text class="axis middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}">'
        f"{x_title}</text>",
        f'<text class="axis" x="0" y="17">{y_title}</text>',
    ]


def _share_label(value: float) -> str:
    return f"{100 * value:.0f}%"


def _count_label(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"


def _describe_reliability(reliability: Reliability) -> str:
    if not reliability.bins:
        return "There are no bins to show."
    gap = max(reliability.bins, key=lambda b: abs(b.observed.value - b.predicted))
    return (
        f"{len(reliability.bins)} bins. The largest gap: facts predicted at "
        f"{percent(gap.predicted)} are true in {percent(gap.observed.value, True)} of cases. "
        "The numbers are in the table below."
    )


def _describe_yield(points: Sequence[YieldPoint]) -> str:
    if not points:
        return "There are no points to show."
    last = points[-1]
    known = "" if last.observed is None else f"; {last.observed:,.0f} really are wrong"
    return (
        f"Among the first {last.budget:,} facts reviewed, about {last.expected.value:,.0f} are "
        f"expected to be wrong{known}. The numbers are in the table below."
    )
