"""Turns an interaction log into a graph: which user touched which item, which user used which tag.

This is how the Twitter graph of the paper is made: two relations (user-tweet and user-hashtag),
three kinds of entities, and thresholds of 30, 30 and 10 interactions under which a user, a tweet
or a hashtag is inactive and removed. Extremely frequent users and items are removed first, since
they are probably bots. Removing one entity lowers the counts of others, so the thresholds are
applied again until nothing changes; what is left does not depend on the order of removal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from npugraph.data.io import TEXT, split_suffixes
from npugraph.errors import DataError, SettingsError, nearest, no_such_file

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]
Columns = tuple[str, str | None, str | None]


@dataclass(frozen=True)
class InteractionStats:
    """What became of a log; every count but `rows` and `incomplete` is of distinct things.

    Attributes:
        rows: rows of the log.
        incomplete: rows without a user, or with neither an item nor a tag; they say nothing.
        interactions: distinct (user, item) and (user, tag) pairs of the log.
        duplicates: repeats of such pairs.
        extreme_users: users dropped as too frequent; `extreme_items` likewise.
        inactive_users: users dropped as too rare; `inactive_items`, `inactive_tags` likewise.
        rounds: passes over the thresholds that dropped something.
        users: users kept; `items`, `tags` likewise.
        facts: rows of the graph.
    """

    rows: int
    incomplete: int
    interactions: int
    duplicates: int
    extreme_users: int
    extreme_items: int
    inactive_users: int
    inactive_items: int
    inactive_tags: int
    rounds: int
    users: int
    items: int
    tags: int
    facts: int


@dataclass
class _Pairs:
    """Distinct (user, target) pairs of one relation as ids; `other` numbers the targets.

    `user` and `target` have shape [pairs]; ids are 0..n-1 of their own kind.
    """

    user: Ids
    target: Ids
    other: pa.Array
    repeats: int

    def keep(self, users: Mask, targets: Mask) -> _Pairs:
        """Pairs whose user and whose target are both kept; the masks go by id."""
        rows = users[self.user] & targets[self.target]
        return _Pairs(self.user[rows], self.target[rows], self.other, self.repeats)

    def target_counts(self) -> Ids:
        """Users of each target, int64 [targets]."""
        return np.bincount(self.target, minlength=len(self.other)).astype(np.int64)


def build_interactions(
    log: str | os.PathLike[str] | pa.Table,
    *,
    min_user: int = 30,
    min_item: int = 30,
    min_tag: int = 10,
    max_user: int | None = None,
    max_item: int | None = None,
    drop_top_share: float | None = None,
    columns: Columns = ("user", "item", "tag"),
    relations: tuple[str, str] = ("user-item", "user-tag"),
    prefixes: tuple[str, str, str] = ("user:", "item:", "tag:"),
) -> tuple[pa.Table, InteractionStats]:
    """Build the graph of a log; thresholds count distinct interactions.

    A user's count is the number of distinct items and tags it touched; an item's or a tag's count
    is the number of distinct users that touched it.

    Args:
        log: a TSV, CSV or Parquet file with a header (also .gz, .zst), or an Arrow table. A row
            may leave its item or its tag empty.
        min_user: users with fewer interactions are dropped.
        min_item: items with fewer users are dropped.
        min_tag: tags with fewer users are dropped.
        max_user: users with more interactions in the raw log are dropped first; None drops none.
        max_item: items with more users in the raw log are dropped first; None drops none.
        drop_top_share: drops the most frequent share of users and of items first, 0.001 for
            those above the 0.999 quantile of the counts. Ties at the limit are kept.
        columns: names of the user, item and tag columns; None for a log without items or tags.
        relations: names of the two relations.
        prefixes: put before the names of users, items and tags, so that a user and a tag of the
            same name stay two entities.

    Returns:
        A table with string columns head, relation, tail, sorted by relation, head and tail (it
        is empty where no entity meets the thresholds), and the counts.

    Example:
        >>> log = pa.table({"user": ["u", "u", "v"], "item": ["i", "i", "i"], "tag": ["", "", "t"]})
        >>> graph, stats = build_interactions(log, min_user=1, min_item=2, min_tag=2)
        >>> graph["head"].to_pylist(), stats.duplicates, stats.inactive_tags
        (['user:u', 'user:v'], 1, 1)
    """
    if drop_top_share is not None and not 0 < drop_top_share <= 0.5:
        raise SettingsError(
            f"drop_top_share is {drop_top_share}, but it must be the share of users and items to "
            "drop, in (0, 0.5], such as 0.001."
        )
    table = log if isinstance(log, pa.Table) else _read_log(Path(log), columns)
    user, item, tag = (_labels(table, name) for name in columns)
    says_something = pc.and_(pc.is_valid(user), pc.or_(pc.is_valid(item), pc.is_valid(tag)))
    incomplete = len(table) - int(pc.sum(says_something).as_py() or 0)
    user_codes = user.combine_chunks().dictionary_encode()
    users: pa.Array = user_codes.dictionary
    items, tags = (_distinct_pairs(user_codes, column) for column in (item, tag))

    seen = _counts(items, tags, len(users))
    usual = (
        seen[0] <= _limit(seen[0], max_user, drop_top_share),
        seen[1] <= _limit(seen[1], max_item, drop_top_share),
        np.ones(len(seen[2]), dtype=np.bool_),  # a tag is a topic; nobody's bot
    )
    left = (items.keep(usual[0], usual[1]), tags.keep(usual[0], usual[2]))
    left, rounds = _prune(*left, num_users=len(users), minima=(min_user, min_item, min_tag))

    graph = _to_table(left, users, relations, prefixes)
    raw = {
        "rows": len(table),
        "incomplete": incomplete,
        "interactions": len(items.user) + len(tags.user),
        "duplicates": items.repeats + tags.repeats,
    }
    stay = _counts(*left, len(users))
    return graph, InteractionStats(
        **raw, **_dropped(seen, usual, stay), rounds=rounds, facts=len(graph)
    )


def _dropped(
    seen: tuple[Ids, Ids, Ids], usual: tuple[Mask, Mask, Mask], stay: tuple[Ids, Ids, Ids]
) -> dict[str, int]:
    """Return how many users, items and tags were dropped, why, and how many are left.

    Args:
        seen: interactions of each user, item and tag in the log.
        usual: which of them are not extreme.
        stay: interactions that are left of each.
    """
    present, left = ([int((counts > 0).sum()) for counts in each] for each in (seen, stay))
    extreme = [int((~mask).sum()) for mask in usual]
    inactive = [p - e - s for p, e, s in zip(present, extreme, left, strict=True)]
    return {
        "extreme_users": extreme[0],
        "extreme_items": extreme[1],
        "inactive_users": inactive[0],
        "inactive_items": inactive[1],
        "inactive_tags": inactive[2],
        "users": left[0],
        "items": left[1],
        "tags": left[2],
    }


def _read_log(path: Path, columns: Columns) -> pa.Table:
    """Read the needed columns of a log file; text columns stay text."""
    if not path.is_file():
        raise no_such_file(path)
    suffix, compression = split_suffixes(path)
    wanted = [name for name in columns if name is not None]
    try:
        if suffix == ".parquet":
            names = pyarrow.parquet.read_schema(path).names
            _check_columns(names, wanted, str(path))
            return pyarrow.parquet.read_table(path, columns=wanted)
        if suffix not in TEXT:
            raise DataError(
                f"{path}: unknown format {suffix or '(no suffix)'!r}; use .tsv, .csv, .txt or "
                ".parquet, the text formats also with .gz or .zst."
            )
        with pa.input_stream(str(path), compression=compression) as stream:
            return _read_text(stream, TEXT[suffix], wanted, str(path))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path}: cannot be read as a log ({error}).") from None


def _read_text(stream: pa.NativeFile, delimiter: str, wanted: list[str], path: str) -> pa.Table:
    """Read delimited text; all columns are parsed as strings, so that ids keep leading zeros."""
    quoted = delimiter == ","
    parse = pyarrow.csv.ParseOptions(
        delimiter=delimiter, quote_char='"' if quoted else False, newlines_in_values=quoted
    )
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False
    )
    table = pyarrow.csv.read_csv(stream, parse_options=parse, convert_options=convert)
    _check_columns(table.column_names, wanted, path)
    return table.select(wanted)


def _check_columns(names: list[str], wanted: list[str], where: str) -> None:
    for name in wanted:
        if name not in names:
            hint = nearest(name, names) or f" It has: {', '.join(names)}."
            raise DataError(f"{where}: no column is called {name!r}.{hint}")


def _labels(table: pa.Table, name: str | None) -> pa.ChunkedArray:
    """One column as strings without surrounding space; empty cells are null."""
    if name is None:
        return pa.chunked_array([pa.nulls(len(table), pa.string())])
    _check_columns(table.column_names, [name], "the log")
    text = pc.utf8_trim_whitespace(table[name].cast(pa.string()))
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _distinct_pairs(users: pa.DictionaryArray, column: pa.ChunkedArray) -> _Pairs:
    """Pair the user of each row with its item or tag, each pair once."""
    codes = column.combine_chunks().dictionary_encode()
    complete = pc.and_(pc.is_valid(users.indices), pc.is_valid(codes.indices))
    user = users.indices.filter(complete).to_numpy(zero_copy_only=False).astype(np.int64)
    target = codes.indices.filter(complete).to_numpy(zero_copy_only=False).astype(np.int64)
    size = max(len(codes.dictionary), 1)
    keys = np.unique(user * size + target)
    return _Pairs(keys // size, keys % size, codes.dictionary, len(user) - len(keys))


def _counts(items: _Pairs, tags: _Pairs, num_users: int) -> tuple[Ids, Ids, Ids]:
    """Interactions of each user (over both relations), item and tag; int64, one value an id."""
    both = np.concatenate([items.user, tags.user])
    of_users = np.bincount(both, minlength=num_users).astype(np.int64)
    return of_users, items.target_counts(), tags.target_counts()


def _limit(counts: Ids, maximum: int | None, share: float | None) -> float:
    """The largest count that is not extreme; things that never interact set no quantile."""
    limit = float("inf") if maximum is None else float(maximum)
    seen = counts[counts > 0]
    if share is not None and len(seen):
        limit = min(limit, float(np.quantile(seen, 1 - share, method="inverted_cdf")))
    return limit


def _prune(
    items: _Pairs, tags: _Pairs, *, num_users: int, minima: tuple[int, int, int]
) -> tuple[tuple[_Pairs, _Pairs], int]:
    """Apply the thresholds until nothing changes; also return the passes that dropped something."""
    rounds = 0
    while True:
        counts = _counts(items, tags, num_users)
        users_on, items_on, tags_on = (c >= least for c, least in zip(counts, minima, strict=True))
        next_items, next_tags = items.keep(users_on, items_on), tags.keep(users_on, tags_on)
        if len(next_items.user) == len(items.user) and len(next_tags.user) == len(tags.user):
            return (items, tags), rounds
        items, tags = next_items, next_tags
        rounds += 1


def _to_table(
    pairs: tuple[_Pairs, _Pairs],
    users: pa.Array,
    relations: tuple[str, str],
    prefixes: tuple[str, str, str],
) -> pa.Table:
    """Name the ids and sort the facts, so that the order of the log does not show."""
    parts = []
    for part, relation, prefix in zip(pairs, relations, prefixes[1:], strict=True):
        head = pc.binary_join_element_wise(prefixes[0], users.take(pa.array(part.user)), "")
        tail = pc.binary_join_element_wise(prefix, part.other.take(pa.array(part.target)), "")
        name = pa.repeat(pa.scalar(relation, pa.string()), len(part.user))
        parts.append(pa.table({"head": head, "relation": name, "tail": tail}))
    keys = [(column, "ascending") for column in ("relation", "head", "tail")]
    return pa.concat_tables(parts).sort_by(keys).combine_chunks()
