"""Splitting: large tensors between small sources and reductions become loops over chunks."""
