"""Measuring as pure logic: what to run next, when to stop, and what the numbers say."""
