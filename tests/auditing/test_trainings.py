"""Systems that are opened when they are asked for."""

from __future__ import annotations

import pytest

from npugraph.auditing.trainings import OnDemand


def test_items_are_made_when_asked_for_and_only_the_last_are_kept() -> None:
    made: list[int] = []

    def make(place: int) -> str:
        made.append(place)
        return f"item {place}"

    items = OnDemand(4, make)
    assert len(items) == 4
    assert made == []
    assert [items[2], items[2], items[-1]] == ["item 2", "item 2", "item 3"]
    assert made == [2, 3]
    assert items[:2] == ("item 0", "item 1")
    assert list(items) == [f"item {place}" for place in range(4)]
    with pytest.raises(IndexError):
        items[4]
    made.clear()
    kept = OnDemand(4, make, keep=2)
    assert [kept[place] for place in (0, 1, 0, 2, 0, 1)][-1] == "item 1"
    assert made == [0, 1, 2, 1]


def test_an_old_item_goes_before_a_new_one_comes() -> None:
    alive = 0

    class Item:
        def __init__(self, _: int) -> None:
            nonlocal alive
            assert alive == 0
            alive += 1

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    items = OnDemand(3, Item)
    for place in (0, 1, 2, 1):
        assert isinstance(items[place], Item)
