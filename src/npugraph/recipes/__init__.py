"""Recipes: one short file a system. RECIPES is the one table of them."""

from __future__ import annotations

from npugraph.errors import SettingsError, nearest
from npugraph.recipes.base import Recipe
from npugraph.recipes.complex_n3 import COMPLEX_N3
from npugraph.recipes.npugraph import NPUGRAPH, VARIANTS

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (NPUGRAPH, *VARIANTS, COMPLEX_N3)}


def get_recipe(name: str) -> Recipe:
    """Return a recipe by name; an unknown name is an error that names the nearest one."""
    if name not in RECIPES:
        hint = nearest(name, list(RECIPES)) or f" Known: {', '.join(RECIPES)}."
        raise SettingsError(f"There is no recipe {name!r}.{hint}")
    return RECIPES[name]
