"""Names and shares as they are shown, in tables, reports and sentences; files keep them whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

# Characters of a name that are shown at most.
SHOWN = 80
IRI = r"^(?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)[^\s<>\"{}|\\^`]*[^\s<>\"{}|\\^`/#:]$"
# Literals of these relations are labels; the first that an entity has counts.
LABELS = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "https://schema.org/name",
    "http://schema.org/name",
)
# Prefixes that everybody knows; those of the file come first.
PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcterms": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "schema": "https://schema.org/",
    "dbo": "http://dbpedia.org/ontology/",
    "dbr": "http://dbpedia.org/resource/",
    "dbp": "http://dbpedia.org/property/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "yago": "http://yago-knowledge.org/resource/",
    "obo": "http://purl.obolibrary.org/obo/",
}

Readable = Callable[[str], str]


class ReadableNames:
    """How the names of a graph are shown: by their labels, or as short IRIs.

    A label that several names have is followed by the short IRI. An IRI without a known prefix is
    shown by its last part, where no other name ends in the same.

    >>> names = pa.array(["http://x.org/a/Rome", "http://x.org/b/Rome", "http://x.org/a/Italy"])
    >>> readable = ReadableNames([names], prefixes={"b": "http://x.org/b/"})
    >>> [readable(name) for name in names.to_pylist()]
    ['http://x.org/a/Rome', 'b:Rome', 'Italy']
    """

    def __init__(
        self,
        names: Iterable[pa.Array],
        literals: pa.Table | None = None,
        prefixes: Mapping[str, str] | None = None,
        shown: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the names of a graph; nothing is looked at before it is asked for.

        Args:
            names: of all entities, of all relations.
            literals: columns head, relation, value, language.
            prefixes: those of the file, with their IRIs.
            shown: how some names are shown, where that is known already.
        """
        self._names, self._literals, self._known = list(names), literals, shown or {}
        known = {**PREFIXES, **(prefixes or {})}
        # The longest IRI is the closest.
        self._prefixes = sorted(known.items(), key=lambda item: -len(item[1]))

    def __call__(self, name: str) -> str:
        """Return a name as it is shown, cut where it is long."""
        if name in self._known:
            return shorten(self._known[name])
        label = self._labels.get(name)
        if label is None:
            return shorten(self._short(name))
        return shorten(label if label in self._own else f"{label} ({self._short(name)})")

    def differing(self, names: Iterable[str]) -> dict[str, str]:
        """Return the names that are not shown as they are, or cut only, and how they are shown."""
        shown = {name: self(name) for name in names}
        return {name: text for name, text in shown.items() if text != shorten(name)}

    def _short(self, name: str) -> str:
        if ":" not in name or not re.match(IRI, name):
            return name
        for prefix, iri in self._prefixes:
            if name.startswith(iri) and len(name) > len(iri):
                local = name[len(iri) :]
                return f"{prefix}:{local}" if prefix or local in self._ambiguous else local
        last = re.split(r"[/#:]", name)[-1]
        return name if last in self._ambiguous else unquote(last)

    @cached_property
    def _ambiguous(self) -> set[str]:
        """The last parts of several IRIs, and those that are names themselves."""
        names = pa.chunked_array(self._names or [pa.array([], pa.string())])
        iris = names.filter(pc.match_substring_regex(names, IRI))
        ends = pc.replace_substring_regex(iris, r"^.*[/#:]", "")
        counts = pc.value_counts(ends)
        ends, number = counts.field("values"), counts.field("counts")
        twice = pc.or_(pc.greater(number, 1), pc.is_in(ends, value_set=names))
        return set(ends.filter(twice).to_pylist())

    @cached_property
    def _labels(self) -> dict[str, str]:
        """The label of each name that has one: without a language or in English, if there is."""
        if self._literals is None:
            return {}
        relation = self._literals["relation"]
        rows = self._literals.filter(pc.is_in(relation, value_set=pa.array(LABELS))).to_pylist()

        def order(row: dict[str, str | None]) -> tuple[int, str, int]:
            language = row["language"] or ""
            plain = language == "" or language.split("-")[0].lower() == "en"
            return (not plain, language if not plain else "", LABELS.index(str(row["relation"])))

        found: dict[str, str] = {}
        for row in sorted(rows, key=order):
            label = " ".join(row["value"].split())
            if label:
                found.setdefault(row["head"], label)
        return found

    @cached_property
    def _own(self) -> set[str]:
        """The labels that one name has, and that are no name themselves."""
        counts: dict[str, int] = {}
        for label in self._labels.values():
            counts[label] = counts.get(label, 0) + 1
        once = pa.array([label for label, count in counts.items() if count == 1], pa.string())
        names = pa.chunked_array(self._names or [pa.array([], pa.string())])
        return set(once.filter(pc.invert(pc.is_in(once, value_set=names))).to_pylist())


def shorten(name: str, most: int = SHOWN) -> str:
    """Return a name of at most ``most`` characters: the start and the end of a longer one.

    >>> shorten("Vienna")
    'Vienna'
    >>> shorten("http://example.org/resource/Vienna", 20)
    'http://example…ienna'
    """
    if len(name) <= most:
        return name
    end = most // 4
    return f"{name[: most - end - 1]}…{name[-end:]}"


# Signs that are not seen, or turn the text around them: control pictures, or their numbers.
_UNSEEN: dict[int, str] = {code: chr(0x2400 + code) for code in range(32)}
_UNSEEN |= {0x7F: "\u2421"}
_UNSEEN |= {
    code: f"[U+{code:04X}]"
    for code in (*range(0x80, 0xA0), 0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F))
}
_UNSEEN |= {code: f"[U+{code:04X}]" for code in (*range(0x2060, 0x2070), 0xFEFF)}


def visible(text: str) -> str:
    r"""Return a text in which signs that cannot be seen have something in their place.

    A page that shows names must not hide a line end or a null, nor let a name turn what follows it.
    Half of a surrogate pair, which no file can hold, becomes a question mark.

    >>> print(visible("a\x00b\nc"), visible("x\u202ey"), visible("naïve Ω"))
    a␀b␊c x[U+202E]y naïve Ω
    """
    return text.translate(_UNSEEN).encode("utf-8", "replace").decode()


def counted(count: int, one: str, many: str = "") -> str:
    """Write a number with its noun; ``many`` is ``one`` with an s where it is not given.

    >>> counted(1, "fact"), counted(1234, "fact"), counted(0, "fact is", "facts are")
    ('1 fact', '1,234 facts', '0 facts are')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def percent(share: float, exact: bool = False) -> str:
    """Write a share in [0, 1].

    An estimate is never certain, so its ends are written as bounds; a share that was counted
    (``exact``) may well be 0 or 1.

    >>> percent(0.0312), percent(0.5), percent(0.0), percent(0.99999), percent(1, exact=True)
    ('3.1%', '50%', '<0.1%', '>99.9%', '100%')
    """
    value = 100 * share
    if exact and share in (0, 1):
        return f"{value:.0f}%"
    if value < 0.1:
        return "<0.1%"
    if value > 99.9:
        return ">99.9%"
    # One decimal matters near the ends only.
    return f"{value:.1f}%" if value < 9.95 or value >= 90.05 else f"{value:.0f}%"
