"""An earlier audit, opened so that another one can go on with its systems.

What a system was trained on it knows by heart, for good: a later system that starts from it must
judge no such fact either. So every audit writes history.parquet: each fact that its systems know,
or that those they started from knew, and the one fold whose system never saw it. Facts that were
planted for a self-test are among them, and facts that are no longer stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import torch
from torch import Tensor

from npugraph.auditing.folds import Folds
from npugraph.data.io import write_table
from npugraph.errors import RunError, in_one_line
from npugraph.graph import KnowledgeGraph
from npugraph.training.run_folder import Run
from npugraph.training.warm import Start, places

FACT = ("head", "relation", "tail")
HISTORY = "history.parquet"
# Columns of what the input says of a fact begin with this.
GIVEN = "given:"
# Settings of an earlier audit that a later one does not take over: they are of its own facts.
OF_ITS_FACTS = ("beta", "alpha")


@dataclass(frozen=True)
class Earlier:
    """The folder of an audit that is done.

    Attributes:
        folder: where it is.
        record: its audit.json.
        facts: head, relation, tail, fold from 1, stored, and what the input said of each fact.
    """

    folder: Path
    record: Mapping[str, Any]
    facts: pa.Table

    @classmethod
    def open(cls, folder: Path) -> Earlier:
        """Open the folder of an audit; refuse one that nothing can go on from."""
        path = folder / "audit.json"
        if not path.is_file():
            raise RunError(
                f"{folder} holds no finished audit: it has no audit.json; name the folder that an "
                "audit was written to, or audit without --since."
            )
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            version = record["npugraph"]
            _ = record["settings"], record["training"]["epochs"], record["views"]
        except (ValueError, KeyError, TypeError):
            raise RunError(f"{path} is damaged; audit without --since.") from None
        if not (folder / HISTORY).is_file():
            raise RunError(
                f"{folder} has no {HISTORY}: npugraph {version} wrote it, which did not keep what "
                "its systems know, or it was removed; audit without --since once."
            )
        try:
            facts = pyarrow.parquet.read_table(folder / HISTORY)
            facts.select([*FACT, "fold", "stored"])
        except (OSError, pa.ArrowInvalid, KeyError) as error:
            raise RunError(f"{folder / HISTORY} is damaged ({in_one_line(error)}).") from None
        return cls(folder, record, facts)

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked for, for a later audit to ask for, with the views that were taken."""
        views = tuple(one["view"] for one in self.record["views"])
        kept = {n: v for n, v in self.record["settings"].items() if n not in OF_ITS_FACTS}
        return {**kept, "views": views}

    @property
    def since(self) -> Mapping[str, Any]:
        """What it says of the audit before itself; empty where it was a full one."""
        return self.record.get("since") or {}

    @cached_property
    def digest(self) -> str:
        """A hash of what it found, to tell it from others."""
        return hashlib.sha256((self.folder / "audit.json").read_bytes()).hexdigest()

    @property
    def systems(self) -> dict[str, int]:
        """The folders of systems that its views have, and how many there are in each."""
        within = {"embedding": "folds", "pairs": "pairs", "path": "path"}
        folds = int(self.record["settings"]["folds"])
        views = [view for view in self.asked["views"] if view in within]
        return {within[view]: 2 if view == "path" else folds for view in views}

    def start(self, within: str, fold: int, trains: bool) -> Start:
        """Return the system of a fold (from 0) in a folder of systems, to start from."""
        place = self.folder / within / f"fold-{fold + 1}"
        if not (place / "model.safetensors").is_file():
            raise RunError(
                f"{place} is not there: the systems of {self.folder} were removed, or it had "
                f"none for this evidence ({within}); audit without --since."
            )
        return Start(Run.open(place), trains)

    def ids(self, graph: KnowledgeGraph) -> Tensor:
        """Return the facts of the history as ids of a graph [m, 3], -1 for unknown names."""
        return ids_of(graph, self.facts)


def ids_of(graph: KnowledgeGraph, facts: pa.Table) -> Tensor:
    """Return facts of names as ids of a graph [m, 3], -1 for names that it does not have."""
    words = (graph.entities, graph.relations, graph.entities)
    found = [
        pc.fill_null(pc.index_in(facts[name].combine_chunks(), value_set=part.labels), -1)
        for name, part in zip(FACT, words, strict=True)
    ]
    columns = [torch.from_numpy(ids.to_numpy(zero_copy_only=False).copy()) for ids in found]
    return torch.stack(columns, 1).long()


def validated(start: Start, graph: KnowledgeGraph) -> Tensor:
    """Return the facts that a run was validated on, and not trained, as ids of a graph [m, 3].

    Those with names that the graph does not have are left out.
    """
    old = start.run.splits().valid
    back = places(old.entities, graph.entities), places(old.relations, graph.relations)
    head, relation, tail = old.facts.unbind(1)
    ids = torch.stack([back[0][head], back[1][relation], back[0][tail]], 1)
    return ids[(ids >= 0).all(1)]


def given_values(graph: KnowledgeGraph) -> dict[str, pa.Array]:
    """Return what the input says of each fact of a graph beside its names, by column, as text."""
    columns: dict[str, pa.Array] = {}
    if graph.confidence is not None:
        columns["confidence"] = pa.array(graph.confidence.double().numpy())
    if graph.label is not None:
        columns["label"] = pa.array(graph.label.numpy())
    columns |= graph.columns
    return {name: column.cast(pa.string()) for name, column in columns.items()}


def write_history(folds: Folds, earlier: Earlier | None, folder: Path) -> None:
    """Write which fold's system never saw a fact, for all facts that a system may know."""
    graph = folds.graph
    table = graph.with_facts(graph.facts).to_table()
    table = _with(table, folds.fold + 1, stored=True)
    for name, values in given_values(graph).items():
        table = table.append_column(GIVEN + name, values)
    parts = [table]
    if folds.planted is not None:
        planted = graph.with_facts(folds.planted.facts).to_table()
        parts.append(_with(planted, folds.planted.fold + 1, stored=False))
    if earlier is not None:
        ids = earlier.ids(graph)
        gone = (ids < 0).any(1) | ~folds.index().contains(ids)
        old = earlier.facts.select([*FACT, "fold"]).filter(pa.array(gone.numpy()))
        parts.append(old.append_column("stored", pa.array([False] * len(old), pa.bool_())))
    write_table(pa.concat_tables(parts, promote_options="default"), folder / HISTORY)


def _with(table: pa.Table, fold: Tensor, *, stored: bool) -> pa.Table:
    """Add the columns of a history."""
    table = table.append_column("fold", pa.array(fold.numpy(), pa.int64()))
    return table.append_column("stored", pa.array([stored] * len(table), pa.bool_()))
