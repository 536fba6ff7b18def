"""Comparison of random programs with their optimized versions: `python -m tf_exla fuzz`."""
