"""Flow A: a batch becomes a loss, a loss a step, steps a run folder."""
