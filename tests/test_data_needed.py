"""Where data is required, a test without it fails and is not skipped."""

from __future__ import annotations

import pytest

from data_needed import data_absent


@pytest.mark.parametrize(
    ("told", "ci", "outcome"),
    [
        ("1", None, pytest.fail.Exception),
        (None, "true", pytest.fail.Exception),
        ("0", "true", pytest.skip.Exception),
        (None, None, pytest.skip.Exception),
    ],
)
def test_absent_data(
    told: str | None,
    ci: str | None,
    outcome: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("NPUGRAPH_REQUIRE_DATA", told), ("CI", ci)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    with pytest.raises(outcome, match="needs a graph"):
        data_absent("needs a graph")
