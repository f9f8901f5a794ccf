"""How results show themselves: a few lines of text, and the same as HTML in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape

from npugraph.names import shorten


class Shown(ABC):
    """A result with a short repr; a class says what it shows by ``shown()``."""

    @abstractmethod
    def shown(self) -> tuple[str, Mapping[str, object]]:
        """Return a title and a few names with their values."""

    def __repr__(self) -> str:
        title, rows = self.shown()
        return f"{title}\n" + "\n".join(f"  {name}: {word(value)}" for name, value in rows.items())

    def _repr_html_(self) -> str:
        title, rows = self.shown()
        cells = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(word(value))}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table><caption>{escape(title)}</caption>{cells}</table>"


def word(value: object) -> str:
    """Write a value for a person; long text is cut.

    >>> word(12345), word(0.123456), len(word("x" * 999))
    ('12,345', '0.1235', 80)
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}"
    return shorten(" ".join(str(value).split()))
