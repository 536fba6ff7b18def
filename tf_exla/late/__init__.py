"""Passes on split programs: they change what runs, not what is split."""
