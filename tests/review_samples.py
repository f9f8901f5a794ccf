"""Folders of audits that nobody made: a posterior with a known truth, written in a moment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from npugraph.data.io import write_table, write_text

FACT = ("head", "relation", "tail")


@dataclass(frozen=True)
class Sample:
    """A folder, and which of its facts [n] are wrong: stored ones first, then proposed ones."""

    folder: Path
    wrong: NDArray[np.bool_]


def sample_audit(
    folder: Path,
    *,
    stored: int = 400,
    missing: int = 60,
    wrong: float = 0.1,
    reliable: bool = True,
    source: bool = False,
    seed: int = 0,
) -> Sample:
    """Write what the desk reads of an audit: facts with scores that know much of the truth."""
    rng = np.random.default_rng(seed)
    count = stored + missing
    false = np.concatenate([rng.random(stored) < wrong, rng.random(missing) < 0.5])
    score = rng.normal(size=count) + np.where(false, -1.5, 1.5)
    # The log-odds of two normal distributions at 1.5 and -1.5.
    share = np.repeat([wrong, 0.5], [stored, missing])
    probability = 1 / (1 + np.exp(-3 * score) * share / (1 - share))
    numbers = np.arange(count)
    table = {
        "head": [f"person {i // 4:05}" for i in numbers],
        "relation": [("lives in", "knows", "born in", "works for")[i % 4] for i in numbers],
        "tail": [f"town {rng.integers(0, max(count // 6, 2)):05}" for _ in numbers],
        "probability": probability if reliable else pa.nulls(count, pa.float64()),
        "low": np.maximum(probability - 0.1, 0) if reliable else pa.nulls(count, pa.float64()),
        "high": np.minimum(probability + 0.1, 1) if reliable else pa.nulls(count, pa.float64()),
        "score": score,
        "collected": numbers < stored,
        "fold": numbers % 5 + 1,
    }
    if source:
        table["source"] = [f"document {i % 7}" for i in numbers]
    folder.mkdir(parents=True, exist_ok=True)
    posterior = pa.table(table)
    write_table(posterior, folder / "posterior.parquet")
    level = "reliable" if reliable else "order"
    record = {
        "verdict": level,
        "missing_verdict": level,
        "suspects": 20,
        "settings": {"budget": 50, "source": "from" if source else None},
    }
    write_text(folder / "audit.json", json.dumps(record))
    order = np.argsort(score[:stored])[:20]
    listed = posterior.take(pa.array(order)).select([*FACT, "probability", "low", "high", "score"])
    ends = listed["head"].to_pylist()
    proposed = {
        "replace": ["tail", None],
        "by": ["town 00001", None],
        # What was meant by the second suspect is stored.
        "stored_head": [None, ends[1]],
        "stored_tail": [None, "town 00002"],
    }
    for name, first in proposed.items():
        values = [*first, *[None] * (len(listed) - len(first))]
        listed = listed.append_column(name, pa.array(values, pa.string()))
    write_table(listed, folder / "suspects.tsv", header=True)
    broken = posterior.take(pa.array(order[:3])).select(list(FACT))
    columns = {
        "kind": ["type"] * 3,
        "score": [0.9] * 3,
        **{name: broken[name] for name in FACT},
        "other": pa.nulls(3, pa.string()),
        "sentence": [f"Odd {i}." for i in range(3)],
    }
    write_table(pa.table(columns), folder / "issues.tsv", header=True)
    return Sample(folder, false)
