"""Score facts that somebody brings: one row out for every row in."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import torch

from npugraph.evaluation import index_of_known
from npugraph.speculative import SpeculativeSystem
from npugraph.train import Fitted


def score_table(fitted: Fitted, table: pa.Table) -> pa.Table:
    """Score the facts of a table with columns head, relation, tail.

    Returns:
        A table with columns head, relation, tail, score, probability, collected, in the order of
        the input. ``collected`` says whether the fact is among those the run was trained on.
        ``score`` and ``probability`` are empty where a name is not in the graph; ``probability``
        is empty, too, for recipes that estimate none.
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
    score = torch.cat([fitted.system.score(part) for part in torch.split(facts, 2**16)] or [facts])
    columns = {"score": score.double().cpu().numpy(), "collected": collected.cpu().numpy()}
    if isinstance(fitted.system, SpeculativeSystem):
        columns["probability"] = fitted.system.probability(facts, collected).cpu().numpy()
    place = pc.if_else(known, pc.subtract(pc.cumulative_sum(known.cast(pa.int64())), 1), None)
    spread = {name: pa.array(values).take(place) for name, values in columns.items()}
    return pa.table(
        {
            **{name: table[name] for name in ("head", "relation", "tail")},
            "score": spread["score"],
            "probability": spread.get("probability", pa.nulls(len(table), pa.float64())),
            "collected": pc.fill_null(spread["collected"], False),
        }
    )
