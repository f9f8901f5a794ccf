"""Facts that are stored twice: the same one again, or once more as another relation."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from npugraph.arrays import Ints
from npugraph.auditing.issues.facts import Facts, listed, regular, strong
from npugraph.auditing.issues.literals import Bools
from npugraph.graph import KnowledgeGraph


def repeated(facts: Facts) -> pa.Table:
    """Return the input rows that repeat an earlier one."""
    again = np.flatnonzero(facts.first[facts.place] != np.arange(len(facts.place)))
    place = facts.place[again]
    rows, files = facts.graph.rows.numpy(), _files(facts.graph)
    both = [
        [(int(rows[i]), f" of {files[i]}" if files is not None else "") for i in where]
        for where in (again.tolist(), facts.first[place].tolist())
    ]
    sentences = [
        f"Record {number:,}{file or ' of the input'} repeats record {earlier:,}{other}."
        for (number, file), (earlier, other) in zip(*both, strict=True)
    ]
    score = float(regular(len(facts.place) - len(again), len(facts.place)))
    earlier = [f"record {number}{file}" for number, file in both[1]]
    return listed("repeat", [score] * len(again), sentences, **facts.names(place), other=earlier)


def _files(graph: KnowledgeGraph) -> NDArray[np.object_] | None:
    """Return the name of the file that holds each row [n]; None where there is only one."""
    if len(graph.inputs) < 2:
        return None
    # In each file the records are counted from the start.
    rows = graph.rows.numpy()
    file = np.concatenate([[0], np.cumsum(rows[1:] <= rows[:-1])])
    names = np.array([one.path.name for one in graph.inputs], object)
    return names[file] if file[-1] + 1 == len(names) else None


def inverse_relations(facts: Facts) -> pa.Table:
    """Return pairs of relations of which one is the other, turned round: no error."""
    return _matched(facts, turned=True)


def twin_relations(facts: Facts) -> pa.Table:
    """Return pairs of relations that hold the same facts: no error."""
    return _matched(facts, turned=False)


def _matched(facts: Facts, turned: bool) -> pa.Table:
    """Return pairs of relations that share nearly all of their facts."""
    left, right, count = matching(facts, turned)
    sizes = facts.counts[left], facts.counts[right]
    score = np.minimum(*(regular(count, size) for size in sizes))
    kept = np.flatnonzero(strong(count, sizes[0]) & strong(count, sizes[1]))
    kept = kept[np.argsort(-count[kept], kind="stable")]
    labels = facts.graph.relations
    kind, how = ("inverse", ", turned round") if turned else ("twin", "")
    sentences, names, others = [], [], []
    for k in kept.tolist():
        a, b = labels.label(int(left[k])), labels.label(int(right[k]))
        names.append(a)
        others.append(b)
        sentences.append(
            f"{int(count[k]):,} of the {facts.counts[left[k]]:,} facts of {facts.short(a)} and of "
            f"the {facts.counts[right[k]]:,} of {facts.short(b)} are the same{how}; one would do."
        )
    return listed(kind, score[kept], sentences, relation=names, other=others)


def echoes(facts: Facts) -> Bools:
    """Tell which relations [R] say nothing new: all their facts are those of an earlier one.

    What is odd about them is odd about the earlier one, too.
    """
    found = np.zeros(facts.num_relations, bool)
    for turned in (True, False):
        left, right, count = matching(facts, turned)
        found[right[(count == facts.counts[right]) & (count == facts.counts[left])]] = True
    return found


def matching(facts: Facts, turned: bool) -> tuple[Ints, Ints, Ints]:
    """Return pairs of relations, the earlier first, and how many of their facts are the same."""
    shared = _shared(facts, turned).tocoo()
    left, right = shared.coords
    ordered = left < right
    return left[ordered], right[ordered], shared.data[ordered]


def _shared(facts: Facts, turned: bool) -> sparse.csr_array:
    """Count the pairs of entities that two relations [R, R] both join."""
    head, tail, size = facts.head, facts.tail, facts.graph.num_entities
    keys = np.concatenate([head * size + tail, (tail * size + head) if turned else head[:0]])
    pairs, place = np.unique(keys, return_inverse=True)
    shape = (len(pairs), facts.num_relations)
    ones = np.ones(len(facts), np.int64)
    plain = sparse.csr_array((ones, (place[: len(facts)], facts.relation)), shape=shape)
    if not turned:
        return (plain.T @ plain).tocsr()
    other = sparse.csr_array((ones, (place[len(facts) :], facts.relation)), shape=shape)
    return (plain.T @ other).tocsr()


def single_facts(facts: Facts) -> pa.Table:
    """Return the entities that are in one fact only, where nearly all are in more."""
    entity = ~facts.valued[facts.relation]
    ends = np.concatenate([facts.head, facts.tail[entity & (facts.head != facts.tail)]])
    degree = np.bincount(ends, minlength=facts.graph.num_entities)
    alone, present = degree == 1, int((degree > 0).sum())
    linked = present - int(alone.sum())
    score = float(regular(linked, present - 1))
    if not strong(linked, present - 1):
        return listed("single", [], [])
    rows = np.flatnonzero(alone[facts.head] | (alone[facts.tail] & entity))
    names = facts.names(rows)
    lonely = np.where(alone[facts.head[rows]], facts.head[rows], facts.tail[rows])
    others = facts.graph.entities.labels.take(pa.array(lonely))
    sentences = [
        f"{facts.short(name)} is in no other fact; {linked:,} of the {present:,} "
        "entities are in more than one."
        for name in others.to_pylist()
    ]
    return listed("single", [score] * len(rows), sentences, **names, other=others)
