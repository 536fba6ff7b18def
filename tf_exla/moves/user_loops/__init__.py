"""Moves for the loops and choices of the user's program: their lists, rows and iterations."""
