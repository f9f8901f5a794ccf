"""Names as IRIs, and back: RDF has no other names for things.

A name that is no IRI becomes one of ours, from which the reader makes the name again.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

# What begins with this is a name that was no IRI.
NAMES = "urn:npugraph:name:"
# Letters that stand for themselves: no control, space or private letter, none that means something.
_LETTER = (
    r"""[^\x00-\x20\x7f-\x9f<>"{}|^`\\\[\]%#?:@/\ud800-\uf8ff\ufff0-\uffff\U000e0000-\U0010ffff]"""
)
_PART = rf"(?:{_LETTER}|%[0-9A-Fa-f]{{2}})"
_MORE = rf"(?:{_PART}|[:@/?])"
_IRI = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*:(?://{_PART}+(?::[0-9]+)?(?=[/?#]|$))?(?!//){_MORE}*(?:#{_MORE}*)?"
)


def is_iri(name: str) -> bool:
    """Tell whether a name is an absolute IRI that every tool takes.

    >>> is_iri("http://x.org/a#b"), is_iri("GO:0001"), is_iri("New York"), is_iri("Rome")
    (True, True, False, False)
    """
    return _IRI.fullmatch(name) is not None


def to_iri(name: str, base: str = NAMES) -> str:
    """Return a name as an IRI: as it is, or, where it is none, percent-encoded after ``base``.

    >>> to_iri("New York")
    'urn:npugraph:name:New%20York'
    """
    if is_iri(name) and not name.startswith(NAMES):
        return name
    return base + quote(name, safe="")


def from_iri(iri: str) -> str:
    """Return the name that ``to_iri`` made an IRI of; any other IRI is its own name.

    >>> from_iri(to_iri("New York")), from_iri("http://x.org/a")
    ('New York', 'http://x.org/a')
    """
    if not iri.startswith(NAMES):
        return iri
    name = unquote(iri[len(NAMES) :], errors="replace")
    return name if name and to_iri(name) == iri else iri
