"""Symmetric [n, n] tensors: loops over pairs of chunks, which compute half of the tiles."""
