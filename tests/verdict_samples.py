"""Facts as arrays, some of them wrong, for tests of the verdict and of what it rests on."""

from __future__ import annotations

import numpy as np

from npugraph.auditing.statistics.evidence import FactArrays

FAMILIES = {"arbitrary": ("random",), "plausible": ("typed",)}
CENTRES = {"true": (6.0, 6.0), "random": (0.0, 0.0), "typed": (3.0, 0.0)}


def draw(kinds: np.ndarray, rng: np.random.Generator, spread: float = 1.0) -> FactArrays:
    """Return facts of these kinds [n], each about the centre of its own."""
    features = spread * rng.normal(size=(len(kinds), 2)) + np.array([CENTRES[k] for k in kinds])
    fold, relation = (rng.integers(0, size, len(kinds)) for size in (2, 3))
    return FactArrays(features, fold, relation, features.mean(1))


def made(wrong: float, spread: float = 1.0) -> tuple[FactArrays, np.ndarray, dict, dict]:
    """Return collected facts, which are wrong, and pools and planted facts of two kinds."""
    rng = np.random.default_rng(0)
    false = rng.random(3000) < wrong
    collected = draw(np.where(false, "random", "true"), rng, spread)
    pools = {kind: draw(np.repeat(kind, 3000), rng, spread) for kind in ("random", "typed")}
    planted = {kind: draw(np.repeat(kind, 40), rng, spread) for kind in ("random", "typed")}
    return collected, false, pools, planted
