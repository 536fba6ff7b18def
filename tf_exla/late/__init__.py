"""Passes on split programs: what runs changes, not what is split."""
