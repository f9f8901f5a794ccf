"""The command audit on a graph that grows, and on files at addresses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from audit_samples import people
from cli_calls import call, npugraph, refusal

SMALL = (
    "--set", "d=8", "--set", "epochs=2", "--set", "search=false", "--device", "cpu", "--folds", "2",
    "--budget", "12", "--missing", "10", "--set", "explained=1",
)  # fmt: skip
FEW = ("--set", "score_rounds=4", "--set", "profile_rounds=4", "--set", "corrected_facts=20")
OLD = people(24)
ADDED = [("person 001", "knows", "person 007"), (" new", "lives in", "Großstadt 2")]


@pytest.fixture(scope="module")
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def lines(rows: list[tuple[str, str, str]]) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()


@pytest.fixture(scope="module")
def audited(memory: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of an audit of facts at an address."""
    memory.pipe_file("/bucket/facts.tsv", lines(OLD))
    work = tmp_path_factory.mktemp("work") / "audit"
    words = ("--out", "memory://bucket/audit", "--work", work)
    done = npugraph("audit", "memory://bucket/facts.tsv", *words, *SMALL, *FEW)
    assert "All of it is in memory://bucket/audit" in done.output
    assert (work / "audit.json").read_bytes() == memory.cat_file("/bucket/audit/audit.json")
    return "memory://bucket/audit"


def test_an_audit_at_an_address_has_all_files(audited: str, memory: Any) -> None:
    for name in ("report.html", "cleaned.tsv", "history.parquet", "folds/fold-2/model.safetensors"):
        assert memory.isfile(f"/bucket/audit/{name}"), name
    record = json.loads(memory.cat_file("/bucket/audit/audit.json"))
    assert record["input"]["files"][0]["name"] == "facts.tsv"
    assert record["input"]["files"][0]["path"] is None
    assert "holds files already" in refusal(
        "audit", "memory://bucket/facts.tsv", "--out", audited, *SMALL
    )


def test_it_is_gone_on_with(audited: str, memory: Any, tmp_path: Path) -> None:
    memory.pipe_file("/bucket/more.tsv", lines([*OLD[2:], *ADDED]))
    more = ("audit", "memory://bucket/more.tsv", "--since", audited, *FEW)
    done = npugraph(*more, "--out", tmp_path / "later", "--json")
    record = json.loads(done.stdout)
    since = record["since"]
    assert (since["added"], since["removed"], since["entities"]) == (2, 2, 1)
    assert record["folds"] == 2, "As in the earlier audit."
    assert record["suspects"] == 2
    said = npugraph(*more, "--out", tmp_path / "later").output
    assert "2 added, 0 changed, 2 removed" in said


def test_nothing_new_is_no_failure(audited: str, tmp_path: Path) -> None:
    words = ("audit", "memory://bucket/facts.tsv", "--since", audited, "--out", tmp_path / "no")
    done = npugraph(*words)
    assert "nothing to judge" in done.output
    assert json.loads(npugraph(*words, "--json").stdout)["added"] == 0
    assert not (tmp_path / "no").exists()


def test_refusals(audited: str, tmp_path: Path) -> None:
    facts = tmp_path / "facts.tsv"
    facts.write_bytes(lines([*OLD, *ADDED]))
    words = ("audit", facts, "--since", audited)
    assert "recipe=complex-n3, not rotate" in refusal(
        *words, "--out", tmp_path, "--recipe", "rotate"
    )
    assert "--work is for" in refusal("audit", facts, "--out", tmp_path / "a", "--work", tmp_path)
    assert "no such file" in refusal(
        "audit", facts, "--out", tmp_path / "a", "--since", "memory://bucket/none"
    )
    assert call("audit", facts, "--out", "qqq://a").exit_code != 0
    assert not (tmp_path / "a").exists()
