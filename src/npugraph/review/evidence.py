"""The evidence on a card: looked up when a card is opened, and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from npugraph.asking import explain
from npugraph.auditing.page import sentences
from npugraph.errors import NpugraphError
from npugraph.explaining import Explanation
from npugraph.report import Evidence
from npugraph.review.cards import Fix
from npugraph.review.material import Material

# Cards whose evidence is kept.
KEPT = 500


@dataclass(frozen=True)
class Found:
    """Evidence on one fact, paths in words, what may be meant, and why there is none."""

    evidence: Evidence
    paths: tuple[str, ...] = ()
    correction: Fix | None = None
    note: str = ""


class Evidences:
    """The evidence on the facts of an audit."""

    def __init__(self, material: Material) -> None:
        """Look nothing up before it is asked for."""
        self._material = material
        self._kept: OrderedDict[int, Found] = OrderedDict()
        # One at a time: a model takes all cores there are.
        self._lock = threading.Lock()

    def of(self, number: int) -> Found:
        """Return the evidence on a fact."""
        with self._lock:
            found = self._kept.get(number)
            if found is None:
                found = self._look(number)
                self._kept[number] = found
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return found

    def _look(self, number: int) -> Found:
        try:
            told = explain(self._material.folder, *self._material.names(number), device="cpu")
        except NpugraphError as error:
            return Found(Evidence(), note=f"There is no evidence to show: {error}")
        return _put(told)


def _put(told: Explanation) -> Found:
    evidence = sentences(told, [])
    paths = tuple(f"{path.words(told.name)} (weight {path.weight:.2f})" for path in told.paths[:3])
    return Found(evidence, paths)
