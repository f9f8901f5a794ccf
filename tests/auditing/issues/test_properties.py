"""What holds of the issues of any graph."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from auditing.issues.odd_graphs import Fact, found, people
from npugraph.auditing.issues import CHECKS

NAMES = st.sampled_from(["a", "b", "A", " a", "town 1", "person 003", "1900-01-01", "7", "x\u0301"])
FACTS = st.lists(st.tuples(NAMES, st.sampled_from(["r", "R", "born in"]), NAMES), min_size=1)
STRUCTURE = ("self-loop", "repeat", "single", "inverse", "twin")


@given(FACTS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_rows_are_about_the_graph(odd: list[Fact], much: bool) -> None:
    rows = [*(people() if much else []), *odd]
    issues = found(rows)
    names = {name for row in rows for name in row}
    for row in issues.table.to_pylist():
        assert 0 <= row["score"] <= 1
        assert row["sentence"].endswith(".")
        assert {row["head"], row["relation"], row["tail"]} <= names | {None}
        if None not in (row["head"], row["tail"]):
            assert (row["head"], row["relation"], row["tail"]) in rows
    assert sum(issues.counts.values()) == len(issues)
    kinds = [check.kind for check in CHECKS]
    order = [kinds.index(kind) for kind in issues.table["kind"].to_pylist()]
    assert order == sorted(order)


@given(FACTS, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_rows_changes_no_count(odd: list[Fact], random: object) -> None:
    rows = [*people(), *odd]
    mixed = list(rows)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert found(rows).counts == found(mixed).counts


@given(FACTS)
@settings(max_examples=40, deadline=None)
def test_structure_does_not_depend_on_the_names(odd: list[Fact]) -> None:
    rows = [*people(), *odd]

    def renamed(name: str) -> str:
        return "name " + "".join(f"{ord(sign):x}z" for sign in name)

    plain = [(renamed(h), renamed(r), renamed(t)) for h, r, t in rows]
    # Names that look like values are values.
    assume(not any(tail[0].isdigit() for _, _, tail in odd))
    first, second = found(rows), found(plain)
    for kind in STRUCTURE:
        assert first.counts[kind] == second.counts[kind]


@given(FACTS)
@settings(max_examples=40, deadline=None)
def test_every_repeat_is_counted(odd: list[Fact]) -> None:
    assert found(odd).counts["repeat"] == len(odd) - len(set(odd))
