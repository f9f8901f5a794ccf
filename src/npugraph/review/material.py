"""The folder of an audit, opened for review: arrays and names, no model.

Facts have numbers: the distinct facts of posterior.parquet in their order, first those that are
stored, then those that are proposed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import torch
from numpy.typing import NDArray

from npugraph.arrays import Floats, Ints, first_of_each
from npugraph.data.io import read_own_table
from npugraph.errors import RunError, in_one_line
from npugraph.graph import TripleIndex, Vocabulary
from npugraph.names import ReadableNames
from npugraph.review.cards import Fix, Issue, Name
from npugraph.settings import as_path

Bools = NDArray[np.bool_]
FACT = ("head", "relation", "tail")


@dataclass(frozen=True, eq=False)
class Material:
    """What an audit says of n facts.

    Attributes:
        folder: of the audit.
        record: its audit.json.
        entities: names of entities; ``relations`` likewise.
        facts: int64 [n, 3].
        stored: bool [n].
        probability: of being true [n]; nan where the verdict allows none. ``low`` and ``high``
            likewise.
        score: [n], higher is more plausible; nan for facts that are known to be wrong.
        known: int8 [n]: 1 known to be right before the review, 0 wrong, -1 not known.
        source: whole numbers [n] into ``sources``.
        sources: values of the source column; empty where there is none.
        shown: how names are shown that are not shown as they are.
        features: what the views say of each stored fact [m, f], empty where it is not known: f = 0.
    """

    folder: Path
    record: dict[str, Any]
    entities: Vocabulary
    relations: Vocabulary
    facts: Ints
    stored: Bools
    probability: Floats
    low: Floats
    high: Floats
    score: Floats
    known: NDArray[np.int8]
    source: Ints
    sources: tuple[str, ...]
    shown: dict[str, str]
    features: Floats

    @classmethod
    def open(cls, folder: str | Path) -> Material:
        """Read the folder of an audit."""
        path = as_path(folder, "an audit")
        record = audit_record(path)
        table, rows = _distinct(_parquet(path / "posterior.parquet"))
        ends = pa.chunked_array([*table["head"].chunks, *table["tail"].chunks])
        entities = Vocabulary.of(ends, "entity")
        relations = Vocabulary.of(table["relation"], "relation")
        words = (entities, relations, entities)
        ids = [part.ids(table[name]).numpy() for name, part in zip(FACT, words, strict=True)]
        numbers = {
            name: pc.fill_null(table[name].cast(pa.float64()), np.nan).to_numpy()
            for name in ("probability", "low", "high", "score")
        }
        source, sources = _sources(table, record, ids, entities)
        return cls(
            path,
            record,
            entities,
            relations,
            np.stack(ids, 1),
            table["collected"].to_numpy(zero_copy_only=False),
            **numbers,
            known=_known(table),
            source=source,
            sources=sources,
            features=_features(path, rows[table["collected"].to_numpy(zero_copy_only=False)]),
            shown=read_shown(path),
        )

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def num_stored(self) -> int:
        """How many of the facts are stored; they come first."""
        return int(self.stored.sum())

    @property
    def reliable(self) -> tuple[bool, bool]:
        """Whether the audit promises probabilities: of stored facts, of proposed ones."""
        return (
            self.record.get("verdict") == "reliable",
            self.record.get("missing_verdict") == "reliable",
        )

    @cached_property
    def readable(self) -> ReadableNames:
        """How names are shown."""
        return ReadableNames([self.entities.labels, self.relations.labels], shown=self.shown)

    def name(self, name: str) -> Name:
        """Return a name as a card has it."""
        return Name.of(name, self.readable(name))

    @cache  # noqa: B019  # there is one material, and two vocabularies
    def shown_labels(self, words: Literal["entities", "relations"]) -> pa.Array:
        """Return how the names of a vocabulary are shown, in its order; long ones are whole."""
        labels = (self.entities if words == "entities" else self.relations).labels
        names = pa.array(list(self.shown), pa.string())
        texts = pa.array(list(self.shown.values()), pa.string())
        return pc.coalesce(texts.take(pc.index_in(labels, value_set=names)), labels)

    def names(self, number: int) -> tuple[str, str, str]:
        """Return the names of a fact."""
        head, relation, tail = self.facts[number].tolist()
        return (
            self.entities.label(head),
            self.relations.label(relation),
            self.entities.label(tail),
        )

    def shown_names(self, number: int) -> tuple[Name, Name, Name]:
        """Return the names of a fact as a card has them."""
        head, relation, tail = map(self.name, self.names(number))
        return head, relation, tail

    @cached_property
    def _index(self) -> tuple[TripleIndex, Ints]:
        facts = torch.from_numpy(self.facts)
        index = TripleIndex(facts, max(len(self.entities), 1), max(len(self.relations), 1))
        numbers = np.empty(len(facts), dtype=np.int64)
        numbers[index.places(facts).numpy()] = np.arange(len(facts))
        return index, numbers

    def number(self, fact: tuple[str, str, str]) -> int:
        """Return the number of a fact of names, -1 where the audit does not know it."""
        head, relation, tail = fact
        if head not in self.entities or relation not in self.relations or tail not in self.entities:
            return -1
        ids = [self.entities.id(head), self.relations.id(relation), self.entities.id(tail)]
        return int(self.numbers(np.array([ids]))[0])

    def numbers(self, facts: Ints) -> Ints:
        """Return the numbers of facts of ids [m, 3], -1 where there is none."""
        index, numbers = self._index
        places = index.places(torch.from_numpy(facts)).numpy()
        return np.where(places >= 0, numbers[places], -1)

    @cached_property
    def issues(self) -> dict[str, dict[int, Issue]]:
        """What the checks found, by kind and by the number of the fact."""
        found: dict[str, dict[int, Issue]] = {}
        for number, row in self._rows("issues.tsv"):
            issue = Issue(row["kind"], row["sentence"])
            found.setdefault(row["kind"], {}).setdefault(number, issue)
        return found

    @cached_property
    def issue_facts(self) -> dict[str, Ints]:
        """The numbers of the facts of each kind of issue."""
        return {kind: np.array(sorted(rows)) for kind, rows in self.issues.items()}

    @cached_property
    def corrections(self) -> dict[int, Fix]:
        """What may be meant instead of a suspect, by its number."""
        found = {number: self._fix(row) for number, row in self._rows("suspects.tsv")}
        return {number: fix for number, fix in found.items() if fix is not None}

    def _fix(self, row: dict[str, str]) -> Fix | None:
        """Return what a row of suspects.tsv proposes; the columns of older audits may be fewer."""
        if row.get("replace") in ("head", "tail"):
            return Fix("head" if row["replace"] == "head" else "tail", self.name(row["by"]))
        if not row.get("stored_head"):
            return None
        if row["stored_head"] != row["head"]:
            return Fix("head", self.name(row["stored_head"]), stored=True)
        return Fix("tail", self.name(row["stored_tail"]), stored=True)

    def _rows(self, name: str) -> list[tuple[int, dict[str, str]]]:
        """Return the rows of a file of the audit that are about a fact, with its number.

        The file may be gone: a desk needs none of them.
        """
        table = read_own_table(self.folder / name)
        if not len(table):
            return []
        rows = zip(self._numbered(table).tolist(), table.to_pylist(), strict=True)
        return [(number, row) for number, row in rows if number >= 0]

    def _numbered(self, table: pa.Table) -> Ints:
        """Return the numbers of the facts of a table [m], -1 where a row is about no fact."""
        words = (self.entities, self.relations, self.entities)
        columns = [
            pc.fill_null(pc.index_in(table[name], value_set=part.labels), -1).to_numpy()
            for name, part in zip(FACT, words, strict=True)
        ]
        ids = np.stack(columns, 1).astype(np.int64)
        whole = (ids >= 0).all(1)
        found = np.full(len(ids), -1)
        found[whole] = self.numbers(ids[whole])
        return found

    @cached_property
    def around(self) -> tuple[Ints, Ints]:
        """The stored facts at each entity: where those of each begin [E + 1], and their numbers."""
        facts = self.facts[: self.num_stored]
        entity = np.concatenate([facts[:, 0], facts[:, 2]])
        order = np.argsort(entity, kind="stable")
        first = np.searchsorted(entity[order], np.arange(len(self.entities) + 1))
        return first, order % max(len(facts), 1)

    def at(self, entity: int) -> Ints:
        """Return the numbers of the stored facts at an entity, each once."""
        first, numbers = self.around
        return np.unique(numbers[first[entity] : first[entity + 1]])


def audit_record(folder: Path) -> dict[str, Any]:
    """Read the audit.json of an audit's folder."""
    path = folder / "audit.json"
    if not path.is_file():
        raise RunError(
            f"{folder} is not the folder of an audit: it has no audit.json; make one with "
            f"npugraph audit GRAPH --out {folder}."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({in_one_line(error)}); audit again.") from None
    if not isinstance(found, dict):
        raise RunError(f"{path} does not hold the record of an audit; audit again.")
    return found


def _parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    try:
        return pyarrow.parquet.read_table(path, columns=columns)
    except (pa.ArrowInvalid, OSError) as error:
        raise RunError(f"{path} cannot be read ({in_one_line(error)}); audit again.") from None


def read_probabilities(folder: Path) -> pa.Table:
    """Read the facts of which an audit tells a probability: head, relation, tail, probability."""
    table = _parquet(folder / "posterior.parquet", [*FACT, "probability"])
    return table.filter(pc.is_valid(table["probability"]))


def _distinct(table: pa.Table) -> tuple[pa.Table, Ints]:
    """Return the first row of each fact, in their order, and where these rows are."""
    codes = [
        table[name].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        for name in FACT
    ]
    sizes = [int(code.max(initial=0)) + 1 for code in codes]
    key = (codes[0] * sizes[1] + codes[1]) * sizes[2] + codes[2]
    first = first_of_each(torch.from_numpy(key)).numpy()
    return (table if len(first) == len(table) else table.take(pa.array(first))), first


def _known(table: pa.Table) -> NDArray[np.int8]:
    """Return what was known of each fact before the review: 1 right, 0 wrong, -1 nothing."""
    wrong = pc.is_null(table["score"]).to_numpy(zero_copy_only=False)
    if "known" not in table.column_names:
        return np.where(wrong, 0, -1).astype(np.int8)
    column = pc.fill_null(table["known"].cast(pa.int8()), -1)
    return np.asarray(column.to_numpy(), dtype=np.int8)


def _sources(
    table: pa.Table, record: dict[str, Any], ids: list[Ints], entities: Vocabulary
) -> tuple[Ints, tuple[str, ...]]:
    """Return where each fact is from, and the names of these sources."""
    name = record.get("settings", {}).get("source")
    if name in ("head", "tail"):
        return ids[FACT.index(name)], tuple(entities.labels.to_pylist())
    if "source" not in table.column_names:
        return np.zeros(len(table), dtype=np.int64), ()
    words = pc.fill_null(table["source"], "").combine_chunks().dictionary_encode()
    return words.indices.to_numpy().astype(np.int64), tuple(words.dictionary.to_pylist())


def _features(folder: Path, rows: Ints) -> Floats:
    """Return what the views say of some input rows [m, f]; an unknown value is that of the mean."""
    path = folder / "features.parquet"
    if not path.is_file():
        return np.zeros((len(rows), 0))
    table = _parquet(path).take(pa.array(rows))
    columns = [
        pc.fill_null(column, pc.mean(column)).to_numpy()
        if column.null_count < len(column)
        else None
        for column in table.columns
    ]
    kept = [np.asarray(column, dtype=np.float64) for column in columns if column is not None]
    return np.stack(kept, 1) if kept else np.zeros((len(rows), 0))


def read_shown(folder: Path) -> dict[str, str]:
    """Read how names are shown that are not shown as they are."""
    path = folder / "names.parquet"
    if not path.is_file():
        return {}
    table = _parquet(path)
    return dict(zip(table["name"].to_pylist(), table["shown"].to_pylist(), strict=True))
