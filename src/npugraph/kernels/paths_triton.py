"""The Triton kernels of :mod:`npugraph.kernels.paths_cuda`; importing them needs Triton.

A program works on one item, a range of at most 255 edges of one key (a target, a source or a
relation), and on BLOCK of the C = B d columns. Programs of one block of columns run one after the
other, so that the rows that edges share stay in the GPU's cache. Four edges are read at a time:
their loads do not wait for each other. Every column is added up by one program in the order of
the edges: results do not depend on the sizes of blocks.
"""

# A kernel is compiled from its text, in which types are those of pointers.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl

# The place of a winner that is no edge of the item.
NOBODY = tl.constexpr(255)


@triton.jit
def _message(k, last, c, here, begin, states, relations, weight, source, relation, C, START):
    """Return the message of edge k, 0 past the end, and whether it is there."""
    inside = k < last
    w = tl.broadcast_to(tl.load(weight + k, inside, 0.0), c.shape)
    u = tl.load(source + k, inside, 0)
    t = tl.load(relation + k, inside, 0)
    read = here & (w > 0)
    if START:
        read = read & (begin == u)
    x = tl.load(states + u.to(tl.int64) * C + c, read, 0.0).to(tl.float32)
    r = tl.load(relations + t.to(tl.int64) * C + c, read, 0.0).to(tl.float32)
    return x * r * w, w > 0


@triton.jit
def _take(m, there, place, total, square, largest, smallest, top, low):
    """Add a message to the sums and extremes."""
    up = there & (m > largest)
    down = there & (m < smallest)
    largest = tl.where(up, m, largest)
    smallest = tl.where(down, m, smallest)
    return (
        total + m,
        square + m * m,
        largest,
        smallest,
        tl.where(up, place, top),
        tl.where(down, place, low),
    )


@triton.jit
def _write_features(
    row, c, here, begin, total, square, largest, smallest, top, low, inverse, out, own, C, D
):
    """Write a node's four features, and at a start whether the boundary is an extreme."""
    count = tl.load(inverse + row)
    mean = total * count
    deviation = tl.sqrt(tl.maximum(square * count - mean * mean, 1e-6))
    kind = out.dtype.element_ty
    at = out + row.to(tl.int64) * 4 * C + (c // D) * (4 * D) + c % D
    tl.store(at, mean.to(kind), here)
    tl.store(at + D, largest.to(kind), here)
    tl.store(at + 2 * D, smallest.to(kind), here)
    tl.store(at + 3 * D, deviation.to(kind), here)
    starts = here & (begin == row)
    tl.store(own + c, (top == NOBODY).to(tl.uint8), starts)
    tl.store(own + C + c, (low == NOBODY).to(tl.uint8), starts)


@triton.jit
def forward(
    states,
    relations,
    weight,
    source,
    relation,
    firsts,
    lasts,
    rows,
    start,
    query,
    inverse,
    out,
    winners,
    own,
    parts,
    N,
    C,
    D: tl.constexpr,
    START: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Gather the messages of one item: the features of a node, or a part of a hub's."""
    item = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = c < C
    first = tl.load(firsts + item)
    last = tl.load(lasts + item)
    row = tl.load(rows + item)
    begin = tl.load(start + c // D, here, -1)
    whole = row < N
    boundary = tl.load(query + c, here & (begin == row), 0.0).to(tl.float32)
    total = boundary
    square = boundary * boundary
    # A part of a hub has no boundary message: what follows is the first to count.
    largest = tl.where(whole, boundary, -float("inf"))
    smallest = tl.where(whole, boundary, float("inf"))
    top = tl.full([BLOCK], NOBODY, tl.int32)
    low = tl.full([BLOCK], NOBODY, tl.int32)
    for k in range(first, last, 4):
        m0, t0 = _message(
            k, last, c, here, begin, states, relations, weight, source, relation, C, START
        )
        m1, t1 = _message(
            k + 1, last, c, here, begin, states, relations, weight, source, relation, C, START
        )
        m2, t2 = _message(
            k + 2, last, c, here, begin, states, relations, weight, source, relation, C, START
        )
        m3, t3 = _message(
            k + 3, last, c, here, begin, states, relations, weight, source, relation, C, START
        )
        at = k - first
        total, square, largest, smallest, top, low = _take(
            m0, t0, at, total, square, largest, smallest, top, low
        )
        total, square, largest, smallest, top, low = _take(
            m1, t1, at + 1, total, square, largest, smallest, top, low
        )
        total, square, largest, smallest, top, low = _take(
            m2, t2, at + 2, total, square, largest, smallest, top, low
        )
        total, square, largest, smallest, top, low = _take(
            m3, t3, at + 3, total, square, largest, smallest, top, low
        )
    tl.store(winners + row.to(tl.int64) * C + c, (low * 256 + top).to(tl.int16), here)
    if whole:
        _write_features(
            row, c, here, begin, total, square, largest, smallest, top, low, inverse, out, own, C, D
        )
    else:
        part = parts + (row - N).to(tl.int64) * 4 * C + c
        tl.store(part, total, here)
        tl.store(part + C, square, here)
        tl.store(part + 2 * C, largest, here)
        tl.store(part + 3 * C, smallest, here)


@triton.jit
def join_features(
    hubs,
    firsts,
    lasts,
    start,
    query,
    inverse,
    out,
    winners,
    own,
    parts,
    N,
    C,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Join the parts of one hub, and take the win from the parts that lost."""
    hub = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = c < C
    first = tl.load(firsts + hub)
    last = tl.load(lasts + hub)
    row = tl.load(hubs + hub)
    begin = tl.load(start + c // D, here, -1)
    boundary = tl.load(query + c, here & (begin == row), 0.0).to(tl.float32)
    total = boundary
    square = boundary * boundary
    largest = boundary
    smallest = boundary
    top_part = tl.full([BLOCK], -1, tl.int32)
    low_part = tl.full([BLOCK], -1, tl.int32)
    part = parts + first.to(tl.int64) * 4 * C + c
    for k in range(first, last):
        total += tl.load(part, here, 0.0)
        square += tl.load(part + C, here, 0.0)
        high = tl.load(part + 2 * C, here, 0.0)
        deep = tl.load(part + 3 * C, here, 0.0)
        up = high > largest
        down = deep < smallest
        largest = tl.where(up, high, largest)
        smallest = tl.where(down, deep, smallest)
        top_part = tl.where(up, k, top_part)
        low_part = tl.where(down, k, low_part)
        part += 4 * C
    at = winners + (N + first).to(tl.int64) * C + c
    for k in range(first, last):
        both = tl.load(at, here, 0).to(tl.int32)
        top = tl.where(top_part == k, both & 255, NOBODY)
        low = tl.where(low_part == k, (both >> 8) & 255, NOBODY)
        tl.store(at, (low * 256 + top).to(tl.int16), here)
        at += C
    top = tl.where(top_part < 0, NOBODY, 0)
    low = tl.where(low_part < 0, NOBODY, 0)
    _write_features(
        row, c, here, begin, total, square, largest, smallest, top, low, inverse, out, own, C, D
    )


@triton.jit
def coefficients(slope, out, inverse, level, rise, C, floor, D: tl.constexpr, BLOCK: tl.constexpr):
    """Write level and rise: by mean and deviation, message m has the gradient level + rise m."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = c < C
    at = row * 4 * C + (c // D) * (4 * D) + c % D
    count = tl.load(inverse + row)
    mean = tl.load(out + at, here, 0.0).to(tl.float32)
    deviation = tl.load(out + at + 3 * D, here, 1.0).to(tl.float32)
    by = tl.load(slope + at + 3 * D, here, 0.0).to(tl.float32) * count
    # At its least value a deviation is constant.
    by = tl.where(deviation > floor, by / deviation, 0.0)
    base = tl.load(slope + at, here, 0.0).to(tl.float32) * count - by * mean
    tl.store(level + row * C + c, base.to(level.dtype.element_ty), here)
    tl.store(rise + row * C + c, by.to(rise.dtype.element_ty), here)


@triton.jit
def _edge(
    k,
    last,
    c,
    lanes,
    relations,
    weight,
    target,
    relation,
    place,
    group,
    slope,
    level,
    rise,
    winners,
    C,
    D,
    EXTREMES,
):
    """Return the parts of the gradient of edge k's message, its relation's vector, its group."""
    inside = k < last
    w = tl.broadcast_to(tl.load(weight + k, inside, 0.0), c.shape)
    v = tl.load(target + k, inside, 0).to(tl.int64)
    t = tl.load(relation + k, inside, 0)
    end = tl.broadcast_to(tl.load(group + k, inside, -1), c.shape)
    read = lanes & (w > 0)
    r = tl.load(relations + t.to(tl.int64) * C + c, read, 0.0).to(tl.float32)
    a = tl.load(level + v * C + c, read, 0.0).to(tl.float32)
    b = tl.load(rise + v * C + c, read, 0.0).to(tl.float32)
    if EXTREMES:
        at = tl.load(place + k, inside, 0)
        both = tl.load(winners + (at >> 8).to(tl.int64) * C + c, read, -1).to(tl.int32)
        spot = at & 255
        from_slope = slope + v * 4 * C + (c // D) * (4 * D) + c % D
        # Few columns have this edge as their winner: the others load nothing.
        a += tl.load(from_slope + D, read & ((both & 255) == spot), 0.0).to(tl.float32)
        a += tl.load(from_slope + 2 * D, read & (((both >> 8) & 255) == spot), 0.0).to(tl.float32)
    return w, a, b, r, end


@triton.jit
def _pass_on(w, a, b, r, end, x, lanes, total, grouped, groups, c, C):
    """Add an edge's gradient to its source's and its group's; write a group that ends."""
    by = w * (a + b * (x * r * w))
    total += by * r
    grouped += by
    ends = end >= 0
    at = groups + end.to(tl.int64) * C + c
    tl.store(at, grouped.to(groups.dtype.element_ty), lanes & ends)
    return total, tl.where(ends, 0.0, grouped)


@triton.jit
def by_source(
    states,
    relations,
    weight,
    target,
    relation,
    place,
    group,
    firsts,
    lasts,
    rows,
    owners,
    start,
    slope,
    level,
    rise,
    winners,
    groups,
    to_states,
    parts,
    N,
    C,
    D: tl.constexpr,
    START: tl.constexpr,
    EXTREMES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the gradient of a source's state; keep that of each of its relations' messages."""
    item = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    lanes = c < C
    here = lanes
    first = tl.load(firsts + item)
    last = tl.load(lasts + item)
    row = tl.load(rows + item)
    owner = tl.load(owners + item)
    if START:
        lanes = lanes & (tl.load(start + c // D, lanes, -1) == owner)
        last = first + (last - first) * tl.max(lanes.to(tl.int32), 0)
    x = tl.load(states + owner.to(tl.int64) * C + c, lanes, 0.0).to(tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    grouped = tl.zeros([BLOCK], tl.float32)
    for k in range(first, last, 4):
        w0, a0, b0, r0, e0 = _edge(
            k, last, c, lanes, relations, weight, target, relation, place, group, slope, level,
            rise, winners, C, D, EXTREMES,
        )  # fmt: skip
        w1, a1, b1, r1, e1 = _edge(
            k + 1, last, c, lanes, relations, weight, target, relation, place, group, slope, level,
            rise, winners, C, D, EXTREMES,
        )  # fmt: skip
        w2, a2, b2, r2, e2 = _edge(
            k + 2, last, c, lanes, relations, weight, target, relation, place, group, slope, level,
            rise, winners, C, D, EXTREMES,
        )  # fmt: skip
        w3, a3, b3, r3, e3 = _edge(
            k + 3, last, c, lanes, relations, weight, target, relation, place, group, slope, level,
            rise, winners, C, D, EXTREMES,
        )  # fmt: skip
        total, grouped = _pass_on(w0, a0, b0, r0, e0, x, lanes, total, grouped, groups, c, C)
        total, grouped = _pass_on(w1, a1, b1, r1, e1, x, lanes, total, grouped, groups, c, C)
        total, grouped = _pass_on(w2, a2, b2, r2, e2, x, lanes, total, grouped, groups, c, C)
        total, grouped = _pass_on(w3, a3, b3, r3, e3, x, lanes, total, grouped, groups, c, C)
    if row < N:
        at = to_states + row.to(tl.int64) * C + c
        tl.store(at, total.to(to_states.dtype.element_ty), here)
    else:
        tl.store(parts + (row - N).to(tl.int64) * C + c, total, here)


@triton.jit
def by_relation(
    states,
    groups,
    number,
    source,
    firsts,
    lasts,
    rows,
    start,
    to_relations,
    parts,
    R,
    C,
    D: tl.constexpr,
    START: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the gradient of a relation's vectors over the groups of its edges."""
    item = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = c < C
    first = tl.load(firsts + item)
    last = tl.load(lasts + item)
    row = tl.load(rows + item)
    begin = tl.load(start + c // D, here, -1)
    total = tl.zeros([BLOCK], tl.float32)
    for k in range(first, last, 4):
        for step in tl.static_range(4):
            inside = k + step < last
            u = tl.broadcast_to(tl.load(source + k + step, inside, -1), c.shape)
            g = tl.load(number + k + step, inside, 0).to(tl.int64)
            read = here & (u >= 0)
            if START:
                read = read & (begin == u)
            x = tl.load(states + u.to(tl.int64) * C + c, read, 0.0).to(tl.float32)
            total += tl.load(groups + g * C + c, read, 0.0).to(tl.float32) * x
    if row < R:
        at = to_relations + row.to(tl.int64) * C + c
        tl.store(at, total.to(to_relations.dtype.element_ty), here)
    else:
        tl.store(parts + (row - R).to(tl.int64) * C + c, total, here)


@triton.jit
def join_gradients(hubs, firsts, lasts, out, parts, C, BLOCK: tl.constexpr):
    """Add up the parts of one hub's gradient."""
    hub = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = c < C
    total = tl.zeros([BLOCK], tl.float32)
    first = tl.load(firsts + hub)
    part = parts + first.to(tl.int64) * C + c
    for _ in range(first, tl.load(lasts + hub)):
        total += tl.load(part, here, 0.0)
        part += C
    at = out + tl.load(hubs + hub).to(tl.int64) * C + c
    tl.store(at, total.to(out.dtype.element_ty), here)


@triton.jit
def scatter_extremes(
    states,
    relations,
    weight,
    source,
    relation,
    firsts,
    rows,
    owners,
    start,
    slope,
    winners,
    to_states,
    to_relations,
    C,
    D: tl.constexpr,
    START: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the gradients of the extremes where they belong, as they come."""
    item = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = c < C
    first = tl.load(firsts + item)
    row = tl.load(rows + item).to(tl.int64)
    owner = tl.load(owners + item).to(tl.int64)
    begin = tl.load(start + c // D, here, -1)
    both = tl.load(winners + row * C + c, here, -1).to(tl.int32)
    for side in tl.static_range(2):
        spot = (both >> (8 * side)) & 255
        won = here & (spot != NOBODY)
        edge = first + spot
        u = tl.load(source + edge, won, 0)
        if START:
            won = won & (begin == u)
        t = tl.load(relation + edge, won, 0).to(tl.int64)
        at = owner * 4 * C + (c // D) * (4 * D) + c % D + (side + 1) * D
        by = tl.load(slope + at, won, 0.0).to(tl.float32) * tl.load(weight + edge, won, 0.0)
        at_state = u.to(tl.int64) * C + c
        x = tl.load(states + at_state, won, 0.0).to(tl.float32)
        r = tl.load(relations + t * C + c, won, 0.0).to(tl.float32)
        tl.atomic_add(to_states + at_state, by * r, won, sem="relaxed")
        tl.atomic_add(to_relations + t * C + c, by * x, won, sem="relaxed")
