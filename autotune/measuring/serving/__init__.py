"""Serving blocks as pure logic: what a burst costs decode, what may be claimed of the tail, and what to run next."""
