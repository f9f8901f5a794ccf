"""Files of answers: what is read, and what is refused with the line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from npugraph.data.answers import read_answers
from npugraph.errors import DataError

HEADER = "head\trelation\ttail\tanswer\tdrawn\tchance\n"


def _file(tmp_path: Path, text: str, name: str = "answers.tsv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_words_numbers_and_rows_that_are_not_judged_yet(tmp_path: Path) -> None:
    body = (
        "a\tr\tb\tTrue\trandom\t0.5\n"
        "a\tr\tc\twrong\tchosen\t\n"
        "a b \tr\td\tunsure\n"  # what is empty at the end may be left out
        "a\tr\te\t\trandom\n"
        "a\tr\tf\t0\tRandom\n"
    )
    found = read_answers(_file(tmp_path, HEADER + body))
    assert found.said == (1, 0, -1, 0)
    assert found.drawn == ("random", "chosen", "", "random")
    assert found.chance == (0.5, None, None, None)
    assert found.open == 1
    # Names are taken as they are, blanks and all.
    assert found.facts["head"].to_pylist() == ["a", "a", "a b ", "a"]


def test_a_list_of_suspects_with_one_more_column_will_do(tmp_path: Path) -> None:
    text = 'head,relation,tail,probability,low,high,score,answer\n"a, b",r,c,0.1,0,0.2,-3,right\n'
    found = read_answers(_file(tmp_path, text, "suspects.csv"))
    assert (found.said, found.drawn, found.chance) == ((1,), ("",), (None,))
    assert found.facts["head"].to_pylist() == ["a, b"]


def test_tables_and_parquet(tmp_path: Path) -> None:
    table = pa.table({"subject": ["a"], "predicate": ["r"], "object": ["b"], "answer": [False]})
    pyarrow.parquet.write_table(table, tmp_path / "answers.parquet")
    for source in (table, tmp_path / "answers.parquet", table.to_pylist()):
        assert read_answers(source).said == (0,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head\trelation\ttail\n", "line 1: no column is called 'answer'"),
        (HEADER + "a\tr\tb\tmaybe\n", "line 2: the answer 'maybe' must be true, false or unsure"),
        (HEADER + "a\tr\tb\t1\tpicked\n", "line 2: the drawn 'picked' must be random or chosen"),
        (HEADER + "a\tr\tb\t1\trandom\t2\n", "line 2: the chance '2' must be a number above 0"),
        (HEADER + "a\t\tb\t1\n", "line 2: an empty relation"),
        (HEADER + "a\tr\tb\t1\trandom\t\tx\n", "line 2: 7 columns where the header has 6"),
        ("", "the file is empty; answers have a header with head, relation, tail, answer"),
        (HEADER, r"the file holds no answers, only a header; add a row .*, or leave the file out"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_answers(_file(tmp_path, text))


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_answers(tmp_path / "gone.tsv")
    with pytest.raises(DataError, match=r"read from \.tsv"):
        read_answers(_file(tmp_path, "x", "answers.xlsx"))
