"""path: a system without entity vectors; npugraph-plus: path and vectors together."""

from npugraph.recipes.path.plus import NPUGRAPH_PLUS
from npugraph.recipes.path.recipe import PATH

__all__ = ["NPUGRAPH_PLUS", "PATH"]
