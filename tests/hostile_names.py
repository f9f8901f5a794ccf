"""A small graph whose names are everything that a page or a program may stumble over."""

from __future__ import annotations

HOSTILE = {
    "script": "<script>alert('x')</script>",
    "quotes": "\"'`</td><img src=x onerror=alert(1)>",
    "newlines": "one\ntwo\r\nthree\u2028four",
    "long": "x" * 10_000,
    "right to left": "\u202eעברית مرحبا\u202c",
    "null bytes": "a\x00b",
    "template": "{{ 7 * 7 }}{% raw %}${7*7}",
    "path": "../../../../etc/passwd",
    "link": "javascript:alert(1)",
    "not a character": "\ufffe\U0001f600",
    "percent": "%00%2e%2e&a=b;c#d?e",
    "space": "  padded\t",
}


def facts(people: int = 24) -> list[tuple[str, str, str]]:
    """Return facts with some regularity; every hostile name is a head, a tail and a relation."""
    names = [*HOSTILE.values(), *(f"person {i}" for i in range(people))]
    count = len(names)
    rows = [(name, "knows", names[(i + s) % count]) for i, name in enumerate(names) for s in (1, 2)]
    rows += [(tail, "known by", head) for head, _, tail in rows]
    rows += [(names[i], name, names[-1 - i]) for i, name in enumerate(HOSTILE.values())]
    return rows
