"""The scripts of the repository as modules, for tests of what they write."""

from __future__ import annotations

import importlib
from types import ModuleType


def load_script(name: str) -> ModuleType:
    """Import scripts/NAME.py; pyproject.toml puts the folder on the path."""
    return importlib.import_module(name)
