"""Recorded sweeps, as files, and an engine that answers from one."""
