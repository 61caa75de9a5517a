"""The run-time side of a profile. Standard library only: it is loaded into serving processes."""
