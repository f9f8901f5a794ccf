"""Makes tests/samples/results.json: what a small audit and five recipes give.

    python scripts/build_result_samples.py            # write the file
    python scripts/build_result_samples.py --print    # print it only

The test tests/test_result_samples.py makes the figures again and compares them. It allows for
other machines and releases of PyTorch, whose sums are rounded otherwise; a change of a method
moves the figures by more. Where a change is meant, write the file again and say so.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import torch

from npugraph.auditing import AuditSettings, audit
from npugraph.auditing.page import is_planted, planted_check
from npugraph.data.datasets import load
from npugraph.data.perturb import PerturbSettings, perturb
from npugraph.fitting import fit
from npugraph.metrics import auroc, average_precision
from npugraph.ranking.evaluate import evaluate
from npugraph.recipes import get_recipe
from npugraph.settings import make_settings

FILE = Path(__file__).resolve().parent.parent / "tests" / "samples" / "results.json"
COMMON: dict[str, Any] = {"device": "cpu", "seed": 0, "validate_every": 100}
# Few passes over the bundled graph, enough to be far above chance.
RECIPES: dict[str, dict[str, Any]] = {
    "distmult": {"d": 32, "epochs": 8, "learning_rate": 0.02},
    "transe": {"d": 32, "epochs": 8},
    "rotate": {"d": 32, "epochs": 4, "learning_rate": 0.05},
    "complex-n3": {"d": 32, "epochs": 8},
    "npugraph/bilinear": {"d": 16, "epochs": 4, "learning_rate": 0.02},
}
AUDIT: dict[str, Any] = {"d": 32, "epochs": 12, "n3": 0.02, "validate_every": 6}
ASKED = AuditSettings(folds=2, missing=100, explained=0, compared=64, search=False, device="cpu")


def recipe_figures(name: str) -> dict[str, float]:
    """Train a recipe for a few passes; return its figures on the validation facts."""
    settings = make_settings(get_recipe(name).settings, {**COMMON, **RECIPES[name]})
    found = evaluate(fit(load("world").split(0), name, settings), part="valid")
    metrics = found["filters"]["clean"]
    return {key: float(metrics[key]) for key in ("mrr", "hits@10")}


def audit_figures() -> dict[str, float]:
    """Plant wrong facts in the bundled graph and audit it."""
    # With seed 0 so small a system cannot tell two kinds of error apart, and rounding decides.
    how = PerturbSettings(rate=0.05, added_share=1.0, noise="one-sided", seed=1)
    splits, truth = perturb(load("world").split(0), how)
    found = audit(splits, ASKED, AUDIT)
    wrong = is_planted(found, truth.planted)
    check = planted_check(found, truth.planted)
    return {
        "facts": len(wrong),
        "planted": check.planted,
        "found": check.found,
        "auroc": auroc(~wrong, found.collected.score),
        "average_precision": average_precision(wrong, -found.collected.score),
        "wrong_share": 1 - found.priors.beta.value,
        "expected_true": float(found.proposed.probability[found.missing_rows].sum()),
    }


def samples() -> dict[str, Any]:
    """Return all figures and what they were made with."""
    return {
        "made_with": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "machine": f"{platform.machine()} CPU",
            "command": "python scripts/build_result_samples.py",
        },
        "recipes": {
            name: {"settings": RECIPES[name], "figures": recipe_figures(name)} for name in RECIPES
        },
        "audit": {"training": AUDIT, "figures": audit_figures()},
    }


def main() -> None:
    """Write or print the samples."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print them only")
    arguments = parser.parse_args()
    text = json.dumps(samples(), indent=2) + "\n"
    if arguments.print:
        print(text, end="")
        return
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
