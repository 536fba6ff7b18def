"""Random programs against their optimized selves: `python -m tf_exla fuzz`."""
