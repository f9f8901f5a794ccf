"""The tables of an audit: columns of judged facts, and where each stands in the order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from npugraph.auditing.judgement import Judgement
from npugraph.auditing.promise import find_suspects
from npugraph.auditing.statistics.review_lists import find_missing_facts
from npugraph.graph import KnowledgeGraph, TripleIndex

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
FACT = ("head", "relation", "tail")
# The columns of the lists of suspect and of missing facts.
LISTED = (*FACT, "probability", "low", "high", "score")
# What a list of suspects has besides.
CORRECTED = ("replace", "by", "stored_head", "stored_tail")
# What is told only where it holds.
PROMISED = ("probability", "low", "high")


def figures(judged: Judgement) -> dict[str, NDArray[Any]]:
    """Return the columns that a judgement adds to its facts."""
    return {
        "probability": judged.probability,
        "low": judged.low,
        "high": judged.high,
        "score": judged.score,
        "fold": judged.fold + 1,
    }


def told_figures(judged: Judgement, told: Bools) -> dict[str, pa.Array]:
    """Return these columns for a table; probabilities that are not told [n] are empty."""
    return {
        name: pa.array(values, mask=~told if name in PROMISED else None)
        for name, values in figures(judged).items()
    }


def suspicion_places(judged: Judgement) -> Ints:
    """Return the place of each stored fact [n], from 1, the most suspicious first."""
    nobody = np.zeros(len(judged.facts), dtype=bool)
    return _places(find_suspects(judged, nobody, judged.probability))


def proposal_places(judged: Judgement) -> Ints:
    """Return the place of each proposed fact [n], from 1, the most probable first."""
    numbered = pa.table({"fact": np.arange(len(judged.facts))})
    listed = find_missing_facts(numbered, judged.probability, score=judged.score)
    return _places(listed["row"].to_numpy())


def _places(order: Ints) -> Ints:
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(1, len(order) + 1)
    return places


def posterior_table(
    graph: KnowledgeGraph,
    place: Ints,
    collected: Judgement,
    proposed: Judgement,
    *,
    told: tuple[Bools, Bools],
    right: Tensor,
    more: Mapping[str, tuple[pa.Array, pa.DataType]],
) -> pa.Table:
    """Return every input row and every proposed fact with its probability.

    Args:
        graph: the input rows [n].
        place: where each of them stands among the collected facts; -1: it is known to be wrong.
        collected: judgement of the distinct collected facts.
        proposed: judgement of the proposed facts.
        told: of which collected, and of which proposed facts the probability is told.
        right: facts that are known to be right [m, 3].
        more: further columns of the input rows [n], with their types.
    """
    known = place >= 0
    stored = graph.to_table().select(list(FACT))
    own = (suspicion_places(collected), proposal_places(proposed))
    for name, values in {**figures(collected), "place": own[0]}.items():
        taken = values[place]
        if name in PROMISED:
            hidden = known & ~told[0][place]
            column = pa.array(np.where(known, taken, 0.0), mask=hidden)
        else:
            column = pa.array(taken, mask=None if known.all() else ~known)
        stored = stored.append_column(name, column)
    new = graph.with_facts(proposed.facts).to_table()
    for name, values in {**told_figures(proposed, told[1]), "place": pa.array(own[1])}.items():
        new = new.append_column(name, values)
    index = TripleIndex(right, graph.num_entities, graph.num_relations)
    sure = index.contains(graph.facts).numpy() | ~known
    stored = stored.append_column("known", pa.array(known, mask=~sure))
    new = new.append_column("known", pa.nulls(len(new), pa.bool_()))
    for name, (values, kind) in more.items():
        stored = stored.append_column(name, values)
        new = new.append_column(name, pa.nulls(len(new), kind))
    names = [*LISTED, "collected", "fold", "known", *more, "place"]
    both = []
    for table, is_stored in ((stored, True), (new, False)):
        column = pa.array(np.full(len(table), is_stored))
        both.append(table.append_column("collected", column).select(names))
    return pa.concat_tables(both)
