"""Bounds of sizes and integers that are known only at run time."""
