"""Tables as CSV that a spreadsheet shows as text, and back, without loss.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula and runs it.
Such a cell gets an apostrophe before it, and so does one that begins with an apostrophe; the column
``escaped`` says in which rows.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from npugraph.data.answers import ESCAPED, escape


def spreadsheet(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> bytes:
    r"""Return rows as CSV with a header; it begins with a byte order mark, for Excel.

    >>> spreadsheet([{"head": "=1+1"}], ["head"]).decode("utf-8-sig")
    "head,escaped\r\n'=1+1,yes\r\n"
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*columns, ESCAPED])
    for row in rows:
        plain = [_text(row.get(name)) for name in columns]
        safe = [escape(value) for value in plain]
        writer.writerow([*safe, "yes" if safe != plain else ""])
    return b"\xef\xbb\xbf" + text.getvalue().encode("utf-8")


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)
