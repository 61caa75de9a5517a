"""Which plans and shapes are worth measuring: the whole plan space, and a search through it."""
