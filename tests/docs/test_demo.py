"""The demo's output in README.md is what the demo says, up to what moves with the machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from doc_blocks import ROOT
from npugraph.cli import app

# Figures of the demo: how to find each, and how far another machine may be from README.md.
FIGURES = {
    "wrong facts, %": (r"About ([\d.]+)% of the [\d,]+ facts are wrong", 1.5),
    "facts": (r"% of the ([\d,]+) facts are wrong", 0),
    "wrong facts, low %": (r"facts are wrong \(90% interval ([\d.]+)%", 2),
    # What the few planted facts of each kind do not rule out: a few of them more or less move it.
    "wrong facts, high %": (r"facts are wrong \(90% interval [\d.]+% to ([\d.]+)%", 12),
    "expected": (r"of which about (\d+) should be wrong", 20),
    "found": (r"(\d+) of the \d+ planted facts", 10),
    "planted": (r"\d+ of the (\d+) planted facts", 0),
}
# Those that are told whatever the verdict is.
ALWAYS = {"found", "planted"}


def figures(text: str) -> dict[str, float]:
    """Return the figures that the end of a demo says."""
    found = {name: re.search(pattern, text) for name, (pattern, _) in FIGURES.items()}
    return {name: float(at[1].replace(",", "")) for name, at in found.items() if at}


def test_the_demo_says_what_the_readme_shows(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = figures(readme[readme.index("<!-- the demo's output -->") :])
    done = CliRunner().invoke(app, ["audit", "--out", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    said = figures(done.output)
    # Whether a count is promised may move with the machine; what is found is told anyhow.
    assert shown.keys() & said.keys() >= ALWAYS
    for name in shown.keys() & said.keys():
        assert said[name] == pytest.approx(shown[name], abs=FIGURES[name][1], rel=0), name
