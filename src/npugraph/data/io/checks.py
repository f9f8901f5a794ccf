"""Check the columns of a table of facts; what is wrong is named by its line or its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from npugraph.data.io.encode import MORE
from npugraph.data.io.formats import ROLES
from npugraph.data.io.layout import ReadOptions, assign_roles, position
from npugraph.errors import DataError


def with_more(table: pa.Table, beside: Sequence[tuple[str, pa.ChunkedArray]]) -> pa.Table:
    """Add the further columns that were asked for."""
    for name, column in beside:
        table = table.append_column(name, column)
    return table


def check_fields(table: pa.Table, explain: Callable[[object], str]) -> pa.Table:
    """Check the fields of a table of strings and turn confidence and label into numbers."""
    columns: dict[str, pa.ChunkedArray] = {}
    for role in table.column_names:
        column = table[role]
        if role in ROLES[:3]:
            if pc.any(pc.equal(column, "")).as_py() or column.null_count:
                raise DataError(explain(f"an empty {role}"))
            columns[role] = column
            continue
        if role == "label" and pa.types.is_string(column.type):
            # An empty label: nobody has judged the fact yet.
            column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
        try:
            numbers = column.cast(pa.float64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(explain(error)) from None
        inside = pc.and_(pc.greater_equal(numbers, 0), pc.less_equal(numbers, 1))
        missing = numbers.null_count and role != "label"
        if missing or not pc.all(inside, min_count=0).as_py():
            raise DataError(explain(f"a {role} that is not a number in [0, 1]"))
        if (
            role == "label"
            and not pc.all(pc.equal(numbers, pc.round(numbers)), min_count=0).as_py()
        ):
            raise DataError(explain("a label that is neither 0 nor 1"))
        columns[role] = numbers
    return pa.table(columns)


def check_table(table: pa.Table, where: str, options: ReadOptions) -> pa.Table:
    """Return the columns head, relation, tail[, confidence][, label] of a table, checked.

    ``where`` is how error messages call the table.
    """
    names = table.column_names
    roles = assign_roles(where, Path(where), names, True, options.columns)
    return roles_and_more(table, where, {role: names[i] for role, i in roles.items()}, options)


def roles_and_more(
    table: pa.Table, where: str, roles: dict[str, str], options: ReadOptions, before: int = 0
) -> pa.Table:
    """Return the columns of a fact, checked, and those that are kept beside it.

    Args:
        table: with the columns that are named in ``roles`` and in the options.
        where: how error messages call it.
        roles: role -> name of its column.
        options: which columns to keep beside.
        before: rows of the same file that come before those of the table.
    """
    chosen = table.select(list(roles.values())).rename_columns(list(roles))
    names = table.column_names
    beside = [
        (MORE + name, table[names[position(Path(where), names, True, name)]])
        for name in options.beside
    ]
    return with_more(_check_columns(chosen, where, before), beside)


def _check_columns(table: pa.Table, where: str, before: int) -> pa.Table:
    strings = {role: _as_text(where, role, table[role]) for role in ROLES[:3]}
    strings |= {role: table[role] for role in table.column_names if role in ROLES[3:]}
    return check_fields(
        pa.table(strings), lambda error: f"{where}: {_first_bad_row(table, error, before)}"
    )


def _as_text(path: str, role: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise DataError(
            f"{path}: the {role} column of type {column.type} cannot be read as text ({error})."
        ) from None


def _first_bad_row(table: pa.Table, error: object, before: int) -> str:
    for number, row in enumerate(table.to_pylist(), before + 1):
        for role in ROLES[:3]:
            if row[role] is None or row[role] == "":
                return f"row {number} has an empty {role}."
        for role in ROLES[3:]:
            value = row.get(role, 0)
            if role == "label" and (value is None or value == ""):
                continue
            try:
                good = 0 <= float(value) <= 1 and (role != "label" or float(value) in (0, 1))
            except (TypeError, ValueError):
                good = False
            if not good:
                return f"row {number} has a {role} that is not in [0, 1]: {value!r}."
    return f"{error}."
