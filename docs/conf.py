"""How Sphinx builds the documentation site; `make docs` runs it and takes no warning."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

import npugraph

# Public names are imported on first use: asked for once, they are there to be documented.
for _name in npugraph.__all__:
    setattr(npugraph, _name, getattr(npugraph, _name))

project = "npugraph"
author = project_copyright = "npugraph contributors"
release = version = npugraph.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Sources of other pages.
exclude_patterns = ["results_notes.md"]
html_theme = "furo"
html_title = f"npugraph {version}"

# A link may go to a heading of a page: [text](audit.md#the-files).
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_use_ivar = True
# Names that have no page here: those of other projects, and our own that users never call.
nitpick_ignore_regex = [("py:.*", ".*")]


def formulas(
    app: Sphinx, what: str, name: str, item: object, options: Any, lines: list[str]
) -> None:
    """Show the indented paragraphs of a docstring as they stand: they are formulas."""
    shown: list[str] = []
    before = ""  # the last line that is not blank
    for line in lines:
        after_blank = bool(shown) and not shown[-1].strip()
        if line.startswith("    ") and after_blank and before[:1].strip():
            shown += ["::", ""]
        shown.append(line)
        before = line if line.strip() else before
    lines[:] = shown


def setup(app: Sphinx) -> None:
    """Read docstrings before the extension that knows their sections (priority 500)."""
    app.connect("autodoc-process-docstring", formulas, priority=400)
