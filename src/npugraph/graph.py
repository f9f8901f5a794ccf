"""The graph core: vocabularies, facts as id tensors, splits, and exact membership.

A fact is a row ``(head, relation, tail)`` of an int64 tensor of shape [n, 3]. Everything else in
the package works on these ids; labels come back only at the edges (files, tables, reports).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from npugraph.arrays import first_of_each
from npugraph.display import Shown
from npugraph.errors import SettingsError, UnknownNameError, nearest
from npugraph.names import ReadableNames
from npugraph.seeds import generator
from npugraph.triples import TripleIndex, distinct_tails, flip, mean_answers

__all__ = [
    "PARTS",
    "SIDES",
    "InputFile",
    "KnowledgeGraph",
    "Side",
    "Splits",
    "TripleIndex",
    "Vocabulary",
    "distinct_tails",
    "draw_parts",
    "flip",
    "mean_answers",
]

# Which end of a fact is asked for.
Side = Literal["head", "tail"]
SIDES: tuple[Side, Side] = ("tail", "head")
# More labels than this are not held as a dictionary: one that is asked for is looked for.
MANY_LABELS = 5_000_000
# The parts of a graph that is cut, in the order of their numbers.
PARTS = ("train", "valid", "test")
# The columns of a table of literals; the language may be empty.
LITERAL = ("head", "relation", "value", "datatype", "language")


@dataclass(frozen=True, eq=False)
class Annotations:
    """What an RDF file says beside its facts between entities.

    Attributes:
        literals: the columns of LITERAL, as text.
        prefixes: the prefixes the file declares, with their IRIs.
        statements: how many records are about other statements (reification), not about entities.
    """

    literals: pa.Table
    prefixes: Mapping[str, str] = field(default_factory=dict)
    statements: int = 0

    @property
    def records(self) -> int:
        """How many records these are."""
        return len(self.literals) + self.statements


@dataclass(frozen=True)
class InputFile:
    """A file that a graph was read from.

    Attributes:
        path: where it was.
        sha256: of its uncompressed bytes, when it was read.
        options: how it was read, as ReadOptions takes it.
    """

    path: Path
    sha256: str
    options: Mapping[str, Any] = field(default_factory=dict)


class Vocabulary(Shown):
    """Labels with ids 0..n-1, in sorted order, so that the same labels always get the same ids.

    >>> words = Vocabulary.of(["b", "a", "b"])
    >>> len(words), words.id("b"), words.label(0)
    (2, 1, 'a')
    >>> words.ids(["b", "a"]).tolist()
    [1, 0]
    """

    def __init__(self, labels: pa.Array, kind: str = "label") -> None:
        """Keep ``labels`` (distinct strings); ``kind`` is how error messages call one of them."""
        self.labels: pa.Array = labels
        self.kind = kind
        self._lookup: dict[str, int] | None = None

    @classmethod
    def of(
        cls, labels: Iterable[str] | pa.Array | pa.ChunkedArray, kind: str = "label"
    ) -> Vocabulary:
        """Make a vocabulary of the distinct labels, sorted."""
        if not isinstance(labels, pa.Array | pa.ChunkedArray):
            labels = pa.array(labels, pa.string())
        distinct = pc.unique(labels)
        return cls(distinct.take(pc.sort_indices(distinct)), kind)

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show how many names there are, and the first few."""
        first = ", ".join(self.labels[:3].to_pylist()) + (", ..." if len(self) > 3 else "")
        return f"Vocabulary of {len(self):,}", {self.kind: first}

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: str) -> bool:
        return self._find(label) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.labels.equals(other.labels)

    def __hash__(self) -> int:
        return hash(len(self))

    def _by_label(self) -> dict[str, int]:
        if self._lookup is None:
            self._lookup = {label: i for i, label in enumerate(self.labels.to_pylist())}
        return self._lookup

    def _find(self, label: str) -> int:
        """Return the id of a label, -1 where there is none."""
        if len(self) > MANY_LABELS:
            return int(pc.index(self.labels, pa.scalar(label, self.labels.type)).as_py())
        return self._by_label().get(label, -1)

    def id(self, label: str) -> int:
        """Return the id of one label; an unknown label is an error that names the nearest one."""
        found = self._find(label)
        if found < 0:
            hint = nearest(label, tuple(self._by_label())) if len(self) < 100_000 else ""
            raise UnknownNameError(f"No {self.kind} is called {label!r} in this graph.{hint}")
        return found

    def label(self, index: int) -> str:
        """Return the label of one id."""
        return str(self.labels[index].as_py())

    def ids(self, labels: Sequence[str] | pa.Array | pa.ChunkedArray) -> Tensor:
        """Return the ids of many labels at once, int64 [n]; an unknown label is an error."""
        if not isinstance(labels, pa.Array | pa.ChunkedArray):
            labels = pa.array(labels, pa.string())
        found = pc.index_in(labels.cast(self.labels.type), value_set=self.labels)
        if found.null_count:
            unknown = labels.filter(pc.is_null(found))[0].as_py()
            self.id(unknown)
        return torch.from_numpy(found.to_numpy().astype("int64"))

    def take(self, ids: Tensor) -> pa.Array:
        """Return the labels of many ids [n] as an Arrow string array [n]."""
        return self.labels.take(pa.array(ids.cpu().numpy())).cast(pa.string())


@dataclass(frozen=True, eq=False, repr=False)
class KnowledgeGraph(Shown):
    """Facts over two vocabularies, with what the input said about each fact.

    Attributes:
        entities: names of the entities, ids 0..E-1.
        relations: names of the relations, ids 0..R-1.
        facts: int64 [n, 3], columns head, relation, tail; rows as in the input, duplicates kept.
        confidence: float64 [n] in [0, 1], or None where the input has no such column; nan where
            one of several files has none.
        label: int8 [n], 1 for a fact known to be true, 0 for one known to be false, -1 for one of
            which nothing is known; None where the input has no such column.
        rows: int64 [n], the number of the record in its file, from 1, headers not counted.
        source: the file the facts came from, or a short description.
        annotations: what an RDF file says beside its facts (literals, prefixes), or None.
        columns: further columns of the input that were asked for, by name, each [n].
        name: what to call the graph.
        part: int8 [n], places in PARTS, where the source says which facts are train, valid and
            test; None where it does not.
        path: the file or folder the graph was read from, or None.
        inputs: the user's files that hold these very facts, in this order; empty where there are
            none (facts in memory, a known graph, a selection).
        truth: the file of the hidden truth where the graph was perturbed on purpose. Training
            never opens it.
    """

    entities: Vocabulary
    relations: Vocabulary
    facts: Tensor
    confidence: Tensor | None = None
    label: Tensor | None = None
    rows: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    source: str = ""
    annotations: Annotations | None = None
    name: str = ""
    part: Tensor | None = None
    path: Path | None = None
    truth: Path | None = None
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    inputs: tuple[InputFile, ...] = ()

    def __post_init__(self) -> None:
        """Number the rows where the caller gave none."""
        if len(self.rows) != len(self.facts):
            object.__setattr__(self, "rows", torch.arange(1, len(self.facts) + 1))

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the counts."""
        sizes = {"entities": self.num_entities, "relations": self.num_relations}
        if self.part is not None:
            sizes |= {name: int((self.part == k).sum()) for k, name in enumerate(PARTS)}
        given = [name for name in ("confidence", "label") if getattr(self, name) is not None]
        more = {"columns": ", ".join(given)} if given else {}
        name = self.name or self.source or "graph"
        return f"KnowledgeGraph {name!r}", {"facts": len(self), **sizes, **more}

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def skipped(self) -> int:
        """Records of an RDF file that are no facts between entities: literals, reification."""
        return 0 if self.annotations is None else self.annotations.records

    @property
    def num_entities(self) -> int:
        """Number of entities, seen in these facts or not."""
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        """Number of relations, seen in these facts or not."""
        return len(self.relations)

    @cached_property
    def readable(self) -> ReadableNames:
        """How the names of entities and relations are shown."""
        beside = self.annotations
        vocabularies = [self.entities.labels, self.relations.labels]
        if beside is None:
            return ReadableNames(vocabularies)
        return ReadableNames(vocabularies, beside.literals, beside.prefixes)

    def select(self, index: Tensor) -> KnowledgeGraph:
        """Return the graph of the chosen rows; ``index`` is a mask [n] or row numbers [m]."""
        return replace(
            self,
            facts=self.facts[index],
            rows=self.rows[index],
            confidence=None if self.confidence is None else self.confidence[index],
            label=None if self.label is None else self.label[index],
            part=None if self.part is None else self.part[index],
            columns={name: _taken(column, index) for name, column in self.columns.items()},
            inputs=(),
        )

    def with_facts(self, facts: Tensor, source: str = "") -> KnowledgeGraph:
        """Return a graph of other facts over the same vocabularies."""
        return KnowledgeGraph(self.entities, self.relations, facts, source=source)

    def encode(self, table: pa.Table) -> Tensor:
        """Return the ids [n, 3] of a table with columns head, relation, tail of known labels."""
        columns = (
            self.entities.ids(table["head"]),
            self.relations.ids(table["relation"]),
            self.entities.ids(table["tail"]),
        )
        return torch.stack(columns, dim=1)

    def index(self) -> TripleIndex:
        """Return the exact membership index of these facts."""
        return TripleIndex(self.facts, self.num_entities, self.num_relations)

    def duplicates(self) -> int:
        """Count the rows that repeat an earlier fact."""
        return len(self) - len(self.index())

    def self_loops(self) -> int:
        """Count the rows whose head is their tail."""
        return int((self.facts[:, 0] == self.facts[:, 2]).sum())

    def split(
        self, seed: int = 0, *, valid_share: float = 0.05, test_share: float = 0.05
    ) -> Splits:
        """Return train, valid and test: as the source has them, or drawn where it has none.

        Args:
            seed: of the draw.
            valid_share: share of the distinct facts that is drawn for validation.
            test_share: share of the distinct facts that is drawn for the test.
        """
        part = self.part
        if part is None:
            part = draw_parts(self, seed, valid_share=valid_share, test_share=test_share)
        plain = replace(self, part=None, truth=None)
        train, valid, test = (_without_empty(plain.select(part == k)) for k in range(3))
        valid, test = replace(valid, annotations=None), replace(test, annotations=None)
        return Splits(self.name or "graph", train, valid, test, self.path, self.truth)

    def summary(self) -> dict[str, object]:
        """Return the counts a person wants to see before anything runs."""
        parts = {}
        if self.part is not None:
            parts = {name: int((self.part == k).sum()) for k, name in enumerate(PARTS)}
        return {
            "name": self.name,
            "entities": self.num_entities,
            "relations": self.num_relations,
            "facts": len(self),
            **parts,
            "duplicates": self.duplicates(),
            "self_loops": self.self_loops(),
            "skipped": self.skipped,
        }

    def to_table(self) -> pa.Table:
        """Return the facts as an Arrow table of labels, with the optional columns it has."""
        columns = {
            "head": self.entities.take(self.facts[:, 0]),
            "relation": self.relations.take(self.facts[:, 1]),
            "tail": self.entities.take(self.facts[:, 2]),
        }
        if self.confidence is not None:
            columns["confidence"] = pa.array(self.confidence.numpy())
        if self.label is not None:
            # Empty where nobody has said.
            columns["label"] = pa.array(self.label.numpy(), mask=(self.label < 0).numpy())
        return pa.table(columns)


@dataclass(frozen=True, eq=False, repr=False)
class Splits(Shown):
    """A graph cut into train, valid and test over the same vocabularies.

    ``truth`` is the file of the hidden truth where the graph was perturbed on purpose. Training
    never opens it; only the judges (evaluation with the clean filter, noise detection) do.
    ``left_out`` counts the facts that the source labels as wrong and that are in no part.
    """

    name: str
    train: KnowledgeGraph
    valid: KnowledgeGraph
    test: KnowledgeGraph
    source: Path | None = None
    truth: Path | None = None
    left_out: int = 0

    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Show the counts."""
        sizes = {"entities": self.num_entities, "relations": self.num_relations}
        parts = {name: len(part) for name, part in self.parts().items()}
        return f"Splits {self.name!r}", {**sizes, **parts}

    @property
    def num_entities(self) -> int:
        """Number of entities of the whole graph."""
        return self.train.num_entities

    @property
    def num_relations(self) -> int:
        """Number of relations of the whole graph."""
        return self.train.num_relations

    def parts(self) -> dict[str, KnowledgeGraph]:
        """Return the three graphs by name."""
        return {"train": self.train, "valid": self.valid, "test": self.test}

    def all_facts(self) -> Tensor:
        """Return the facts of all three parts, int64 [n, 3]."""
        return torch.cat([part.facts for part in self.parts().values()])

    def without_wrong(self) -> Splits:
        """Return the parts without the facts that the source labels as wrong (label 0)."""
        train, valid, test = (
            part if part.label is None else part.select(part.label != 0)
            for part in self.parts().values()
        )
        kept = replace(self, train=train, valid=valid, test=test)
        wrong = len(self.all_facts()) - len(kept.all_facts())
        return replace(kept, left_out=self.left_out + wrong) if wrong else self

    def whole(self) -> KnowledgeGraph:
        """Return one graph of all facts, with what the input said about each and its part.

        Where the parts were cut from one file, the rows are in the order of that file again;
        otherwise train comes first, then valid, then test.
        """
        parts = list(self.parts().values())
        sizes = torch.tensor([len(part) for part in parts])
        rows = torch.cat([part.rows for part in parts])
        sources = {part.source for part in parts}
        one_file = len(sources) == 1 and bool(self.train.source)
        graph = KnowledgeGraph(
            self.train.entities,
            self.train.relations,
            self.all_facts(),
            _joined([part.confidence for part in parts], sizes, torch.nan),
            _joined([part.label for part in parts], sizes, -1),
            rows,
            source=self.train.source if one_file else str(self.source or self.name),
            annotations=joined_annotations([part.annotations for part in parts]),
            name=self.name,
            part=torch.repeat_interleave(torch.arange(3, dtype=torch.int8), sizes),
            path=self.source,
            truth=self.truth,
            columns={
                name: pa.concat_arrays([part.columns[name] for part in parts])
                for name in self.train.columns
                if all(name in part.columns for part in parts)
            },
        )
        in_order = one_file and len(torch.unique(rows)) == len(rows)
        return graph.select(torch.argsort(rows, stable=True)) if in_order else graph

    def summary(self) -> dict[str, object]:
        """Return the counts a person wants to see before anything runs."""
        return {
            "name": self.name,
            "entities": self.num_entities,
            "relations": self.num_relations,
            **{name: len(part) for name, part in self.parts().items()},
            "duplicates": sum(part.duplicates() for part in self.parts().values()),
            "self_loops": sum(part.self_loops() for part in self.parts().values()),
            "skipped": sum(part.skipped for part in self.parts().values()),
            "left_out": self.left_out,
        }


def _joined(columns: list[Tensor | None], sizes: Tensor, absent: float) -> Tensor | None:
    """Join a column of several parts; ``absent`` stands where a part does not have it."""
    given = [column for column in columns if column is not None]
    if not given:
        return None
    return torch.cat(
        [
            torch.full((int(size),), absent, dtype=given[0].dtype) if column is None else column
            for column, size in zip(columns, sizes, strict=True)
        ]
    )


def _taken(column: pa.Array, index: Tensor) -> pa.Array:
    """Return the values of a column [n] that a mask [n] or row numbers [m] choose."""
    chosen = pa.array(index.cpu().numpy())
    return column.filter(chosen) if index.dtype == torch.bool else column.take(chosen)


def joined_annotations(parts: Sequence[Annotations | None]) -> Annotations | None:
    """Join what several files say beside their facts; the first meaning of a prefix counts."""
    given = [part for part in parts if part is not None]
    if not given:
        return None
    prefixes = {name: iri for part in reversed(given) for name, iri in part.prefixes.items()}
    literals = pa.concat_tables([part.literals for part in given])
    return Annotations(literals, prefixes, sum(part.statements for part in given))


def _without_empty(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return a part without the columns that are empty in all of its rows."""
    confidence, label = graph.confidence, graph.label
    if confidence is not None and len(graph) and confidence.isnan().all():
        graph = replace(graph, confidence=None)
    if label is not None and len(graph) and (label < 0).all():
        graph = replace(graph, label=None)
    return graph


def draw_parts(
    graph: KnowledgeGraph, seed: int = 0, *, valid_share: float = 0.05, test_share: float = 0.05
) -> Tensor:
    """Draw the part of each row, by distinct fact, seeded: places in PARTS, int8 [n].

    Repeats of a fact stay together, so that nothing held out is also trained on. One fact of
    every entity and of every relation stays in train, so that nothing held out is about an
    entity the model never saw; a sparse graph may therefore hold out less than it was asked to.
    """
    for share_name, share in (("valid_share", valid_share), ("test_share", test_share)):
        if not 0 <= share <= 1:
            raise SettingsError(f"{share_name}={share} must lie between 0 and 1.")
    index = graph.index()
    order = torch.randperm(len(index), generator=generator(seed, "split"))
    facts = index.facts()[order]
    needed = torch.zeros(len(facts), dtype=torch.bool)
    entities = torch.cat([facts[:, 0], facts[:, 2]])
    needed[first_of_each(entities) % max(len(facts), 1)] = True
    needed[first_of_each(facts[:, 1])] = True
    free = torch.nonzero(~needed).squeeze(1)
    num_valid = min(round(valid_share * len(facts)), len(free) // 2)
    num_test = min(round(test_share * len(facts)), len(free) - num_valid)
    part = torch.zeros(len(facts), dtype=torch.int8)
    part[free[:num_valid]] = 1
    part[free[num_valid : num_valid + num_test]] = 2
    in_key_order = torch.empty_like(part)
    in_key_order[order] = part
    return in_key_order[index.places(graph.facts)]
