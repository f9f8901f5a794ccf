"""The loops of :mod:`npugraph.kernels.paths_cpu`, as numba compiles them; plain Python until then.

What a node gathers lies in one array, in stretches of LANES numbers, winners among them: the more
arrays a loop has, the less sure is the compiler that what it writes is apart from what it reads,
and then it makes no vectors. Loops over columns always have LANES steps, which is worth more than
the columns that are left empty. Only the edges that are there are given, sorted by target: those
of node v are begin[v] to begin[v + 1].
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
    own_states = np.zeros((len(states), LANES), states.dtype)
    own_relations = np.zeros((len(relations), LANES), states.dtype)
    for q0 in range(first, last, max(1, LANES // d)):
        q1 = min(q0 + max(1, LANES // d), last)
        c0, width = q0 * d, (q1 - q0) * d
        # Rows that are far apart by a power of two would push each other out of the cache.
        own_states[:, :width] = states[:, c0 : c0 + width]
        own_relations[:, :width] = relations[:, c0 : c0 + width]
        for v in range(len(inverse)):
            _begin(v, q0, start[q0:q1], query, sums)
            end = begin[v + 1]
            for e in range(begin[v], end - 1, 2):
                x0, r0 = own_states[source[e]], own_relations[relation[e]]
                x1, r1 = own_states[source[e + 1]], own_relations[relation[e + 1]]
                _take_two(x0, r0, x1, r1, weight[e], weight[e + 1], number[e], number[e + 1], sums)
            if (end - begin[v]) % 2:
                x, r = own_states[source[end - 1]], own_relations[relation[end - 1]]
                _take(x, r, weight[end - 1], number[end - 1], sums)
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


def _take(x: Any, r: Any, w: Any, n: Any, sums: Any) -> None:
    """Let a node gather the message of edge n."""
    for j in range(LANES):
        m = x[j] * r[j] * w
        sums[j] += m
        sums[LANES + j] += m * m
        high, deep = sums[2 * LANES + j], sums[3 * LANES + j]
        top, low = sums[4 * LANES + j], sums[5 * LANES + j]
        sums[2 * LANES + j] = m if m > high else high
        sums[3 * LANES + j] = m if m < deep else deep
        sums[4 * LANES + j] = n if m > high else top
        sums[5 * LANES + j] = n if m < deep else low


def _take_two(
    x0: Any, r0: Any, x1: Any, r1: Any, w0: Any, w1: Any, n0: Any, n1: Any, sums: Any
) -> None:
    """Let a node gather the messages of edges n0 and n1, the first one first."""
    for j in range(LANES):
        a = x0[j] * r0[j] * w0
        b = x1[j] * r1[j] * w1
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
    own_states = np.zeros((len(states), LANES), states.dtype)
    own_relations = np.zeros((len(relations), LANES), states.dtype)
    states_sum, relations_sum = np.empty_like(own_states), np.empty_like(own_relations)
    for q0 in range(first, last, max(1, LANES // d)):
        q1 = min(q0 + max(1, LANES // d), last)
        c0, width = q0 * d, (q1 - q0) * d
        own_states[:, :width] = states[:, c0 : c0 + width]
        own_relations[:, :width] = relations[:, c0 : c0 + width]
        states_sum[:] = 0
        relations_sum[:] = 0
        for v in range(len(inverse)):
            terms[4 * LANES : 4 * LANES + width] = winners[0, v, c0 : c0 + width]
            terms[5 * LANES : 5 * LANES + width] = winners[1, v, c0 : c0 + width]
            _level(slope[v, q0:q1], out[v, q0:q1], inverse[v], terms)
            _to_boundary(v, q0, start[q0:q1], query, terms, to_query)
            for e in range(begin[v], begin[v + 1]):
                u, t = source[e], relation[e]
                x, r, to_x, to_r = own_states[u], own_relations[t], states_sum[u], relations_sum[t]
                _pass_on(x, r, weight[e], number[e], terms, to_x, to_r)
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


def _pass_on(x: Any, r: Any, w: Any, n: Any, terms: Any, to_x: Any, to_r: Any) -> None:
    """Add the gradients of edge n to those of its source's state and its relation."""
    zero = terms.dtype.type(0)
    for j in range(LANES):
        by = terms[j] + terms[LANES + j] * (x[j] * r[j] * w)
        by += terms[2 * LANES + j] if terms[4 * LANES + j] == n else zero
        by += terms[3 * LANES + j] if terms[5 * LANES + j] == n else zero
        by *= w
        to_x[j] += by * r[j]
        to_r[j] += by * x[j]


# What :func:`forward` and :func:`backward` call.
PARTS = _begin, _take, _take_two, _write, _level, _to_boundary, _pass_on
