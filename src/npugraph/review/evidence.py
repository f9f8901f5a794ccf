"""The evidence on a card: what the audit wrote down, or looked up when a card is opened."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from functools import cached_property

import pyarrow.parquet

from npugraph.asking import AuditExplainer
from npugraph.auditing.page import BY_PATH, sentences
from npugraph.errors import NpugraphError
from npugraph.explaining import ISSUE, OVERALL
from npugraph.report import Evidence
from npugraph.review.material import Material

# Cards whose evidence is kept.
KEPT = 500


@dataclass(frozen=True)
class Found:
    """Evidence on one fact.

    Attributes:
        evidence: sentences.
        paths: those on paths, apart from the others.
        note: why there is none.
    """

    evidence: Evidence
    paths: tuple[str, ...] = ()
    note: str = ""

    @classmethod
    def of(cls, evidence: Evidence) -> Found:
        """Take the sentences on paths apart, and leave out what a card has of its own.

        That are its issues, and its place in the order, which answers may have changed.
        """
        paths = tuple(text for text in evidence.supporting if text.startswith(BY_PATH))
        supporting, contradicting = (
            tuple(text for text in part if not text.startswith((BY_PATH, OVERALL, ISSUE)))
            for part in (evidence.supporting, evidence.contradicting)
        )
        return cls(
            replace(evidence, supporting=supporting, contradicting=contradicting),
            tuple(text.removeprefix(BY_PATH) for text in paths),
        )


class Evidences:
    """The evidence on the facts of an audit; threads may share it."""

    def __init__(self, material: Material) -> None:
        """Look nothing up before it is asked for."""
        self._material = material
        self._explainer = AuditExplainer(material.folder, device="cpu")
        self._kept: OrderedDict[int, Found] = OrderedDict()
        # One at a time: a model takes all cores there are.
        self._lock = threading.Lock()

    def of(self, number: int) -> Found:
        """Return the evidence on a fact."""
        with self._lock:
            found = self._kept.get(number)
            if found is None:
                found = self._written.get(number) or self._look(number)
                self._kept[number] = found
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return found

    @cached_property
    def _written(self) -> dict[int, Found]:
        """What the audit wrote down, by the number of the fact."""
        path = self._material.folder / "evidence.parquet"
        if not path.is_file():
            return {}
        names = [field.name for field in fields(Evidence)]
        found = {}
        for row in pyarrow.parquet.read_table(path).to_pylist():
            number = self._material.number((row["head"], row["relation"], row["tail"]))
            found[number] = Found.of(Evidence(*(tuple(row[name]) for name in names)))
        return found

    def _look(self, number: int) -> Found:
        folder = self._material.folder
        if not (folder / "folds").is_dir() and not (folder / "path").is_dir():
            return Found(
                Evidence(), note="The audit did not keep its systems, so none can be asked."
            )
        try:
            told = self._explainer.explain(self._material.names(number))
        except NpugraphError as error:
            return Found(Evidence(), note=f"No evidence can be looked up: {error}")
        return Found.of(sentences(told, []))
