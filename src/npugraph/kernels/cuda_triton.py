"""The Triton kernels of :mod:`npugraph.kernels.cuda`; importing them needs Triton."""

# A kernel is compiled from its text, in which types are those of pointers.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl


@triton.jit
def _gap(points, entities, row, group, place, here, k, inside, count, half):
    """Return the real and imaginary gaps [candidates, coordinates], and which of them exist."""
    origin = points + row.to(tl.int64) * 2 * half + k
    mask = here[:, None] & inside[None, :]
    other = entities + (group.to(tl.int64) * count + place)[:, None] * 2 * half + k[None, :]
    real = tl.load(other, mask, 0.0) - tl.load(origin, inside, 0.0)[None, :]
    imaginary = tl.load(other + half, mask, 0.0) - tl.load(origin + half, inside, 0.0)[None, :]
    return real, imaginary, mask


@triton.jit
def forward(points, entities, out, share, count, half, tiny, E: tl.constexpr, K: tl.constexpr):
    """Add up the lengths of the gaps, some coordinates at a time."""
    row = tl.program_id(0)
    place = tl.program_id(1) * E + tl.arange(0, E)
    here = place < count
    total = tl.zeros([E], tl.float32)
    for first in range(0, half, K):
        k = first + tl.arange(0, K)
        real, imaginary, mask = _gap(
            points, entities, row, row // share, place, here, k, k < half, count, half
        )
        length = tl.sqrt(real * real + imaginary * imaginary + tiny)
        total += tl.sum(tl.where(mask, length, 0.0), 1)
    tl.store(out + row.to(tl.int64) * count + place, total, here)


@triton.jit
def backward_points(
    points,
    entities,
    slope,
    to_points,
    to_entities,
    share,
    count,
    half,
    tiny,
    E: tl.constexpr,
    K: tl.constexpr,
    BOTH: tl.constexpr,
):
    """Add up a point's gradient over its candidates; with BOTH write theirs, too."""
    row = tl.program_id(0)
    k = tl.program_id(1) * K + tl.arange(0, K)
    inside = k < half
    real_sum = tl.zeros([K], tl.float32)
    imaginary_sum = tl.zeros([K], tl.float32)
    for first in range(0, count, E):
        place = first + tl.arange(0, E)
        here = place < count
        real, imaginary, mask = _gap(
            points, entities, row, row // share, place, here, k, inside, count, half
        )
        weight = tl.load(slope + row.to(tl.int64) * count + place, here, 0.0)[:, None]
        weight = weight / tl.sqrt(real * real + imaginary * imaginary + tiny)
        real = tl.where(mask, real * weight, 0.0)
        imaginary = tl.where(mask, imaginary * weight, 0.0)
        real_sum -= tl.sum(real, 0)
        imaginary_sum -= tl.sum(imaginary, 0)
        if BOTH:
            cell = (row.to(tl.int64) * count + place)[:, None] * 2 * half + k[None, :]
            tl.store(to_entities + cell, real, mask)
            tl.store(to_entities + cell + half, imaginary, mask)
    target = to_points + row.to(tl.int64) * 2 * half + k
    tl.store(target, real_sum, inside)
    tl.store(target + half, imaginary_sum, inside)


@triton.jit
def backward_entities(
    points,
    entities,
    slope,
    to_points,
    to_entities,
    share,
    count,
    half,
    tiny,
    E: tl.constexpr,
    K: tl.constexpr,
):
    """Add up the gradient of some candidates over the points that share them."""
    group = tl.program_id(0)
    place = tl.program_id(1) * E + tl.arange(0, E)
    here = place < count
    k = tl.program_id(2) * K + tl.arange(0, K)
    real_sum = tl.zeros([E, K], tl.float32)
    imaginary_sum = tl.zeros([E, K], tl.float32)
    for point in range(0, share):
        row = group * share + point
        real, imaginary, _ = _gap(
            points, entities, row, group, place, here, k, k < half, count, half
        )
        weight = tl.load(slope + row.to(tl.int64) * count + place, here, 0.0)[:, None]
        weight = weight / tl.sqrt(real * real + imaginary * imaginary + tiny)
        real_sum += real * weight
        imaginary_sum += imaginary * weight
    cell = (group.to(tl.int64) * count + place)[:, None] * 2 * half + k[None, :]
    mask = here[:, None] & (k < half)[None, :]
    tl.store(to_entities + cell, real_sum, mask)
    tl.store(to_entities + cell + half, imaginary_sum, mask)


@triton.jit
def perceptron_forward(
    base, table, ids, weight, out, count, width, E: tl.constexpr, K: tl.constexpr
):
    """Add up the weighted units that are on, some units at a time."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * E + tl.arange(0, E)
    here = place < count
    entity = tl.load(ids + row * count + place, here, 0)
    total = tl.zeros([E], tl.float32)
    for first in range(0, width, K):
        k = first + tl.arange(0, K)
        inside = k < width
        mask = here[:, None] & inside[None, :]
        hidden = tl.load(table + entity[:, None] * width + k[None, :], mask, 0.0)
        hidden += tl.load(base + row * width + k, inside, 0.0)[None, :]
        factor = tl.load(weight + row * width + k, inside, 0.0)
        total += tl.sum(tl.maximum(hidden, 0.0) * factor[None, :], 1)
    tl.store(out + row * count + place, total, here)


@triton.jit
def perceptron_backward(
    base,
    table,
    ids,
    weight,
    slope,
    to_base,
    to_table,
    to_weight,
    count,
    width,
    E: tl.constexpr,
    K: tl.constexpr,
):
    """Add up the gradients of some units over a fact's candidates; make the units again."""
    row = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * K + tl.arange(0, K)
    inside = k < width
    start = tl.load(base + row * width + k, inside, 0.0)[None, :]
    factor = tl.load(weight + row * width + k, inside, 0.0)[None, :]
    base_sum = tl.zeros([K], tl.float32)
    weight_sum = tl.zeros([K], tl.float32)
    for first in range(0, count, E):
        place = first + tl.arange(0, E)
        here = place < count
        mask = here[:, None] & inside[None, :]
        entity = tl.load(ids + row * count + place, here, 0)
        cell = entity[:, None] * width + k[None, :]
        hidden = tl.maximum(tl.load(table + cell, mask, 0.0) + start, 0.0)
        by = tl.load(slope + row * count + place, here, 0.0)[:, None]
        weight_sum += tl.sum(hidden * by, 0)
        # Where the unit is off it passes nothing on.
        passed = tl.where(hidden > 0, factor * by, 0.0)
        base_sum += tl.sum(passed, 0)
        tl.atomic_add(to_table + cell, passed, mask)
    tl.store(to_base + row * width + k, base_sum, inside)
    tl.store(to_weight + row * width + k, weight_sum, inside)
