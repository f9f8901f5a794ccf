"""Puts the tables of docs/audit.md in place, from the lines of benchmarks/results/audit.jsonl.

    python scripts/build_audit_docs.py            # write them
    python scripts/build_audit_docs.py --check    # fail where they are not up to date

The text around the tables is written by hand. A table stands between two comments, which name it
after its function in benchmarks/quality/audit_tables.py.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A script is run from anywhere; the benchmarks are a package of the repository, not installed.
sys.path.insert(0, str(ROOT))

from benchmarks.quality.audit_tables import TABLES, read  # noqa: E402

PAGE = ROOT / "docs" / "audit.md"
RESULTS = ROOT / "benchmarks" / "results" / "audit.jsonl"


def page(text: str) -> str:
    """Return the page with its tables made anew."""
    lines = read(RESULTS)
    for table in TABLES:
        name, rows = table.__name__, "\n".join(table(lines))
        places = re.findall(rf"<!-- table: {name} -->\n(?:\|.*\n)*<!-- end -->\n", text)
        if len(places) != 1:
            found = len(places)
            raise SystemExit(f"{PAGE}: there are {found} places for the table {name!r}, not one.")
        text = text.replace(places[0], f"<!-- table: {name} -->\n{rows}\n<!-- end -->\n")
    return text


def main() -> None:
    """Write the tables, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    before = PAGE.read_text(encoding="utf-8")
    after = page(before)
    if arguments.check:
        sys.exit(0 if after == before else f"{PAGE} is not up to date; run this without --check.")
    PAGE.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
