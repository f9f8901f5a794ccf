"""The bytes of a file as they are before compression: read, hashed and compressed again."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa

from npugraph.data.io.formats import split_suffixes
from npugraph.errors import DataError, no_such_file

BLOCK = 1 << 22


def read_content(path: Path, compression: str | None = "detect") -> bytes:
    """Return the uncompressed bytes of a file; its name says how it is compressed, or you do."""
    if compression == "detect":
        compression = split_suffixes(path)[1]
    try:
        with pa.input_stream(str(path), compression=compression) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        raise no_such_file(path) from None
    except OSError as error:
        raise DataError(f"{path}: the file breaks off or is damaged ({error}).") from None


def compress(data: bytes, compression: str | None) -> bytes:
    """Return bytes as a file with this compression (gzip, zstd, None) holds them.

    >>> import gzip
    >>> gzip.decompress(compress(b"a", "gzip")), compress(b"a", None)
    (b'a', b'a')
    """
    if compression is None:
        return data
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, compression) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def digest(path: Path) -> str:
    """Return the SHA-256 of the uncompressed bytes of a file."""
    found = hashlib.sha256()
    try:
        with pa.input_stream(str(path), compression=split_suffixes(path)[1]) as stream:
            while block := stream.read(BLOCK):
                found.update(block)
    except OSError as error:
        raise DataError(f"{path}: the file breaks off or is damaged ({error}).") from None
    return found.hexdigest()
