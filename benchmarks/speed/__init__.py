"""How fast: ranking and training against other libraries."""
