"""Tests of JAX are left out without it: TensorFlow before 2.19 excludes JAX 0.6."""

import importlib.util  # `jax` alone would be found: the folder is called so

if importlib.util.find_spec("jaxlib") is None:
    collect_ignore_glob = ["test_*.py"]
