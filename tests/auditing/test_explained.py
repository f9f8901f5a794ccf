"""What an audit says of single facts: its lists, its sentences and its files agree."""

from __future__ import annotations

from npugraph.auditing import Audit
from npugraph.auditing.page import report_data
from npugraph.auditing.tables import LISTED
from npugraph.explaining import OVERALL
from npugraph.explaining.remarks import ordinal


def test_every_suspect_has_a_sentence_that_agrees(done: Audit, silent: Audit) -> None:
    for found in (done, silent):
        count = len(found.collected.facts)
        for number, row in enumerate(found.suspect_rows.tolist(), start=1):
            told = found.explain(found.collected.facts[row])
            nth = "" if number == 1 else f"{ordinal(number)} "
            said = f"{OVERALL} makes it the {nth}most suspicious of {count} stored facts."
            assert said in told.said("against")
            assert f"What speaks against it\n  {said}\n" in told.to_text()
    for one, row in zip(done.suspect_evidence, report_data(done).suspects, strict=False):
        assert row.evidence.contradicting[0] == one.said("against")[0]


def test_places_are_those_of_the_lists(done: Audit) -> None:
    table = done.posterior.to_pylist()
    place = {tuple(row[n] for n in LISTED[:3]): row["place"] for row in table}
    for found in (done.suspects, done.missing):
        listed = [place[tuple(row[n] for n in LISTED[:3])] for row in found.to_pylist()]
        assert listed == list(range(1, len(found) + 1))
