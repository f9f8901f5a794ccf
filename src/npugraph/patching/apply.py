"""Apply a patch to the files it was made for, and take it back; the two undo each other.

Lines come back byte for byte. A Turtle, Parquet or compressed file is written anew, so that a copy
of the original is kept beside the changed file; without it the facts come back, not the bytes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from npugraph.data.io import compress, read_content, split_suffixes, written_whole
from npugraph.errors import DataError, OutputError
from npugraph.patching.lines import exchange
from npugraph.patching.patch import FilePatch, Patch
from npugraph.patching.rows import digest_of, exchange_rows
from npugraph.patching.triples import TurtleFile, exchange_triples


@dataclass(frozen=True)
class Outcome:
    """What a patch makes of a file.

    Attributes:
        source: the file as given; it is not touched.
        content: what becomes of it, uncompressed.
        original: the bytes of the file to put there, compressed or not, where they are known.
        keep: the copy of the source to keep, by the name that is added to the target's.
        copy: the kept copy that was found.
    """

    source: Path
    content: bytes
    original: bytes | None = None
    keep: str | None = None
    copy: Path | None = None

    @property
    def exact(self) -> bool:
        """Whether a file that comes back does so byte for byte."""
        return self.original is not None or not _rewritten(self.source)


class _AlreadyError(DataError):
    """A file is as it should become."""


def apply_patch(patch: Patch, facts: Path) -> list[Outcome]:
    """Return what a patch makes of a file, or of the files in a folder; nothing is written."""
    return _each(_applied, _pairs(patch, facts))


def revert_patch(patch: Patch, facts: Path) -> list[Outcome]:
    """Return the files as they were before a patch; nothing is written."""
    return _each(_reverted, _pairs(patch, facts))


def _each(
    change: Callable[[FilePatch, Path], Outcome], pairs: list[tuple[FilePatch, Path]]
) -> list[Outcome]:
    """Change files; where that was broken off between them, those that are done stay."""
    done, already = [], []
    for file, path in pairs:
        try:
            done.append(change(file, path))
        except _AlreadyError as error:
            already.append(error)
            done.append(Outcome(path, read_content(path), path.read_bytes()))
    if already and len(already) == sum(file.before != file.after for file, _ in pairs):
        raise already[0]
    return done


def write_outcomes(outcomes: Sequence[Outcome], facts: Path, out: Path | None) -> list[Path]:
    """Write changed files: to ``out``, or, where that is None, in the place of the given ones.

    Args:
        outcomes: of one call of ``apply_patch`` or ``revert_patch``.
        facts: the file or folder that was given to it.
        out: a file for a file, a folder for a folder.

    Returns:
        The files that were written.
    """
    # A link stays a link: what it points to is replaced.
    targets = [_target(one, facts, out) for one in outcomes]
    if out is not None:
        for one, target in zip(outcomes, targets, strict=True):
            if target.exists() and target.samefile(one.source):
                raise OutputError(f"{target} is the input; to change it, say --in-place.")
        if facts.is_dir():
            out.mkdir(parents=True, exist_ok=True)
    for one, target in zip(outcomes, targets, strict=True):
        if one.keep is not None:
            kept = target.with_name(target.name + one.keep)
            _write(kept, one.source.read_bytes(), one.source)
        known = one.original if split_suffixes(target)[1] == split_suffixes(one.source)[1] else None
        data = compress(one.content, split_suffixes(target)[1]) if known is None else known
        _write(target, data, one.source)
        if out is None and one.copy is not None:
            one.copy.unlink()
    return targets


def _target(one: Outcome, facts: Path, out: Path | None) -> Path:
    if out is None:
        return one.source.resolve()
    return out / one.source.name if facts.is_dir() else out


def _write(path: Path, data: bytes, like: Path) -> None:
    with written_whole(path) as temporary:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            # The file of a user goes only once the new one is on the disk.
            os.fsync(file.fileno())
        shutil.copymode(like, temporary)


def _pairs(patch: Patch, facts: Path) -> list[tuple[FilePatch, Path]]:
    """Return the files of a patch and where they are."""
    if facts.is_dir():
        return [(file, facts / file.name) for file in patch.files]
    if len(patch.files) != 1:
        names = ", ".join(file.name for file in patch.files)
        raise DataError(f"The patch is for {names}; give the folder that holds them, not {facts}.")
    return [(patch.files[0], facts)]


def _applied(file: FilePatch, path: Path) -> Outcome:
    data = read_content(path)
    if not _is(file, path, data, file.before, file.facts_before):
        if _is(file, path, data, file.after, file.facts_after):
            raise _AlreadyError(f"{path}: the patch is applied already; nothing was written.")
        raise DataError(
            f"{path} is not the file that the patch was made for ({file.name}, SHA-256 "
            f"{file.before[:12]}...); nothing was written."
        )
    if file.before == file.after:
        return Outcome(path, data, path.read_bytes())
    new = _exchanged(file, path, data, forwards=True)
    return Outcome(path, new, keep=_copy_ending(file) if _rewritten(path) else None)


def _reverted(file: FilePatch, path: Path) -> Outcome:
    data = read_content(path)
    if not _is(file, path, data, file.after, file.facts_after):
        if _is(file, path, data, file.before, file.facts_before):
            raise _AlreadyError(
                f"{path}: the patch is not applied, so there is nothing to take back; nothing was "
                "written."
            )
        raise DataError(
            f"{path} is not the file that the patch makes ({file.name}, SHA-256 "
            f"{file.after[:12]}...); nothing was written."
        )
    if file.before == file.after:
        return Outcome(path, data, path.read_bytes())
    copy = path.resolve().with_name(path.resolve().name + _copy_ending(file))
    if _rewritten(path) and copy.is_file():
        old = read_content(copy, split_suffixes(path)[1])
        if hashlib.sha256(old).hexdigest() == file.before:
            return Outcome(path, old, copy.read_bytes(), copy=copy)
    return Outcome(path, _exchanged(file, path, data, forwards=False))


def _copy_ending(file: FilePatch) -> str:
    return f".{file.before[:8]}.original"


def _rewritten(path: Path) -> bool:
    """Tell whether a file is written anew as a whole, by a library."""
    suffix, compression = split_suffixes(path)
    return compression is not None or suffix in (".ttl", ".parquet")


def _is(file: FilePatch, path: Path, data: bytes, sha256: str, facts: str | None) -> bool:
    """Tell whether these are the bytes, or the same facts where bytes depend on the writer."""
    if hashlib.sha256(data).hexdigest() == sha256:
        return True
    return facts is not None and _facts_digest(file, path, data) == facts


def _facts_digest(file: FilePatch, path: Path, data: bytes) -> str | None:
    """Return the digest of a file's facts; None where it cannot be read."""
    try:
        if split_suffixes(Path(file.name))[0] == ".ttl":
            return TurtleFile.of(data, path).digest()
        return digest_of(data)
    except (DataError, ValueError, OSError):
        return None


def _exchanged(file: FilePatch, path: Path, data: bytes, forwards: bool) -> bytes:
    """Change the bytes of a file by a patch, forwards or backwards, and check the result."""
    out, into = (file.removed, file.inserted) if forwards else (file.inserted, file.removed)
    suffix = split_suffixes(Path(file.name))[0]
    if suffix == ".ttl":
        texts = [entry.text for entry in out], [entry.text for entry in into]
        new = exchange_triples(path, data, *texts)
    elif suffix == ".parquet":
        rows = (file.inserted_rows if forwards else file.removed_rows) or ""
        new = exchange_rows(data, out, into, rows, str(path))
    else:
        new = exchange(data, out, into, str(path))
    sha256, facts = file.before, file.facts_before
    if forwards:
        sha256, facts = file.after, file.facts_after
    if not _is(file, path, new, sha256, facts):
        place = (
            " or was made where the file lay elsewhere, and the file has relative IRIs, which "
            "depend on its place; give it where it was audited, or audit it with an @base"
        )
        why = place if suffix == ".ttl" else ""
        raise DataError(f"{path}: the patch is damaged{why}; nothing was written.")
    return new
