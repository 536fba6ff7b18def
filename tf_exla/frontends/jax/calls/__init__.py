"""Calls of optimized functions: from arguments to certified programs."""
