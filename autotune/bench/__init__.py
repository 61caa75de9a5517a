"""Benchmarks: everything that can move one batch, side by side."""
