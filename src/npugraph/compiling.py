"""Compile loops with numba, where it is installed (``pip install 'npugraph[fast]'``).

Loops are plain Python functions on arrays in modules of their own, so tests run them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

Loop = Callable[..., Any]

# Parts that numba knows already.
_known: set[Loop] = set()


@cache
def available() -> bool:
    """Tell whether loops can be compiled; numba may be told not to, by NUMBA_DISABLE_JIT."""
    try:
        from numba import config
    except ImportError:
        return False
    return not config.DISABLE_JIT  # type: ignore[attr-defined]


def compiled(
    loop: Loop,
    parts: Sequence[Loop] = (),
    *,
    inline: bool = False,
    keep: bool = False,
    **options: Any,
) -> Loop:
    """Return a loop compiled; other threads may use the interpreter while it runs.

    Args:
        loop: the function.
        parts: functions that it calls, those that others call first; always with the same options.
        inline: copy the parts into the loop, rather than leave it to the compiler.
        keep: keep what was compiled in a file, if there is a folder for it that may be written to.
        options: of numba.
    """
    from numba import njit
    from numba.extending import register_jitable

    for part in parts:
        if part not in _known:
            register_jitable(inline="always" if inline else "never", **options)(part)
            _known.add(part)
    build = njit(nogil=True, **options)
    made: Loop = build(loop)
    if keep:
        with suppress(RuntimeError):  # numba found no folder
            made.enable_caching()  # type: ignore[attr-defined]
    return made
