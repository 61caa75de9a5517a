"""From measured blocks to decision tables."""
