"""Moves for the loops and choices of a program: their lists, rows, iterations."""
