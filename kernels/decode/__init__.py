"""Decode workloads: what a serving engine runs beside its transfers."""
