"""What only the paper's tables need: its printed figures, claims, notes, tables."""
