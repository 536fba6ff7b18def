"""Bytes that an allocator takes for the bytes that are requested."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Allocator:
    """An upper bound of the bytes that an allocator takes for the bytes that are requested.

    It takes up to 1/`part` more than is requested, but at most `most` bytes more. `part` = 0: it
    takes exactly what is requested. For requests of up to `least` bytes it may take twice as much.
    """

    part: int = 0
    most: int = 0
    least: int = 0

    def taken(self, asked: int) -> int:
        """Return the bytes that may be taken for a working set of `asked` bytes."""
        if not self.part:
            return asked
        return asked + min(max(asked // self.part, min(asked, self.least)), self.most)

    def room(self, budget: int) -> int:
        """Return the largest working set, in bytes, for which at most `budget` bytes are taken."""
        if not self.part or budget <= 0:
            return budget
        small = max(budget // 2, budget - self.least)
        usual = budget * self.part // (self.part + 1)
        room = max(min(usual, small), budget - self.most)
        return room + 1 if self.taken(room + 1) <= budget else room


EXACT = Allocator()
"""An allocator that takes exactly what is requested."""

MARGIN = Allocator(part=10, most=1 << 62)
"""Reserves a tenth for kernels of releases that were not measured.

The measured kernels of TensorFlow 2.18 allocate no more than those of 2.21.
"""

BLOCKS = Allocator(part=2, most=160 << 20, least=8 << 20)
"""TensorFlow's default allocator on a GPU, which counts whole blocks.

It does not split a free block if less than 128 MB, and less than half of it, would remain. So a
tensor takes less than twice its size. In programs of 100 MB to 20 GB this added at most 137 MB, in
those of a few MB up to 75 %, as they have few tensors.
"""
