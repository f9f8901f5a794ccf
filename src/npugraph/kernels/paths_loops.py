"""The loops of :mod:`npugraph.kernels.paths_cpu`, as numba compiles them; plain Python until then.

What a node gathers lies in one array, in stretches of LANES numbers, winners among them: the more
arrays a loop has, the less sure is the compiler that what it writes is apart from what it reads,
and then it makes no vectors. Loops over columns always have LANES steps, which is worth more than
the columns that are left empty, and take no views of rows, which would have to be counted. Only the
edges that are there are given, sorted by target: those of node v are begin[v] to begin[v + 1].
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
    inverse: Any,
    begin: Any,
    source: Any,
    relation: Any,
    weight: Any,
    number: Any,
    out: Any,
    winners: Any,
) -> None:
    """Write features and winners of the questions first..last."""
    d = query.shape[1]
    # Of one node: sum, sum of squares, largest, smallest, the numbers of these two.
    sums = np.empty(6 * LANES, states.dtype)
    x = np.zeros((len(states), LANES), states.dtype)
    r = np.zeros((len(relations), LANES), states.dtype)
    for q0 in range(first, last, max(1, LANES // d)):
        q1 = min(q0 + max(1, LANES // d), last)
        c0, width = q0 * d, (q1 - q0) * d
        # Rows that are far apart by a power of two would push each other out of the cache.
        x[:, :width] = states[:, c0 : c0 + width]
        r[:, :width] = relations[:, c0 : c0 + width]
        for v in range(len(inverse)):
            _begin(v, q0, start[q0:q1], query, sums)
            end = begin[v + 1]
            for e in range(begin[v], end - 1, 2):
                _take_two(x, r, e, source, relation, weight, number, sums)
            if (end - begin[v]) % 2:
                _take(x, r, end - 1, source, relation, weight, number, sums)
            _write(sums, inverse[v], out[v, q0:q1])
            winners[0, v, c0 : c0 + width] = sums[4 * LANES : 4 * LANES + width]
            winners[1, v, c0 : c0 + width] = sums[5 * LANES : 5 * LANES + width]


def _begin(v: int, q0: int, start: Any, query: Any, sums: Any) -> None:
    """Let a node have gathered its boundary message only."""
    sums[: 4 * LANES] = 0
    sums[4 * LANES :] = -1
    d = query.shape[1]
    for q in range(len(start)):
        if start[q] == v:
            for k in range(d):
                boundary = query[q0 + q, k]
                sums[q * d + k] = boundary
                sums[LANES + q * d + k] = boundary * boundary
                sums[2 * LANES + q * d + k] = boundary
                sums[3 * LANES + q * d + k] = boundary


def _take(
    x: Any, r: Any, e: int, source: Any, relation: Any, weight: Any, number: Any, sums: Any
) -> None:
    """Let a node gather the message of edge e."""
    u, t, w, n = source[e], relation[e], weight[e], number[e]
    for j in range(LANES):
        m = x[u, j] * r[t, j] * w
        sums[j] += m
        sums[LANES + j] += m * m
        high, deep = sums[2 * LANES + j], sums[3 * LANES + j]
        top, low = sums[4 * LANES + j], sums[5 * LANES + j]
        sums[2 * LANES + j] = m if m > high else high
        sums[3 * LANES + j] = m if m < deep else deep
        sums[4 * LANES + j] = n if m > high else top
        sums[5 * LANES + j] = n if m < deep else low


def _take_two(
    x: Any, r: Any, e: int, source: Any, relation: Any, weight: Any, number: Any, sums: Any
) -> None:
    """Let a node gather the messages of edge e and the next, the first one first."""
    u0, t0, w0, n0 = source[e], relation[e], weight[e], number[e]
    u1, t1, w1, n1 = source[e + 1], relation[e + 1], weight[e + 1], number[e + 1]
    for j in range(LANES):
        a = x[u0, j] * r[t0, j] * w0
        b = x[u1, j] * r[t1, j] * w1
        sums[j] += a + b
        sums[LANES + j] += a * a + b * b
        high, deep = sums[2 * LANES + j], sums[3 * LANES + j]
        top, low = sums[4 * LANES + j], sums[5 * LANES + j]
        top = n0 if a > high else top
        high = a if a > high else high
        low = n0 if a < deep else low
        deep = a if a < deep else deep
        sums[2 * LANES + j] = b if b > high else high
        sums[3 * LANES + j] = b if b < deep else deep
        sums[4 * LANES + j] = n1 if b > high else top
        sums[5 * LANES + j] = n1 if b < deep else low


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
    inverse: Any,
    begin: Any,
    source: Any,
    relation: Any,
    weight: Any,
    number: Any,
    out: Any,
    winners: Any,
    slope: Any,
    to_states: Any,
    to_relations: Any,
    to_query: Any,
) -> None:
    """Write the gradients of the questions first..last."""
    d = query.shape[1]
    # Of one node: level and rise of a message's gradient, slopes of the extremes, their numbers.
    terms = np.zeros(6 * LANES, states.dtype)
    x = np.zeros((len(states), LANES), states.dtype)
    r = np.zeros((len(relations), LANES), states.dtype)
    to_x, to_r = np.empty_like(x), np.empty_like(r)
    for q0 in range(first, last, max(1, LANES // d)):
        q1 = min(q0 + max(1, LANES // d), last)
        c0, width = q0 * d, (q1 - q0) * d
        x[:, :width] = states[:, c0 : c0 + width]
        r[:, :width] = relations[:, c0 : c0 + width]
        to_x[:] = 0
        to_r[:] = 0
        for v in range(len(inverse)):
            terms[4 * LANES : 4 * LANES + width] = winners[0, v, c0 : c0 + width]
            terms[5 * LANES : 5 * LANES + width] = winners[1, v, c0 : c0 + width]
            _level(slope[v, q0:q1], out[v, q0:q1], inverse[v], terms)
            _to_boundary(v, q0, start[q0:q1], query, terms, to_query)
            for e in range(begin[v], begin[v + 1]):
                u, t, w, n = source[e], relation[e], weight[e], number[e]
                _pass_on(x, r, u, t, w, n, terms, to_x, to_r)
        to_states[:, c0 : c0 + width] = to_x[:, :width]
        to_relations[:, c0 : c0 + width] = to_r[:, :width]


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


def _to_boundary(v: int, q0: int, start: Any, query: Any, terms: Any, to_query: Any) -> None:
    """Write the gradient of the boundary message of the questions that start at a node."""
    d = query.shape[1]
    zero = terms.dtype.type(0)
    for q in range(len(start)):
        if start[q] == v:
            for j in range(q * d, (q + 1) * d):
                k = j - q * d
                by = terms[j] + terms[LANES + j] * query[q0 + q, k]
                by += terms[2 * LANES + j] if terms[4 * LANES + j] < zero else zero
                by += terms[3 * LANES + j] if terms[5 * LANES + j] < zero else zero
                to_query[q0 + q, k] = by


def _pass_on(
    x: Any, r: Any, u: int, t: int, w: Any, n: Any, terms: Any, to_x: Any, to_r: Any
) -> None:
    """Add the gradients of edge n to those of its source's state and its relation."""
    zero = terms.dtype.type(0)
    for j in range(LANES):
        by = terms[j] + terms[LANES + j] * (x[u, j] * r[t, j] * w)
        by += terms[2 * LANES + j] if terms[4 * LANES + j] == n else zero
        by += terms[3 * LANES + j] if terms[5 * LANES + j] == n else zero
        by *= w
        to_x[u, j] += by * r[t, j]
        to_r[t, j] += by * x[u, j]


# What :func:`forward` and :func:`backward` call.
PARTS = _begin, _take, _take_two, _write, _level, _to_boundary, _pass_on
