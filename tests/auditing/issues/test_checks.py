"""Each check finds what was put in, and nothing in a graph that keeps to its own rules."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from auditing.issues.odd_graphs import Fact, about, found, people
from npugraph.auditing.issues import CHECKS
from npugraph.auditing.issues.find import BESIDE
from npugraph.auditing.issues.kinds import RDF_TYPE
from npugraph.auditing.issues.told import read_types
from npugraph.data.io import read_graph
from npugraph.data.sources import load_graph
from npugraph.errors import DataError


def test_a_regular_graph_has_no_issues() -> None:
    issues = found(people())
    assert set(issues.counts) == {check.kind for check in CHECKS}
    assert {kind: n for kind, n in issues.counts.items() if n} == {}


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (" town 1", "white space"),
        ("town  1", "white space"),
        ("town\u00a01", "white space"),
        ("tow\u200bn 1", "white space"),
        ("Town 1", "in case"),
        ("tówn 1", "accents"),
    ],
)
def test_a_name_that_differs_in_form_only(name: str, what: str) -> None:
    issues = found([*people(), ("person 001", "likes", name)])
    assert about(issues, "spelling") == [(name, None, None, "town 1")]
    assert what in issues.of("spelling")["sentence"][0].as_py()


def test_underscores_for_spaces() -> None:
    fruit = [("person 001", "likes", "green apples"), ("person 002", "likes", "green_apples")]
    issues = found([*people(), *fruit, ("person 003", "likes", "green apples")])
    assert about(issues, "spelling") == [("green_apples", None, None, "green apples")]
    assert "underscores" in issues.of("spelling")["sentence"][0].as_py()


def test_relations_are_spelled_in_two_ways() -> None:
    issues = found([*people(), ("person 001", "born in ", "town 3")])
    assert about(issues, "spelling") == [(None, "born in ", None, "born in")]


def test_case_is_no_difference_where_names_often_differ_in_it() -> None:
    genes = [(f"{letter}{letter.upper()} gene", "in", "cell") for letter in "abcdefghijklmnop"]
    genes += [(name.lower(), relation, tail) for name, relation, tail in genes]
    assert found([*people(), *genes]).counts["spelling"] == 0


def test_identifiers_keep_their_case() -> None:
    assert found([*people(), ("a1B", "is", "x"), ("A1b", "is", "x")]).counts["spelling"] == 0


def test_self_loops_where_there_are_none() -> None:
    issues = found([*people(), ("firm 3", "works for", "firm 3")])
    assert about(issues, "self-loop") == [("firm 3", "works for", "firm 3", None)]
    usual = [(f"person {i:03}", "trusts", f"person {i:03}") for i in range(60)]
    assert found([*people(), *usual]).counts["self-loop"] == 0


def test_both_directions_of_a_relation_that_goes_one_way() -> None:
    issues = found([*people(), ("person 001", "manager of", "person 000")])
    assert about(issues, "both-ways") == [
        ("person 001", "manager of", "person 000", "person 000, manager of, person 001")
    ]
    friends = [(f"person {i:03}", "knows", f"person {(i + 1) % 120:03}") for i in range(120)]
    friends += [(tail, relation, head) for head, relation, tail in friends]
    assert found([*people(), *friends]).counts["both-ways"] == 0


def test_a_second_tail_where_there_is_one() -> None:
    issues = found([*people(), ("person 001", "born in", "town 4")])
    assert about(issues, "second-tail") == [("person 001", "born in", "town 4", "town 1")]
    assert "119 of the 119 other heads" in issues.of("second-tail")["sentence"][0].as_py()


def test_a_second_head_where_there_is_one() -> None:
    pairs = [(f"person {i:03}", "owner of", f"house {i}") for i in range(120)]
    issues = found([*people(), *pairs, ("person 009", "owner of", "house 5")])
    assert ("person 009", "owner of", "house 5", "person 005") in about(issues, "second-head")


def test_few_cases_prove_nothing() -> None:
    few = people(12)
    odd = [("person 001", "born in", "town 4"), ("person 002", "born in", "person 002")]
    assert sum(found([*few, *odd]).counts.values()) == 0


def test_one_value_per_entity_for_want_of_facts_is_no_rule() -> None:
    rng = np.random.default_rng(0)
    rows = np.unique(rng.integers(0, (2000, 30, 2000), (20_000, 3)), axis=0)
    issues = found([(f"e{h}", f"r{r}", f"e{t}") for h, r, t in rows.tolist()])
    assert (issues.counts["second-tail"], issues.counts["second-head"]) == (0, 0)


def test_an_entity_of_another_kind_by_its_roles() -> None:
    issues = found([*people(), ("town 3", "works for", "firm 1")])
    assert [row[:3] for row in about(issues, "type")] == [("town 3", "works for", "firm 1")]


def typed(rows: list[Fact]) -> pa.Table:
    names = sorted({name for head, _, tail in rows for name in (head, tail)})
    return pa.table({"entity": names, "type": [name.split()[0] for name in names]})


def test_an_entity_of_another_kind_by_given_types() -> None:
    rows = [*people(), ("land 1", "works for", "firm 1")]
    issues = found(rows, typed(rows))
    assert about(issues, "type") == [("land 1", "works for", "firm 1", "land")]
    assert "usual type (person)" in issues.of("type")["sentence"][0].as_py()


def test_types_stored_as_facts_are_types() -> None:
    rows = [*people(), ("land 1", "works for", "firm 1")]
    stored = [tuple(row.values()) for row in typed(rows).to_pylist()]
    issues = found([*rows, *((name, RDF_TYPE, kind) for name, kind in stored)])
    assert about(issues, "type") == [("land 1", "works for", "firm 1", "land")]


def test_records_that_repeat_another() -> None:
    rows = people()
    issues = found([*rows, rows[4], rows[4]])
    assert about(issues, "repeat") == [(*rows[4], "record 5")] * 2


def test_relations_that_mirror_each_other_are_information_and_their_issues_said_once() -> None:
    rows = [*people(), ("person 001", "born in", "town 4")]
    mirrored = [(t, "birthplace of", h) for h, r, t in rows if r == "born in"]
    issues = found([*rows, *mirrored])
    assert about(issues, "inverse") == [(None, "birthplace of", None, "born in")]
    listed = about(issues, "second-tail") + about(issues, "second-head")
    assert len(listed) == 1
    twins = found([*rows, *((h, "native of", t) for h, r, t in rows if r == "born in")])
    assert about(twins, "twin") == [(None, "born in", None, "native of")]
    assert len(about(twins, "second-tail")) == 1


def test_entities_in_one_fact_only() -> None:
    issues = found([*people(), ("hermit", "born in", "town 1")])
    assert about(issues, "single") == [("hermit", "born in", "town 1", "hermit")]


def dated(count: int = 120) -> list[Fact]:
    rows: list[Fact] = []
    for i in range(count):
        year = 1700 + (i * 37) % 250
        rows += [
            (f"person {i:03}", "birth date", f"{year}-03-0{1 + i % 9}"),
            (f"person {i:03}", "death date", f"{year + 20 + i % 60}-11-2{i % 9}"),
            (f"person {i:03}", "height", f"{150 + i % 50}.5"),
        ]
    return rows


def test_dates_out_of_order() -> None:
    odd = [("methuselah", "birth date", "1900-01-01"), ("methuselah", "death date", "1850-01-01")]
    issues = found([*people(), *dated(), *odd])
    wanted = ("methuselah", "birth date", "1900-01-01", "death date 1850-01-01")
    assert about(issues, "order") == [wanted]
    # A year, and a day of that year, are in no wrong order.
    unsure = [("old", "birth date", "1900-06-01"), ("old", "death date", "1900-01-01")]
    assert found([*people(), *dated(), *unsure]).counts["order"] == 1
    unsure[1] = ("old", "death date", "1900")
    assert found([*people(), *dated(), *unsure]).counts["order"] == 0


def test_an_order_that_chance_would_keep_is_none() -> None:
    sizes = [(f"land {i:03}", "population", str(10**6 + i)) for i in range(200)]
    sizes += [(f"land {i:03}", "area", str(1000 + i)) for i in range(200)]
    odd = [("islet", "population", "0"), ("islet", "area", "900")]
    assert found([*people(), *sizes, *odd]).counts["order"] == 0


def lives(count: int = 100, names: tuple[str, str] = ("born", "died")) -> list[Fact]:
    """Births from 1900 to 1989, deaths from 1990 to 2009: no two of them overlap."""
    before = [(f"p{i:03}", names[0], str(1900 + i * 7 % 90)) for i in range(count)]
    return before + [(f"p{i:03}", names[1], str(1990 + i * 3 % 20)) for i in range(count)]


@pytest.mark.parametrize("pair", [("2050", "2000"), ("1950", "1850")])
def test_an_order_of_times_that_never_overlap(pair: tuple[str, str]) -> None:
    odd = [("x", "born", pair[0]), ("x", "died", pair[1])]
    issues = found([*people(), *lives(), *odd])
    assert about(issues, "order") == [("x", "born", pair[0], f"died {pair[1]}")]
    assert issues.of("order")["sentence"].to_pylist() == [
        f"born ({pair[0]}) is after died ({pair[1]}); of the 100 others that have both, 100 have "
        "it before."
    ]
    assert found([*people(), *lives(60), *odd]).counts["order"] == 0, "Too few prove nothing."


def test_times_of_unlike_things_are_in_no_order() -> None:
    # The independence and the census of a country: one late, and within the years of the other.
    late = [("x", "independent", "2005"), ("x", "counted", "2000")]
    names = ("independent", "counted")
    assert found([*people(), *lives(names=names), *late]).counts["order"] == 0
    # Ranges that touch, in pairs that keep the order.
    near = [("y", "independent", "1995"), ("y", "counted", "2009")]
    far = [("x", "independent", "2050"), ("x", "counted", "2000")]
    assert found([*people(), *lives(names=names), *near, *far]).counts["order"] == 0
    # Numbers that are no years: what is larger is no later.
    sizes = [(f"p{i:03}", "size", str(100 + i)) for i in range(100)]
    sizes += [(f"p{i:03}", "people", str(5000 + i)) for i in range(100)]
    odd = [("x", "size", "9000"), ("x", "people", "5050")]
    assert found([*people(), *sizes, *odd]).counts["order"] == 0
    population = [(f"p{i:03}", "people", str(100 + i)) for i in range(100)]
    years = [(f"p{i:03}", "founded", str(1800 + i)) for i in range(100)]
    many = [("x", "people", "9000"), ("x", "founded", "1850")]
    assert found([*people(), *population, *years, *many]).counts["order"] == 0


def test_second_and_odd_values() -> None:
    odd = [("person 003", "height", "12.0"), ("person 005", "death date", "unknown")]
    issues = found([*people(), *dated(), *odd])
    assert about(issues, "second-value") == [
        ("person 003", "height", "12.0", "153.5"),
        ("person 005", "death date", "unknown", "1910-11-25"),
    ]
    assert about(issues, "odd-value") == [("person 005", "death date", "unknown", None)]


def test_numbers_that_are_names_are_no_values() -> None:
    rows = [(f"{1000 + i}", "part of", f"{1000 + (i * 3 + 1) % 200}") for i in range(200)]
    issues = found([*rows, ("1001", "part of", "1150")])
    assert (issues.counts["second-value"], issues.counts["odd-value"]) == (0, 0)
    assert about(issues, "second-tail") == [("1001", "part of", "1150", "1004")]


def test_literals_of_rdf_count(tmp_path: Path) -> None:
    lines = [f'<http://x/p{i}> <http://x/born> "{1900 + i % 80}-01-01" .' for i in range(90)]
    lines += [f"<http://x/p{i}> <http://x/in> <http://x/t{i % 9}> ." for i in range(90)]
    for lang in ("en", "de"):
        lines += [f'<http://x/p{i}> <http://x/name> "P {i}"@{lang} .' for i in range(90)]
    lines.append('<http://x/p7> <http://x/born> "1850-01-01" .')
    lines.append('<http://x/p8> <http://x/name> "Q\\nR"@en .')
    path = tmp_path / "g.nt"
    path.write_text("\n".join(lines) + "\n")
    issues = found(read_graph(path))
    assert sorted(about(issues, "second-value")) == [
        ("http://x/p7", "http://x/born", "1850-01-01", "1907-01-01"),
        ("http://x/p8", "http://x/name", "Q R", "P 8"),
    ]


def test_facts_known_to_be_wrong_are_left_out() -> None:
    graph = load_graph([*people(), ("firm 3", "works for", "firm 3")])
    label = torch.full((len(graph),), -1, dtype=torch.int8)
    assert found(graph).counts["self-loop"] == 1
    label[-1] = 0
    assert found(dataclasses.replace(graph, label=label)).counts["self-loop"] == 0


def test_a_file_of_types(tmp_path: Path) -> None:
    path = tmp_path / "types.csv"
    path.write_text('entity,type\n"Rome, old",city\nItaly,country\n')
    assert read_types(path).to_pydict() == {
        "entity": ["Rome, old", "Italy"],
        "type": ["city", "country"],
    }
    path.write_text("Rome\n")
    with pytest.raises(DataError, match=r"types.csv, line 1: an entity and a type are needed"):
        read_types(path)
    with pytest.raises(DataError, match="no such file"):
        read_types(tmp_path / "none.tsv")


def test_an_issue_of_two_facts_speaks_against_both() -> None:
    first, later = ("person 001", "born in", "town 1"), ("person 001", "born in", "town 4")
    rows = [*people(), later]
    assert first in rows
    issues = found(rows)
    ((kind, sentence),) = issues.against(later)
    assert kind == "second-tail"
    assert sentence == issues.of("second-tail")["sentence"][0].as_py()
    assert issues.against(first) == ((kind, f"{sentence} {BESIDE}"),)
    assert issues.against(("person 002", "born in", "town 2")) == ()
    ways = [(f"a{i}", "above", f"b{i}") for i in range(200)]
    turned = found([*people(), *ways, ("b3", "above", "a3")])
    assert [kind for kind, _ in turned.against(("b3", "above", "a3"))] == ["both-ways"]
    assert turned.against(("a3", "above", "b3"))[0][1].endswith(BESIDE)


def test_what_is_no_sign_of_an_error_speaks_against_no_fact() -> None:
    alone = ("hermit", "born in", "town 1")
    issues = found([*people(), alone, alone])
    assert {"single", "repeat"} <= {kind for kind, count in issues.counts.items() if count}
    assert issues.against(alone) == ()
