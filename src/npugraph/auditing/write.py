"""Write an audit into a folder. The input is never touched."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from npugraph.data.io import write_table, write_text
from npugraph.errors import writing
from npugraph.report import write_report
from npugraph.version import __version__

if TYPE_CHECKING:
    from npugraph.auditing.result import Audit

FACT = ("head", "relation", "tail")
LISTED = (*FACT, "probability", "low", "high", "score")


def write_audit(audit: Audit, folder: Path, **known: Any) -> dict[str, Any]:
    """Write every file of an audit; return its summary. ``known`` truths go to the report.

    - suspects.tsv: stored facts to review, most probably wrong first;
    - missing.tsv: facts that are not stored, most probably true first;
    - posterior.parquet: every input row and every proposed fact with its probability;
    - cleaned.tsv and quarantine.tsv: the input rows, cut in two by the target precision;
    - patch.json: what was taken out, and how to undo it;
    - report.html: the same for a person;
    - audit.json: figures and settings.
    """
    from npugraph.auditing.page import report_data, summary

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    data = report_data(audit, **known)
    suspects = _with_correction(audit.suspects, data.suspects)
    write_table(suspects, folder / "suspects.tsv", header=True)
    write_table(audit.missing.select(list(LISTED)), folder / "missing.tsv", header=True)
    write_table(audit.posterior, folder / "posterior.parquet")
    kept, taken = _cut(audit)
    # Columns beyond the three would be misread without their names.
    named = kept.num_columns > len(FACT)
    write_table(kept, folder / "cleaned.tsv", header=named)
    write_table(taken, folder / "quarantine.tsv", header=named)
    write_text(folder / "patch.json", json.dumps(_patch(audit), indent=1) + "\n")
    write_report(data, folder / "report.html")
    result = summary(audit)
    record = {
        "npugraph": __version__,
        **result,
        "settings": dataclasses.asdict(audit.settings),
        "training": dataclasses.asdict(audit.training),
    }
    write_text(folder / "audit.json", json.dumps(record, indent=2) + "\n")
    return result


def _with_correction(table: pa.Table, rows: tuple[Any, ...]) -> pa.Table:
    """Return the suspects with the proposed repair as two columns, empty where there is none."""
    table = table.select(list(LISTED))
    for name, attribute in (("replace", "side"), ("by", "label")):
        values = [getattr(row.correction, attribute, None) for row in rows]
        table = table.append_column(name, pa.array(values, pa.string()))
    return table


def _cut(audit: Audit) -> tuple[pa.Table, pa.Table]:
    """Return the input rows to keep and those to put in quarantine, in the input's order."""
    out = np.isin(audit.place, audit.quarantine["row"].to_numpy())
    table = audit.graph.to_table()
    return table.filter(pa.array(~out)), table.filter(pa.array(out))


def _patch(audit: Audit) -> dict[str, Any]:
    """Return what cleaning does to the input, so that it can be undone or done elsewhere."""
    out = np.isin(audit.place, audit.quarantine["row"].to_numpy())
    rows = audit.graph.rows.numpy()[out].tolist()
    records: dict[int, list[int]] = {}
    for place, record in zip(audit.place[out].tolist(), rows, strict=True):
        records.setdefault(place, []).append(record)
    return {
        "what": "Facts taken out of the input. To undo, add each fact of 'removed' to cleaned.tsv "
        "as often as it has 'rows', the numbers of its records in the input.",
        "graph": audit.name,
        "target_precision": audit.settings.target_precision,
        "removed": [
            {**{name: row[name] for name in (*FACT, "probability")}, "rows": records[row["row"]]}
            for row in audit.quarantine.to_pylist()
        ],
        "added": [],
    }
