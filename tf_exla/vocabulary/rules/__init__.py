"""Axis rules that depend on a node's shapes and attributes."""
