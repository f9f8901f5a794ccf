"""Files elsewhere: addresses such as s3://bucket/facts.parquet, by fsspec.

What is read is copied to a temporary folder first, as it is, and read there. What is written is
made in a local folder and copied to the address when all of it is done. So everything else works
on local files alone.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npugraph.errors import DataError, NpugraphError, OutputError, SettingsError, in_one_line

# A protocol, perhaps several in a row, and two slashes: neither C:\facts.tsv nor a:b is one.
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z][A-Za-z0-9+.-]+)*://")
# The file that is written to learn whether anything can be.
PROBE = ".npugraph-probe"


def is_address(place: object) -> bool:
    """Tell whether a place is an address of fsspec, not a path.

    >>> [is_address(p) for p in ("s3://bucket/facts.tsv", "facts.tsv", "a:b", "C:/facts.tsv")]
    [True, False, False, False]
    """
    return isinstance(place, str) and ADDRESS.match(place) is not None


def local_copy(place: str | os.PathLike[str]) -> Path:
    """Return a local path as it is; copy what is at an address, a file or a folder.

    The copy has the same name and is removed when the process ends.
    """
    if not is_address(place):
        return Path(place)
    address = str(place)
    files, where = _opened(address, DataError)
    name = where.rstrip("/").rpartition("/")[2].partition("?")[0]
    target = _temporary() / (name or "facts")
    with _told(address, DataError):
        if files.isfile(where):
            files.get_file(where, str(target))
        elif files.isdir(where):
            target.mkdir()
            files.get(where.rstrip("/") + "/", str(target) + "/", recursive=True)
        else:
            raise DataError(f"{address}: no such file or folder; check the address.")
    return target


def check_target(address: str, *, overwrite: bool = False) -> None:
    """Refuse an address that cannot be written, or that holds files, before any work is done.

    A small file is written and removed: permissions alone do not tell.
    """
    files, where = _opened(address, OutputError)
    where = where.rstrip("/")
    with _told(address, OutputError):
        files.invalidate_cache()
        if files.isfile(where):
            raise SettingsError(f"--out {address} is a file; give a folder.")
        if not overwrite and files.isdir(where) and files.ls(where):
            raise OutputError(
                f"{address} holds files already; take another address, or replace them with "
                "--overwrite."
            )
        files.makedirs(where, exist_ok=True)
        files.pipe_file(f"{where}/{PROBE}", b"\0")
        files.rm_file(f"{where}/{PROBE}")


def upload(folder: Path, address: str) -> None:
    """Copy all files of a local folder to an address."""
    files, where = _opened(address, OutputError)
    where = where.rstrip("/")
    with _told(address, OutputError):
        for path in sorted(folder.rglob("*")):
            place = f"{where}/{path.relative_to(folder).as_posix()}"
            if path.is_dir():
                files.makedirs(place, exist_ok=True)
            else:
                files.put_file(str(path), place)


@contextmanager
def local_folder(place: str | os.PathLike[str], work: Path | None = None) -> Iterator[Path]:
    """Yield a folder to write to; where ``place`` is an address, it is uploaded when all is well.

    Args:
        place: a local folder, or an address.
        work: the local folder of an address; a temporary one where None.
    """
    if not is_address(place):
        yield Path(place)
        return
    folder = work or _temporary() / "made"
    yield folder
    upload(folder, str(place))


def _temporary() -> Path:
    """Return a new folder that is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="npugraph-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _opened(address: str, error: type[NpugraphError]) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise SettingsError(
            f"{address} needs the package fsspec: pip install 'npugraph[remote]'."
        ) from None
    try:
        files, where = url_to_fs(address)
    except ImportError as missing:
        raise SettingsError(
            f"{address}: a package for this protocol is not installed ({in_one_line(missing)})."
        ) from None
    except ValueError as unknown:
        raise SettingsError(f"{address}: {in_one_line(unknown)}.") from None
    except Exception as failure:  # what a protocol's package raises is its own affair
        raise error(f"{address} cannot be reached ({in_one_line(failure)}).") from None
    return files, str(where)


@contextmanager
def _told(address: str, error: type[NpugraphError]) -> Iterator[None]:
    """Turn what a protocol's package raises into a sentence."""
    does = "written" if error is OutputError else "read"
    try:
        yield
    except NpugraphError:
        raise
    except FileNotFoundError:
        raise error(f"{address}: no such file or folder; check the address.") from None
    except PermissionError as refused:
        raise error(
            f"{address} cannot be {does}: access is refused ({in_one_line(refused)}); check the "
            "credentials that its package looks for."
        ) from None
    except NotImplementedError:
        raise error(f"{address} cannot be {does}: this protocol does not allow it.") from None
    except Exception as failure:  # what a protocol's package raises is its own affair
        raise error(f"{address} cannot be {does} ({in_one_line(failure)}).") from None
