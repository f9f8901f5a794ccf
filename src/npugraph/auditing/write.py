"""Write an audit into a folder. The input is never touched."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from torch import Tensor

from npugraph.auditing.alternatives import better_alternatives
from npugraph.auditing.cleaning import write_cleaned
from npugraph.auditing.earlier import write_history
from npugraph.auditing.figures import summary
from npugraph.auditing.page import report_data, sentences
from npugraph.auditing.quarantine import quarantine_table
from npugraph.auditing.result import Findings
from npugraph.auditing.tables import FACT
from npugraph.data.io import write_table, write_text
from npugraph.errors import writing
from npugraph.report import Evidence, write_report
from npugraph.version import __version__


def write_audit(
    found: Findings, folder: str | Path, *, planted: Tensor | None = None
) -> dict[str, Any]:
    """Write every file of an audit; return its summary.

    - suspects.tsv: stored facts to review, most probably wrong first;
    - missing.tsv: facts that are not stored, most probably true first;
    - issues.tsv: what breaks the regularities of the graph, found without a model;
    - evidence.parquet: what speaks for and against the first of both, as sentences;
    - names.parquet: labels and short forms of names, where there are any;
    - posterior.parquet: every input row and every proposed fact with its probability;
    - features.parquet: what each view says of every input row, for answers to learn from;
    - quarantine.tsv: the input rows that are taken out, with all their columns;
    - cleaned.tsv, .csv, .nt, ...: the others, in the input's own format;
    - patch.json: what was taken out; ``npugraph apply`` and ``npugraph revert`` take it;
    - facts.tsv: the input, where it was no file;
    - report.html: the same for a person;
    - history.parquet: what the systems know, for an audit that goes on from this one;
    - audit.json: figures, settings and thresholds.

    Args:
        found: what the audit found.
        folder: where to write.
        planted: facts [n, 3] that are known to be wrong; the report tells how many were found.
    """
    folder = Path(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_table(found.suspects, folder / "suspects.tsv", header=True)
    write_table(found.missing, folder / "missing.tsv", header=True)
    write_table(found.issues.table, folder / "issues.tsv", header=True)
    write_table(found.posterior, folder / "posterior.parquet")
    write_table(_features(found), folder / "features.parquet")
    if len(evidence := _evidence(found)):
        write_table(evidence, folder / "evidence.parquet")
    earlier = None if found.since is None else found.since.earlier
    write_history(found.crossfit.folds, earlier, folder)
    if len(names := _names(found)):
        write_table(names, folder / "names.parquet")
    # Columns beyond the three would be misread without their names.
    quarantine = quarantine_table(found)
    named = quarantine.num_columns > len(FACT)
    write_table(quarantine, folder / "quarantine.tsv", header=named)
    cleaned = write_cleaned(found, folder)
    write_report(report_data(found, planted), folder / "report.html")
    result = {**summary(found), "cleaned": cleaned.name}
    record = {
        "npugraph": __version__,
        **result,
        "input": cleaned.input,
        "settings": found.settings.asked(),
        "training": dataclasses.asdict(found.training),
        "thresholds": dataclasses.asdict(found.settings.thresholds),
    }
    write_text(folder / "audit.json", json.dumps(record, indent=2) + "\n")
    return result


def _names(found: Findings) -> pa.Table:
    """Return how the names of the graph are shown, where not as they are."""
    graph = found.graph
    whole = [*graph.entities.labels.to_pylist(), *graph.relations.labels.to_pylist()]
    shown = graph.readable.differing(whole)
    columns = [pa.array(list(part), pa.string()) for part in (shown, shown.values())]
    return pa.table(columns, names=["name", "shown"])


def _features(found: Findings) -> pa.Table:
    """Return what the views say of every input row; empty for facts that are known to be wrong."""
    judged, unknown = found.crossfit.collected, found.place < 0
    columns = judged.features.numpy()[found.place].T
    return pa.table(
        [pa.array(values, mask=unknown) for values in columns], names=list(judged.columns)
    )


def _evidence(found: Findings) -> pa.Table:
    """Return what is known for and against the facts that were explained for the report."""
    graph = found.crossfit.folds.graph
    told = (*found.suspect_evidence, *found.missing_evidence)
    rows = [
        {
            **dict(zip(FACT, one.fact, strict=True)),
            **dataclasses.asdict(sentences(one, better_alternatives(one, graph))),
        }
        for one in told
    ]
    lists = [field.name for field in dataclasses.fields(Evidence)]
    kinds = {name: pa.string() for name in FACT}
    kinds |= {name: pa.list_(pa.string()) for name in lists}
    return pa.Table.from_pylist(rows, pa.schema(kinds))
