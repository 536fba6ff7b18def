"""Moves: large images in blocks of rows."""
