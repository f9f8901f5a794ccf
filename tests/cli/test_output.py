"""Where commands write: refused before any work, replaced only when asked, never half written."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import cli_calls
from cli_calls import call, npugraph
from npugraph import auditing, fitting
from npugraph.auditing import run
from npugraph.errors import OutputError
from npugraph.training import shards

TRAIN = ("--set", "d=8", "--set", "epochs=4", "--set", "validate_every=1", "--set", "device=cpu")
AUDIT = (
    "--set", "d=8", "--set", "epochs=2", "--set", "search=false", "--device", "cpu",
    "--folds", "2", "--budget", "5", "--set", "missing=5", "--set", "explained=1",
)  # fmt: skip
TUNE = ("--trials", "1", "--set", "epochs=1", "--set", "device=cpu")
RARE = ("--min-user", "1", "--min-item", "1", "--min-tag", "1")


def refusal(*words: object) -> str:
    """Return the one sentence that a command refuses with; it names no hash."""
    said = cli_calls.refusal(*words)
    assert "\n" not in said
    assert said[-1] in ".?"
    assert not re.search(r"[0-9a-f]{16}", said.replace(str(Path(tempfile.gettempdir())), ""))
    return said


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"folder"
        for path in sorted(folder.rglob("*"))
    }


def write_facts(path: Path, step: int = 3) -> Path:
    rows = {(f"a{i % 13}", f"r{i % 2}", f"b{(i * step) % 17}") for i in range(200)}
    path.write_text("".join("\t".join(row) + "\n" for row in sorted(rows)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two graphs, a log of interactions and a run."""
    folder = tmp_path_factory.mktemp("inputs")
    write_facts(folder / "facts.tsv")
    write_facts(folder / "others.tsv", step=5)
    (folder / "log.tsv").write_text("user\titem\ttag\nu\ti\tt\n", encoding="utf-8")
    npugraph("fit", folder / "facts.tsv", "--out", folder / "run", *TRAIN)
    return folder


def command(name: str, inputs: Path, out: Path) -> tuple[object, ...]:
    """Return a command that works, with its --out."""
    facts = inputs / "facts.tsv"
    return {
        "fit": ("fit", facts, "--out", out, *TRAIN),
        "audit": ("audit", facts, "--out", out, *AUDIT),
        "tune": ("tune", facts, "--out", out, *TUNE),
        "perturb": ("perturb", facts, "--out", out),
        "score": ("score", inputs / "run", facts, "--out", out),
        "interactions": ("interactions", inputs / "log.tsv", "--out", out, *RARE),
    }[name]


FOLDERS = ("fit", "audit", "tune", "perturb")
FILES = ("score", "interactions")


# Before any work


@pytest.mark.parametrize("name", FOLDERS)
def test_a_file_is_no_folder(name: str, inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine", encoding="utf-8")
    before = tree(tmp_path)
    said = refusal(*command(name, inputs, tmp_path / "x"))
    assert said == f"--out {tmp_path / 'x'} is a file; give a folder."
    said = refusal(*command(name, inputs, tmp_path / "x" / "deeper"))
    assert said == f"--out {tmp_path / 'x' / 'deeper'}: {tmp_path / 'x'} is a file, not a folder."
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", FILES)
def test_a_folder_is_no_file(name: str, inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").mkdir()
    said = refusal(*command(name, inputs, tmp_path / "x.tsv"))
    assert said == f"--out {tmp_path / 'x.tsv'} is a folder; give a file."
    said = refusal(*command(name, inputs, tmp_path / "no" / "x.tsv"))
    assert said.endswith(f"there is no folder {tmp_path / 'no'}; make it first.")
    assert "use .tsv, .csv or .parquet" in refusal(*command(name, inputs, tmp_path / "x.xls"))
    assert tree(tmp_path) == {"x.tsv": b"folder"}


@pytest.mark.parametrize("name", FOLDERS + FILES)
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EACCES, "you have no permission to write there"),
        (errno.EROFS, "the disk is read-only"),
        (errno.ENOSPC, "the disk is full"),
    ],
)
def test_a_place_that_cannot_be_written_is_found_before_the_graph_is_read(
    name: str,
    number: int,
    reason: str,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("The graph was read.")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr("npugraph.data.io.read_table", read)
    monkeypatch.setattr("npugraph.data.sources.load_graph", read)
    monkeypatch.setattr("npugraph.data.sources.load_splits", read)
    out = tmp_path / ("x.tsv" if name in FILES else "x")
    said = refusal(*command(name, inputs, out))
    assert said.startswith(f"--out {out} cannot be written: {reason}")
    assert tree(tmp_path) == {}


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="needs root to become nobody")
def test_a_read_only_folder_for_somebody_who_is_not_root(inputs: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        code = (
            "import os, sys; os.setgid(65534); os.setuid(65534); "
            f"sys.argv = ['npugraph', 'fit', 'world', '--out', {str(folder / 'x')!r}]; "
            "from npugraph.cli.output import check_folder; from pathlib import Path; "
            f"check_folder(Path({str(folder / 'x')!r}))"
        )
        # Imported before the change of user: nobody may not read this Python's files.
        code = "import npugraph.cli, encodings.idna, traceback; " + code
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert "cannot be written: you have no permission to write there" in done.stderr
        assert tree(folder) == {}


@pytest.mark.parametrize("name", ["fit", "audit", "perturb", "score", "interactions"])
def test_too_little_space_is_found_before_anything_is_written(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 10, 10))
    monkeypatch.setattr(fitting, "train", None)
    monkeypatch.setattr(run, "build_views", None)
    out = tmp_path / ("x.tsv" if name in FILES else "x")
    said = refusal(*command(name, inputs, out))
    assert said.startswith(f"--out {out}: about ")
    assert "will be written, and 0 MiB are free there; make room" in said
    assert tree(tmp_path) == {}


# What is there already


@pytest.mark.parametrize("name", FOLDERS)
def test_another_graph_in_the_same_folder_is_refused_and_overwrite_helps(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = command(name, inputs, out)
    npugraph(*words)
    before = tree(out)
    other = [inputs / "others.tsv" if word == inputs / "facts.tsv" else word for word in words]
    resume = ["--resume"] if name == "fit" else []
    said = refusal(*other, *resume)
    assert "--overwrite" in refusal(*other)
    if name != "perturb":
        assert "another graph" in said
    assert {k: v for k, v in tree(out).items() if "study." not in k} == {
        k: v for k, v in before.items() if "study." not in k
    }
    npugraph(*other, "--overwrite")
    npugraph(*other[:3], tmp_path / "fresh", *other[4:])
    assert tree(out).keys() == tree(tmp_path / "fresh").keys()


@pytest.mark.parametrize("name", FOLDERS)
def test_overwrite_touches_no_file_of_the_users_own(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = command(name, inputs, out)
    npugraph(*words)
    (out / "notes").mkdir()
    (out / "notes" / "mine.txt").write_text("mine", encoding="utf-8")
    before = tree(out)
    said = refusal(*words, "--overwrite")
    assert f"{out} also holds {Path('notes', 'mine.txt')}, which is no part of a" in said
    assert tree(out) == before


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_replaced_only_when_asked(name: str, inputs: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.tsv"
    out.write_text("mine", encoding="utf-8")
    said = refusal(*command(name, inputs, out))
    assert said.endswith("is there already; take another name, or replace it with --overwrite.")
    assert out.read_text(encoding="utf-8") == "mine"
    npugraph(*command(name, inputs, out), "--overwrite")
    assert out.read_text(encoding="utf-8") != "mine"


def test_an_audit_with_other_folds_names_them(inputs: Path, tmp_path: Path) -> None:
    words = command("audit", inputs, tmp_path / "out")
    npugraph(*words)
    said = refusal(*words, "--folds", "3")
    assert said.startswith(f"{tmp_path / 'out'} holds an audit with folds=2, not folds=3; take")
    said = refusal(*words, "--set", "batch_size=64")
    assert "holds an audit with no batch_size=, not batch_size=64; take" in said
    # What is only read from the trained systems may change.
    assert json.loads(npugraph(*words, "--budget", "7", "--json").stdout)["suspects"] == 7


def test_resume_and_overwrite_exclude_each_other(inputs: Path, tmp_path: Path) -> None:
    words = command("fit", inputs, tmp_path / "out")
    assert "not both" in refusal(*words, "--resume", "--overwrite")
    assert tree(tmp_path) == {}


def test_score_says_that_an_audit_is_no_run(inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "audit.json").write_text("{}", encoding="utf-8")
    said = refusal("score", tmp_path / "audit", inputs / "facts.tsv", "--out", tmp_path / "x.tsv")
    assert "is the folder of an audit; score takes a run of fit" in said
    assert not (tmp_path / "x.tsv").exists()


REFUSED = {
    "few facts": (("audit", "few.tsv", *AUDIT), "needs at least 50"),
    "too many folds": (("audit", "facts.tsv", *AUDIT, "--folds", "900"), "folds=900"),
    "no such graph": (("audit", "gone.tsv", *AUDIT), "neither a file"),
    "no such recipe": (("fit", "facts.tsv", "--recipe", "transy"), "Did you mean"),
    "a loss that is no number": (
        ("fit", "facts.tsv", *TRAIN, "--set", "learning_rate=1e30"),
        "is not a number",
    ),
    "nothing to validate by": (("tune", "few.tsv", *TUNE), "no validation facts"),
    "nothing to search": (("tune", "facts.tsv", "--recipe", "random"), "nothing to tune"),
    "a rate beyond all": (("perturb", "facts.tsv", "--rate", "2"), "between 0 and 1"),
    "a bad line": (("perturb", "bad.tsv"), "line 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_that_is_refused_leaves_a_file_or_folder(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    (first, graph, *more), said = REFUSED[name]
    few = "".join(f"a{i}\tr\tb{i}\n" for i in range(20))
    (inputs / "few.tsv").write_text(few, encoding="utf-8")
    (inputs / "bad.tsv").write_text("a\tr\tb\na\tr\n", encoding="utf-8")
    assert said in refusal(first, inputs / graph, *more, "--out", tmp_path / "out")
    assert tree(tmp_path) == {}


# A disk that is full in the middle


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """Let the system refuse to write files beyond a size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["fit", "audit", "perturb", "score"])
def test_a_write_that_fails_is_a_sentence_and_leaves_no_partial_file(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / ("x.tsv" if name in FILES else "x")
    with small_files(500):
        done = call(*command(name, inputs, out))
    assert isinstance(done.exception, OutputError), (done.output, done.exception)
    assert "cannot be written: the file would be larger than is allowed here" in str(done.exception)
    assert not list(tmp_path.rglob("*.partial"))
    if name in ("fit", "audit"):
        assert tree(tmp_path) == {}
    npugraph(*command(name, inputs, out), *(["--overwrite"] if name == "perturb" else []))


def test_a_disk_that_fills_up_in_training_loses_nothing(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    npugraph(*command("fit", inputs, whole))
    save, count = shards.save_file, 0

    def full(tensors: Any, path: Path, **more: Any) -> None:
        nonlocal count
        count += 1
        if count > 4:
            path.write_bytes(b"half")
            raise shards.SafetensorError("I/O error: No space left on device (os error 28)")
        save(tensors, path, **more)

    monkeypatch.setattr(shards, "save_file", full)
    said = refusal(*command("fit", inputs, cut))
    assert "safetensors cannot be written: the disk is full; make room" in said
    assert not list(cut.glob(".*"))
    assert (cut / "last.safetensors").is_file()
    monkeypatch.undo()
    npugraph(*command("fit", inputs, cut), "--resume")
    for name in ("model.safetensors", "last.safetensors", "facts.parquet"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()


# Ctrl-C and SIGTERM


def stop_fit(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    fit = fitting.fit

    def stopped(*args: Any, report: Any, **more: Any) -> Any:
        def watch(record: dict[str, Any]) -> None:
            report(record)
            if record["epoch"] == after:
                raise KeyboardInterrupt

        return fit(*args, report=watch, **more)

    monkeypatch.setattr(fitting, "fit", stopped)


def test_ctrl_c_is_safe_once_there_is_a_checkpoint(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_fit(monkeypatch, after=2)
    done = call(*command("fit", inputs, tmp_path / "run"))
    assert done.exit_code == 130
    assert done.stderr.endswith(
        f"Stopped; {tmp_path / 'run'} is safe. Go on with the same command and --resume.\n"
    )
    assert (tmp_path / "run" / "last.safetensors").is_file()


def test_ctrl_c_before_a_checkpoint_keeps_nothing_and_says_so(
    inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_fit(monkeypatch, after=1)
    words = (*command("fit", inputs, tmp_path / "run"), "--set", "validate_every=3")
    done = call(*words)
    assert done.exit_code == 130
    assert done.stderr.endswith("Stopped; nothing was kept yet.\n")
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("stage", "kept"), [("training", False), ("judging", True)])
def test_ctrl_c_in_an_audit(
    stage: str, kept: bool, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = auditing.audit

    def stopped(*args: Any, **more: Any) -> Any:
        tell = more["stage"]

        def watch(name: str, progress: dict[str, Any]) -> None:
            tell(name, progress)
            if name == stage:
                raise KeyboardInterrupt

        return audit(*args, **{**more, "stage": watch})

    monkeypatch.setattr(auditing, "audit", stopped)
    done = call(*command("audit", inputs, tmp_path / "audit"))
    assert done.exit_code == 130
    if kept:
        assert done.stderr.endswith("is safe. The same command goes on from there.\n")
        assert (tmp_path / "audit" / "folds" / "fold-2" / "last.safetensors").is_file()
    else:
        assert done.stderr.endswith("Stopped; nothing was kept yet.\n")
        assert tree(tmp_path) == {}


def test_sigterm_is_told_the_same_and_is_exit_code_143(inputs: Path, tmp_path: Path) -> None:
    words = command("fit", inputs, tmp_path / "run")
    process = subprocess.Popen(
        [sys.executable, "-m", "npugraph", *map(str, words), "--set", "epochs=100000",
         "--set", "patience=100000"],
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    while process.poll() is None and not (tmp_path / "run" / "last.safetensors").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 143, said
    assert said.endswith("is safe. Go on with the same command and --resume.\n")
    assert "Traceback" not in said
