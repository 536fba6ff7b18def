"""Moves: passes that make forms of a program that can be split where the original cannot."""
