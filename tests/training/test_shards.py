"""States in several files: any number of ranks reads what another number has written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from npugraph.errors import RunError
from npugraph.peers import WHOLE, Peers, Share
from npugraph.training.shards import load, read_record, save
from rank_jobs import BLOCKS, DIMENSIONS, SAVED, STATE, run_ranks, save_state


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folders with a state that 1, 2 and 3 ranks have written, twice."""
    folders = {size: tmp_path_factory.mktemp(f"{size} ranks") for size in (1, 2, 3)}
    save(STATE, {"number": "1"}, folders[1] / "last.safetensors", WHOLE)
    for size in (2, 3):
        run_ranks(size, save_state, folders[size], 2)
    return folders


@pytest.mark.parametrize("writers", [1, 2, 3])
@pytest.mark.parametrize("readers", [1, 2, 3, 5])
def test_any_number_of_ranks_reads_its_columns(
    writers: int, readers: int, written: dict[int, Path]
) -> None:
    for rank in range(readers):
        share = Share(Peers(rank, readers), DIMENSIONS, BLOCKS) if readers > 1 else WHOLE
        found, record = load(written[writers] / "last.safetensors", share)
        assert record == {"number": "1"}
        assert found.keys() == STATE.keys()
        for name, tensor in STATE.items():
            cut = readers > 1 and name in SAVED
            assert torch.equal(found[name], share.cut(tensor, SAVED[name]) if cut else tensor), name


def test_old_files_are_gone_and_others_stay(written: dict[int, Path], tmp_path: Path) -> None:
    assert sorted(path.name for path in written[2].iterdir()) == [
        "last-2-1-of-2.safetensors",
        "last-2-2-of-2.safetensors",
        "last.safetensors",
    ]
    for path in written[2].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "last-words.safetensors").touch()
    save(STATE, {}, tmp_path / "last.safetensors", WHOLE)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["last-words.safetensors", "last.safetensors"]


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        ("{", "is damaged"),
        ('{"files": []}', "is damaged"),
        ({"files": [["../x.safetensors", 0, 7]]}, "names files outside of its folder"),
    ],
)
def test_an_index_that_makes_no_sense_is_said(
    index: str | dict[str, object], sentence: str, tmp_path: Path
) -> None:
    if isinstance(index, dict):
        index = json.dumps({"number": 1, "dimensions": 7, "blocks": {}} | index)
    path = tmp_path / "last.safetensors"
    save_file({}, path, metadata={"shards": index})
    with pytest.raises(RunError, match=sentence):
        load(path, WHOLE)
    assert read_record(path) == {"shards": index}
