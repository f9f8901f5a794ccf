"""The hash of the numeric sources changes with what they do, and with nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from npugraph.bench import sources
from npugraph.bench.sources import NUMERIC, PACKAGE, numeric_files, provenance, source_hash

BEFORE = """\
def score(x):
    \'\'\'Return twice x.\'\'\'
    return 2 * x  # twice
"""


def hashed(folder: Path, text: str, name: str = "scorers/mine.py") -> str:
    path = folder / str(len(list(folder.iterdir()))) / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return source_hash(path.parents[1])


def test_what_is_only_written_differently_has_the_same_hash(tmp_path: Path) -> None:
    before = hashed(tmp_path, BEFORE)
    for same in (
        "def score(x):\n    return 2 * x\n",
        "# A comment.\ndef score( x ):\n\n    'Other words.'\n    return (2*x)\n",
        '"""Of a module."""\n' + BEFORE,
    ):
        assert hashed(tmp_path, same) == before


def test_what_does_something_else_has_another(tmp_path: Path) -> None:
    texts = (
        BEFORE,
        BEFORE.replace("2 *", "3 *"),
        BEFORE.replace("2 *", "2.0 *"),
        BEFORE.replace("2 * x", "x * 2"),
        BEFORE + "score(1)\n",
        BEFORE.replace("twice\n", "twice\n    'no docstring'\n"),
    )
    found = [hashed(tmp_path, text) for text in texts]
    assert len(set(found)) == len(texts)
    assert hashed(tmp_path, BEFORE, "scorers/other.py") not in found


def test_only_numeric_modules_count(tmp_path: Path) -> None:
    assert hashed(tmp_path, BEFORE, "cli/mine.py") == hashed(tmp_path, "", "cli/mine.py")
    names = {path.relative_to(PACKAGE).as_posix() for path in numeric_files()}
    assert {"model.py", "data/perturb.py", "scorers/perceptron.py", "training/loop.py"} <= names
    assert not {name for name in names if name.startswith(("cli/", "bench/", "report/"))}
    parts = {"/".join(name.split("/")[:depth]) for name in names for depth in (1, 2, 3)}
    assert set(NUMERIC) <= parts


def test_a_checkout_has_a_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "src" / "npugraph"
    package.mkdir(parents=True)
    monkeypatch.setattr(sources, "PACKAGE", package)
    assert provenance.__wrapped__()["commit"] is None
    (package / "a.py").write_text("a = 1\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    found = provenance.__wrapped__()
    assert len(found["commit"]) == 40
    assert found["dirty"] is False
    (tmp_path / "results.jsonl").touch()
    assert provenance.__wrapped__()["dirty"] is False
    (package / "b.py").touch()
    assert provenance.__wrapped__()["dirty"] is True


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "src" / "npugraph"
    package.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(sources, "PACKAGE", package)
    monkeypatch.setenv("PATH", "")
    found = provenance.__wrapped__()
    assert (found["commit"], found["dirty"]) == (None, None)
    assert len(found["source"]) == sources.DIGITS
