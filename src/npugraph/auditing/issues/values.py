"""Literal values: dates and numbers out of order, second values, values of another sort."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from scipy import sparse

from npugraph.arrays import Ints
from npugraph.auditing.issues.facts import Facts, listed, regular, strong
from npugraph.auditing.issues.literals import DATES, NUMBERS, TEXTS, Bools, Values
from npugraph.names import shorten

# An order counts where it is broken this many times less often than by chance.
LIFT = 5.0
SORTS = {DATES: "a date", NUMBERS: "a number"}


def second_values(facts: Facts) -> pa.Table:
    """Return further values of an entity, of relations that have one value per entity."""
    values = facts.values
    if values is None:
        return listed("second-value", [], [])
    rows, firsts = further_values(values)
    count = len(values.relations)
    groups = np.bincount(values.relation[np.unique(values.group)], minlength=count)
    single = groups - np.bincount(values.relation[np.unique(firsts)], minlength=count)
    score = regular(single, groups - 1)
    chosen = strong(single, groups - 1)[values.relation[rows]]
    rows, firsts = rows[chosen], firsts[chosen]
    names, other = values.names(rows), values.value.take(pa.array(firsts))
    sentences = [
        f"{single[r]:,} of the {groups[r] - 1:,} others that have {facts.short(name)} have one "
        f"value; {facts.short(entity)} also has {facts.short(value)}."
        for r, name, entity, value in zip(
            values.relation[rows].tolist(),
            names["relation"].to_pylist(),
            names["head"].to_pylist(),
            other.to_pylist(),
            strict=True,
        )
    ]
    return listed("second-value", score[values.relation[rows]], sentences, **names, other=other)


def further_values(values: Values) -> tuple[Ints, Ints]:
    """Return records that give an entity another value, and the first one: places [k] and [k].

    Texts in several languages are no second values, nor are a year and a day of that year.
    """
    first = values.group
    agrees = (values.low <= values.high[first]) & (values.low[first] <= values.high)
    rows = np.flatnonzero(~agrees & (first != np.arange(len(first))))
    return rows, first[rows]


def odd_values(facts: Facts) -> pa.Table:
    """Return values that are no date, or no number, where nearly all of the relation are."""
    values = facts.values
    if values is None:
        return listed("odd-value", [], [])
    total = np.bincount(values.relation, minlength=len(values.relations))
    sorted_ = (values.sort != TEXTS)[values.relation]
    odd = sorted_ & np.isnan(values.low)
    plain = total - np.bincount(values.relation[odd], minlength=len(total))
    score = regular(plain, total - 1)
    rows = np.flatnonzero(odd & strong(plain, total - 1)[values.relation])
    names = values.names(rows)
    sentences = [
        f"{plain[r]:,} of the {total[r] - 1:,} other values of {facts.short(name)} are "
        f"{SORTS[int(values.sort[r])]} each."
        for r, name in zip(
            values.relation[rows].tolist(), names["relation"].to_pylist(), strict=True
        )
    ]
    return listed("odd-value", score[values.relation[rows]], sentences, **names)


def out_of_order(facts: Facts) -> pa.Table:
    """Return values of one entity that stand the other way round than those of nearly all others.

    Two relations have an order where it is kept by nearly all entities, and broken much less
    often than if the values were dealt out anew: that a population is larger than an area is none.
    Where all dates of one are before all dates of the other, nothing can be learned so; then a date
    counts that has passed over all of the other relation.
    """
    values = facts.values
    empty = listed("order", [], [])
    if values is None:
        return empty
    table = _single_valued(values)
    has = (table > 0).astype(np.int64)
    common = (has.T @ has).tocoo()
    tables = []
    for a, b, cases in zip(*common.coords, common.data, strict=True):
        # Fewer cases cannot prove a regularity, even without an exception.
        if a != b and values.sort[a] == values.sort[b] and strong(cases, cases):
            tables.append(_broken_order(facts, values, table, int(a), int(b)))
    return pa.concat_tables([empty, *tables])


def _single_valued(values: Values) -> sparse.csc_array:
    """Return the record (its place + 1) of each entity and relation that have one value."""
    usable = np.flatnonzero(~np.isnan(values.low))
    count = len(values.relations)
    key, first, size = np.unique(
        values.entity[usable] * count + values.relation[usable],
        return_index=True,
        return_counts=True,
    )
    one = size == 1
    cells = (key[one] // count, key[one] % count)
    shape = (len(values.entities), count)
    return sparse.csc_array((usable[first[one]] + 1, cells), shape=shape)


def _broken_order(
    facts: Facts, values: Values, table: sparse.csc_array, a: int, b: int
) -> pa.Table:
    """Return the entities whose value of ``a`` is after that of ``b``, if that is exceptional."""
    left, right = (table[:, [k]].toarray().ravel() for k in (a, b))
    both = np.flatnonzero((left > 0) & (right > 0))
    left, right = left[both] - 1, right[both] - 1
    broken = values.low[left] > values.high[right]
    kept, cases = int((~broken).sum()), len(both) - 1
    score = float(regular(kept, cases))
    ordered = np.sort(values.high[right])
    chance = float(np.searchsorted(ordered, values.low[left], side="left").mean() / len(both))
    if chance < LIFT * (1 - score):
        broken = broken & _passed_over(values, left, right, broken)
    if not broken.any() or not strong(kept, cases):
        return listed("order", [], [])
    rows, others = left[broken], right[broken]
    names = values.names(rows)
    before, after = (facts.short(values.relations[k].as_py()) for k in (a, b))
    other_values = values.value.take(pa.array(others)).to_pylist()
    sentences = [
        f"{before} ({shorten(value, 30)}) is after {after} ({shorten(later, 30)}); of the "
        f"{cases:,} others that have both, {kept:,} have it before."
        for value, later in zip(names["tail"].to_pylist(), other_values, strict=True)
    ]
    other = [f"{values.relations[b].as_py()} {value}" for value in other_values]
    return listed("order", [score] * len(rows), sentences, **names, other=other)


def _passed_over(values: Values, left: Ints, right: Ints, broken: Bools) -> Bools:
    """Tell which pairs of dates [n] hold one beyond all dates of the other relation.

    None does where the two relations have dates of the same time in pairs that keep the order, or
    where they have no dates: numbers of unlike things may stand in any order.
    """
    before, after = values.low[left], values.high[right]
    kept = ~broken
    first, last = after[kept].min(initial=np.inf), after[kept].max(initial=-np.inf)
    dates = values.sort[values.relation[left[0]]] == DATES
    if not dates or before[kept].max(initial=-np.inf) > first:
        return np.zeros(len(left), bool)
    return np.asarray((before > last) | (after < before[kept].min(initial=np.inf)))
