"""Answers to a file and back: how facts were drawn, second and third thoughts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from npugraph.auditing.answers import gather_answers
from npugraph.auditing.recalibration import answered_share
from npugraph.auditing.settings import AuditSettings
from npugraph.data.answers import AnswerRows, read_answers
from npugraph.data.io import read_graph, write_table
from npugraph.review import AnswerIn, Desk, DeskSettings, Filters
from npugraph.review.answer_files import Imported, import_answers
from npugraph.review.export import Decided, export
from npugraph.review.material import Material
from npugraph.review.store import FILE, Store
from review_samples import Sample, sample_audit


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return sample_audit(tmp_path / "audit", missing=0)


def judge(desk: Desk, sample: Sample, count: int) -> None:
    """Answer what is served, truly."""
    for place in range(count):
        card = desk.next("ann")
        assert card is not None
        word = "false" if sample.wrong[card.number] else "true"
        desk.answer("ann", card.number, AnswerIn(f"k{place}", word))


def exported(sample: Sample) -> tuple[AnswerRows, tuple[str, ...]]:
    """Return the answers as the CSV file has them, and the notes of the export."""
    made = export(Decided.open(sample.folder), "answers")
    (_, data) = made.files[0]
    path = sample.folder / "out.csv"
    path.write_bytes(data)
    return read_answers(path), made.notes


def audited_share(sample: Sample) -> float:
    """Return the share of wrong facts that an audit with the exported answers tells."""
    table = pyarrow.parquet.read_table(sample.folder / "posterior.parquet")
    write_table(table.select(["head", "relation", "tail"]), sample.folder / "facts.tsv")
    answers = gather_answers(read_graph(sample.folder / "facts.tsv"), sample.folder / "out.csv")
    share, _ = answered_share(answers, len(table), AuditSettings())
    assert share is not None
    return share.value


def test_suspects_that_the_order_passed_leave_as_drawn(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        # All that is wrong is judged first, as suspects are.
        for place, number in enumerate(np.flatnonzero(sample.wrong).tolist()):
            desk.answer("ann", number, AnswerIn(f"s{place}", "false"))
        judge(desk, sample, 150)
        share, table = desk.estimate(), desk.table()
    rows, notes = exported(sample)
    random = [said for said, how in zip(rows.said, rows.drawn, strict=True) if how == "random"]
    assert share is not None
    assert (len(random), random.count(0)) == (share.answers, share.wrong)
    assert share.wrong > 0
    assert rows.chance == (None,) * len(rows.said)
    assert list(rows.drawn) == table["drawn"].to_pylist()
    assert notes == ()
    assert audited_share(sample) == share.value


def test_an_estimate_leaves_with_the_chance_of_each_fact(sample: Sample) -> None:
    with Desk.open(sample.folder, DeskSettings(estimate=0.02)) as desk:
        judge(desk, sample, 60)
        share, table = desk.estimate(), desk.table()
    rows, _ = exported(sample)
    assert list(rows.chance) == table["chance"].to_pylist()
    assert len(set(rows.chance)) > 1
    assert share is not None
    assert audited_share(sample) == pytest.approx(share.value)
    # Likely errors were drawn more often than others.
    assert np.mean([said == 0 for said in rows.said]) > 1.5 * share.value


def test_an_estimate_of_another_audit_leaves_as_chosen(sample: Sample) -> None:
    with Desk.open(sample.folder, DeskSettings(estimate=0.02)) as desk:
        judge(desk, sample, 20)
    sample_audit(sample.folder, missing=0, seed=1)
    rows, notes = exported(sample)
    assert rows.drawn == ("chosen",) * 20
    assert "begun with other strata" in notes[0]


def take(folder: Path, lines: Sequence[str], header: str) -> Imported:
    """Import answers from a file."""
    path = folder / "in.csv"
    path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
    with Store.open(folder / FILE) as store:
        return import_answers(store, Material.open(folder), path, "ann")


def test_facts_that_a_file_calls_random_do_not_move_the_order(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        judge(desk, sample, 60)
        before = desk.estimate()
        page = desk.page("ann", Filters(state="open"), size=500)
    lines = [
        f"{card.head.name},{card.relation.name},{card.tail.name},true,random,0.5"
        for card in page.cards[:100]
    ]
    done = take(sample.folder, lines, "head,relation,tail,answer,drawn,chance")
    assert done == Imported(added=100, known=0, open=0)
    with Desk.open(sample.folder) as desk:
        assert desk.estimate() == before


def test_a_second_thought_on_a_drawn_fact_is_one_on_a_drawn_fact(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        judge(desk, sample, 60)
        before = desk.estimate()
        drawn = [row for row in desk.answers() if row.drawn == "random"]
    lines = [f"{','.join(row.fact)},unsure,{row.key}" for row in drawn]
    assert take(sample.folder, lines, "head,relation,tail,answer,key").added == len(drawn)
    with Desk.open(sample.folder) as desk:
        after = [row for row in desk.answers() if row.drawn == "random"]
        assert [row.fact for row in after] == [row.fact for row in drawn]
        share = desk.estimate()
    assert before is not None
    assert share is None or share.answers < before.answers


@pytest.mark.parametrize("key", ["", "k0"])
def test_every_thought_in_a_spreadsheet_counts(sample: Sample, key: str) -> None:
    with Desk.open(sample.folder) as desk:
        fact = desk.material.names(7)
        if key:
            desk.answer("ann", 7, AnswerIn(key, "true"))
    words = ["true", "false", "true", "false", "unsure", "true"]
    for place, word in enumerate(words):
        line = [f"{','.join(fact)},{word},{key}"]
        new = not (key and place == 0)
        assert take(sample.folder, line, "head,relation,tail,answer,key").added == int(new)
        assert take(sample.folder, line, "head,relation,tail,answer,key").known == 1
        with Store.open(sample.folder / FILE) as store:
            assert [row.answer for row in store.current()] == [word]


def test_an_old_file_does_not_take_back_what_was_said_at_the_desk(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        fact = ",".join(desk.material.names(7))
        desk.answer("ann", 7, AnswerIn("k0", "true"))
        desk.answer("ann", 7, AnswerIn("k1", "false"))
    assert take(sample.folder, [f"{fact},true,k0"], "head,relation,tail,answer,key").known == 1
    with Store.open(sample.folder / FILE) as store:
        assert [row.answer for row in store.current()] == ["false"]


def test_a_file_that_thinks_again_is_read_twice_as_once(sample: Sample) -> None:
    with Desk.open(sample.folder) as desk:
        fact = ",".join(desk.material.names(7))
    lines = [f"{fact},{word}" for word in ("true", "true", "false", "true")]
    header = "head,relation,tail,answer"
    assert take(sample.folder, lines, header) == Imported(added=3, known=1, open=0)
    assert take(sample.folder, lines, header) == Imported(added=0, known=4, open=0)
    with Store.open(sample.folder / FILE) as store:
        assert [row.answer for row in store.current()] == ["true"]
