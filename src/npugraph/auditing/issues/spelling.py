"""Names that a person would take for the same one."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npugraph.arrays import Ints
from npugraph.auditing.issues.facts import Facts, listed, regular, strong
from npugraph.auditing.issues.literals import Bools
from npugraph.data.io.names import plain_form, visible

# Case says little in a name of digits and letters without a space: it is an identifier.
_IDENTIFIER = r"^\S*[0-9]\S*$"


def spellings(facts: Facts) -> pa.Table:
    """Return the names of entities and relations that differ from another one in form only.

    White space, Unicode form and invisible characters never tell two things apart. Case, accents
    and underscores may: they count only where nearly all names of the graph differ in more.
    """
    graph = facts.graph
    used = np.concatenate([facts.head, facts.tail[facts.head != facts.tail]])
    tables = [
        _similar(graph.entities.labels, np.bincount(used, minlength=graph.num_entities), "head"),
        _similar(graph.relations.labels, facts.counts, "relation"),
    ]
    return pa.concat_tables(tables)


def _similar(names: pa.Array, used: Ints, column: str) -> pa.Table:
    """Return pairs of names [n], rare and frequent, that have the same form at some level."""
    tables = []
    form = _plain(names)
    plain = pc.equal(form, names).to_numpy(zero_copy_only=False)
    done = np.zeros(len(names), bool)
    for what, change in LEVELS.items():
        form = change(form)
        rare, frequent = _pairs(form, used, plain, ~done)
        done[rare] = True
        kept = len(names) - len(rare)
        score = float(regular(kept, len(names)))
        if not len(rare) or (what != FORM and not strong(kept, len(names))):
            continue
        first, second = names.take(pa.array(rare)), names.take(pa.array(frequent))
        counts = zip(
            first.to_pylist(),
            second.to_pylist(),
            used[rare].tolist(),
            used[frequent].tolist(),
            strict=True,
        )
        sentences = [
            f"{visible(a)} ({_facts(m)}) and {visible(b)} ({_facts(n)}) differ only in {what}."
            for a, b, m, n in counts
        ]
        scores = [1.0 if what == FORM else score] * len(rare)
        tables.append(listed("spelling", scores, sentences, **{column: first, "other": second}))
    return pa.concat_tables([listed("spelling", [], []), *tables])


def _pairs(form: pa.Array, used: Ints, plain: Bools, free: Bools) -> tuple[Ints, Ints]:
    """Pair each free name whose form another one has, too, with the most used of that form."""
    codes = form.dictionary_encode().indices.to_numpy()
    # Within a form: the most used first, then what is in its plain form already.
    order = np.lexsort((np.arange(len(codes)), ~plain, -used, codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    best = np.empty(len(codes), np.int64)
    sizes = np.diff(np.append(starts, len(order)))
    best[order] = np.repeat(order[starts], sizes)
    rare = np.flatnonzero((best != np.arange(len(codes))) & free)
    return rare, best[rare]


def _facts(count: int) -> str:
    return "1 fact" if count == 1 else f"{count:,} facts"


def _plain(names: pa.Array) -> pa.Array:
    return _mapped(names, pc.match_substring_regex(names, r"^ | $|  |[^ -~]"), plain_form)


def _folded(form: pa.Array) -> pa.Array:
    """Lower the case of what is no identifier."""
    words = pc.invert(pc.match_substring_regex(form, _IDENTIFIER))
    return pc.if_else(words, pc.utf8_lower(form), form)


def _unaccented(form: pa.Array) -> pa.Array:
    return _mapped(form, pc.match_substring_regex(form, r"[^ -~]"), _without_marks)


def _without_marks(name: str) -> str:
    r"""Return a name without accents.

    >>> _without_marks("S\u00e3o Tom\u00e9")
    'Sao Tome'
    """
    apart = unicodedata.normalize("NFKD", name)
    return "".join(sign for sign in apart if not unicodedata.combining(sign))


def _spaced(form: pa.Array) -> pa.Array:
    words = pc.invert(pc.match_substring_regex(form, _IDENTIFIER))
    return pc.if_else(words, pc.replace_substring_regex(form, r"[_\s]+", " "), form)


def _mapped(names: pa.Array, chosen: pa.Array, change: Callable[[str], str]) -> pa.Array:
    """Change the chosen names one by one; they are few."""
    places = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
    if not len(places):
        return names
    changed = pa.array([change(name) for name in names.take(pa.array(places)).to_pylist()])
    return pc.replace_with_mask(names, chosen, changed.cast(pa.string()))


FORM = "white space, Unicode form or invisible characters"
# What the names of a pair differ in, and what takes that away; each level adds to those before.
LEVELS: dict[str, Callable[[pa.Array], pa.Array]] = {
    FORM: lambda form: form,
    "case": _folded,
    "accents (and case)": _unaccented,
    "underscores (and accents, case)": _spaced,
}
