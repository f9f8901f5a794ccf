"""The loops of :mod:`npugraph.kernels.paths_cpu`, as numba compiles them; plain Python until then.

What a node gathers lies in one array of several stretches of LANES numbers, and the winners in
another: the compiler must see that what is written is apart from what is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npugraph.kernels.paths_reference import LEAST_VARIANCE

# Columns worked on at a time. What a node gathers of them stays in a core's first cache.
LANES = 128


def forward(
    first: int,
    last: int,
    states: Any,
    relations: Any,
    query: Any,
    start: Any,
    weight: Any,
    source: Any,
    relation: Any,
    begin: Any,
    alive: Any,
    inverse: Any,
    out: Any,
    winners: Any,
) -> None:
    """Write features and winners of the questions first..last."""
    d = query.shape[1]
    # Of one node: sum, sum of squares, largest, smallest; the winners.
    sums, won = np.empty(4 * LANES, states.dtype), np.empty(2 * LANES, np.int32)
    own_states = np.empty((len(states), LANES), states.dtype)
    own_relations = np.empty((len(relations), LANES), states.dtype)
    for q0 in range(first, last, max(1, LANES // d)):
        q1 = min(q0 + max(1, LANES // d), last)
        c0, width = q0 * d, (q1 - q0) * d
        # Rows that are far apart by a power of two would push each other out of the cache.
        own_states[:, :width] = states[:, c0 : c0 + width]
        own_relations[:, :width] = relations[:, c0 : c0 + width]
        for v in range(len(inverse)):
            _begin(v, q0, start[q0:q1], query, sums, won)
            for e in range(begin[v], begin[v + 1]):
                # Messages of 0 change nothing but beside a boundary that is not 0.
                if weight[e] > 0 and (alive[source[e]] or alive[v]):
                    x, r = own_states[source[e]], own_relations[relation[e]]
                    _take(x, r, weight[e], np.int32(e), width, sums, won)
            _write(sums, inverse[v], out[v, q0:q1])
            winners[0, v, c0 : c0 + width] = won[:width]
            winners[1, v, c0 : c0 + width] = won[LANES : LANES + width]


def _begin(v: int, q0: int, start: Any, query: Any, sums: Any, won: Any) -> None:
    """Let a node have gathered its boundary message only."""
    sums[:] = 0
    won[:] = -1
    d = query.shape[1]
    for q in range(len(start)):
        if start[q] == v:
            for k in range(d):
                boundary = query[q0 + q, k]
                sums[q * d + k] = boundary
                sums[LANES + q * d + k] = boundary * boundary
                sums[2 * LANES + q * d + k] = boundary
                sums[3 * LANES + q * d + k] = boundary


def _take(x: Any, r: Any, w: Any, edge: Any, width: int, sums: Any, won: Any) -> None:
    """Let a node gather the message of one edge."""
    for j in range(width):
        m = x[j] * r[j] * w
        sums[j] += m
        sums[LANES + j] += m * m
        high, deep = sums[2 * LANES + j], sums[3 * LANES + j]
        top, low = won[j], won[LANES + j]
        sums[2 * LANES + j] = m if m > high else high
        sums[3 * LANES + j] = m if m < deep else deep
        won[j] = edge if m > high else top
        won[LANES + j] = edge if m < deep else low


def _write(sums: Any, share: Any, out: Any) -> None:
    """Write the features of one node."""
    questions, _, d = out.shape
    least = sums.dtype.type(LEAST_VARIANCE)
    for q in range(questions):
        for k in range(d):
            j = q * d + k
            mean = sums[j] * share
            out[q, 0, k] = mean
            out[q, 1, k] = sums[2 * LANES + j]
            out[q, 2, k] = sums[3 * LANES + j]
            out[q, 3, k] = np.sqrt(max(sums[LANES + j] * share - mean * mean, least))


def backward(
    first: int,
    last: int,
    states: Any,
    relations: Any,
    query: Any,
    start: Any,
    weight: Any,
    source: Any,
    relation: Any,
    begin: Any,
    alive: Any,
    inverse: Any,
    out: Any,
    winners: Any,
    slope: Any,
    to_states: Any,
    to_relations: Any,
    to_query: Any,
) -> None:
    """Write the gradients of the questions first..last."""
    d = query.shape[1]
    # Of one node: level and rise of a message's gradient, slopes of the extremes; then two
    # products of an edge; the winners.
    terms, won = np.empty(6 * LANES, states.dtype), np.empty(2 * LANES, np.int32)
    own_states = np.empty((len(states), LANES), states.dtype)
    own_relations = np.empty((len(relations), LANES), states.dtype)
    states_sum, relations_sum = np.empty_like(own_states), np.empty_like(own_relations)
    for q0 in range(first, last, max(1, LANES // d)):
        q1 = min(q0 + max(1, LANES // d), last)
        c0, width = q0 * d, (q1 - q0) * d
        own_states[:, :width] = states[:, c0 : c0 + width]
        own_relations[:, :width] = relations[:, c0 : c0 + width]
        states_sum[:] = 0
        relations_sum[:] = 0
        for v in range(len(inverse)):
            won[:width] = winners[0, v, c0 : c0 + width]
            won[LANES : LANES + width] = winners[1, v, c0 : c0 + width]
            _level(slope[v, q0:q1], out[v, q0:q1], inverse[v], terms)
            _to_boundary(v, q0, start[q0:q1], query, terms, won, to_query)
            for e in range(begin[v], begin[v + 1]):
                if weight[e] > 0 and alive[source[e]]:
                    u, t = source[e], relation[e]
                    _pass_on(own_states[u], own_relations[t], weight[e], e, width, terms, won)
                    _add(states_sum[u], terms[4 * LANES :], width)
                    _add(relations_sum[t], terms[5 * LANES :], width)
        to_states[:, c0 : c0 + width] = states_sum[:, :width]
        to_relations[:, c0 : c0 + width] = relations_sum[:, :width]


def _level(slope: Any, out: Any, share: Any, terms: Any) -> None:
    """Fill the terms of one node: what the gradient of its messages is made of."""
    questions, _, d = out.shape
    zero = terms.dtype.type(0)
    # The least deviation, up to rounding: there it is constant.
    floor = terms.dtype.type(LEAST_VARIANCE**0.5 * 1.00001)
    for q in range(questions):
        for k in range(d):
            j, deviation = q * d + k, out[q, 3, k]
            rise = slope[q, 3, k] * share / deviation if deviation > floor else zero
            terms[j] = slope[q, 0, k] * share - rise * out[q, 0, k]
            terms[LANES + j] = rise
            terms[2 * LANES + j] = slope[q, 1, k]
            terms[3 * LANES + j] = slope[q, 2, k]


def _to_boundary(
    v: int, q0: int, start: Any, query: Any, terms: Any, won: Any, to_query: Any
) -> None:
    """Write the gradient of the boundary message of the questions that start at a node."""
    d = query.shape[1]
    zero = terms.dtype.type(0)
    for q in range(len(start)):
        if start[q] == v:
            for j in range(q * d, (q + 1) * d):
                k = j - q * d
                by = terms[j] + terms[LANES + j] * query[q0 + q, k]
                by += terms[2 * LANES + j] if won[j] < 0 else zero
                by += terms[3 * LANES + j] if won[LANES + j] < 0 else zero
                to_query[q0 + q, k] = by


def _pass_on(x: Any, r: Any, w: Any, edge: int, width: int, terms: Any, won: Any) -> None:
    """Fill the terms of one edge: the gradients of its source's state and its relation."""
    number, zero = np.int32(edge), terms.dtype.type(0)
    for j in range(width):
        by = terms[j] + terms[LANES + j] * (x[j] * r[j] * w)
        by += terms[2 * LANES + j] if won[j] == number else zero
        by += terms[3 * LANES + j] if won[LANES + j] == number else zero
        terms[4 * LANES + j] = by * w * r[j]
        terms[5 * LANES + j] = by * w * x[j]


def _add(row: Any, term: Any, width: int) -> None:
    """Add a term to the first numbers of a row."""
    for j in range(width):
        row[j] += term[j]


# What :func:`forward` and :func:`backward` call.
PARTS = _begin, _take, _write, _level, _to_boundary, _pass_on, _add
