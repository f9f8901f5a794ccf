"""How well: planted facts found, probabilities that hold, readings of the paper."""
