"""Regions: which nodes are split together, and along which axes."""
