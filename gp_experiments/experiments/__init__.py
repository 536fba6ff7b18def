"""The experiments: what each runs is in a module of its own, by its name."""
