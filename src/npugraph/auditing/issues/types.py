"""Types of entities, as the user gives them."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from npugraph.data.io import TEXT, split_suffixes
from npugraph.data.io.diagnose import records
from npugraph.errors import DataError

HEADER = ("entity", "type")


def read_types(path: str | os.PathLike[str]) -> pa.Table:
    """Read the columns entity and type of a file: .tsv, .csv, .txt or .parquet.

    The first line may name the columns; otherwise the first two are taken. An entity may have
    several types, a row each.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file.")
    suffix, compression = split_suffixes(path)
    if suffix == ".parquet":
        return _of_parquet(path)
    if suffix not in TEXT:
        raise DataError(f"{path}: a file of types is .tsv, .csv, .txt or .parquet.")
    entities, types = [], []
    for number, record in enumerate(records(path, compression, TEXT[suffix])):
        fields = [field.strip() for field in record.fields[:2]]
        if record.problem or len(fields) < 2 or not all(fields):
            problem = record.problem or "an entity and a type are needed."
            raise DataError(f"{path}, line {record.first}: {problem}")
        if number == 0 and tuple(map(str.lower, fields)) == HEADER:
            continue
        entities.append(record.fields[0])
        types.append(record.fields[1])
    return pa.table({"entity": pa.array(entities, pa.string()), "type": pa.array(types)})


def _of_parquet(path: Path) -> pa.Table:
    try:
        table = pyarrow.parquet.read_table(path)
        columns = [table[name].cast(pa.string()) for name in HEADER]
    except (pa.ArrowException, KeyError, OSError) as error:
        raise DataError(f"{path}: the columns entity and type are needed ({error}).") from None
    return pa.table(columns, names=list(HEADER))
