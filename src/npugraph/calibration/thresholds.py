"""What was tuned of the priors: numbers that were chosen by looking at results."""

from __future__ import annotations

from dataclasses import dataclass

from npugraph.errors import SettingsError
from npugraph.settings import check_ranges, setting


@dataclass(frozen=True)
class PriorThresholds:
    """The numbers by which the priors are estimated; docs/audit_figures.md tells of the choice."""

    level: float = setting(0.9, "share of the intervals that should hold the truth")
    prior_ends: tuple[float, ...] = setting(
        (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
        "positions below which facts are counted for the priors",
    )
    prior_resamples: int = setting(1000, "bootstrap resamples behind the intervals", low=1)
    prior_mismatch: float = setting(
        0.2,
        "how far, in relative terms, collected false facts may differ in density from uncollected "
        "ones at the low end; no bootstrap can see it",
        low=0,
    )
    unknown: float = setting(
        0.01,
        "up to this share of the collected facts may be true and yet score like false ones; the "
        "estimate takes half of it for granted",
        low=0,
    )
    most_wrong: float = setting(
        0.15, "where more facts score like uncollected ones, the share of wrong ones is not told"
    )
    level_within: float = setting(
        1.5, "nor where the density at the lowest positions differs by more than this factor", low=1
    )
    clearly: float = setting(3.0, "standard errors by which it must differ", low=0)
    widest: float = setting(0.1, "nor where the interval is wider than this", low=0)
    least_scores: int = setting(100, "nor where there are fewer facts of either sort", low=1)
    most_alike: float = setting(
        0.98, "most that collected and uncollected facts may be alike", low=0, high=1
    )
    middle: tuple[float, float] = setting(
        (0.5, 0.8), "positions reached neither by chance nor by facts that are told apart well"
    )
    lowest: tuple[float, float] = setting((0.0, 0.1), "the lowest positions")
    next_lowest: tuple[float, float] = setting(
        (0.25, 0.5), "positions whose density should be that of the lowest"
    )

    def __post_init__(self) -> None:
        """Refuse values that mean nothing."""
        check_ranges(self)
        check_rising(self, "prior_ends")
        check_below_one(self, "prior_mismatch", "unknown")
        if not 0 < self.level < 1:
            raise SettingsError(f"level={self.level} must lie between 0 and 1.")


def check_rising(thresholds: PriorThresholds, name: str) -> None:
    """Refuse a grid that does not rise within (0, 1)."""
    grid = (0.0, *getattr(thresholds, name), 1.0)
    if len(grid) < 3 or any(a >= b for a, b in zip(grid, grid[1:], strict=False)):
        raise SettingsError(f"{name}={getattr(thresholds, name)} must rise within (0, 1).")


def check_below_one(thresholds: PriorThresholds, *names: str) -> None:
    """Refuse shares of 1 and more."""
    for name in names:
        if getattr(thresholds, name) >= 1:
            raise SettingsError(f"{name}={getattr(thresholds, name)} must be below 1.")


# What all published figures rest on.
PRIORS = PriorThresholds()
