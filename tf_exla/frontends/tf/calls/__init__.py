"""Calls of optimized functions: from arguments to planned programs."""
