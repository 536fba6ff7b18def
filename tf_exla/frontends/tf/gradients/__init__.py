"""Gradients of optimized calls: planned programs of their own."""
