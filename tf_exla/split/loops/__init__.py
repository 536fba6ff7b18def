"""Loops over the chunks of a region: stages, bodies, chunk sizes."""
