"""Numbers as a reader wants them; one place, so that text, tables and plots agree."""

from __future__ import annotations

import math

from npugraph.names import percent as percent
from npugraph.report.data import Estimate


def percent_range(estimate: Estimate) -> str:
    """Write the interval of a share, or nothing where there is none.

    >>> percent_range(Estimate(0.04, 0.031, 0.048))
    '3.1 – 4.8%'
    """
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{percent(estimate.low)[:-1]} – {percent(estimate.high)}"


def decimal(value: float) -> str:
    """Write a number of any size in about four digits, with a true minus sign.

    >>> decimal(-3.14159), decimal(12345.6), decimal(0.00001234), decimal(0)
    ('−3.14', '12,346', '1.23e−05', '0.00')
    """
    # Zero may carry a sign, which would only puzzle the reader.
    size, value = abs(value), value or 0.0
    if size != 0 and (size < 0.005 or size >= 1e9):
        text = f"{value:.2e}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.2f}"
    return text.replace("-", "−")


def decimal_range(estimate: Estimate) -> str:
    """Write the interval of any number, or nothing where there is none.

    >>> decimal_range(Estimate(0.0, -1.5, 2.0))
    '−1.50 to 2.00'
    """
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{decimal(estimate.low)} to {decimal(estimate.high)}"


def nice_ticks(high: float, most: int = 5) -> list[float]:
    """Return round numbers from 0 to at least ``high``, at most ``most`` + 1 of them.

    >>> nice_ticks(142)
    [0.0, 50.0, 100.0, 150.0]
    """
    if high <= 0:
        return [0.0, 1.0]
    # The steps 1, 2, 5, 10 times a power of ten; the first that needs few enough ticks.
    power = 10.0 ** math.floor(math.log10(high / most))
    step = next(s * power for s in (1, 2, 5, 10, 20) if math.ceil(high / (s * power)) <= most)
    return [i * step for i in range(math.ceil(high / step) + 1)]
