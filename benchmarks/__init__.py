"""Measurements of speed and quality; benchmarks/README.md says how to run them."""
