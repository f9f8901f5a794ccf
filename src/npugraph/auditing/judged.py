"""Facts with the features that the views gave them, in memory and in files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from npugraph.auditing.statistics.evidence import FactArrays
from npugraph.data.corrupt import Noise
from npugraph.data.io import written_whole
from npugraph.errors import writing

# What Judged holds of each fact.
PER_FACT = ("facts", "fold", "features", "replaced", "support")


@dataclass(frozen=True)
class Judged:
    """Facts with the features that the views gave them.

    Attributes:
        facts: int64 [n, 3].
        fold: int64 [n].
        features: float32 [n, len(columns)], those of all views side by side.
        replaced: int64 [n], which end of a fact of a pool was replaced: 0, 2, or -1, no single end.
        support: int64 [n], in how many facts of the other folds the less known of its two ends is.
        columns: the name of each feature, ``VIEW.COLUMN``.
        score: the columns whose mean is the plain score.
    """

    facts: Tensor
    fold: Tensor
    features: Tensor
    replaced: Tensor
    support: Tensor
    columns: tuple[str, ...]
    score: tuple[str, ...]

    @classmethod
    def join(cls, parts: Sequence[Judged]) -> Judged:
        """Return the facts of several folds, one after the other."""
        return parts[0]._with(
            {name: torch.cat([getattr(part, name) for part in parts]) for name in PER_FACT}
        )

    def select(self, rows: Tensor) -> Judged:
        """Return some of the facts."""
        return self._with({name: getattr(self, name)[rows] for name in PER_FACT})

    def _with(self, values: dict[str, Any]) -> Judged:
        return replace(self, **values)

    def plain_score(self) -> Tensor:
        """Return the plain score [n]: the mean of the scores of both questions."""
        return self.features[:, [self.columns.index(name) for name in self.score]].mean(1)

    def arrays(self) -> FactArrays:
        """Return them as arrays."""
        return FactArrays(
            self.features.numpy(),
            self.fold.numpy(),
            self.facts[:, 1].numpy(),
            self.plain_score().numpy(),
            self.replaced.numpy(),
            self.support.numpy(),
        )


# What Part holds beside its pools.
GROUPS = ("collected", "proposed", "planted", "known_wrong")


@dataclass(frozen=True)
class Part:
    """All that was judged as facts of one fold.

    Attributes:
        collected: the stored facts of the fold.
        pools: uncollected facts by kind.
        proposed: candidates for missing facts.
        planted: facts of the self-test.
        known_wrong: stored facts that are known to be wrong.
    """

    collected: Judged
    pools: dict[Noise, Judged]
    proposed: Judged
    planted: Judged
    known_wrong: Judged

    def save(self, path: Path, key: str) -> None:
        """Write it in one step; ``key`` says what it follows from."""
        pools = {f"pools.{kind}": judged for kind, judged in self.pools.items()}
        tensors = {
            f"{name}/{column}": getattr(judged, column).contiguous()
            for name, judged in {**{n: getattr(self, n) for n in GROUPS}, **pools}.items()
            for column in PER_FACT
        }
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as temporary:
            save_file(tensors, temporary, {"key": key})

    @classmethod
    def read(
        cls, path: Path, kinds: Sequence[Noise], columns: tuple[str, ...], score: tuple[str, ...]
    ) -> Part:
        """Read what ``save`` wrote; the names of columns are as in Judged."""
        with safe_open(path, "pt") as file:

            def judged(name: str) -> Judged:
                values = {one: file.get_tensor(f"{name}/{one}") for one in PER_FACT}
                return Judged(**values, columns=columns, score=score)

            groups = {name: judged(name) for name in GROUPS}
            return cls(pools={kind: judged(f"pools.{kind}") for kind in kinds}, **groups)


def has_part(path: Path, key: str) -> bool:
    """Tell whether a file holds a part that follows from what ``key`` stands for."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, "pt") as file:
            return bool((file.metadata() or {}).get("key") == key)
    except SafetensorError:
        return False
