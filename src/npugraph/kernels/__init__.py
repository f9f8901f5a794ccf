"""Device code, called by name; the formulas that use it stay free of it."""
