"""The public recipes' model code, unchanged, on tiny models with random weights."""
