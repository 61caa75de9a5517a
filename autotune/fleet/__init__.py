"""Profiles that hosts share through one database."""
