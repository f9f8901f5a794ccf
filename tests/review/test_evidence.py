"""The evidence on a card: what the audit wrote down is shown, and nobody guesses the rest."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from npugraph.auditing.page import BY_PATH
from npugraph.data.io import write_table
from npugraph.explaining import ISSUE, OVERALL
from npugraph.review import Desk
from review_samples import sample_audit


def test_written_evidence_is_shown_and_paths_stand_apart(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit")
    with Desk.open(sample.folder) as desk:
        head, relation, tail = desk.material.names(7)
    row = {
        "head": head,
        "relation": relation,
        "tail": tail,
        "supporting": [f"{OVERALL} says yes.", "a rule holds", f"{BY_PATH}a -> b (weight 0.50)"],
        "contradicting": [f"{OVERALL} says no.", f"{ISSUE}type): no.", "a rule does not"],
        "usual": [],
        "alternatives": ["tail town 00002"],
    }
    write_table(pa.Table.from_pylist([row]), sample.folder / "evidence.parquet")
    with Desk.open(sample.folder) as desk:
        card, other = desk.card(7, "ann"), desk.card(8, "ann")
    assert card.evidence is not None
    assert card.evidence.supporting == ("a rule holds",)
    assert card.evidence.contradicting == ("a rule does not",)
    assert card.paths == ("a -> b (weight 0.50)",)
    assert not card.note
    assert other.evidence is not None
    assert not other.evidence.supporting
    assert "did not keep its systems" in other.note


def test_neighbours_share_an_end_with_the_fact(tmp_path: Path) -> None:
    sample = sample_audit(tmp_path / "audit")
    with Desk.open(sample.folder) as desk:
        card = desk.card(10, "ann")
    ends = {card.head.name, card.tail.name}
    assert len(card.neighbours) >= 3
    assert all({one.head.name, one.tail.name} & ends for one in card.neighbours)
    assert 10 not in {one.number for one in card.neighbours}
