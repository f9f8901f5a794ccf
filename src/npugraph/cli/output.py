"""The place a command writes to: checked before any work, and told of when work is stopped."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from npugraph.cli.common import megabytes, say
from npugraph.errors import NpugraphError, OutputError, RunError, SettingsError, cannot_write

OverwriteOption = Annotated[
    bool,
    typer.Option(
        "--overwrite",
        help="Replace what npugraph wrote to --out before; other files are never touched.",
    ),
]

RUN_FILES = (
    "settings.json",
    "entities.parquet",
    "relations.parquet",
    "facts.parquet",
    "model.safetensors",
    "last.safetensors",
    "metrics.jsonl",
)
AUDIT_FILES = (
    "begun.json",
    "audit.json",
    "suspects.tsv",
    "missing.tsv",
    "issues.tsv",
    "names.parquet",
    "evidence.parquet",
    "features.parquet",
    "history.parquet",
    "posterior.parquet",
    "cleaned.tsv",
    "quarantine.tsv",
    "facts.tsv",
    "patch.json",
    "report.html",
)
PERTURB_FILES = (
    "train.tsv",
    "valid.tsv",
    "test.tsv",
    "entities.txt",
    "relations.txt",
    "truth.tsv",
    "stats.json",
)
TUNE_FILES = ("study.db", "study.lock", "trials.tsv", "best.json")
# A folder's files by what it is, as regular expressions of their paths in it.
_RUN = "|".join(map(re.escape, RUN_FILES)) + r"|(model|last)-\d+-\d+-of-\d+\.safetensors"
PATTERNS = {
    "run": _RUN,
    "audit": "|".join(map(re.escape, AUDIT_FILES))
    + rf"|cleaned\.[a-z.]+|cleaned/[^/]+|(folds|pairs|path)/fold-\d+/({_RUN})"
    + rf"|trials/trial-\d+/({_RUN})|judged/fold-\d+\.safetensors|inputs/[a-z_]+\.parquet",
    "perturbed graph": "|".join(map(re.escape, PERTURB_FILES)),
    "study": "|".join(map(re.escape, TUNE_FILES)) + r"|study\.db-(journal|wal|shm)",
}


def check_folder(out: Path) -> None:
    """Refuse an --out that is a file, or a folder in which nothing can be written."""
    if out.exists() and not out.is_dir():
        raise SettingsError(f"--out {out} is a file; give a folder.")
    _probe(out, out)


@contextmanager
def made_in(out: str | None, work: Path | None, kind: str, overwrite: bool) -> Iterator[Path]:
    """Yield the local folder to write, checked before any work; an address gets it at the end.

    Args:
        out: --out, a folder or an address.
        work: --work, the local folder where --out is an address; None: a temporary one.
        kind: what is written.
        overwrite: whether what npugraph wrote there before may be replaced.
    """
    from npugraph.data.io import check_target, is_address, local_folder

    if out is None:
        raise SettingsError(f"Say where to write the {kind}: --out DIR.")
    if work is not None and not is_address(out):
        raise SettingsError("--work is for an --out that is an address; here --out is the folder.")
    if is_address(out):
        check_target(out, overwrite=overwrite)
    with local_folder(out, work) as folder:
        check_folder(folder)
        if overwrite:
            check_ours(folder, kind)
        yield folder


def check_file(out: Path, overwrite: bool) -> None:
    """Refuse an --out that is a folder, that is there already, or that cannot be written."""
    if out.is_dir():
        raise SettingsError(f"--out {out} is a folder; give a file.")
    if out.exists() and not overwrite:
        raise OutputError(
            f"--out {out} is there already; take another name, or replace it with --overwrite."
        )
    if not out.parent.is_dir():
        raise SettingsError(f"--out {out}: there is no folder {out.parent}; make it first.")
    _probe(out, out.parent)


def _existing(place: Path) -> Path:
    """Return the nearest folder above a place that is there."""
    place = place.absolute()
    while not place.exists():
        place = place.parent
    return place


def _probe(out: Path, folder: Path) -> None:
    """Write a byte to a file without a name; permissions alone do not tell."""
    place = _existing(folder)
    if not place.is_dir():
        raise SettingsError(f"--out {out}: {place} is a file, not a folder.")
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"\0")
            file.flush()
    except OSError as error:
        raise OutputError(f"--out {cannot_write(out, error)}") from None


def check_space(out: Path, need: int) -> None:
    """Refuse an --out where ``need`` bytes find no room beside what is there already."""
    there = sum(path.lstat().st_size for path in _files(out))
    free = shutil.disk_usage(_existing(out)).free
    if need > free + there:
        raise OutputError(
            f"--out {out}: about {megabytes(need)} will be written, and {megabytes(free)} are free "
            "there; make room, or write to another place."
        )


def check_empty(out: Path, kind: str) -> None:
    """Refuse a folder that holds files a command would replace."""
    found = [path for path in _files(out) if _is_ours(out, path, kind)]
    if found:
        raise OutputError(
            f"{out} already holds a {kind} ({found[0].name}); take another folder, or replace it "
            "with --overwrite."
        )


def clear_folder(out: Path, kind: str) -> None:
    """Remove what npugraph wrote into a folder; refuse one that holds anything else."""
    check_ours(out, kind)
    _remove(out, _files(out))


def _remove(out: Path, files: list[Path]) -> None:
    """Remove files, and the folders in ``out`` that are empty then."""
    for path in files:
        path.unlink()
    folders = [path for path in out.rglob("*") if path.is_dir() and not path.is_symlink()]
    for path in sorted(folders, reverse=True):
        if not any(path.iterdir()):
            path.rmdir()


def check_ours(out: Path, kind: str) -> None:
    """Refuse to replace a folder that holds files npugraph did not write."""
    others = [path for path in _files(out) if not _is_ours(out, path, kind)]
    if others:
        article = "an" if kind[0] in "aeiou" else "a"
        raise RunError(
            f"{out} also holds {others[0].relative_to(out)}, which is no part of {article} {kind}; "
            "move it away, or take another folder."
        )


def _files(folder: Path) -> list[Path]:
    """Return all files below a folder, which need not be there; links are not followed."""
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _is_ours(out: Path, path: Path, kind: str) -> bool:
    # A kill may have left a file that was not whole yet.
    whole = path.with_name(re.sub(r"^\.(.+)\.partial$", r"\1", path.name))
    return re.fullmatch(PATTERNS[kind], whole.relative_to(out).as_posix()) is not None


@contextmanager
def stoppable(
    out: Path, how: str, kept: Callable[[], bool], kind: str | None = None
) -> Iterator[None]:
    """Say on Ctrl-C or SIGTERM whether there is something to go on from, and how.

    Where there is nothing, or where the work is refused before there is anything, what was written
    since is taken away again: it would only stand in the way of the next time.

    Args:
        out: where it is.
        how: how to go on, a sentence.
        kept: tells whether anything can be gone on from.
        kind: what kind of folder it is; None: nothing is taken away.
    """
    existed, before = out.exists(), set(_files(out))

    def take_away() -> None:
        if kind is not None:
            _remove(out, [p for p in _files(out) if p not in before and _is_ours(out, p, kind)])
            if not existed and out.is_dir() and not any(out.iterdir()):
                out.rmdir()

    try:
        yield
    except NpugraphError:
        if not kept():
            take_away()
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        if kept():
            say(f"Stopped; {out} is safe. {how}")
        else:
            take_away()
            say("Stopped; nothing was kept yet.")
        raise SystemExit(stop.code if isinstance(stop, SystemExit) else 130) from None
