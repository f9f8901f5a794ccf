"""Decisions and cleaned graphs for other tools, one file per target."""
