"""Stored figures of one audit and five recipes: a change that moves them is seen."""

from __future__ import annotations

import json

import pytest

from script_files import load_script

builder = load_script("build_result_samples")
STORED = json.loads(builder.FILE.read_text(encoding="utf-8"))
# Other machines round otherwise; a change of a method moves the figures by more.
ALLOWED = {
    "mrr": 0.02,
    "hits@10": 0.03,
    "found": 6,
    "auroc": 0.01,
    "average_precision": 0.03,
    "wrong_share": 0.01,
    "expected_true": 15,
}


def compare(made: dict[str, float], stored: dict[str, float]) -> None:
    assert made.keys() == stored.keys()
    for name, value in stored.items():
        assert made[name] == pytest.approx(value, abs=ALLOWED.get(name, 0)), name


@pytest.mark.parametrize("name", builder.RECIPES)
def test_a_recipe_gives_what_it_gave(name: str) -> None:
    kept = STORED["recipes"][name]
    assert kept["settings"] == builder.RECIPES[name]
    compare(builder.recipe_figures(name), kept["figures"])


def test_an_audit_gives_what_it_gave() -> None:
    assert STORED["audit"]["training"] == builder.AUDIT
    compare(builder.audit_figures(), STORED["audit"]["figures"])
