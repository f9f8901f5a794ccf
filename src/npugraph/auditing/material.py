"""What folds are judged by: the facts, their folds, and the views.

In this process it is what it is. To another one it travels as the address of its files, which are
written once per audit: facts as ids with their folds, in row groups, and the names.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
import torch
from torch import Tensor

from npugraph.auditing.folds import Folds, Planted
from npugraph.auditing.home import Home
from npugraph.auditing.settings import AuditSettings
from npugraph.auditing.views import View, ViewInputs, build_views
from npugraph.data.corrupt import Noise
from npugraph.data.io import write_table
from npugraph.errors import writing
from npugraph.graph import KnowledgeGraph
from npugraph.recipes import get_recipe
from npugraph.settings import make_settings
from npugraph.training.run_folder import read_vocabulary, write_vocabulary
from npugraph.version import __version__

# Settings that what is judged does not depend on.
AFTERWARDS = ("budget", "target_precision", "explained", "beta", "alpha", "evidence", "source")
ENDS = ("head", "relation", "tail")


@dataclass(frozen=True, eq=False)
class Material:
    """What folds are judged by.

    Attributes:
        inputs: the facts, their folds, and what is asked for.
        views: the kinds of evidence, with what was trained for them.
        known_wrong: int64 [k, 3], stored facts that are known to be wrong.
    """

    inputs: ViewInputs
    views: tuple[View, ...]
    known_wrong: Tensor

    @property
    def folder(self) -> Path:
        """Where its files are, for others to read."""
        return self.inputs.home.path / "inputs"

    @cached_property
    def key(self) -> str:
        """Return a hash of all that judging follows from; the names are those of the folder."""
        inputs, folds, digest = self.inputs, self.inputs.folds, hashlib.sha256()
        asked = {n: v for n, v in inputs.settings.asked().items() if n not in AFTERWARDS}
        tuned, training = asdict(inputs.settings.thresholds), asdict(inputs.training)
        views = [(view.name, view.columns) for view in self.views]
        words = json.dumps([__version__, asked, tuned, training, views], sort_keys=True)
        digest.update(words.encode())
        arrays = [folds.graph.facts, folds.fold, self.known_wrong]
        if folds.planted is not None:
            arrays += [folds.planted.facts, folds.planted.fold]
        arrays += [more for more in (folds.seen, folds.new) if more is not None]
        for array in arrays:
            digest.update(array.numpy().tobytes() + b"\1")
        return digest.hexdigest()

    def write(self) -> None:
        """Write the files that other processes read."""
        folds = self.inputs.folds
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        write_vocabulary(folds.graph.entities, self.folder / "entities.parquet")
        write_vocabulary(folds.graph.relations, self.folder / "relations.parquet")
        more = {"fold": folds.fold.numpy()}
        if folds.graph.confidence is not None:
            more["confidence"] = folds.graph.confidence.numpy()
        if folds.new is not None:
            more["new"] = folds.new.numpy()
        self._write(folds.graph.facts, more, "facts")
        if folds.seen is not None:
            self._write(folds.seen, {}, "seen")
        self._write(self.known_wrong, {}, "known_wrong")
        planted = folds.planted
        if planted is not None:
            more = {"fold": planted.fold.numpy(), "kind": pa.array(planted.kind, pa.string())}
            self._write(planted.facts, more, "planted")

    def _write(self, facts: Tensor, more: dict[str, Any], name: str) -> None:
        columns = dict(zip(ENDS, facts.numpy().T, strict=True))
        write_table(pa.table({**columns, **more}), self.folder / f"{name}.parquet")

    def remove(self) -> None:
        """Remove the files again."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as the address of the files."""
        inputs, planted = self.inputs, self.inputs.folds.planted is not None
        training = json.dumps(asdict(inputs.training))
        names = tuple(view.name for view in self.views)
        told = (inputs.home.path, inputs.settings, training, names, inputs.folds.count, planted)
        return _open, (*told, self.key)


# A process that judges several folds reads the files once.
@lru_cache(maxsize=1)
def _open(
    home: Path,
    settings: AuditSettings,
    training: str,
    names: Any,
    count: int,
    planted: bool,
    key: str,
) -> Material:
    """Read what ``write`` has written, and open what was trained."""
    folder = home / "inputs"
    entities = read_vocabulary(folder / "entities.parquet", "entity")
    relations = read_vocabulary(folder / "relations.parquet", "relation")
    table, facts = _read(folder / "facts.parquet")
    graph = KnowledgeGraph(entities, relations, facts, _column(table, "confidence"))
    fold = cast(Tensor, _column(table, "fold"))
    tested = _read_planted(folder / "planted.parquet", planted)
    seen = _read(folder / "seen.parquet")[1] if (folder / "seen.parquet").is_file() else None
    folds = Folds(graph, fold, count, tested, seen, _column(table, "new"))
    own = make_settings(get_recipe(settings.recipe).settings, json.loads(training))
    inputs = ViewInputs(folds, settings, own, Home(home), tasks=None)
    return Material(inputs, build_views(inputs, names), _read(folder / "known_wrong.parquet")[1])


def _read_planted(path: Path, there: bool) -> Planted | None:
    if not there:
        return None
    table, facts = _read(path)
    kinds = cast("tuple[Noise, ...]", tuple(table["kind"].to_pylist()))
    return Planted(facts, kinds, cast(Tensor, _column(table, "fold")))


def _read(path: Path) -> tuple[pa.Table, Tensor]:
    """Return a table and its facts [n, 3]."""
    table = pyarrow.parquet.read_table(path)
    columns = [cast(Tensor, _column(table, name)) for name in ENDS]
    return table, torch.stack(columns, 1)


def _column(table: pa.Table, name: str) -> Tensor | None:
    if name not in table.column_names:
        return None
    return torch.from_numpy(table[name].to_numpy().copy())
