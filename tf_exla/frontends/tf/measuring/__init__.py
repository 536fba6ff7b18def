"""Measured peaks, and the measured rates of a machine."""
