"""path: no entity vectors; npugraph-path: its evidence weighed; npugraph-plus: with ComplEx-N3."""

from npugraph.recipes.path.npu import NPUGRAPH_PATH
from npugraph.recipes.path.plus import NPUGRAPH_PLUS
from npugraph.recipes.path.recipe import PATH

__all__ = ["NPUGRAPH_PATH", "NPUGRAPH_PLUS", "PATH"]
