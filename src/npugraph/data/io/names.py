"""Find names that a person would take for the same one; nothing is changed by it."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Marks that take no room: soft hyphen, zero-width space and joiners, directions, byte order mark.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
# All other names are in their plain form already.
_SUSPECT = r"^ | $|  |[^ -~]"


def plain_form(name: str) -> str:
    r"""Return a name without surrounding and repeated white space and invisible marks, as NFC.

    >>> plain_form("  The\u00a0 Gambia\u200b")
    'The Gambia'
    """
    return " ".join(_INVISIBLE.sub("", unicodedata.normalize("NFC", name)).split())


def similar_names(names: pa.Array) -> list[tuple[str, ...]]:
    """Return the groups of distinct names [n] that have one plain form.

    >>> similar_names(pa.array(["The Gambia", " The Gambia", "Togo"]))
    [(' The Gambia', 'The Gambia')]
    """
    if _plain(names):
        return []
    groups: dict[str, list[str]] = {}
    for name in names.filter(pc.match_substring_regex(names, _SUSPECT)).to_pylist():
        plain = plain_form(name)
        if plain != name:
            groups.setdefault(plain, []).append(name)
    forms = pa.array(groups, pa.string())
    for plain in forms.filter(pc.is_in(forms, value_set=names)).to_pylist():
        groups[plain].append(plain)
    return [tuple(sorted(group)) for group in groups.values() if len(group) > 1]


def _plain(names: pa.Array) -> bool:
    """Tell whether all names are of visible characters of ASCII alone, as identifiers are."""
    text = names.buffers()[2]
    # Text that a slice leaves out counts, too: that takes time, and changes nothing.
    codes = np.frombuffer(text, np.uint8) if text else np.empty(0, np.uint8)
    return not len(codes) or bool(codes.min() > ord(" ") and codes.max() <= ord("~"))


def similarity_note(names: pa.Array, kind: str) -> str | None:
    """Return a sentence about names that differ in white space and the like, or None."""
    groups = similar_names(names)
    if not groups:
        return None
    shown = [" and ".join(map(visible, group[:2])) for group in groups[:3]]
    count = sum(map(len, groups))
    more = f" ({len(groups):,} groups in all)" if len(groups) > len(shown) else ""
    return (
        f"{count:,} {kind} names differ from one another only in white space, Unicode form or "
        f"invisible characters: {'; '.join(shown)}{more}. They are kept apart; mend the input if "
        "they mean the same."
    )


def visible(name: str) -> str:
    """Write a name so that what cannot be seen is seen, and cut it where it is long."""
    text = ascii(name) if _INVISIBLE.search(name) or not name.isprintable() else repr(name)
    return text if len(text) <= 60 else f"{text[:59]}…"
