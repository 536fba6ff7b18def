"""Memory that kernels allocate beyond their results."""
