"""Exact filtered ranking, and what a trained model says of facts."""
