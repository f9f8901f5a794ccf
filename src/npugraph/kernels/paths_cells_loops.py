"""The loops of :mod:`npugraph.kernels.paths_cells`, as numba compiles them.

Each question is worked on by itself. A table of all nodes says which of its cells each one is. Only
the edges that are there are given, sorted by target: those of node v are begin[v] to begin[v + 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npugraph.kernels.paths_reference import LEAST_VARIANCE


def reach(
    first: int,
    last: int,
    start: Any,
    begin: Any,
    target: Any,
    there: Any,
    found: Any,
    within: Any,
) -> None:
    """Write the nodes that the questions first..last reach, in the order of their discovery.

    Args:
        first: a question.
        last: the one after the last.
        start: where questions start, [B].
        begin: where the edges of each node as a source begin, [N + 1].
        target: where they end, sorted by source, [E].
        there: whether they are there, [E].
        found: where to write nodes, [B, N].
        within: where to write how many are reached within 0, 1, ... steps, [steps + 1, B].
    """
    seen = np.zeros(len(begin) - 1, np.bool_)
    for q in range(first, last):
        found[q, 0] = start[q]
        seen[start[q]] = True
        within[0, q] = count = 1
        done = 0
        for step in range(1, len(within)):
            end = count
            for i in range(done, end):
                u = found[q, i]
                for e in range(begin[u], begin[u + 1]):
                    v = target[e]
                    if there[e] and not seen[v]:
                        seen[v] = True
                        found[q, count] = v
                        count += 1
            done = end
            within[step, q] = count
        for i in range(count):
            seen[found[q, i]] = False


def number(
    first: int, last: int, found: Any, within: Any, place: Any, node: Any, question: Any
) -> None:
    """Write node and question of each cell: those of step s and question q from place[s, q] on."""
    for q in range(first, last):
        done = 0
        for step in range(len(within)):
            at = place[step, q] - done
            for i in range(done, within[step, q]):
                node[at + i] = found[q, i]
                question[at + i] = q
            done = within[step, q]


def forward(
    first: int,
    last: int,
    steps: int,
    states: Any,
    relations: Any,
    query: Any,
    start: Any,
    inverse: Any,
    begin: Any,
    source: Any,
    relation: Any,
    weight: Any,
    node: Any,
    place: Any,
    within: Any,
    out: Any,
    winners: Any,
) -> None:
    """Write features and winners of the cells within ``steps`` of the questions first..last."""
    d = query.shape[1]
    # Of one cell: sum, sum of squares, largest, smallest, the numbers of these two.
    sums = np.empty(6 * d, states.dtype)
    cell = np.full(len(inverse), -1, np.int64)
    for q in range(first, last):
        _mark(q, steps, node, place, within, True, cell)
        for step in range(steps + 1):
            c0 = place[step, q]
            for c in range(c0, c0 + _fresh(step, q, within)):
                v = node[c]
                _begin(v == start[q], q, query, sums)
                for e in range(begin[v], begin[v + 1]):
                    p = cell[source[e]]
                    if p >= 0:
                        _take(states, relations, p, relation[e], q, weight[e], e - begin[v], sums)
                    elif v == start[q]:
                        _take_nothing(e - begin[v], d, sums)
                _write(sums, inverse[v], c, out)
                for j in range(d):
                    winners[0, c, j] = sums[4 * d + j]
                    winners[1, c, j] = sums[5 * d + j]
        _mark(q, steps, node, place, within, False, cell)


def _fresh(step: int, q: int, within: Any) -> Any:
    """Return how many cells of a question are reached by a step and not before."""
    return within[step, q] - (within[step - 1, q] if step > 0 else 0)


def _mark(q: int, steps: int, node: Any, place: Any, within: Any, on: bool, cell: Any) -> None:
    """Let ``cell`` say, or no longer, which cell of a question a node is.

    Cells that are reached in fewer than ``steps`` steps are meant: they had a state before.
    """
    for step in range(steps):
        c0 = place[step, q]
        for c in range(c0, c0 + _fresh(step, q, within)):
            cell[node[c]] = c if on else -1


def _begin(at_start: bool, q: int, query: Any, sums: Any) -> None:
    """Let a cell have gathered its boundary message only."""
    d = query.shape[1]
    for j in range(d):
        boundary = query[q, j] if at_start else sums.dtype.type(0)
        sums[j] = boundary
        sums[d + j] = boundary * boundary
        sums[2 * d + j] = boundary
        sums[3 * d + j] = boundary
        sums[4 * d + j] = -1
        sums[5 * d + j] = -1


def _take(
    states: Any, relations: Any, p: int, t: int, q: int, w: Any, number: int, sums: Any
) -> None:
    """Let a cell gather the message of cell p along an edge of relation t."""
    d = relations.shape[2]
    n = sums.dtype.type(number)
    for j in range(d):
        m = states[p, j] * relations[t, q, j] * w
        sums[j] += m
        sums[d + j] += m * m
        high, deep = sums[2 * d + j], sums[3 * d + j]
        top, low = sums[4 * d + j], sums[5 * d + j]
        sums[2 * d + j] = m if m > high else high
        sums[3 * d + j] = m if m < deep else deep
        sums[4 * d + j] = n if m > high else top
        sums[5 * d + j] = n if m < deep else low


def _take_nothing(number: int, d: int, sums: Any) -> None:
    """Let a cell gather a message of 0."""
    zero = sums.dtype.type(0)
    for j in range(d):
        if sums[2 * d + j] < zero:
            sums[2 * d + j] = zero
            sums[4 * d + j] = number
        if sums[3 * d + j] > zero:
            sums[3 * d + j] = zero
            sums[5 * d + j] = number


def _write(sums: Any, share: Any, c: int, out: Any) -> None:
    """Write the features of one cell."""
    d = out.shape[2]
    least = sums.dtype.type(LEAST_VARIANCE)
    for j in range(d):
        mean = sums[j] * share
        out[c, 0, j] = mean
        out[c, 1, j] = sums[2 * d + j]
        out[c, 2, j] = sums[3 * d + j]
        out[c, 3, j] = np.sqrt(max(sums[d + j] * share - mean * mean, least))


def backward(
    first: int,
    last: int,
    steps: int,
    states: Any,
    relations: Any,
    query: Any,
    start: Any,
    inverse: Any,
    begin: Any,
    source: Any,
    relation: Any,
    weight: Any,
    node: Any,
    place: Any,
    within: Any,
    out: Any,
    winners: Any,
    slope: Any,
    to_states: Any,
    to_relations: Any,
    to_query: Any,
) -> None:
    """Add the gradients of the questions first..last; all begin as 0."""
    d = query.shape[1]
    # Of one cell: level and rise of a message's gradient, slopes of the extremes, their numbers.
    terms = np.empty(6 * d, states.dtype)
    cell = np.full(len(inverse), -1, np.int64)
    for q in range(first, last):
        _mark(q, steps, node, place, within, True, cell)
        for step in range(steps + 1):
            c0 = place[step, q]
            for c in range(c0, c0 + _fresh(step, q, within)):
                v = node[c]
                _level(slope, out, winners, c, inverse[v], terms)
                if v == start[q]:
                    _to_boundary(q, query, terms, to_query)
                for e in range(begin[v], begin[v + 1]):
                    p = cell[source[e]]
                    if p >= 0:
                        t, w, n = relation[e], weight[e], e - begin[v]
                        _pass_on(states, relations, p, t, q, w, n, terms, to_states, to_relations)
        _mark(q, steps, node, place, within, False, cell)


def _level(slope: Any, out: Any, winners: Any, c: int, share: Any, terms: Any) -> None:
    """Fill the terms of one cell: what the gradient of its messages is made of."""
    d = out.shape[2]
    zero = terms.dtype.type(0)
    # The least deviation, up to rounding: there it is constant.
    floor = terms.dtype.type(LEAST_VARIANCE**0.5 * 1.00001)
    for j in range(d):
        deviation = out[c, 3, j]
        rise = slope[c, 3, j] * share / deviation if deviation > floor else zero
        terms[j] = slope[c, 0, j] * share - rise * out[c, 0, j]
        terms[d + j] = rise
        terms[2 * d + j] = slope[c, 1, j]
        terms[3 * d + j] = slope[c, 2, j]
        terms[4 * d + j] = winners[0, c, j]
        terms[5 * d + j] = winners[1, c, j]


def _to_boundary(q: int, query: Any, terms: Any, to_query: Any) -> None:
    """Write the gradient of the boundary message of a question."""
    d = query.shape[1]
    zero = terms.dtype.type(0)
    for j in range(d):
        by = terms[j] + terms[d + j] * query[q, j]
        by += terms[2 * d + j] if terms[4 * d + j] < zero else zero
        by += terms[3 * d + j] if terms[5 * d + j] < zero else zero
        to_query[q, j] = by


def _pass_on(
    states: Any,
    relations: Any,
    p: int,
    t: int,
    q: int,
    w: Any,
    number: int,
    terms: Any,
    to_states: Any,
    to_relations: Any,
) -> None:
    """Add the gradients of a message to those of the state it comes from and its relation."""
    d = relations.shape[2]
    zero, n = terms.dtype.type(0), terms.dtype.type(number)
    for j in range(d):
        x, r = states[p, j], relations[t, q, j]
        by = terms[j] + terms[d + j] * (x * r * w)
        by += terms[2 * d + j] if terms[4 * d + j] == n else zero
        by += terms[3 * d + j] if terms[5 * d + j] == n else zero
        by *= w
        to_states[p, j] += by * r
        to_relations[t, q, j] += by * x


# What the others call, those that are called first.
PARTS = _fresh, _mark, _begin, _take, _take_nothing, _write, _level, _to_boundary, _pass_on
