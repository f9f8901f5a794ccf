"""Recipes: one short file per system. RECIPES is the one table of this package's own."""

from __future__ import annotations

import os

from npugraph.errors import SettingsError
from npugraph.recipes.base import Recipe
from npugraph.recipes.compgcn import COMPGCN
from npugraph.recipes.complex_adversarial import COMPLEX
from npugraph.recipes.complex_n3 import COMPLEX_N3
from npugraph.recipes.distmult import DISTMULT
from npugraph.recipes.inverse_rule import INVERSE_RULE
from npugraph.recipes.npugraph import NPUGRAPH, VARIANTS
from npugraph.recipes.nscaching import NSCACHING
from npugraph.recipes.origin import (
    Found,
    Origin,
    from_entry_point,
    from_file,
    from_object,
    installed,
    split_path,
    unknown_recipe,
)
from npugraph.recipes.path import NPUGRAPH_PATH, NPUGRAPH_PLUS, PATH
from npugraph.recipes.puda import PUDA
from npugraph.recipes.random import RANDOM
from npugraph.recipes.rgcn import RGCN
from npugraph.recipes.rotate import ROTATE
from npugraph.recipes.sans import SANS_RECIPE
from npugraph.recipes.transe import TRANSE
from npugraph.recipes.transr import TRANSR
from npugraph.recipes.ukge import UKGE

# In the order of the paper's table, then our own references.
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        TRANSE,
        TRANSR,
        DISTMULT,
        COMPLEX,
        ROTATE,
        RGCN,
        COMPGCN,
        UKGE,
        NSCACHING,
        SANS_RECIPE,
        PUDA,
        NPUGRAPH,
        *VARIANTS,
        COMPLEX_N3,
        PATH,
        NPUGRAPH_PATH,
        NPUGRAPH_PLUS,
        INVERSE_RULE,
        RANDOM,
    )
}


def find_recipe(recipe: str | os.PathLike[str] | Recipe) -> Found:
    """Return a recipe and where it comes from.

    Args:
        recipe: a name of RECIPES, a Python file with a variable ``RECIPE`` (or ``file.py:NAME``),
            the name of an installed recipe (entry points of the group ``npugraph.recipes``), or a
            Recipe.
    """
    if isinstance(recipe, Recipe):
        own = any(recipe is known for known in RECIPES.values())
        return Found(recipe, Origin()) if own else from_object(recipe)
    if not isinstance(recipe, str | os.PathLike):
        raise SettingsError(
            f"A recipe is a name, a Python file or a Recipe, not {recipe!r} "
            f"({type(recipe).__name__})."
        )
    name = os.fspath(recipe)
    if name in RECIPES:
        return Found(RECIPES[name], Origin())
    file = split_path(name)
    if file is not None:
        return from_file(*file)
    points = installed()
    if name in points:
        return from_entry_point(points[name])
    raise unknown_recipe(name, [*RECIPES, *points])


def get_recipe(recipe: str | os.PathLike[str] | Recipe) -> Recipe:
    """Return a recipe, by name or of one's own; an unknown name is an error with the nearest one.

    >>> get_recipe("complex-n3").name
    'complex-n3'
    """
    return find_recipe(recipe).recipe
