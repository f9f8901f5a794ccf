"""Take what was decided about an audit's facts home, in the input's format or another tool's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from npugraph.data.io import RDF, compress, split_suffixes
from npugraph.data.io.iris import NAMES, is_iri
from npugraph.data.io.rdf import parse_triples
from npugraph.errors import RunError, SettingsError, nearest
from npugraph.patching import Decision, Fact, Made, Source, make_patch, read_patch
from npugraph.patching.formats.common import Statement, Text
from npugraph.patching.formats.kgx import JUDGED, PROPOSED, kgx_files
from npugraph.patching.formats.quickstatements import quickstatements
from npugraph.patching.formats.rdf import RdfGraph, annotated_turtle
from npugraph.patching.formats.sparql import sparql_update
from npugraph.patching.formats.spreadsheet import spreadsheet
from npugraph.patching.formats.sql import sql_changes
from npugraph.patching.inputs import find_sources
from npugraph.review.decisions import decide, settled_true
from npugraph.review.estimate import as_drawn, begun_draw
from npugraph.review.material import Material, audit_record, read_probabilities, read_shown
from npugraph.review.store import FILE, Answer, Store, answers_table
from npugraph.settings import parse_value, setting


@dataclass(frozen=True)
class ExportSettings:
    """What some formats need to know."""

    base: str = setting(NAMES, "RDF, SPARQL: comes before names that are no IRIs")
    table: str = setting("facts", "SQL: the table of facts")
    columns: tuple[str, ...] = setting(
        Fact._fields, "SQL: its columns of head, relation and tail, with commas between"
    )
    dialect: Literal["standard", "mysql"] = setting(
        "standard", "SQL: standard (PostgreSQL, SQLite, ...) or mysql (also MariaDB)"
    )

    def __post_init__(self) -> None:
        """Refuse what no format can use."""
        parse_value("dialect", self.dialect, Literal["standard", "mysql"])
        if not is_iri(self.base + "x"):
            raise SettingsError(f"base={self.base!r} is no beginning of an IRI.")


@dataclass(frozen=True)
class Exported:
    """What an export is.

    Attributes:
        files: names to give them, and their bytes.
        counts: how many facts are removed, replaced and added; for answers, how many there are.
        notes: sentences on what could not be expressed.
    """

    files: tuple[tuple[str, bytes], ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decided:
    """An audit, and what is decided about its facts.

    Attributes:
        folder: of the audit.
        record: its audit.json.
        answers: those that hold.
        quarantine: whether the audit's own decisions count, too.
        facts: where the input is, if the user says so.
    """

    folder: Path
    record: dict[str, Any]
    answers: tuple[Answer, ...]
    quarantine: bool = False
    facts: Path | None = None

    @classmethod
    def open(cls, folder: Path, *, quarantine: bool = False, facts: Path | None = None) -> Decided:
        """Read the folder of an audit, and the answers that were given at its desk."""
        return cls(folder, audit_record(folder), _answers(folder), quarantine, facts)

    @cached_property
    def sources(self) -> list[Source]:
        """The files that were audited."""
        return find_sources(self.record, self.folder, self.facts)

    @cached_property
    def decisions(self) -> list[Decision]:
        """What the answers say and, if asked for, the audit's quarantine."""
        own = read_patch(self.folder / "patch.json").decisions if self.quarantine else ()
        return decide(self.answers, own)

    @cached_property
    def made(self) -> Made:
        """The patch, and the changed files."""
        return make_patch(self.sources, self.decisions, str(self.record.get("graph", "graph")))

    @property
    def carried_out(self) -> tuple[Decision, ...]:
        """What the patch does."""
        return self.made.patch.decisions

    @property
    def is_rdf(self) -> bool:
        """Whether the input is RDF, so that its names are terms."""
        return split_suffixes(self.sources[0].path)[0] in RDF

    def cleaned(self) -> Iterator[Fact]:
        """Yield the facts of the cleaned graph, in their order."""
        for table in self.made.tables:
            for head, relation, tail in zip(*(c.to_pylist() for c in table.columns), strict=True):
                yield Fact(head, relation, tail)

    @cached_property
    def probability(self) -> dict[Fact, float]:
        """The audit's probabilities, where it tells them."""
        table = read_probabilities(self.folder)
        columns = (column.to_pylist() for column in table.columns)
        return {Fact(h, r, t): p for h, r, t, p in zip(*columns, strict=True)}


def export(decided: Decided, format: str, settings: ExportSettings | None = None) -> Exported:
    """Return what was decided in one of the FORMATS; nothing is written."""
    check_format(format)
    files, notes = FORMATS[format](decided, settings or ExportSettings())
    if format == "answers":
        return Exported(files, {"answers": len(decided.answers)}, notes)
    return Exported(files, decided.made.patch.counts(), notes)


def check_format(format: str) -> None:
    """Refuse a format that is not known."""
    if format not in FORMATS:
        hint = nearest(format, list(FORMATS)) or f" Known: {', '.join(FORMATS)}."
        raise SettingsError(f"There is no format {format!r}.{hint}")


Files = tuple[tuple[tuple[str, bytes], ...], tuple[str, ...]]


def _graph(decided: Decided, settings: ExportSettings) -> Files:
    pairs = zip(decided.sources, decided.made.contents, strict=True)
    files = ((s.path.name, compress(data, split_suffixes(s.path)[1])) for s, data in pairs)
    return tuple(files), ()


def _patch(decided: Decided, settings: ExportSettings) -> Files:
    return _text("patch.json", Text(decided.made.patch.to_json()))


def _spreadsheet(decided: Decided, settings: ExportSettings) -> Files:
    answers, notes = _as_drawn(decided)
    table = answers_table(answers)
    rows = table.to_pylist()
    keyed = [{**row, "key": one.key} for row, one in zip(rows, answers, strict=True)]
    data = spreadsheet(keyed, [*table.column_names, "key"])
    return (("answers.csv", data),), notes


def _as_drawn(decided: Decided) -> tuple[Sequence[Answer], tuple[str, ...]]:
    """Return the answers with how their facts were drawn, and notes."""
    if not decided.answers:
        return (), ()
    with Store.open(decided.folder / FILE) as store:
        if store.begun("seed") is None:
            # Nobody has sat at the desk: they are as a program has put them there.
            return decided.answers, ()
        material = Material.open(decided.folder)
        try:
            draw = begun_draw(store, material)
        except RunError:
            note = (
                "The estimate was begun with other strata than those of now, so that nobody can "
                "tell with what chance its facts were drawn; all answers are marked as chosen."
            )
            chosen = [replace(one, drawn="chosen", chance=None) for one in decided.answers]
            return chosen, (note,)
    return decided.answers if draw is None else as_drawn(decided.answers, draw, material), ()


def _rdf12(decided: Decided, settings: ExportSettings) -> Files:
    return _turtle(decided, settings, plain=False)


def _reified(decided: Decided, settings: ExportSettings) -> Files:
    return _turtle(decided, settings, plain=True)


def _turtle(decided: Decided, settings: ExportSettings, plain: bool) -> Files:
    if decided.is_rdf:
        graph = _rdf_graph(decided, settings)
    else:
        graph = RdfGraph.of_facts(decided.cleaned(), settings.base)
    data = annotated_turtle(graph, _statements(decided), plain=plain)
    return (("facts.ttl", data),), ()


def _rdf_graph(decided: Decided, settings: ExportSettings) -> RdfGraph:
    """Return the triples of an RDF input once it is cleaned, literals and all."""
    triples: list[tuple[Any, Any, Any]] = []
    prefixes: dict[str, str] = {}
    for source, data in zip(decided.sources, decided.made.contents, strict=True):
        found = parse_triples(data, source.path, split_suffixes(source.path)[0])
        triples += found.each
        prefixes |= found.prefixes()
    return RdfGraph(triples, prefixes, True, settings.base)


def _statements(decided: Decided) -> Iterator[Statement]:
    """Yield what the audit says of each fact, and then what each reviewer said."""
    gone = {one.fact: one.probability for one in decided.carried_out if one.change != "add"}
    for fact in dict.fromkeys((*decided.cleaned(), *gone)):
        chance = decided.probability.get(fact, gone.get(fact))
        if chance is not None:
            yield Statement(fact, chance)
    for one in decided.answers:
        said = Statement(Fact(*one.fact), one.probability, one.verdict, one.reviewer)
        yield replace(said, time=one.time, confidence=one.confidence, note=one.note)


def _sparql(decided: Decided, settings: ExportSettings) -> Files:
    update = sparql_update(decided.carried_out, settings.base, rdf=decided.is_rdf)
    return _text("changes.ru", update)


def _kgx(decided: Decided, settings: ExportSettings) -> Files:
    judged = dict.fromkeys(settled_true(decided.answers), JUDGED)
    for one in decided.carried_out:
        if one.change != "remove":
            judged[one.new or one.fact] = PROPOSED if one.change == "add" else JUDGED
    shown = read_shown(decided.folder)
    nodes, edges = kgx_files(
        decided.cleaned(), decided.probability, judged, lambda name: shown.get(name, name)
    )
    return (("nodes.tsv", nodes.encode()), ("edges.tsv", edges.encode())), ()


def _quickstatements(decided: Decided, settings: ExportSettings) -> Files:
    return _text("commands.txt", quickstatements(decided.carried_out))


def _sql(decided: Decided, settings: ExportSettings) -> Files:
    made = sql_changes(decided.carried_out, settings.table, settings.columns, settings.dialect)
    return _text("changes.sql", made)


def _text(name: str, made: Text) -> Files:
    return ((name, made.text.encode()),), made.notes


FORMATS: dict[str, Callable[[Decided, ExportSettings], Files]] = {
    "graph": _graph,
    "patch": _patch,
    "answers": _spreadsheet,
    "rdf12": _rdf12,
    "rdf-reified": _reified,
    "sparql": _sparql,
    "kgx": _kgx,
    "quickstatements": _quickstatements,
    "sql": _sql,
}


def _answers(folder: Path) -> tuple[Answer, ...]:
    """Return the answers that hold; none where nobody has sat at the desk."""
    path = folder / FILE
    if not path.is_file():
        return ()
    with Store.open(path) as store:
        return tuple(store.current())
