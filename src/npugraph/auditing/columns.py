"""What the user's own columns say: confidence, what is named as evidence, and the source."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npugraph.arrays import Floats, Ints
from npugraph.auditing.judgement import Judgement
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.statistics.columns import (
    ColumnEffect,
    column_ratio,
    numeric_groups,
)
from npugraph.errors import DataError, nearest
from npugraph.graph import KnowledgeGraph

CONFIDENCE = "confidence"
# An entity may be taken as the source of its facts.
ENDS = {"head": 0, "tail": 2}


def check_columns(graph: KnowledgeGraph, settings: AuditSettings) -> None:
    """Refuse names of columns that the graph does not have, before any work is done."""
    for name in settings.columns:
        if name not in graph.columns and not (name == CONFIDENCE and graph.confidence is not None):
            known = ", ".join(graph.columns) or "none"
            raise DataError(
                f"{graph.name or graph.source or 'graph'!r} has no column {name!r} beside its "
                f"facts (there: {known}); a graph that is loaded before keeps those of "
                f"ReadOptions(beside=...).{nearest(name, list(graph.columns))}"
            )


def judge_columns(
    judged: Judgement, graph: KnowledgeGraph, settings: AuditSettings
) -> tuple[Judgement, dict[str, ColumnEffect]]:
    """Return a judgement of the distinct facts of a graph that heeds its columns, and how.

    A confidence is always heeded; a higher one never speaks against a fact.
    """
    columns: dict[str, Ints] = {}
    if graph.confidence is not None:
        columns[CONFIDENCE] = numeric_groups(graph.confidence.numpy())
    for name in settings.columns:
        if name not in columns:
            columns[name] = _groups(graph.columns[name], as_number=name != settings.source)
    if settings.source in ENDS:
        columns[settings.source] = graph.facts[:, ENDS[settings.source]].numpy()
    if not columns:
        return judged, {}
    relation = judged.facts[:, 1].numpy()
    ratio, effects = column_ratio(1 - judged.probability, relation, columns, (CONFIDENCE,))
    return judged.with_odds(ratio), effects


def moved_odds(before: Judgement, after: Judgement) -> Floats:
    """Return by which factor columns changed the odds of being wrong of each fact [n]."""
    return np.asarray(np.exp(before.score - after.score))


def source_groups(graph: KnowledgeGraph, settings: AuditSettings) -> Ints | None:
    """Return the source of each fact of a graph, from 0, or None; those without one share one."""
    if settings.source is None:
        return None
    if settings.source in ENDS:
        return graph.facts[:, ENDS[settings.source]].numpy()
    groups = _groups(graph.columns[settings.source], as_number=False)
    return np.where(groups < 0, groups.max(initial=-1) + 1, groups)


def _groups(column: pa.Array, as_number: bool) -> Ints:
    """Return the group of each value [n], -1 where there is none; numbers are cut into ranges."""
    words = column.cast(pa.string())
    words = pc.if_else(pc.equal(words, ""), None, words)
    if as_number:
        try:
            numbers = words.cast(pa.float64())
        except pa.ArrowInvalid:
            pass  # they are words
        else:
            return numeric_groups(pc.fill_null(numbers, np.nan).to_numpy(zero_copy_only=False))
    places = words.dictionary_encode().indices
    groups: Ints = pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return groups


def heeded(effects: Mapping[str, ColumnEffect]) -> tuple[str, ...]:
    """Return the names of the columns that say something about the facts."""
    return tuple(name for name, effect in effects.items() if not _says_nothing(effect))


def _says_nothing(effect: ColumnEffect) -> bool:
    return effect.spread == 0 or effect.highest == effect.lowest


def column_note(name: str, effect: ColumnEffect) -> str:
    """Say in a sentence what a column says."""
    if _says_nothing(effect):
        return (
            f"The column {name} says nothing about the facts here: by it they are no more and no "
            "less suspicious than chance has it."
        )
    return (
        f"The column {name} is heeded: by it the share of wrong facts is up to "
        f"{effect.highest:.1%} higher or {-effect.lowest:.1%} lower than is usual for the "
        "relations."
    )
