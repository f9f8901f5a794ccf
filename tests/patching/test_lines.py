"""Patches of TSV, CSV and N-Triples: every byte that is not decided about survives."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings

from npugraph.data.io import ReadOptions
from npugraph.errors import DataError
from npugraph.patching import (
    Decision,
    Fact,
    apply_patch,
    make_patch,
    read_patch,
    revert_patch,
)
from patch_samples import (
    Case,
    expected,
    facts_in,
    ntriples_cases,
    put,
    source,
    text_cases,
)


def check_there_and_back(case: Case) -> None:
    """Make, write, read, apply and revert a patch."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        path = put(folder, case)
        before = path.read_bytes()
        assert facts_in(path, case.options) == case.facts
        made = make_patch([source(path, case.options)], case.decisions, "odd")
        wanted = expected(case.facts, case.decisions)
        patch_file = folder / "patch.json"
        patch_file.write_text(made.patch.to_json(), encoding="utf-8")
        patch = read_patch(patch_file)
        assert patch == made.patch
        (done,) = apply_patch(patch, path)
        assert done.content == made.contents[0]
        assert path.read_bytes() == before
        path.write_bytes(done.content)
        if wanted:
            assert facts_in(path, case.options) == wanted
        (undone,) = revert_patch(patch, path)
        assert undone.content == before
        assert undone.exact
        if done.content != before:
            with pytest.raises(DataError, match="applied already"):
                apply_patch(patch, path)
            path.write_bytes(before)
            with pytest.raises(DataError, match="not applied, so there is nothing"):
                revert_patch(patch, path)
            path.write_bytes(before + b"\n")
            for act in (apply_patch, revert_patch):
                with pytest.raises(DataError, match="is not the file that the patch"):
                    act(patch, path)


@example(
    # The last record has two lines and no end; it is replaced, and one comes after it.
    Case(
        "facts.csv",
        'n,r,"a\nb"',
        ReadOptions(),
        [Fact("n", "r", "a\nb")],
        [
            Decision("replace", Fact("n", "r", "a\nb"), Fact("n", "r", "c")),
            Decision("add", Fact("d", "r", "e")),
        ],
    )
)
@settings(max_examples=100, deadline=None)
@given(text_cases())
def test_text_there_and_back(case: Case) -> None:
    check_there_and_back(case)


@settings(max_examples=50, deadline=None)
@given(ntriples_cases())
def test_ntriples_there_and_back(case: Case) -> None:
    check_there_and_back(case)
