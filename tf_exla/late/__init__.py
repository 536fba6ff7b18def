"""Late passes, on split programs: they replace nodes, but do not change what is split."""
