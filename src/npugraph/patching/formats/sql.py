"""Decisions as SQL for a table of facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from npugraph.errors import DataError
from npugraph.patching.formats.common import Text
from npugraph.patching.patch import Decision, Fact

Dialect = Literal["standard", "mysql"]


def sql_changes(
    decisions: Sequence[Decision],
    table: str = "facts",
    columns: Sequence[str] = Fact._fields,
    dialect: Dialect = "standard",
) -> Text:
    """Return one transaction that changes the rows of decided facts.

    Args:
        decisions: what was decided.
        table: the name of the table; a dot stands between a schema and a table.
        columns: those of head, relation and tail.
        dialect: standard SQL (PostgreSQL, SQLite, DuckDB, ...), or MySQL and MariaDB, where a
            backslash in a text must be doubled.

    >>> print(sql_changes([Decision("remove", Fact("O'Hara", "r", "b"))]).text, end="")
    BEGIN;
    DELETE FROM "facts" WHERE "head" = 'O''Hara' AND "relation" = 'r' AND "tail" = 'b';
    COMMIT;
    """
    if len(columns) != len(Fact._fields):
        raise DataError(f"Name three columns (head, relation, tail), not {len(columns)}.")
    place = ".".join(_named(part, dialect) for part in table.split("."))
    names = [_named(column, dialect) for column in columns]

    def pairs(fact: Fact, between: str) -> str:
        quoted = (quoted_text(name, dialect) for name in fact)
        return between.join(f"{c} = {v}" for c, v in zip(names, quoted, strict=True))

    lines = []
    for one in decisions:
        if one.change == "add":
            values = ", ".join(quoted_text(name, dialect) for name in one.fact)
            lines.append(f"INSERT INTO {place} ({', '.join(names)}) VALUES ({values});\n")
            continue
        where = pairs(one.fact, " AND ")
        if one.new is None:
            lines.append(f"DELETE FROM {place} WHERE {where};\n")
        else:
            lines.append(f"UPDATE {place} SET {pairs(one.new, ', ')} WHERE {where};\n")
    begin = "START TRANSACTION;\n" if dialect == "mysql" else "BEGIN;\n"
    return Text("".join([begin, *lines, "COMMIT;\n"]))


def quoted_text(name: str, dialect: Dialect) -> str:
    r"""Return a name as a text of SQL, which nothing in the name can end.

    >>> quoted_text("a'b\\", "standard"), quoted_text("a'b\\", "mysql")
    ("'a''b\\'", "'a''b\\\\'")
    """
    if "\0" in name:
        raise DataError(f"The name {name!r} holds a null character, which SQL cannot express.")
    text = name.replace("\\", "\\\\") if dialect == "mysql" else name
    return "'" + text.replace("'", "''") + "'"


def _named(name: str, dialect: Dialect) -> str:
    """Return the name of a table or a column, quoted."""
    if not name or "\0" in name:
        raise DataError(f"{name!r} cannot be the name of a table or a column.")
    mark = "`" if dialect == "mysql" else '"'
    return mark + name.replace(mark, 2 * mark) + mark
