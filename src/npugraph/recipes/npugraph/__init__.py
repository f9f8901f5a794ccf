"""What only nPUGraph needs: two heads, their posterior, the objective, self-training."""

from __future__ import annotations

from npugraph.recipes.npugraph.recipe import NPUGRAPH, VARIANTS

__all__ = ["NPUGRAPH", "VARIANTS"]
