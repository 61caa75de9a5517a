"""Simulated devices: an engine whose times come from a model of measured tables."""
