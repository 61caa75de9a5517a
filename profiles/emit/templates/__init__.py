"""Look-ups in every language, to which the tables are added."""
