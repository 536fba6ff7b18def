"""Loops over the pairs of tiles of symmetric tensors."""
