"""The engine that measures a real GPU."""
