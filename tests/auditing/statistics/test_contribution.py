"""What each view brings."""

from __future__ import annotations

import numpy as np

from npugraph.auditing.statistics.contribution import contributions
from npugraph.auditing.statistics.evidence import FactArrays

VIEWS = ("good", "good", "noise")


def facts(count: int, shift: float, seed: int) -> FactArrays:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, 3))
    features[:, 0] += shift
    return FactArrays(features, np.arange(count) % 5, np.zeros(count, np.int64), features[:, 0])


def test_a_view_that_tells_facts_apart_is_missed_and_one_of_noise_is_not() -> None:
    pools = {"far": facts(1500, 0.0, 1), "near": facts(1500, 1.5, 2)}
    good, noise = contributions(facts(2000, 2.0, 0), pools, VIEWS)
    assert (good.view, good.features, noise.view, noise.features) == ("good", 2, "noise", 1)
    assert good.together == noise.together
    # Two normal distributions, two deviations apart: AUROC .92.
    assert abs(good.together["far"] - 0.92) < 0.03
    assert good.together["near"] < 0.7
    assert abs(good.without["far"] - 0.5) < 0.06
    assert abs(noise.without["far"] - good.together["far"]) < 0.03
    assert abs(noise.alone["far"] - 0.5) < 0.06
    assert good.alone == noise.without


def test_a_single_view_has_nothing_beside_it() -> None:
    (only,) = contributions(facts(300, 2.0, 0), {"far": facts(300, 0.0, 1)}, ("one",) * 3)
    assert only.without == {}
    assert only.alone == only.together
