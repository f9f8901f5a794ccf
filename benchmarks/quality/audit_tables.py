"""Tables of docs/audit_figures.md from results/audit.jsonl; audit.py --table prints them.

A run that was made again counts once, by its last line; the in-training posterior, which takes long
and was not made again each time, is taken over from the line before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

IN_TRAINING = "in-training posterior"
SIGMOID = "sigmoid of the score"
PLATT = "Platt, guessed base rate .9"
SINGLE = "one score, isotonic, best-bin priors"
GRAPHS = ("fb15k-237", "wn18", "codex-s", "umls", "kinships")
NOISES = ("random", "one-sided", "wrong-tail", "typed")

Line = dict[str, Any]
Key = tuple[str, str, float]


def read(path: Path) -> list[Line]:
    """Return the last line of each run."""
    runs: dict[tuple[Any, ...], Line] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        how = line.get("perturbation", {})
        run = (line["graph"], line["task"], how.get("noise"), how.get("rate"), how.get("seed", 0))
        earlier = runs.get(run, {})
        if "in_training" in earlier and "in_training" not in line:
            line["in_training"] = earlier["in_training"]
            line["ece_others"][IN_TRAINING] = earlier["ece_others"][IN_TRAINING]
        runs[run] = line
    return list(runs.values())


def by_protocol(lines: Iterable[Line]) -> dict[Key, list[Line]]:
    """Return the runs with planted facts, all seeds of a graph, kind and rate together."""
    groups: dict[Key, list[Line]] = {}
    for line in lines:
        if line["task"] == "planted":
            how = line["perturbation"]
            groups.setdefault((line["graph"], how["noise"], how["rate"]), []).append(line)
    order = {name: place for place, name in enumerate((*GRAPHS, *NOISES))}
    return dict(
        sorted(groups.items(), key=lambda g: (order.get(g[0][0], 99), order[g[0][1]], g[0][2]))
    )


def mean(lines: Sequence[Line], *path: str) -> float:
    """Return the mean over runs of the figure that the names of a path lead to."""
    return float(np.mean([reduce(getitem, path, line) for line in lines]))


def detection(lines: list[Line]) -> list[str]:
    """Return how well planted facts are found and counted, a row a protocol."""
    rows = [
        "| graph | noise, rate | seeds | AUROC | AP of the wrong | share of wrong facts, true / "
        "estimated | largest error | in the 90% interval | ECE, mean (largest) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (graph, noise, rate), runs in by_protocol(lines).items():
        doubted = sum(not run["identifiable"] for run in runs)
        mark = "" if not doubted else " †" if doubted == len(runs) else _some(doubted, len(runs))
        star = " *" if any("half precision" in run.get("note", "") for run in runs) else ""
        errors = [abs(run["beta_error"]) for run in runs]
        inside = sum(run["in_interval"] for run in runs)
        largest = max(run["ece"] for run in runs)
        rows.append(
            f"| {graph}{star} | {noise}, {rate} | {len(runs)} | "
            f"{mean(runs, 'auroc'):.4f} | "
            f"{mean(runs, 'average_precision'):.3f} | "
            f"{1 - mean(runs, 'true_share'):.4f} / "
            f"{1 - mean(runs, 'beta'):.4f}{mark} | {max(errors):.4f} | "
            f"{inside} of {len(runs)} | "
            f"{mean(runs, 'ece'):.4f} ({largest:.4f}) |"
        )
    return rows


def _some(doubted: int, runs: int) -> str:
    return f" († {doubted} of {runs})"


def calibration(lines: list[Line]) -> list[str]:
    """Return the ECE of the audit beside that of other ways, with random noise.

    The in-training posterior was made for some seeds only: there it is held against the audit's.
    """
    rows = [
        "| graph | rate | seeds | audit | sigmoid | Platt, base rate .9 | one score, isotonic | "
        "better than sigmoid and Platt, than all three | seeds in-training | audit there | "
        "in-training posterior | AUROC, AP in-training | AUROC, AP audit there |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    others = (SIGMOID, PLATT, SINGLE)
    for (graph, noise, rate), everything in by_protocol(lines).items():
        runs = [run for run in everything if "ece_others" in run]
        if noise != "random" or not runs:
            continue
        shown = " | ".join(f"{mean(runs, 'ece_others', name):.4f}" for name in others)
        better = [
            sum(all(run["ece"] < run["ece_others"][name] for name in names) for run in runs)
            for names in (others[:2], others)
        ]
        trained = [run for run in runs if "in_training" in run]
        beside = " | ".join(_beside(trained)) if trained else "- | - | - | -"
        rows.append(
            f"| {graph} | {rate} | {len(runs)} | {mean(runs, 'ece'):.4f} | {shown} | "
            f"{better[0]}, {better[1]} of {len(runs)} | {len(trained)} | {beside} |"
        )
    return rows


def _beside(runs: list[Line]) -> list[str]:
    """Return the cells that compare the audit with the in-training posterior."""
    detected = [
        f"{mean(runs, *path, 'auroc'):.3f}, {mean(runs, *path, 'average_precision'):.2f}"
        for path in (("in_training",), ())
    ]
    own = f"{mean(runs, 'ece_others', IN_TRAINING):.4f}"
    return [f"{mean(runs, 'ece'):.4f}", own, *detected]


def missing(lines: list[Line]) -> list[str]:
    """Return how many of the proposed facts are removed ones, at rate 0.3.

    Runs from before proposals were judged by held-out facts are left out.
    """
    rows = [
        "| graph | noise | seeds | removed | removed or test | expected | by score: removed | "
        "removed or test | recall of the removed | share of missing facts, true / estimated | "
        "in the 90% interval |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    columns = (
        "precision",
        "precision_with_test",
        "expected",
        "precision_by_score",
        "precision_by_score_with_test",
        "recall",
    )
    for (graph, noise, rate), everything in by_protocol(lines).items():
        runs = [run["missing"] for run in everything if run.get("missing", {}).get("share")]
        if rate == 0.3 and runs:
            shown = " | ".join(f"{mean(runs, name):.3f}" for name in columns)
            truth, value = mean(runs, "true_share"), mean(runs, "share", "value")
            inside = sum(r["share"]["low"] <= r["true_share"] <= r["share"]["high"] for r in runs)
            rows.append(
                f"| {graph} | {noise} | {len(runs)} | {shown} | {truth:.3f} / {value:.3f} | "
                f"{inside} of {len(runs)} |"
            )
    return rows


def large(lines: list[Line]) -> list[str]:
    """Return time and memory of the synthetic graphs."""
    rows = [
        "| facts | entities | minutes | processor minutes | cores others kept busy | peak memory | "
        "AUROC | ECE |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| {run['facts']:,} | {run['entities']:,} | {run['seconds'] / 60:.1f} | "
        f"{run['cpu_seconds'] / 60:.1f} | {run['others_busy']} of {run['cores']} | "
        f"{run['peak_mib']:,.0f} MiB | {run['auroc']:.4f} | {run['ece']:.4f} |"
        for run in lines
        if run["task"] == "synthetic"
    ]
    return rows


TABLES = (detection, calibration, missing, large)


def all_tables(path: Path) -> str:
    """Return every table, as Markdown."""
    lines = read(path)
    return "\n\n".join("\n".join(table(lines)) for table in TABLES)
