"""Profiles as files: one profile in canonical JSON. Standard library only, as serving processes read them."""
