"""Profiles as code: tables and the look-up in one file that engines compile in, and what else carries a profile."""
