"""Moves that compute large images in overlapping blocks of rows."""
