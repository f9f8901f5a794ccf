"""Processes that hold a system together: what each holds, and what they exchange."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from npugraph.errors import RunError, SettingsError
from npugraph.peers import ALONE, Peers, Share, join
from npugraph.version import __version__
from rank_jobs import join_again, other_version, run_ranks, square


@given(st.integers(1, 9), st.integers(0, 20), st.integers(1, 3), st.integers(0, 4))
def test_the_shares_of_all_ranks_are_the_table(
    size: int, more: int, blocks: int, rows: int
) -> None:
    dimensions = size + more
    table = torch.arange(float(rows * blocks * dimensions)).view(rows, blocks * dimensions)
    shares = [Share(Peers(rank, size), dimensions) for rank in range(size)]
    widths = [last - first for first, last in (share.own() for share in shares)]
    parts = [
        share.cut(table, blocks).view(rows, blocks, width)
        for share, width in zip(shares, widths, strict=True)
    ]
    assert torch.equal(torch.cat(parts, 2).flatten(1), table)
    assert max(widths) - min(widths) <= 1
    assert all(part.is_contiguous() for part in parts)


def test_alone_nothing_is_exchanged() -> None:
    parts = [torch.ones(2), torch.zeros(1)]
    assert ALONE.sums(parts) is parts
    assert ALONE.lengths(parts) is parts
    assert ALONE.sum(parts[0]) is parts[0]
    assert ALONE.same("x") == "x"
    assert ALONE.each("x") == ["x"]
    with ALONE.in_turn():
        ALONE.wait()


def test_a_sum_over_ranks_and_its_gradient() -> None:
    # (1 + 2)^2, and by either part 2 (1 + 2).
    assert run_ranks(2, square) == [(3.0, 6.0, "torch.float32")] * 2


@pytest.mark.parametrize(
    ("version", "d", "differs"),
    [
        ("0.0.1", 4, f"npugraph=0.0.1 where rank 0 has {__version__}"),
        (__version__, 6, "d=6 where rank 0 has 4"),
    ],
)
def test_unequal_ranks_are_refused_in_one_sentence(version: str, d: int, differs: str) -> None:
    for error in run_ranks(2, other_version, version, d):
        assert isinstance(error, RunError)
        needed = "every rank needs the same versions, settings and facts."
        assert str(error) == f"Rank 1 has {differs}; {needed}"


def test_ranks_that_have_met_before_join_as_they_are() -> None:
    assert run_ranks(2, join_again) == [True, True]


def test_who_is_not_told_to_be_a_rank_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert join() is ALONE
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert join() is ALONE


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, "MASTER_ADDR is not set; start it by torchrun"),
        ({"MASTER_ADDR": "x", "MASTER_PORT": "1", "RANK": "first"}, "'first'"),
    ],
)
def test_what_is_wrong_with_the_environment_is_said(
    variables: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"RANK": "0", "WORLD_SIZE": "2"} | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=sentence):
        join()


def test_every_rank_needs_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert Peers(3, 4, 1, 2).own_device(gpu) == torch.device("cuda", 1)
    assert Peers(3, 4, 1, 2).own_device(cpu) == cpu
    assert ALONE.own_device(gpu) == gpu
    with pytest.raises(SettingsError, match="3 ranks on this machine need a GPU each, .* are 2"):
        Peers(0, 3, 0, 3).own_device(gpu)
