"""Names and shares as they are shown, in tables, reports and sentences; files keep them whole."""

from __future__ import annotations

# Characters of a name that are shown at most.
SHOWN = 80


def shorten(name: str, most: int = SHOWN) -> str:
    """Return a name of at most ``most`` characters: the start and the end of a longer one.

    >>> shorten("Vienna")
    'Vienna'
    >>> shorten("http://example.org/resource/Vienna", 20)
    'http://example…ienna'
    """
    if len(name) <= most:
        return name
    end = most // 4
    return f"{name[: most - end - 1]}…{name[-end:]}"


def percent(share: float, exact: bool = False) -> str:
    """Write a share in [0, 1].

    An estimate is never certain, so its ends are written as bounds; a share that was counted
    (``exact``) may well be 0 or 1.

    >>> percent(0.0312), percent(0.5), percent(0.0), percent(0.99999), percent(1, exact=True)
    ('3.1%', '50%', '<0.1%', '>99.9%', '100%')
    """
    value = 100 * share
    if exact and share in (0, 1):
        return f"{value:.0f}%"
    if value < 0.1:
        return "<0.1%"
    if value > 99.9:
        return ">99.9%"
    # One decimal matters near the ends only.
    return f"{value:.1f}%" if value < 9.95 or value >= 90.05 else f"{value:.0f}%"
