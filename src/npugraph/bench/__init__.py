"""The bench: plans of many runs, run side by side, stopped and gone on with at will."""

from npugraph.bench.plan import BenchPlan, Cell
from npugraph.bench.store import Store

__all__ = ["BenchPlan", "Cell", "Store"]
