"""What an audit says of a fact agrees with its probability, and nothing is said for nothing."""

from __future__ import annotations

import dataclasses

import pytest

from npugraph.data.datasets import load
from npugraph.explaining import OVERALL, Place, explain
from npugraph.explaining.remarks import column_remarks


def test_nothing_is_outweighed_by_nothing() -> None:
    graph = load("world").split().train
    ids = graph.entities.id("Vienna"), graph.relations.id("capital_of")
    found = explain(graph, (*ids, graph.entities.id("Austria")))
    assert found.supporting
    assert not found.contradicting
    wrong = dataclasses.replace(found, probability=0.06)
    assert "outweighed" not in wrong.to_text(), "Nothing is shown on the other side."
    place = Place(12, 4239, stored=True, listed=True)
    told = dataclasses.replace(wrong, remarks=place.remarks(0.06)).to_text()
    assert "Nothing was found" not in told
    against = told.split("What speaks against it\n")[1].splitlines()[0]
    assert against == (
        "  All evidence together makes it the 12th most suspicious of 4,239 stored facts."
    )
    assert "What speaks for it, and is outweighed" in told


@pytest.mark.parametrize(
    ("place", "probability", "said"),
    [
        (Place(1, 9, True, True), 0.1, {"against": "makes it the most suspicious of 9 stored"}),
        (Place(8, 9, True, False), 0.1, {"against": "the 8th most suspicious of 9 stored facts."}),
        (
            Place(2, 9, True, True),
            0.7,
            {
                "against": "the 2nd most suspicious of 9 stored facts.",
                "for": "All evidence together still makes it more probably right than wrong.",
            },
        ),
        (
            Place(3, 9, True, False),
            0.7,
            {"for": "3rd most suspicious of 9 stored facts, and still more probably right than"},
        ),
        (Place(6, 9, True, False), 0.7, {"for": "less suspicious than 5 of the 8 other stored"}),
        (Place(2, 9, True, True), None, {"against": "2nd most suspicious of 9 stored facts."}),
        (Place(2, 9, True, False), None, {}),
        (Place(2, 9, False, True), None, {"for": "the 2nd most probable of 9 proposed facts."}),
        (Place(2, 9, False, True), 0.8, {"for": "the 2nd most probable of 9 proposed facts."}),
        (
            Place(2, 9, False, False),
            0.2,
            {"against": "probable of 9 proposed facts, and still more probably wrong than right."},
        ),
    ],
)
def test_the_place_agrees_with_the_probability(
    place: Place, probability: float | None, said: dict[str, str]
) -> None:
    found = place.remarks(probability)
    assert [one.speaks for one in found] == list(said)
    for one in found:
        assert one.text.startswith(OVERALL)
        assert said[one.speaks] in one.text


def test_columns_that_moved_a_fact_are_named() -> None:
    (one,) = column_remarks(3.26, ["confidence"])
    assert (one.kind, one.speaks) == ("columns", "against")
    assert one.text == (
        "The column confidence makes it more suspicious: it multiplies the odds of its being "
        "wrong by 3.3."
    )
    (two,) = column_remarks(0.25, ["confidence", "from"])
    assert two.speaks == "for"
    assert "columns confidence and from make it less suspicious: they divide" in two.text
    for odds, columns in ((1.01, ["from"]), (None, ["from"]), (3.0, [])):
        assert column_remarks(odds, columns) == ()
