"""The loops of :mod:`npugraph.kernels.cpu`, as numba compiles them; plain Python until then.

A loop works on a range of rows or columns, ``first`` to ``last``, and no two ranges write the same
number: it is called from a few threads at once, each with a range of its own, and results do not
depend on the number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# An odd number whose multiples differ in their high bits, to spread numbers over buckets.
SPREAD = -7046029254386353131


def perceptron_table(
    first: int, last: int, query: Any, columns: Any, weight: Any, out: Any, tile: int
) -> None:
    """out[i, e] = sum_k weight[k] relu(query[i, k] + columns[k, e]) for i in first..last."""
    units, entities = columns.shape
    zero = query.dtype.type(0)
    total = np.zeros(tile, query.dtype)
    for i in range(first, last):
        for start in range(0, entities, tile):
            width = min(tile, entities - start)
            total[:width] = zero
            for k in range(units):
                shift, factor, row = query[i, k], weight[k], columns[k, start : start + width]
                for e in range(width):
                    total[e] += factor * max(row[e] + shift, zero)
            out[i, start : start + width] = total[:width]


def gathered_forward(
    first: int, last: int, base: Any, table: Any, ids: Any, weight: Any, out: Any
) -> None:
    """out[i, k] = sum_m weight[i, m] relu(base[i, m] + table[ids[i, k], m])."""
    zero = base.dtype.type(0)
    for i in range(first, last):
        for k in range(ids.shape[1]):
            row = table[ids[i, k]]
            total = zero
            for m in range(base.shape[1]):
                total += weight[i, m] * max(base[i, m] + row[m], zero)
            out[i, k] = total


def gathered_backward(
    first: int,
    last: int,
    base: Any,
    table: Any,
    ids: Any,
    weight: Any,
    grad: Any,
    grad_base: Any,
    grad_table: Any,
    grad_weight: Any,
) -> None:
    """Add the gradients of :func:`gathered_forward` in the columns first..last.

    Ranges are of columns, not rows: a row of the table belongs to many facts.
    """
    width = last - first
    zero = base.dtype.type(0)
    to_base, to_weight = np.zeros(width, base.dtype), np.zeros(width, base.dtype)
    for i in range(ids.shape[0]):
        to_base[:] = zero
        to_weight[:] = zero
        own, factor = base[i, first:last], weight[i, first:last]
        for k in range(ids.shape[1]):
            slope = grad[i, k]
            row = table[ids[i, k], first:last]
            target = grad_table[ids[i, k], first:last]
            for m in range(width):
                hidden = own[m] + row[m]
                on = slope if hidden > zero else zero
                to_base[m] += on
                to_weight[m] += on * hidden
                target[m] += on * factor[m]
        for m in range(width):
            grad_base[i, first + m] = to_base[m] * factor[m]
            grad_weight[i, first + m] = to_weight[m]


def distance_table(
    first: int, last: int, points: Any, columns: Any, squared: int, out: Any, tile: int
) -> None:
    """out[i, e] = sum_k |points[i, k] - columns[k, e]|, or the root of the sum of squares."""
    width, entities = columns.shape
    zero = points.dtype.type(0)
    total = np.zeros(tile, points.dtype)
    for i in range(first, last):
        for start in range(0, entities, tile):
            count = min(tile, entities - start)
            total[:count] = zero
            for k in range(width):
                point, row = points[i, k], columns[k, start : start + count]
                if squared:
                    for e in range(count):
                        gap = row[e] - point
                        total[e] += gap * gap
                else:
                    for e in range(count):
                        total[e] += abs(row[e] - point)
            if squared:
                for e in range(count):
                    out[i, start + e] = np.sqrt(total[e])
            else:
                out[i, start : start + count] = total[:count]


def modulus_table(first: int, last: int, points: Any, columns: Any, out: Any, tile: int) -> None:
    """out[i, e] = sum_k |points[i, k] - columns[k, e]| of complex numbers in two halves."""
    half, entities = columns.shape[0] // 2, columns.shape[1]
    total = np.zeros(tile, points.dtype)
    for i in range(first, last):
        for start in range(0, entities, tile):
            count = min(tile, entities - start)
            total[:count] = points.dtype.type(0)
            for k in range(half):
                a, b = points[i, k], points[i, half + k]
                real = columns[k, start : start + count]
                imaginary = columns[half + k, start : start + count]
                for e in range(count):
                    x, y = real[e] - a, imaginary[e] - b
                    total[e] += np.sqrt(x * x + y * y)
            out[i, start : start + count] = total[:count]


def distance_forward(
    first: int, last: int, points: Any, entities: Any, share: int, squared: int, out: Any
) -> None:
    """out[i, k] = distance of points[i] and entities[i // share, k], by rows i."""
    for i in range(first, last):
        for k in range(entities.shape[1]):
            row = entities[i // share, k]
            total = points.dtype.type(0)
            if squared:
                for m in range(points.shape[1]):
                    gap = points[i, m] - row[m]
                    total += gap * gap
                out[i, k] = np.sqrt(total)
            else:
                for m in range(points.shape[1]):
                    total += abs(points[i, m] - row[m])
                out[i, k] = total


def distance_backward(
    first: int,
    last: int,
    points: Any,
    entities: Any,
    share: int,
    squared: int,
    slope: Any,
    grad_points: Any,
    grad_entities: Any,
) -> None:
    """Add the gradients in the columns first..last.

    ``slope`` is the gradient of each distance; for Euclidean ones already divided by the distance.
    """
    zero = points.dtype.type(0)
    for i in range(points.shape[0]):
        own, to_own = points[i, first:last], grad_points[i, first:last]
        for k in range(entities.shape[1]):
            scale = slope[i, k]
            row = entities[i // share, k, first:last]
            to_row = grad_entities[i // share, k, first:last]
            for m in range(last - first):
                gap = own[m] - row[m]
                if squared:
                    change = scale * gap
                else:
                    change = scale if gap > zero else (-scale if gap < zero else zero)
                to_own[m] += change
                to_row[m] -= change


def modulus_forward(
    first: int, last: int, points: Any, entities: Any, share: int, tiny: float, out: Any
) -> None:
    """As :func:`distance_forward`, with the sum of moduli of complex numbers in two halves."""
    half = points.shape[1] // 2
    small = points.dtype.type(tiny)
    for i in range(first, last):
        for k in range(entities.shape[1]):
            row = entities[i // share, k]
            total = points.dtype.type(0)
            for m in range(half):
                x, y = points[i, m] - row[m], points[i, half + m] - row[half + m]
                total += np.sqrt(x * x + y * y + small)
            out[i, k] = total


def modulus_backward(
    first: int,
    last: int,
    points: Any,
    entities: Any,
    share: int,
    tiny: float,
    slope: Any,
    grad_points: Any,
    grad_entities: Any,
) -> None:
    """Add the gradients of :func:`modulus_forward` for the complex columns first..last."""
    half = points.shape[1] // 2
    small = points.dtype.type(tiny)
    for i in range(points.shape[0]):
        a, b = points[i, first:last], points[i, half + first : half + last]
        to_a, to_b = grad_points[i, first:last], grad_points[i, half + first : half + last]
        for k in range(entities.shape[1]):
            scale, row, to_row = slope[i, k], entities[i // share, k], grad_entities[i // share, k]
            real, imaginary = row[first:last], row[half + first : half + last]
            to_real, to_imaginary = to_row[first:last], to_row[half + first : half + last]
            for m in range(last - first):
                x, y = a[m] - real[m], b[m] - imaginary[m]
                over = scale / np.sqrt(x * x + y * y + small)
                to_a[m] += over * x
                to_b[m] += over * y
                to_real[m] -= over * x
                to_imaginary[m] -= over * y


def answered(
    first: int, last: int, asked: Any, ids: Any, queries: Any, start: Any, count: Any, out: Any
) -> None:
    """Mark in out[i, k] that ids[g, k] answers asked[i], i in run g, for the runs first..last.

    The entity e answers queries[start[e] : start[e] + count[e]]. The queries that a run asks are
    put in buckets; those that its candidates answer are looked for there.
    """
    share = max(1, -(-len(asked) // len(ids)))
    size = 4
    while size < 2 * share:
        size *= 2
    bucket, after = np.empty(size, np.int64), np.empty(share, np.int64)
    for g in range(first, last):
        bucket[:] = -1
        for i in range(min(share, len(asked) - g * share)):
            place = (asked[g * share + i] * SPREAD >> 33) & (size - 1)
            after[i] = bucket[place]
            bucket[place] = i
        for k in range(ids.shape[1]):
            entity = ids[g, k]
            for n in range(start[entity], start[entity] + count[entity]):
                query = queries[n]
                i = bucket[(query * SPREAD >> 33) & (size - 1)]
                while i >= 0:
                    if asked[g * share + i] == query:
                        out[g * share + i, k] = True
                    i = after[i]
