"""Recipes: one short file a system. RECIPES is the one table of them."""

from __future__ import annotations

from npugraph.errors import SettingsError, nearest
from npugraph.recipes.adversarial import COMPLEX, DISTMULT, ROTATE
from npugraph.recipes.base import Recipe
from npugraph.recipes.compgcn import COMPGCN
from npugraph.recipes.complex_n3 import COMPLEX_N3
from npugraph.recipes.inverse_rule import INVERSE_RULE
from npugraph.recipes.npugraph import NPUGRAPH, VARIANTS
from npugraph.recipes.nscaching import NSCACHING
from npugraph.recipes.puda import PUDA
from npugraph.recipes.random import RANDOM
from npugraph.recipes.rgcn import RGCN
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
        INVERSE_RULE,
        RANDOM,
    )
}


def get_recipe(name: str) -> Recipe:
    """Return a recipe by name; an unknown name is an error that names the nearest one."""
    if name not in RECIPES:
        hint = nearest(name, list(RECIPES)) or f" Known: {', '.join(RECIPES)}."
        raise SettingsError(f"There is no recipe {name!r}.{hint}")
    return RECIPES[name]
