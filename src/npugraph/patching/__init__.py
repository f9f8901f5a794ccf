"""Take decisions about facts home: patches of files, and exports for other tools."""

from npugraph.patching.apply import apply_patch, revert_patch, write_outcomes
from npugraph.patching.make import Made, Source, make_patch
from npugraph.patching.patch import Decision, Fact, Patch, read_patch

__all__ = [
    "Decision",
    "Fact",
    "Made",
    "Patch",
    "Source",
    "apply_patch",
    "make_patch",
    "read_patch",
    "revert_patch",
    "write_outcomes",
]
