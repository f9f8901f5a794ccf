"""What the user says about a graph: types of entities, rules in TOML, SHACL shapes."""

from __future__ import annotations

import dataclasses
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from npugraph.data.io import TEXT, split_suffixes
from npugraph.data.io.diagnose import records
from npugraph.errors import DataError, nearest, no_such_file
from npugraph.names import shorten

HEADER = ("entity", "type")
# The nearest name is looked for among fewer names than these.
MOST_COMPARED = 100_000
TABLE = "relation"


@dataclass(frozen=True)
class RelationRules:
    """What must hold of the facts of one relation; the fields are the keys of the TOML file.

    Attributes:
        domain: types of which a head must have one.
        range: types of which a tail must have one.
        one_tail: a head has one tail, or value, only.
        one_head: a tail has one head only.
        irreflexive: no entity is its own tail.
        asymmetric: no fact is stored in both directions.
        not_after: the relation whose value, of the same entity, this one's is not after.
        line: of the file, where the relation's table begins.
    """

    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    one_tail: bool = False
    one_head: bool = False
    irreflexive: bool = False
    asymmetric: bool = False
    not_after: str = ""
    line: int = 0


KEYS = tuple(f.name for f in dataclasses.fields(RelationRules) if f.name != "line")


@dataclass(frozen=True, eq=False)
class Told:
    """What the user says about a graph.

    Attributes:
        types: columns entity and type, or None.
        types_file: where they stand, for messages; None: in no file.
        rules: by relation.
        rules_file: where they stand, for messages.
        shapes: a file of SHACL shapes, or None.
    """

    types: pa.Table | None = None
    types_file: Path | None = None
    rules: Mapping[str, RelationRules] = field(default_factory=dict)
    rules_file: Path | None = None
    shapes: Path | None = None

    @classmethod
    def read(cls, types: Any = None, rules: Any = None, shapes: Any = None) -> Told:
        """Read the files; types may be an Arrow table."""
        in_file = types is not None and not isinstance(types, pa.Table)
        if shapes is not None and not Path(shapes).is_file():
            raise no_such_file(shapes)
        return cls(
            read_types(types) if in_file else types,
            Path(types) if in_file else None,
            {} if rules is None else read_rules(rules),
            None if rules is None else Path(rules),
            None if shapes is None else Path(shapes),
        )

    def check_entities(self, labels: pa.Array) -> None:
        """Refuse types of which none is of an entity with one of these labels."""
        if self.types is None or pc.any(pc.is_in(self.types["entity"], value_set=labels)).as_py():
            return
        place = "The types" if self.types_file is None else f"{self.types_file}"
        if not len(self.types):
            raise DataError(f"{place}: there are none; give a row with an entity and its type.")
        first = self.types["entity"][0].as_py()
        # Of very many names the nearest would take long to find.
        hint = nearest(first, labels.to_pylist()) if len(labels) < MOST_COMPARED else ""
        raise DataError(
            f"{place}: none of the entities is in this graph, the first being {shorten(first)!r}; "
            f"write names as the graph does.{hint}"
        )


def read_types(path: str | os.PathLike[str]) -> pa.Table:
    """Read the columns entity and type of a file: .tsv, .csv, .txt or .parquet.

    The first line may name the columns; otherwise the first two are taken. An entity may have
    several types, a row each.
    """
    path = Path(path)
    if not path.is_file():
        raise no_such_file(path)
    suffix, compression = split_suffixes(path)
    if suffix not in (*TEXT, ".parquet"):
        raise DataError(f"{path}: a file of types is .tsv, .csv, .txt or .parquet.")
    table = _of_parquet(path) if suffix == ".parquet" else _of_text(path, compression, TEXT[suffix])
    if not len(table):
        raise DataError(
            f"{path}: the file holds no types; give a row with an entity and its type for each."
        )
    return table


def _of_text(path: Path, compression: str | None, delimiter: str) -> pa.Table:
    entities, types = [], []
    for number, record in enumerate(records(path, compression, delimiter)):
        fields = [text.strip() for text in record.fields[:2]]
        if record.problem or len(fields) < 2 or not all(fields):
            problem = record.problem or "an entity and a type are needed."
            raise DataError(f"{path}, line {record.first}: {problem}")
        if number == 0 and _is_header(f"{path}, line {record.first}", fields):
            continue
        entities.append(record.fields[0])
        types.append(record.fields[1])
    return pa.table({"entity": pa.array(entities, pa.string()), "type": pa.array(types)})


def _is_header(place: str, fields: list[str]) -> bool:
    """Tell whether a first line names the columns; refuse one that seems to, but does not."""
    entity, kind = words = [field.lower() for field in fields]
    if tuple(words) == HEADER:
        return True
    if entity == HEADER[0] or kind == HEADER[1] or all(nearest(word, HEADER) for word in words):
        raise DataError(
            f"{place}: the columns are called entity and type, in this order, not {fields[0]!r} "
            f"and {fields[1]!r}; if this line is no header, put one above it."
        )
    return False


def _of_parquet(path: Path) -> pa.Table:
    try:
        table = pyarrow.parquet.read_table(path)
        columns = [table[name].cast(pa.string()) for name in HEADER]
    except (pa.ArrowException, KeyError, OSError) as error:
        raise DataError(f"{path}: the columns entity and type are needed ({error}).") from None
    return pa.table(columns, names=list(HEADER))


def read_rules(path: str | os.PathLike[str]) -> dict[str, RelationRules]:
    """Read the rules of a TOML file: one table ``[relation.NAME]`` per relation.

    Raises:
        DataError: one sentence that names the file, the line and the nearest right name.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        given = tomllib.loads(text)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start + 1} is not valid UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(_syntax(path, str(error))) from None
    lines = _Lines(text)
    for key in given:
        if key != TABLE:
            raise DataError(
                f"{path}, line {lines.of(key)}: {key!r} is no table of rules; write "
                f"[{TABLE}.NAME] for each relation."
            )
    tables = given.get(TABLE, {})
    if not isinstance(tables, dict) or not all(isinstance(t, dict) for t in tables.values()):
        raise DataError(f"{path}: write [{TABLE}.NAME] for each relation, with its rules below.")
    return {name: _relation(path, lines, name, table) for name, table in tables.items()}


def _syntax(path: Path, message: str) -> str:
    """Put the line of a mistake in front."""
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    where = f", line {place[1]}" if place and place[1] else ""
    words = message[: place.start()] if place else message
    return (
        f"{path}{where}: this is no TOML ({words[:1].lower()}{words[1:].rstrip('.')}); write a "
        f"line [{TABLE}.NAME] for each relation, and below it lines such as: one_tail = true."
    )


def _relation(path: Path, lines: _Lines, name: str, table: Mapping[str, Any]) -> RelationRules:
    found: dict[str, Any] = {}
    for key, value in table.items():
        place = f"{path}, line {lines.of(key, name)}"
        if key not in KEYS:
            hint = nearest(key, KEYS) or f" Known: {', '.join(KEYS)}."
            raise DataError(f"{place}: there is no rule {key!r}.{hint}")
        found[key] = _value(place, key, value)
    return RelationRules(**found, line=lines.of("", name))


def _value(place: str, key: str, value: Any) -> Any:
    """Check one value by the type of its field's default."""
    default = getattr(RelationRules, key)
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        raise DataError(f"{place}: {key} is true or false, not {value!r}.")
    if isinstance(default, str):
        if isinstance(value, str) and value:
            return value
        raise DataError(f"{place}: {key} is the name of a relation, not {value!r}.")
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and names and all(isinstance(one, str) and one for one in names):
        return tuple(names)
    raise DataError(f"{place}: {key} is a type or a list of types, not {value!r}.")


class _Lines:
    """Where the tables and keys of a TOML text stand; tomllib does not say."""

    def __init__(self, text: str) -> None:
        self._places: dict[tuple[str, str], int] = {}
        relation = ""
        for number, line in enumerate(text.splitlines(), 1):
            try:
                parsed = tomllib.loads(line)
            except tomllib.TOMLDecodeError:
                # The first line of a value that goes on below.
                parsed = {line.split("=")[0].strip().strip('"'): ""}
            for key, value in parsed.items():
                if line.lstrip().startswith("["):
                    inner = value if key == TABLE and isinstance(value, dict) else {}
                    relation = next(iter(inner), "")
                    self._places.setdefault(("", relation) if inner else (key, ""), number)
                else:
                    self._places.setdefault((key, relation), number)

    def of(self, key: str, relation: str = "") -> int:
        """Return the line of a key, or of a relation's table where the key is empty."""
        return self._places.get((key, relation), self._places.get(("", relation), 1))
