"""What an audit says of single facts: its lists, its sentences and its files agree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet

from audit_samples import FAST, graph_of, people
from npugraph.asking import explain
from npugraph.auditing import Audit, audit
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


def test_an_issue_speaks_against_its_fact_and_changes_no_probability(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[relation."lives in"]\nasymmetric = true\none_tail = true\n', "utf-8")
    second = ("person 001", "lives in", "Großstadt 2")
    graph = graph_of([*people(36), second, *people(36)[:1]])
    settings = {"folds": 2, "missing": 5, "budget": 200, "explained": 200, "search": False}
    out = tmp_path / "audit"
    found = audit(graph, settings | {"device": "cpu"}, FAST, constraints={"rules": rules}, out=out)
    found.write(out)
    said = (
        "Issue (rule): A rule: lives in has one tail per head; also stored: person 001, lives in, "
        "Großstadt 1."
    )
    for told in (found.explain(second), explain(out, *second, device="cpu")):
        assert said in told.said("against")
        assert f"  {said}\n" in told.to_text().split("What speaks against it\n")[1]
    repeated, *_ = people(36)
    assert found.issues.counts["repeat"] == 1
    assert not [one for one in found.explain(repeated).remarks if one.kind == "issue"]
    rows = pyarrow.parquet.read_table(out / "evidence.parquet").to_pylist()
    written = {(row["head"], row["relation"], row["tail"]): row["contradicting"] for row in rows}
    assert said in written[second]
    assert said in (out / "report.html").read_text(encoding="utf-8")
    plain = audit(graph, settings | {"device": "cpu"}, FAST)
    assert np.array_equal(plain.collected.probability, found.collected.probability)
    assert found.posterior.equals(plain.posterior)
