"""npugraph score: one row out for every row in."""

import pyarrow as pa
import pytest
import torch

from npugraph.data.datasets import bundled
from npugraph.fitting import fit
from npugraph.ranking.predict import score_table
from npugraph.recipes.complex_n3 import ComplexN3Settings
from npugraph.recipes.npugraph.recipe import NPUGraphSettings

ROWS = [
    ("France", "borders", "Spain"),
    ("Atlantis", "borders", "Spain"),
    ("France", "borders", "Japan"),
    ("France", "adores", "Spain"),
    ("France", "borders", "Spain"),
]


def table_of(rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(dict(zip(("head", "relation", "tail"), columns, strict=True)))


@pytest.fixture(scope="module")
def fitted():
    settings = NPUGraphSettings(
        d=16, hidden=16, epochs=12, negatives=10, learning_rate=0.01, device="cpu", warmup=6
    )
    return fit(bundled(), "npugraph", settings)


def test_every_row_comes_back_in_order(fitted):
    scored = score_table(fitted, table_of(ROWS))
    assert scored.column_names == ["head", "relation", "tail", "score", "probability", "collected"]
    names = zip(*(scored[c].to_pylist() for c in ("head", "relation", "tail")), strict=True)
    assert list(names) == ROWS
    score, probability = scored["score"].to_pylist(), scored["probability"].to_pylist()
    assert [value is None for value in score] == [False, True, False, True, False]
    assert score[0] == score[4]
    assert score[0] > score[2]
    assert all(0 <= p <= 1 for p in probability if p is not None)


def test_collected_means_trained_on(fitted):
    train, test = bundled().split().train, bundled().split().test
    scored = score_table(fitted, pa.concat_tables([train.to_table()[:50], test.to_table()[:50]]))
    assert scored["collected"].to_pylist() == [True] * 50 + [False] * 50
    psi = fitted.system.pair(test.facts[:50])
    expected = fitted.system.posterior.true_if_uncollected(*psi)
    found = torch.tensor(scored["probability"].to_pylist()[50:], dtype=torch.float64)
    assert torch.allclose(found, expected, atol=1e-9)


def test_no_known_row_at_all(fitted):
    scored = score_table(fitted, table_of(ROWS[1:2]))
    assert scored["score"].to_pylist() == [None]
    assert scored["collected"].to_pylist() == [False]


def test_a_recipe_without_a_posterior_leaves_the_probability_empty():
    settings = ComplexN3Settings(d=8, epochs=2, device="cpu")
    scored = score_table(fit(bundled(), "complex-n3", settings), table_of(ROWS))
    assert scored["probability"].null_count == len(ROWS)
    assert scored["score"].null_count == 2
