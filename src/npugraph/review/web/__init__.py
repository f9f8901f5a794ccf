"""The desk and the scores over HTTP: on this machine alone, for who has the token.

``app`` puts it together, ``security`` says who is answered, ``models`` what the answers look like.
It needs the extra ``review``; nothing below the command line imports it.
"""

from __future__ import annotations

from importlib.util import find_spec

from npugraph.errors import SettingsError

NEEDED = ("fastapi", "uvicorn")


def check_installed() -> None:
    """Refuse to go on without the packages of the extra ``review``, before any of them is used."""
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        raise SettingsError(
            f"Serving over HTTP needs {' and '.join(absent)}: pip install 'npugraph[review]'."
        )
