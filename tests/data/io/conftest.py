"""Who reads a text file: Arrow, or compiled loops where they take it."""

from __future__ import annotations

import pytest

from npugraph import compiling
from npugraph.data.io import numbering

ALWAYS, NEVER = 0, 2**62


@pytest.fixture
def by_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and columns of any size are for the loops."""
    if not compiling.available():
        pytest.skip("needs numba: pip install 'npugraph[fast]'")
    monkeypatch.setattr(numbering, "LEAST", ALWAYS)


@pytest.fixture(params=["arrow", "loops"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a test says of reading holds whoever reads."""
    if request.param == "loops":
        request.getfixturevalue("by_loops")
    else:
        monkeypatch.setattr(numbering, "LEAST", NEVER)
    return str(request.param)
