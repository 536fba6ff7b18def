"""Run scripts with every function optimized: `python -m tf_exla run`."""
