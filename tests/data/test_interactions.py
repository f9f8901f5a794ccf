"""Interaction logs: thresholds, bots, repeats, formats; and a naive twin on random logs."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npugraph.data.interactions import build_interactions
from npugraph.errors import DataError, SettingsError

Row = tuple[str, str, str]
Edge = tuple[str, str, str]


def as_table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table(
        {
            name: pa.array(column, pa.string())
            for name, column in zip(("user", "item", "tag"), columns, strict=True)
        }
    )


def edges_of(graph: pa.Table) -> list[Edge]:
    return [(row["head"], row["relation"], row["tail"]) for row in graph.to_pylist()]


def naive(
    rows: list[Row], minima: tuple[int, int, int], maxima: tuple[int | None, int | None]
) -> set[Edge]:
    """Removes one entity at a time: slower, and in another order than the real thing."""
    edges = set()
    for user, item, tag in rows:
        if user and item:
            edges.add((f"user:{user}", "user-item", f"item:{item}"))
        if user and tag:
            edges.add((f"user:{user}", "user-tag", f"tag:{tag}"))
    counts = Counter(name for head, _, tail in edges for name in (head, tail))
    most = {"user": maxima[0], "item": maxima[1], "tag": None}
    bots = {
        name
        for name, count in counts.items()
        if (limit := most[name.split(":")[0]]) is not None and count > limit
    }
    edges = {edge for edge in edges if edge[0] not in bots and edge[2] not in bots}
    least = dict(zip(("user", "item", "tag"), minima, strict=True))
    while True:
        counts = Counter(name for head, _, tail in edges for name in (head, tail))
        rare = [name for name, count in counts.items() if count < least[name.split(":")[0]]]
        if not rare:
            return edges
        edges = {edge for edge in edges if rare[0] not in (edge[0], edge[2])}


names = st.sampled_from(["", "a", "b", "c", "d", "e"])
logs = st.lists(st.tuples(names, names, names), max_size=60)


@settings(deadline=None)
@given(
    rows=logs,
    minima=st.tuples(*[st.integers(0, 5)] * 3),
    maxima=st.tuples(*[st.none() | st.integers(1, 8)] * 2),
)
def test_agrees_with_naive_removal(
    rows: list[Row], minima: tuple[int, int, int], maxima: tuple[int | None, int | None]
) -> None:
    graph, stats = build_interactions(
        as_table(rows),
        min_user=minima[0],
        min_item=minima[1],
        min_tag=minima[2],
        max_user=maxima[0],
        max_item=maxima[1],
    )
    found = edges_of(graph)
    assert len(found) == len(set(found)) == stats.facts
    assert set(found) == naive(rows, minima, maxima)
    assert found == sorted(found, key=lambda edge: (edge[1], edge[0], edge[2]))


@settings(deadline=None)
@given(rows=logs, least=st.integers(0, 4), most=st.none() | st.integers(1, 8))
def test_stats_add_up(rows: list[Row], least: int, most: int | None) -> None:
    graph, stats = build_interactions(
        as_table(rows), min_user=least, min_item=least, min_tag=least, max_user=most, max_item=most
    )
    whole = [row for row in rows if row[0] and (row[1] or row[2])]
    assert stats.rows == len(rows)
    assert stats.incomplete == len(rows) - len(whole)
    pairs = sum(bool(item) + bool(tag) for _, item, tag in whole)
    assert stats.interactions + stats.duplicates == pairs
    users = {user for user, _, _ in whole}
    items = {item for _, item, _ in whole if item}
    tags = {tag for _, _, tag in whole if tag}
    assert stats.users + stats.inactive_users + stats.extreme_users == len(users)
    assert stats.items + stats.inactive_items + stats.extreme_items == len(items)
    assert stats.tags + stats.inactive_tags == len(tags)
    kept = {name.split(":")[0] + name for row in edges_of(graph) for name in (row[0], row[2])}
    assert stats.users + stats.items + stats.tags == len(kept)


@settings(deadline=None)
@given(rows=logs, order=st.randoms(use_true_random=False))
def test_order_of_the_log_does_not_matter(rows: list[Row], order: random.Random) -> None:
    shuffled = list(rows)
    order.shuffle(shuffled)
    one, _ = build_interactions(as_table(rows), min_user=2, min_item=2, min_tag=1)
    two, _ = build_interactions(as_table(shuffled), min_user=2, min_item=2, min_tag=1)
    assert one.equals(two)


def test_paper_thresholds_are_the_defaults() -> None:
    # 30 users share 30 items; one further user has 29 items, one item 29 users, one tag 10 users.
    rows = [(f"u{u}", f"i{i}", "") for u in range(30) for i in range(30)]
    rows += [("few", f"i{i}", "") for i in range(29)]
    rows += [(f"u{u}", "rare", "") for u in range(29)]
    rows += [(f"u{u}", "", "ten") for u in range(10)]
    rows += [(f"u{u}", "", "nine") for u in range(9)]
    graph, stats = build_interactions(as_table(rows))
    assert (stats.users, stats.items, stats.tags) == (30, 30, 1)
    assert (stats.inactive_users, stats.inactive_items, stats.inactive_tags) == (1, 1, 1)
    assert stats.facts == len(graph) == 30 * 30 + 10
    assert stats.rounds == 1


def test_removal_cascades() -> None:
    # A chain: dropping tag t leaves u2 with one interaction, whose loss empties item i.
    rows = [("u1", "i", ""), ("u2", "i", ""), ("u2", "", "t"), ("u1", "j", ""), ("u3", "j", "")]
    graph, stats = build_interactions(as_table(rows), min_user=2, min_item=2, min_tag=2)
    assert len(graph) == 0
    assert stats.rounds == 3
    assert graph.column_names == ["head", "relation", "tail"]


def test_bots_go_first_by_share() -> None:
    rows = [(f"u{u}", f"i{i}", "") for u in range(100) for i in range(2)]
    rows += [("bot", f"i{i}", "") for i in range(40)]
    graph, stats = build_interactions(
        as_table(rows), min_user=1, min_item=1, min_tag=1, drop_top_share=0.01
    )
    assert stats.extreme_users == 1
    assert "user:bot" not in graph["head"].to_pylist()
    # i0 and i1 tie at the limit of 40 items, so none of the items is above it.
    assert stats.extreme_items == 0
    assert stats.inactive_items == 38


def test_a_user_and_a_tag_of_one_name_stay_two_entities() -> None:
    graph, _ = build_interactions(as_table([("x", "x", "x")]), min_user=1, min_item=1, min_tag=1)
    assert edges_of(graph) == [
        ("user:x", "user-item", "item:x"),
        ("user:x", "user-tag", "tag:x"),
    ]


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".tsv.gz", ".parquet"])
def test_reads_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log{suffix}"
    rows: list[Row] = [("01", "x", ""), ("01", "", "t"), ("2", " x ", "NULL")]
    if suffix == ".parquet":
        pyarrow.parquet.write_table(as_table(rows), path)
    else:
        mark = "," if suffix == ".csv" else "\t"
        lines = [mark.join(("when", "user", "item", "tag"))]
        lines += [mark.join(("now", *row)) for row in rows]
        text = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    graph, stats = build_interactions(
        path, min_user=1, min_item=1, min_tag=1, relations=("user-tweet", "user-hashtag")
    )
    assert edges_of(graph) == [
        ("user:01", "user-hashtag", "tag:t"),
        ("user:2", "user-hashtag", "tag:NULL"),
        ("user:01", "user-tweet", "item:x"),
        ("user:2", "user-tweet", "item:x"),
    ]
    assert stats.rows == 3


def test_numeric_ids_and_nulls_of_a_table() -> None:
    table = pa.table({"user": [7, 7], "item": [1, None], "tag": ["a", "b"]})
    graph, _ = build_interactions(table, min_user=1, min_item=1, min_tag=1)
    assert ("user:7", "user-item", "item:1") in edges_of(graph)
    assert len(graph) == 3


def test_a_log_without_tags() -> None:
    table = pa.table({"who": ["a", "b"], "what": ["x", "x"]})
    graph, stats = build_interactions(
        table, min_user=1, min_item=2, columns=("who", "what", None), prefixes=("", "", "")
    )
    assert edges_of(graph) == [("a", "user-item", "x"), ("b", "user-item", "x")]
    assert stats.tags == 0


def test_errors_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    with pytest.raises(DataError, match="no such file"):
        build_interactions(path)
    path.write_text("user\titems\ttag\na\tb\tc\n")
    with pytest.raises(DataError, match=r"log.tsv: no column is called 'item'.*'items'"):
        build_interactions(path)
    path.write_text("user\titem\ttag\na\tb\n")
    with pytest.raises(DataError, match=r"log.tsv: cannot be read"):
        build_interactions(path)
    other = tmp_path / "log.xlsx"
    other.write_text("")
    with pytest.raises(DataError, match="unknown format '.xlsx'"):
        build_interactions(other)
    with pytest.raises(SettingsError, match="drop_top_share is 0.999"):
        build_interactions(as_table([]), drop_top_share=0.999)
