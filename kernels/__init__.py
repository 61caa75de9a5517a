"""What can run: facts, shapes, plans, ranges, copy kernels and the backends that submit them."""
