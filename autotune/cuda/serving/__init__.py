"""Serving blocks on a GPU: decode in every colocation, bursts beside it, and what is seen of both."""
