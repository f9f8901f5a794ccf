"""Recipes that are not in this package: files, installed packages, objects; and where they lie.

A run folder remembers where its recipe came from and a hash of that source. What has changed since
is not executed unless the user says so.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from npugraph.errors import RunError, SettingsError, nearest
from npugraph.recipes.base import Recipe

# The group of entry points by which an installed package offers recipes.
GROUP = "npugraph.recipes"
# The variable of a file that holds its recipe, unless another is named: ``file.py:NAME``.
VARIABLE = "RECIPE"

# Files that were executed in this process, by path and hash.
_modules: dict[tuple[Path, str], ModuleType] = {}


@dataclass(frozen=True)
class Origin:
    """Where a recipe comes from.

    Attributes:
        kind: a recipe of this package, of a file, of an installed package, or an object in Python.
        path: the file of its source, where there is one.
        name: the variable of the file, or the name of the entry point.
        sha256: of the file's bytes.
    """

    kind: Literal["built-in", "file", "entry point", "object"] = "built-in"
    path: str | None = None
    name: str | None = None
    sha256: str | None = None

    def record(self) -> dict[str, Any]:
        """Return it as a run folder stores it."""
        return asdict(self)


@dataclass(frozen=True)
class Found:
    """A recipe and where it comes from."""

    recipe: Recipe
    origin: Origin


def split_path(text: str) -> tuple[Path, str] | None:
    """Return the file and the variable that a text names, or None where it names no file.

    >>> split_path("mine.py:FAST")
    (PosixPath('mine.py'), 'FAST')
    >>> split_path("complex-n3") is None
    True
    """
    path, _, variable = text.rpartition(":")
    if path.endswith(".py"):
        return Path(path), variable
    return (Path(text), VARIABLE) if text.endswith(".py") else None


def from_file(path: Path, variable: str = VARIABLE) -> Found:
    """Execute a Python file and return the recipe that one of its variables holds."""
    if not path.is_file():
        raise SettingsError(f"{path}: there is no such recipe file.")
    path = path.resolve()
    digest = _hash(path)
    module = _modules.get((path, digest)) or _execute(path, digest)
    recipe = getattr(module, variable, None)
    if not isinstance(recipe, Recipe):
        known = [name for name, value in vars(module).items() if isinstance(value, Recipe)]
        held = f" It has: {', '.join(known)}; write {path.name}:{known[0]}." if known else ""
        raise SettingsError(f"{path}: its variable {variable} is no Recipe.{held}")
    return Found(recipe, Origin("file", str(path), variable, digest))


def _execute(path: Path, digest: str) -> ModuleType:
    name = f"npugraph_recipe_{digest[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up there while it is executed.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        why = str(error).strip().split("\n")[0]
        raise SettingsError(
            f"{path}: cannot be executed ({type(error).__name__}: {why})."
        ) from error
    _modules[path, digest] = module
    return module


def installed() -> dict[str, EntryPoint]:
    """Return the recipes that installed packages offer, by name; none of them is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def from_entry_point(point: EntryPoint) -> Found:
    """Import the recipe of an installed package."""
    try:
        recipe = point.load()
    except Exception as error:
        why = str(error).strip().split("\n")[0]
        raise SettingsError(
            f"The recipe {point.name!r} of an installed package ({point.value}) cannot be imported "
            f"({type(error).__name__}: {why})."
        ) from error
    if not isinstance(recipe, Recipe):
        raise SettingsError(f"The entry point {point.name!r} ({point.value}) is no Recipe.")
    return Found(recipe, _origin_of_point(point))


def _origin_of_point(point: EntryPoint) -> Origin:
    """Say where an installed recipe lies; its module is not imported for that."""
    spec = importlib.util.find_spec(point.module)
    path = None if spec is None or not spec.has_location else spec.origin
    digest = _hash(Path(path)) if path else None
    return Origin("entry point", path, point.name, digest)


def from_object(recipe: Recipe) -> Found:
    """Find the file and the variable that hold a recipe given as an object.

    One that was made in a script or a notebook has none: its file does more than define it.
    """
    for part in (recipe.build, recipe.settings):
        module = sys.modules.get(getattr(part, "__module__", None) or "")
        file = getattr(module, "__file__", None)
        if module is None or file is None or module.__name__ == "__main__":
            continue
        for name, value in vars(module).items():
            if value is recipe:
                path = Path(file).resolve()
                return Found(recipe, Origin("object", str(path), name, _hash(path)))
    return Found(recipe, Origin("object"))


def open_origin(
    recipe: str, stored: Mapping[str, Any], where: str, *, trust: bool = False
) -> Recipe:
    """Return the recipe of a run that is not of this package; refuse one that has changed.

    Args:
        recipe: the recipe's own name.
        stored: its origin, as the run folder has it.
        where: the run folder, for messages.
        trust: execute it although it has changed.
    """
    try:
        origin = Origin(**stored)
    except TypeError:
        raise RunError(f"{where}: it is not clear where its recipe {recipe!r} is from.") from None
    if origin.kind == "entry point":
        point = installed().get(str(origin.name))
        if point is None:
            raise RunError(
                f"{where} was made by the recipe {origin.name!r} of an installed package; install "
                "that package again."
            )
        _refuse_changed(where, _origin_of_point(point), origin, trust)
        return from_entry_point(point).recipe
    if origin.path is None or origin.name is None:
        raise RunError(
            f"{where} was made by the recipe {recipe!r}, an object in Python that lies in no file; "
            "pass it: load(folder, recipe=RECIPE)."
        )
    path = Path(origin.path)
    if not path.is_file():
        raise RunError(
            f"{where} was made by the recipe file {path}, which is gone; put it back, or pass the "
            "recipe: load(folder, recipe=...)."
        )
    _refuse_changed(where, Origin(origin.kind, str(path), origin.name, _hash(path)), origin, trust)
    return from_file(path, origin.name).recipe


def _refuse_changed(where: str, now: Origin, then: Origin, trust: bool) -> None:
    if now.sha256 != then.sha256 and not trust:
        raise RunError(
            f"The recipe file {now.path or then.path} has changed since {where} was made, and was "
            "not executed; if you trust it as it is now, say so: --trust-recipe, or trust=True."
        )


def unknown_recipe(name: str, known: list[str]) -> SettingsError:
    """Return the error for a recipe that nobody has; it gives the nearest name."""
    hint = nearest(name, known) or f" Known: {', '.join(known)}."
    return SettingsError(f"There is no recipe {name!r}.{hint}")


def _hash(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SettingsError(f"{path}: the recipe cannot be read ({error}).") from None
