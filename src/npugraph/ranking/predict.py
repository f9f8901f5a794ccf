"""Score facts that somebody brings: one row out for every row in."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from npugraph.model import Model, Trained
from npugraph.ranking.evaluate import index_of_known

# How many facts are scored at once.
CHUNK = 2**16


def score_table(fitted: Trained, table: pa.Table) -> pa.Table:
    """Score the facts of a table with columns head, relation, tail.

    Returns:
        A table with columns head, relation, tail, score, probability, collected, in the order of
        the input. ``collected`` says whether the fact is among those the run was trained on.
        ``score`` and ``probability`` are empty where a name is not in the graph; ``probability``
        is empty, too, where the recipe estimates none.
    """
    graph = fitted.splits.train
    known = pc.and_(
        pc.and_(
            pc.is_in(table["head"], value_set=graph.entities.labels),
            pc.is_in(table["tail"], value_set=graph.entities.labels),
        ),
        pc.is_in(table["relation"], value_set=graph.relations.labels),
    )
    facts = graph.encode(table.filter(known)).to(fitted.system.device)
    collected = index_of_known(fitted, parts=("train",)).contains(facts)
    columns = _scores(fitted.system, facts, collected)
    place = pc.if_else(known, pc.subtract(pc.cumulative_sum(known.cast(pa.int64())), 1), None)
    arrays = {name: pa.array(values.cpu().numpy()) for name, values in columns.items()}
    if "probability" in columns:
        # Not a number: it cannot be told, and the field stays empty.
        arrays["probability"] = pa.array(columns["probability"].cpu().numpy(), from_pandas=True)
    spread = {name: array.take(place) for name, array in arrays.items()}
    return pa.table(
        {
            **{name: table[name] for name in ("head", "relation", "tail")},
            "score": spread["score"],
            "probability": spread.get("probability", pa.nulls(len(table), pa.float64())),
            "collected": pc.fill_null(spread["collected"], False),
        }
    )


def _scores(system: Model, facts: Tensor, collected: Tensor) -> dict[str, Tensor]:
    """Score facts [n, 3], some at a time; the probability is there where the system has one."""
    chunks = list(zip(torch.split(facts, CHUNK), torch.split(collected, CHUNK), strict=True))
    columns = {
        "score": torch.cat([system.score(part) for part, _ in chunks]).double(),
        "collected": collected,
    }
    found = [system.probability(part, mask) for part, mask in chunks]
    probability = [part for part in found if part is not None]
    if probability:
        columns["probability"] = torch.cat(probability).double()
    return columns
