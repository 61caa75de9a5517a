"""The ways to move a batch of ranges, one per module."""
