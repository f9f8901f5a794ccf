"""path: a system without entity vectors."""

from npugraph.recipes.path.recipe import PATH

__all__ = ["PATH"]
