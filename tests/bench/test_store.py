"""The store: lines are added whole, read whole, and end up in the order of the plan."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.tiny import made_up, made_up_cost, tiny_plan
from npugraph.bench.cell import result_line
from npugraph.bench.store import Store
from npugraph.errors import DataError, RunError

PLAN = tiny_plan(seeds=[0, 1, 2])
CELLS = PLAN.cells()
OTHERS = tiny_plan(seeds=[7, 8]).cells()


def test_what_is_added_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    assert (store.results(), store.costs()) == ({}, {})
    store.add(made_up(CELLS[1]), made_up_cost(CELLS[1]))
    store.add(result_line(CELLS[0], None, "broken"))
    assert list(store.results()) == [CELLS[1].key, CELLS[0].key]
    assert store.results()[CELLS[1].key] == made_up(CELLS[1])
    assert list(store.costs()) == [CELLS[1].key]
    failed = store.results()[CELLS[0].key]
    assert (failed["status"], failed["error"], failed["metrics"]) == ("failed", "broken", None)
    assert list(failed) == list(made_up(CELLS[0]))


def test_the_last_line_of_a_key_counts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(result_line(CELLS[0], None, "broken"))
    store.add(made_up(CELLS[0], 0.25))
    assert store.results()[CELLS[0].key]["metrics"]["clean"]["mrr"] == 0.25
    store.tidy(PLAN)
    assert (tmp_path / "results.jsonl").read_text().count("\n") == 1


@given(cut=st.integers(1, 400), lost=st.integers(0, 2))
def test_a_line_cut_short_by_a_kill_is_as_if_it_never_was(cut: int, lost: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        for cell in CELLS[:lost]:
            store.add(made_up(cell), made_up_cost(cell))
        before = (Path(folder) / "results.jsonl").read_bytes() if lost else b""
        line = (json.dumps(made_up(CELLS[lost])) + "\n").encode()
        half = before + line[: min(cut, len(line) - 1)]
        (Path(folder) / "results.jsonl").write_bytes(half)
        assert len(store.results()) == lost
        store.add(made_up(CELLS[lost]))
        assert (Path(folder) / "results.jsonl").read_bytes() == before + line


@settings(max_examples=20)
@given(order=st.permutations(CELLS + OTHERS), tidied=st.sets(st.integers(0, 9)))
def test_whatever_the_order_a_tidy_file_is_the_same(order: list, tidied: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        for number, cell in enumerate(order):
            store.add(made_up(cell), made_up_cost(cell))
            if number in tidied:
                store.tidy(PLAN)
        store.tidy(PLAN)
        found = [json.loads(x)["key"] for x in (store.folder / "results.jsonl").open()]
        costs = [json.loads(x)["key"] for x in (store.folder / "costs.jsonl").open()]
    assert found == costs
    assert found == [c.key for c in CELLS] + sorted(c.key for c in OTHERS)


def test_a_tidy_line_has_the_plans_words(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add({**made_up(CELLS[0]), "label": "old", "note": "old", "changes": {"old": 1}})
    store.add({**made_up(OTHERS[0]), "label": "old"})
    store.tidy(PLAN)
    mine, other = store.results()[CELLS[0].key], store.results()[OTHERS[0].key]
    assert (mine["label"], mine["note"], mine["changes"]) == ("DistMult", "", CELLS[0].changes)
    assert other["label"] == "old"
    assert mine == made_up(CELLS[0])


def test_stores_of_two_machines_are_merged(tmp_path: Path) -> None:
    mine, theirs = Store(tmp_path / "a"), Store(tmp_path / "b")
    mine.add(made_up(CELLS[0], 0.1), made_up_cost(CELLS[0]))
    mine.add(result_line(CELLS[1], None, "broken"))
    theirs.add(made_up(CELLS[0], 0.2), made_up_cost(CELLS[0], 99.0))
    theirs.add(made_up(CELLS[1], 0.3), made_up_cost(CELLS[1], 5.0))
    theirs.add(result_line(CELLS[2], None, "broken, too"))
    assert mine.merge(theirs) == 2
    assert mine.merge(theirs) == 0
    found = mine.results()
    assert found[CELLS[0].key]["metrics"]["clean"]["mrr"] == 0.1
    assert found[CELLS[1].key]["metrics"]["clean"]["mrr"] == 0.3
    assert found[CELLS[2].key]["error"] == "broken, too"
    assert mine.costs()[CELLS[0].key]["seconds"]["total"] == 10.0
    assert mine.costs()[CELLS[1].key]["seconds"]["total"] == 5.0


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text('{"key": "a"}\n{"ke\n')
    with pytest.raises(DataError, match=r"results\.jsonl, line 2: not a JSON object with a key"):
        Store(tmp_path).results()


def test_a_number_that_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        Store(tmp_path).add({"key": "a", "ece": float("nan")})
    assert Store(tmp_path).results() == {}


def test_one_bench_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    second = pytest.raises(RunError, match="Another bench is running in")
    with Store(tmp_path).alone(), second, Store(tmp_path).alone():
        pass
    # The first one is gone: the folder is free again.
    with Store(tmp_path).alone():
        Store(tmp_path).add({"key": "a"})
    assert list(Store(tmp_path).results()) == ["a"]
