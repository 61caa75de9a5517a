"""A sweep, from what was asked for to a published profile: plan space, shapes, blocks, fits, tables, gate."""
