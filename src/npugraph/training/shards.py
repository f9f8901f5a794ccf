"""Tensors in files: all in one, or one file per rank with an index.

One process writes ``NAME.safetensors``. Several write ``NAME-K-1-of-N.safetensors``, each its own
columns, and then the first puts an index in the place of ``NAME.safetensors``: what is not cut, and
the names of the others. K counts how often the state was written. The index is written last and old
files go after it, so that a kill at any moment leaves the old state or the new one. Any number of
ranks can read what any other has written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from npugraph.data.io import written_whole
from npugraph.errors import RunError, cannot_write
from npugraph.peers import Share

# The files of one state, beside its NAME.safetensors.
PATTERN = r"{name}-(\d+)-\d+-of-\d+\.safetensors"
Record = dict[str, str]


@dataclass(frozen=True)
class Index:
    """Where the columns of cut tensors are.

    Attributes:
        number: how often the state was written.
        dimensions: of all files together.
        files: name, first dimension and the one after the last, of each.
        blocks: cut tensors, by name, and in how many blocks of columns their numbers stand.
    """

    number: int
    dimensions: int
    files: list[tuple[str, int, int]]
    blocks: dict[str, int]


def save(tensors: Mapping[str, Tensor], record: Record, path: Path, share: Share) -> None:
    """Write tensors and a record; ``share`` says which are cut, by their names here."""
    peers = share.peers
    if not share.blocks:
        # Every rank has the whole of it.
        if peers.rank == 0:
            _write(tensors, record, path)
            _remove_others(path, None)
        peers.wait()
        return
    sizes = {name: tensor.dim() for name, tensor in tensors.items()}
    blocks = _blocks(sizes, share)
    number = peers.same(_number(path) + 1)
    own = f"{path.stem}-{number}-{peers.rank + 1}-of-{peers.size}.safetensors"
    _write({name: tensors[name] for name in blocks}, {}, path.with_name(own))
    files = peers.each((own, *share.own()))
    if peers.rank == 0:
        index = Index(number, share.dimensions, files, blocks)
        rest = {name: tensor for name, tensor in tensors.items() if name not in blocks}
        _write(rest, record | {"shards": json.dumps(asdict(index))}, path)
        _remove_others(path, index)
    # Nobody may read the old index after this.
    peers.wait()


def load(path: Path, share: Share) -> tuple[dict[str, Tensor], Record]:
    """Read tensors and the record: own columns of what is cut, whoever has written it."""
    with _opened(path) as file:
        record = dict(file.metadata() or {})
        index = _index(path, record)
        names = list(file.keys())
        if index is None and not share.blocks:
            return {name: file.get_tensor(name) for name in names}, record
        if index is None:
            blocks = _blocks({name: len(file.get_slice(name).get_shape()) for name in names}, share)
            index = Index(0, share.dimensions, [(path.name, 0, share.dimensions)], blocks)
        rest = {name: file.get_tensor(name) for name in names if name not in index.blocks}
    wanted = share.own() if share.blocks else (0, index.dimensions)
    return rest | _columns(path, index, wanted), record


def read_record(path: Path) -> Record:
    """Return what stands beside the tensors of a file, without reading them."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


def _blocks(sizes: Mapping[str, int], share: Share) -> dict[str, int]:
    """Return the blocks of the tensors that are cut, given how many axes each has.

    What an optimiser keeps of a table, "optimizer/0/sum", is cut as all of "optimizer/0"; its
    single numbers are not.
    """
    known = share.blocks
    found = {name: known.get(name) or known.get(name.rpartition("/")[0], 0) for name in sizes}
    return {name: count for name, count in found.items() if count and sizes[name] == 2}


def _columns(path: Path, index: Index, wanted: tuple[int, int]) -> dict[str, Tensor]:
    """Read dimensions ``wanted`` of every cut tensor from the files that have them."""
    pieces: dict[str, list[Tensor]] = {name: [] for name in index.blocks}
    for name, first, last in index.files:
        low, high = max(first, wanted[0]), min(last, wanted[1])
        if low >= high:
            continue
        place = path.with_name(name)
        if not place.is_file():
            raise RunError(
                f"{place} is missing: the state of {path} is in {len(index.files)} files. Put it "
                "back, or train again."
            )
        with _opened(place) as file:
            for key, blocks in index.blocks.items():
                # Blocks stand side by side in the file: the columns of each are read alone.
                table, width = file.get_slice(key), last - first
                starts = [block * width for block in range(blocks)]
                parts = [table[:, s + low - first : s + high - first] for s in starts]
                pieces[key].append(torch.stack(parts, 1))
    return {name: torch.cat(parts, 2).flatten(1) for name, parts in pieces.items()}


def _index(path: Path, record: Record) -> Index | None:
    """Return the index that a file holds, or None where the file is all there is."""
    text = record.pop("shards", None)
    if text is None:
        return None
    try:
        found = Index(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise RunError(f"{path} is damaged ({error}); train again.") from None
    if any(Path(name).name != name for name, *_ in found.files):
        raise RunError(f"{path} names files outside of its folder; it is not a run of npugraph.")
    return found


def _number(path: Path) -> int:
    """Return how often a state was written; 0 where it is whole or not there."""
    index = _index(path, read_record(path)) if path.is_file() else None
    return 0 if index is None else index.number


def _remove_others(path: Path, index: Index | None) -> None:
    """Remove the files of earlier states, and of states that were never finished."""
    kept = set() if index is None else {name for name, *_ in index.files}
    for place in path.parent.glob(f"{path.stem}-*.safetensors"):
        ours = re.fullmatch(PATTERN.format(name=path.stem), place.name)
        if ours and place.name not in kept:
            place.unlink(missing_ok=True)


def _write(tensors: Mapping[str, Tensor], record: Record, path: Path) -> None:
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with written_whole(path) as temporary:
            save_file(whole, temporary, metadata=record)
    except SafetensorError as error:
        raise cannot_write(path, error) from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except RunError:
        raise
    except Exception as error:
        raise RunError(f"{path} is damaged ({error}); train again.") from None
