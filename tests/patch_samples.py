"""Odd graph files and decisions about their facts, for tests of patches."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hypothesis import strategies as st

from graph_files import table_of, write
from npugraph.data.io import ReadOptions, digest, read_table, split_suffixes, write_table
from npugraph.patching import Decision, Fact, Source

# Letters that mean something to some format, and some that mean nothing to any.
ODD = "ab é\"',;=+-@#<>\\|\u2028\u00a0\u200f国{}$%"
names = st.text(ODD, min_size=1, max_size=6).map(lambda text: f"n{text}")
ENDS = ("\n", "\r\n", "\r")


@dataclass(frozen=True)
class Case:
    """A file's name and text, how it is read, its facts in order, and decisions about them."""

    name: str
    text: str
    options: ReadOptions
    facts: list[Fact]
    decisions: list[Decision]


def source(path: Path, options: ReadOptions | None = None) -> Source:
    """Return a file as a patch needs it."""
    return Source(path, options or ReadOptions(), digest(path))


def facts_in(path: Path, options: ReadOptions | None = None) -> list[Fact]:
    """Return the facts of a file, in its order."""
    table = read_table(path, options or ReadOptions())[0].select(Fact._fields)
    return [Fact(**row) for row in table.to_pylist()]


def put(folder: Path, case: Case) -> Path:
    """Write the file of a case."""
    return write(folder / case.name, case.text)


def expected(facts: list[Fact], decisions: list[Decision]) -> list[Fact]:
    """Do what decisions say, slowly: one at a time, on a list of facts."""
    stored, coming = set(facts), set()
    gone = {one.fact for one in decisions if one.change != "add"}
    new: dict[Fact, Fact | None] = {}
    added = []
    for one in decisions:
        target = one.new if one.new is not None else one.fact
        fresh = target not in stored and target not in coming and target not in gone
        if one.change == "add" and fresh:
            added.append(target)
            coming.add(target)
        elif one.change == "replace" and fresh:
            new[one.fact] = target
            coming.add(target)
        elif one.change != "add":
            new[one.fact] = None
    kept = [new.get(fact, fact) for fact in facts]
    return [fact for fact in kept if fact is not None] + added


@st.composite
def decisions_on(draw: Any, facts: list[Fact], name: Any = names) -> list[Decision]:
    """Draw decisions about some facts, and new facts."""
    fact = st.builds(Fact, name, name, name)
    found = []
    for one in sorted(set(facts)):
        change = draw(st.sampled_from(["keep", "keep", "remove", "replace"]))
        if change == "replace":
            new = draw(st.one_of(fact, st.sampled_from(facts)))
            if new != one:
                found.append(Decision("replace", one, new))
        elif change == "remove":
            found.append(Decision("remove", one))
    more = draw(st.lists(fact, max_size=3, unique=True))
    return found + [Decision("add", one) for one in more if one not in facts]


@st.composite
def text_cases(draw: Any) -> Case:
    """Draw a TSV or CSV file with all that such files have."""
    quoted = draw(st.booleans())
    delimiter = draw(st.sampled_from([",", ";"])) if quoted else "\t"
    name = st.text(ODD + ("\n\r" if quoted else ""), min_size=1, max_size=5).map("n{}".format)
    few = draw(st.lists(name, min_size=2, max_size=5, unique=True))
    fact = st.builds(Fact, *[st.sampled_from(few)] * 3)
    facts = draw(st.lists(fact, min_size=1, max_size=8))
    order = draw(st.permutations(["head", "relation", "tail", "note"]))
    beside = draw(st.lists(name | st.just(""), min_size=len(facts), max_size=len(facts)))
    end = draw(st.sampled_from(ENDS))
    header = draw(st.booleans())
    lines = [_line(order, delimiter, quoted)] if header else []
    for one, note in zip(facts, beside, strict=True):
        values = {**one._asdict(), "note": note}
        lines.append(_line([values[column] for column in order], delimiter, quoted))
    text = ""
    for line in lines:
        text += draw(st.sampled_from(["", "", end])) + line
        text += draw(st.sampled_from([end, end, end, "\n"]))
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    text += draw(st.sampled_from(["", "", end]))
    text = draw(st.sampled_from(["", "\ufeff"])) + text
    columns = tuple(order.index(column) for column in Fact._fields)
    options = ReadOptions(
        header=header, columns=None if header else columns, delimiter=delimiter if quoted else None
    )
    decisions = draw(decisions_on(facts, name))
    return Case("facts.csv" if quoted else "facts.tsv", text, options, facts, decisions)


def _line(fields: list[str], delimiter: str, quoted: bool) -> str:
    if not quoted:
        return delimiter.join(fields)
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(fields)
    return text.getvalue().removesuffix("\r\n")


iris = st.text("abcé~/", min_size=1, max_size=4).map(lambda text: f"http://x.org/{text}")


@st.composite
def ntriples_cases(draw: Any) -> Case:
    """Draw an N-Triples file with comments, literals, blank nodes and blank lines."""
    nodes = draw(st.lists(iris, min_size=2, max_size=4, unique=True)) + ["_:b0"]
    heads, relations = st.sampled_from(nodes), st.sampled_from(nodes[:-1])
    facts = draw(st.lists(st.builds(Fact, heads, relations, heads), min_size=1, max_size=8))
    text = ""
    for fact in facts:
        space, end = draw(st.sampled_from([" ", "  ", "\t"])), draw(st.sampled_from(ENDS))
        before = ["", "", end, f"# (a, b){end}", f'<http://x.org/z> <a:b> "c # d" .{end}']
        after = draw(st.sampled_from(["", " ", " # <http://x.org/a>"]))
        terms = [name if name.startswith("_:") else f"<{name}>" for name in fact]
        text += draw(st.sampled_from(before)) + space.join(terms) + f" .{after}{end}"
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return Case("facts.nt", text, ReadOptions(), facts, draw(decisions_on(facts, iris)))


FACT = list(Fact._fields)


def iri(name: str) -> str:
    """Return a name as an IRI."""
    return "http://x.org/" + quote(name)


def write_as(path: Path, rows: list[tuple[str, ...]]) -> None:
    """Write facts in the format of a file's name; as IRIs where it is RDF."""
    suffix = split_suffixes(path)[0]
    if suffix in (".nt", ".ttl"):
        write(path, "".join(" ".join(f"<{iri(name)}>" for name in row) + " .\n" for row in rows))
    else:
        write_table(table_of(rows), path)
