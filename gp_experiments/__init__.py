"""Experiments with Gaussian processes inside a memory limit."""
