"""Errors that a user can act on: each message is one sentence that says what to do."""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NpugraphError(Exception):
    """Base of every error raised on purpose; the command line prints it and exits 2."""


class DataError(NpugraphError):
    """The input cannot be used as it is: the message names the file, the line and the value."""


class UnknownNameError(DataError):
    """Nothing has the name or number that was asked for: the message suggests near ones."""


class NothingAddedError(NpugraphError):
    """Nothing is new since an earlier audit; the command line prints it and exits 0."""


class SettingsError(NpugraphError):
    """A setting is unknown or out of range: the message names it and the nearest right one."""


class RunError(NpugraphError):
    """A run folder cannot be used: missing, broken, or made by other settings."""


class RankError(RunError):
    """Another rank of a training over several processes is gone; the command line exits 1."""


class OutputError(NpugraphError):
    """A file or folder cannot be written: the message names it and says why."""


_REASONS = {
    errno.ENOSPC: "the disk is full; make room, or write to another place",
    errno.EDQUOT: "your share of the disk is used up; make room, or write to another place",
    errno.EFBIG: "the file would be larger than is allowed here; write to another place",
    errno.EROFS: "the disk is read-only; write to another place",
    errno.EACCES: "you have no permission to write there; write to another place",
    errno.EPERM: "you have no permission to write there; write to another place",
    errno.ENOTDIR: "a part of its path is a file, not a folder",
    errno.EISDIR: "it is a folder; give a file",
    errno.ENAMETOOLONG: "its name is too long",
}


def in_one_line(error: Exception) -> str:
    """Return what an error of somebody else says, for a sentence to go on behind it."""
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def cannot_write(path: str | os.PathLike[str], error: Exception) -> OutputError:
    """Return the sentence about a file that could not be written.

    >>> str(cannot_write("x.tsv", OSError(28, "No space left on device")))
    'x.tsv cannot be written: the disk is full; make room, or write to another place.'
    """
    # Some libraries raise errors of their own, with the system's number in the text alone.
    told = re.search(r"\(os error (\d+)\)", str(error))
    number = getattr(error, "errno", None) or (int(told[1]) if told else None)
    reason = _REASONS.get(number) if number else None
    reason = reason or getattr(error, "strerror", None) or str(error) or type(error).__name__
    return OutputError(f"{path} cannot be written: {reason.rstrip('.')}.")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the system's errors while ``path`` is written into a sentence."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from None


# Files of a folder among which the nearest name is looked for.
_MOST_FILES = 10_000


def no_such_file(path: str | os.PathLike[str]) -> DataError:
    """Return the sentence about a file that is not there, with what may be meant.

    >>> str(no_such_file("nowhere/facts.tsv"))
    'nowhere/facts.tsv: no such file, for there is no folder nowhere.'
    """
    path = Path(path)
    if path.is_dir():
        return DataError(f"{path}: no such file; it is a folder, so name a file in it.")
    if not path.parent.is_dir():
        return DataError(f"{path}: no such file, for there is no folder {path.parent}.")
    hint = nearest_file(path)
    return DataError(f"{path}: no such file{f'.{hint}' if hint else '; check its name.'}")


def nearest_file(path: str | os.PathLike[str]) -> str:
    """Return a hint such as `` Did you mean 'facts.tsv'?`` about a file that is not there."""
    path = Path(path)
    stem = path.name.split(".")[0]
    try:
        names = [file.name for file in itertools.islice(path.parent.iterdir(), _MOST_FILES)]
    except OSError:
        return ""
    # The same ending alone makes no two names alike.
    return nearest(path.name, [name for name in names if nearest(stem, [name.split(".")[0]])])


def nearest(name: str, names: list[str] | tuple[str, ...]) -> str:
    """Return a hint such as `` Did you mean 'fb15k'?``, or nothing where no name is close.

    >>> nearest("fb15", ["fb15k", "wn18"])
    " Did you mean 'fb15k'?"
    >>> nearest("zzz", ["fb15k"])
    ''
    """
    import difflib

    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
