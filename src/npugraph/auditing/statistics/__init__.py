"""Pure functions on arrays: noise kinds, priors, probabilities, recovery, review lists."""
