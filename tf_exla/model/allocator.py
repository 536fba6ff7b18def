"""What an allocator takes for what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Allocator:
    """Takes up to a `part`-th more than it is asked for, `most` bytes at most; 0: nothing more."""

    part: int = 0
    most: int = 0

    def taken(self, asked: int) -> int:
        """Return the bytes that may be taken for a working set of so many."""
        return asked + min(asked // self.part, self.most) if self.part else asked

    def room(self, budget: int) -> int:
        """Return the largest working set for which at most `budget` bytes are taken."""
        if not self.part or budget <= 0:
            return budget
        room = max(budget * self.part // (self.part + 1), budget - self.most)
        return room + 1 if self.taken(room + 1) <= budget else room


EXACT = Allocator()
"""An allocator that takes what it is asked for."""

MARGIN = Allocator(part=10, most=1 << 62)
"""Leaves a tenth for kernels of releases that nobody measured.

Those of TensorFlow 2.18 that were measured allocate no more than those of 2.21.
"""

BLOCKS = Allocator(part=3, most=160 << 20)
"""TensorFlow's default one on a GPU, which counts whole blocks.

It hands out a free block whole where less than 128 MB would be left of it, and less than half. In
programs of 100 MB to 20 GB that was 137 MB at most, in those of a few MB 29 %.
"""
