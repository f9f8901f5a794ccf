"""Write an audit into a folder. The input is never touched."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from npugraph.auditing.alternatives import better_alternatives
from npugraph.auditing.page import report_data, sentences, summary
from npugraph.auditing.result import FACT, Findings
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
    - cleaned.tsv and quarantine.tsv: the input rows, cut in two by the target precision;
    - patch.json: what was taken out, and how to undo it;
    - report.html: the same for a person;
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
    if len(evidence := _evidence(found)):
        write_table(evidence, folder / "evidence.parquet")
    if len(names := _names(found)):
        write_table(names, folder / "names.parquet")
    # Columns beyond the three would be misread without their names.
    named = found.cleaned.num_columns > len(FACT)
    write_table(found.cleaned, folder / "cleaned.tsv", header=named)
    write_table(found.quarantine, folder / "quarantine.tsv", header=named)
    write_text(folder / "patch.json", json.dumps(_patch(found), indent=1) + "\n")
    write_report(report_data(found, planted), folder / "report.html")
    result = summary(found)
    record = {
        "npugraph": __version__,
        **result,
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


def _patch(found: Findings) -> dict[str, Any]:
    """Return what cleaning does to the input, so that it can be undone or done elsewhere."""
    records: dict[int, list[int]] = {}
    index = found.graph.index()
    places = index.places(found.graph.facts).numpy()[found.taken_out]
    for place, record in zip(
        places.tolist(), found.graph.rows.numpy()[found.taken_out].tolist(), strict=True
    ):
        records.setdefault(place, []).append(record)
    facts = [found.collected.facts[found.quarantine_rows], found.answers.wrong]
    probability = [
        *found.collected.probability[found.quarantine_rows].tolist(),
        *np.zeros(len(found.answers.wrong)).tolist(),
    ]
    removed = [row for part in facts for row in found.graph.with_facts(part).to_table().to_pylist()]
    numbers = [place for part in facts for place in index.places(part).tolist()]
    return {
        "what": "Facts taken out of the input. To undo, add each fact of 'removed' to cleaned.tsv "
        "as often as it has 'rows', the numbers of its records in the input.",
        "graph": found.name,
        "target_precision": found.settings.target_precision,
        "removed": [
            {**row, "probability": chance, "rows": records[place]}
            for row, chance, place in zip(removed, probability, numbers, strict=True)
        ],
        "added": [],
    }
