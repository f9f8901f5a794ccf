"""What a review knows of facts whose relation has no probabilities of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

from npugraph.data.io import write_table
from npugraph.review.learning import Judged, Learner
from npugraph.review.material import Material
from review_samples import Sample, sample_audit


def without_probabilities(sample: Sample, relation: str) -> np.ndarray:
    """Empty the probabilities of a relation's stored facts; return which facts these are."""
    path = sample.folder / "posterior.parquet"
    table = pa.parquet.read_table(path)
    mine = pc.and_(pc.equal(table["relation"], relation), table["collected"])
    for name in ("probability", "low", "high"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, pc.if_else(mine, None, table[name]))
    write_table(table, path)
    return np.array(mine.to_pylist())


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sample_audit(tmp_path / "audit")


def test_such_facts_show_no_probability_and_keep_their_place(sample: Sample) -> None:
    before = Judged.of_audit(Material.open(sample.folder))
    mine = without_probabilities(sample, "knows")
    after = Judged.of_audit(Material.open(sample.folder))
    for number in range(len(mine)):
        assert (after.shown(number)[0] is None) == bool(mine[number])
    assert np.isfinite(after.gain).all()
    # Among all stored facts each stands about where its score would have it.
    moved = np.abs(after.place - before.place)[mine]
    assert moved.max() <= 5
    assert sorted(after.by_yield) == sorted(before.by_yield)


def test_answers_teach_probabilities_of_such_facts_too(sample: Sample) -> None:
    without_probabilities(sample, "knows")
    material = Material.open(sample.folder)
    learner = Learner(material, budget=50, seed=0)
    rows = np.random.default_rng(0).choice(material.num_stored, 60, replace=False)
    judged = learner.learn(rows, sample.wrong[rows], np.ones(60, dtype=bool))
    assert judged.used == 60
    stored = material.stored
    assert np.isfinite(judged.probability[stored]).all()
