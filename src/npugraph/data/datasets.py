"""Finds, checks and loads graphs: those of the catalogue, the bundled one, and the user's own.

A graph of the catalogue is looked for in `$NPUGRAPH_DATA/<name>`, then in the user's cache, and is
downloaded into the cache otherwise. Whatever the place, a file counts only if the SHA-256 of its
uncompressed bytes is the one in the catalogue: a number measured on FB15k is then a number about
FB15k.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import logging
import os
import sys
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from npugraph.data.catalogue import CATALOGUE, SPLIT_FILES, DatasetInfo, FileInfo
from npugraph.errors import DataError, in_one_line, nearest, nearest_file

if TYPE_CHECKING:  # torch comes with it, so it is imported on use only
    from npugraph.graph import KnowledgeGraph

__all__ = [
    "BUNDLED",
    "CATALOGUE",
    "DatasetInfo",
    "FileInfo",
    "bundled",
    "content_hash",
    "find",
    "info",
    "load",
    "locate",
    "locate_file",
    "unknown_graph",
]

log = logging.getLogger(__name__)

BUNDLED = "world"
TIMEOUT_S = 30.0
CHUNK = 1 << 20

# Files whose hash was found right in this process: (path, size, time of change).
_verified: set[tuple[Path, int, int]] = set()


def info(name: str) -> DatasetInfo:
    """The catalogue's entry of a graph.

    Raises:
        DataError: no graph has this name; the message gives the nearest one.

    Example:
        >>> info("umls").counts
        {'train': 5216, 'valid': 652, 'test': 661}
    """
    if name not in CATALOGUE:
        known = [BUNDLED, *CATALOGUE]
        hint = nearest(name, known) or f" The known ones are: {', '.join(known)}."
        raise DataError(f"No graph is called {name!r}.{hint}")
    return CATALOGUE[name]


def find(name: str) -> Path | None:
    """The folder on this machine that holds all three splits, or None; hashes are not checked."""
    for folder in _folders(info(name).name):
        if all(_present(folder, file) is not None for file in SPLIT_FILES):
            return folder
    return None


def locate(name: str, *, allow_download: bool = True, progress: bool = True) -> Path:
    """The folder that holds the checked splits of a catalogue graph.

    Args:
        name: a name of the catalogue.
        allow_download: whether files that are not on this machine may be fetched.
        progress: whether a download shows a bar on the error stream.

    Returns:
        A folder with `train.tsv`, `valid.tsv` and `test.tsv`, each plain or with `.gz`.

    Raises:
        DataError: a file is missing and cannot be fetched, or its hash is wrong.
    """
    entry = info(name)
    folder = find(name)
    if folder is not None:
        for file in SPLIT_FILES:
            _verify(cast(Path, _present(folder, file)), entry.files[file].sha256)
        return folder
    _refuse(entry, SPLIT_FILES, allow_download)
    for file in SPLIT_FILES:
        _fetch_missing(entry, file, progress)
    return _cache_folder(name)


def locate_file(
    name: str, file: str, *, allow_download: bool = True, progress: bool = True
) -> Path:
    """The checked path of one file of a catalogue graph, such as `test_negatives.tsv`.

    The path ends in `.gz` where the file is compressed. Arguments and errors are those of
    `locate`.
    """
    entry = info(name)
    if file not in entry.files:
        hint = nearest(file, list(entry.files)) or f" It has: {', '.join(entry.files)}."
        raise DataError(f"{name} has no file {file!r}.{hint}")
    for folder in _folders(name):
        path = _present(folder, file)
        if path is not None:
            _verify(path, entry.files[file].sha256)
            return path
    _refuse(entry, (file,), allow_download)
    return _fetch_missing(entry, file, progress)


def load(name: str, *, allow_download: bool = True, progress: bool = True) -> KnowledgeGraph:
    """Locate and read a catalogue graph, or the bundled one under its name `world`.

    It carries its train, valid and test parts.
    """
    if name == BUNDLED:
        return bundled()
    from npugraph.data.io import ReadOptions, read_splits

    folder = locate(name, allow_download=allow_download, progress=progress)
    columns = tuple(range(len(CATALOGUE[name].columns)))
    return read_splits(folder, ReadOptions(header=False, columns=columns), name=name).whole()


def bundled() -> KnowledgeGraph:
    """The graph that comes with the package: countries, capitals, languages, time zones.

    It is one file; its parts are drawn with seed 0 and are therefore always the same.

    Example:
        >>> world = bundled()
        >>> world.name, world.num_relations
        ('world', 14)
    """
    from npugraph.data.io import ReadOptions, read_graph
    from npugraph.graph import draw_parts

    with resources.as_file(resources.files("npugraph") / "data" / "bundled" / "world.tsv") as path:
        graph = read_graph(path, ReadOptions(header=True))
        return replace(graph, name=BUNDLED, path=path, part=draw_parts(graph, seed=0))


def content_hash(graph: str) -> str:
    """SHA-256 of what a graph holds, however its files are compressed.

    That of a graph of the catalogue follows from the catalogue, so its files need not be here.

    Args:
        graph: a name, a file of facts or a folder, as for `load_graph`.

    Example:
        >>> content_hash("umls") == content_hash("kinships")
        False
    """
    if graph in CATALOGUE:
        hashes = [CATALOGUE[graph].files[file].sha256 for file in SPLIT_FILES]
        return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
    digest = hashlib.sha256()
    for path in _files(graph):
        digest.update(_hash(path).encode() + b"\n")
    return digest.hexdigest()


def _files(graph: str) -> list[Path]:
    """The files that hold the bundled graph or a user's own."""
    if graph == BUNDLED:
        with resources.as_file(
            resources.files("npugraph") / "data" / "bundled" / "world.tsv"
        ) as path:
            return [path]
    path = Path(graph)
    if path.is_file():
        return [path]
    if path.is_dir():
        from npugraph.data.io import find_part

        names = (path / "entities.txt", path / "relations.txt")
        parts = [find_part(path, part.removesuffix(".tsv")) for part in SPLIT_FILES]
        return [*parts, *(name for name in names if name.is_file())]
    raise unknown_graph(graph)


def _hash(path: Path) -> str:
    """SHA-256 of a file's uncompressed bytes."""
    import pyarrow

    digest = hashlib.sha256()
    try:
        with pyarrow.input_stream(str(path), compression="detect") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({in_one_line(error)}); replace it.") from None
    return digest.hexdigest()


def unknown_graph(graph: str) -> DataError:
    """The error for what is no file, no folder and no name; it gives the nearest name."""
    hint = nearest(graph, [BUNDLED, *CATALOGUE]) or nearest_file(graph)
    end = f".{hint}" if hint else "; 'npugraph datasets list' shows the known ones."
    return DataError(f"{graph!r} is neither a file, nor a folder, nor a known graph{end}")


def _cache_folder(name: str) -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "npugraph" / name


def _folders(name: str) -> list[Path]:
    """Where a graph may lie, the user's own data first."""
    own = os.environ.get("NPUGRAPH_DATA")
    return [*([Path(own) / name] if own else []), _cache_folder(name)]


def _present(folder: Path, file: str) -> Path | None:
    """The file, plain before compressed: the order in which `io.read_splits` looks, too."""
    for path in (folder / file, folder / f"{file}.gz"):
        if path.is_file():
            return path
    return None


def _refuse(entry: DatasetInfo, files: tuple[str, ...], allow_download: bool) -> None:
    """Raise where files cannot or must not be downloaded, and say where to put them."""
    own = os.environ.get("NPUGRAPH_DATA")
    wanted = ", ".join(f"{file}.gz" for file in files)
    place = Path(own or "$NPUGRAPH_DATA") / entry.name
    state = "" if own else " (the variable NPUGRAPH_DATA is not set)"
    if any(entry.files[file].url is None for file in files):
        what = "this cut" if files == SPLIT_FILES else "this file"
        reason = f"{what} was made for this package and has no public copy"
    elif not allow_download:
        reason = "it is not on this machine and downloads are switched off"
    else:
        return
    raise DataError(f"{entry.name}: {reason}; put {wanted} into {place}{state}.")


def _fetch_missing(entry: DatasetInfo, file: str, progress: bool) -> Path:
    """Make sure one file is in the cache and right; download it where it is missing."""
    folder = _cache_folder(entry.name)
    path = _present(folder, file)
    if path is None:
        path = folder / file
        _download(entry.files[file], path, f"{entry.name}/{file}", progress)
    _verify(path, entry.files[file].sha256)
    return path


def _verify(path: Path, expected: str) -> None:
    """Check the hash of a file's uncompressed bytes, once in a process."""
    state = path.stat()
    key = (path.resolve(), state.st_size, state.st_mtime_ns)
    if key in _verified:
        return
    digest = hashlib.sha256()
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({in_one_line(error)}); replace it.") from None
    if digest.hexdigest() != expected:
        raise DataError(
            f"{path}: its uncompressed bytes have SHA-256 {digest.hexdigest()}, but {expected} is "
            "expected; remove the file or replace it."
        )
    _verified.add(key)


def _download(file: FileInfo, path: Path, title: str, progress: bool) -> None:
    """Fetch one file; it appears under its name only when it is whole and its hash is right."""
    url = cast(str, file.url)  # `_refuse` has seen to the files without one
    log.info("downloading %s to %s", url, path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as target, _bar(title, progress) as report:
            found = _copy(url, target, report, crlf=file.crlf)
        if found != file.sha256:
            raise DataError(
                f"{url}: the download has SHA-256 {found}, but {file.sha256} is expected; it was "
                "thrown away."
            )
        partial.replace(path)
    except urllib.error.HTTPError as error:
        raise DataError(f"{url}: the server answered {error.code} ({error.reason}).") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{url}: the download to {path} failed ({reason}).") from None
    finally:
        partial.unlink(missing_ok=True)


def _copy(
    url: str, target: IO[bytes], report: Callable[[int, int | None], None], *, crlf: bool
) -> str:
    """Copy an address into an open file; returns the SHA-256 of the bytes written.

    Args:
        url: what to fetch.
        target: where to write.
        report: told the bytes received so far and the total, where the server says it.
        crlf: replace CR LF by LF.
    """
    digest = hashlib.sha256()
    received = 0
    held = b""  # a CR at the end of a chunk waits for what follows it
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        length = answer.headers.get("Content-Length")
        total = int(length) if length else None
        while chunk := answer.read(CHUNK):
            received += len(chunk)
            report(received, total)
            if crlf:
                chunk = (held + chunk).replace(b"\r\n", b"\n")
                held = b"\r" if chunk.endswith(b"\r") else b""
                chunk = chunk.removesuffix(b"\r")
            digest.update(chunk)
            target.write(chunk)
    digest.update(held)
    target.write(held)
    if total is not None and received != total:  # a sized read does not notice a cut connection
        raise OSError(f"the connection closed after {received} of {total} bytes")
    return digest.hexdigest()


@contextmanager
def _bar(title: str, show: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar on the error stream; yields a function of the bytes done and the total."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    # A log file is no place for a bar.
    hidden = not show or not sys.stderr.isatty()
    with progress.Progress(*columns, console=Console(stderr=True), disable=hidden) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
