"""Remember which files an audit is of, and find them again.

A path is kept relative to the audit's folder, and only where that tells nothing of the machine:
where both lie below the folder that the audit was started in, or the file beside the audit's
folder. Otherwise its name alone is kept. The SHA-256 tells whether a file is the one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npugraph.data.io import ReadOptions, digest, split_suffixes
from npugraph.errors import DataError, RunError
from npugraph.graph import InputFile
from npugraph.patching.make import Source
from npugraph.patching.patch import options_of, options_record


def input_record(files: Sequence[InputFile], folder: Path) -> dict[str, Any]:
    """Return the record of an audit's input, for audit.json.

    Args:
        files: the files, all read in one way.
        folder: of the audit.
    """
    options = ReadOptions(**files[0].options)
    return {
        "files": [
            {
                "name": file.path.name,
                "path": _relative(file.path, folder),
                "format": split_suffixes(file.path)[0].removeprefix("."),
                "compression": split_suffixes(file.path)[1],
                "sha256": file.sha256,
            }
            for file in files
        ],
        "read": options_record(options),
    }


def _relative(path: Path, folder: Path) -> str | None:
    """Return where a file lies as seen from a folder; None where that would tell of the machine."""
    here, file, place = Path.cwd().resolve(), path.resolve(), folder.resolve()
    both = file.is_relative_to(here) and place.is_relative_to(here)
    if both or file.is_relative_to(place.parent):
        return Path(os.path.relpath(file, place)).as_posix()
    return None


def find_sources(
    record: Mapping[str, Any], folder: Path, facts: Path | None = None
) -> list[Source]:
    """Return the files of an audit, as they were when they were audited.

    Args:
        record: the audit's, of audit.json.
        folder: of the audit.
        facts: the file, or the folder of the files, where the user names it.
    """
    found = record.get("input")
    if not isinstance(found, Mapping):
        raise RunError(
            f"{folder} does not say which file it is an audit of: an older npugraph wrote it; give "
            "the same audit command again."
        )
    try:
        options = options_of(found["read"])
        files = found["files"]
        if facts is not None and facts.is_file() and len(files) > 1:
            names = ", ".join(file["name"] for file in files)
            raise DataError(f"--facts {facts}: give the folder that holds {names}.")
        return [Source(_find(file, folder, facts), options, str(file["sha256"])) for file in files]
    except (KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{folder / 'audit.json'} is damaged ({error!r}); audit again.") from None


def _find(file: Mapping[str, Any], folder: Path, facts: Path | None) -> Path:
    name, wanted = str(file["name"]), file["sha256"]
    if facts is not None:
        places = [facts / name if facts.is_dir() else facts]
    else:
        near = [folder / str(file["path"])] if file["path"] is not None else []
        places = [*near, Path(name), folder.parent / name]
    there = [place for place in places if place.is_file()]
    for place in there:
        if digest(place) == wanted:
            return place
    if there:
        raise DataError(
            f"{there[0]} is not the file that was audited, or has changed since; audit it again, "
            "or give the file as it was with --facts."
        )
    raise DataError(f"{name}, which was audited, is not found; say where it is with --facts FILE.")
