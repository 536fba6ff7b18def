"""Which tensors count as large: regions grow over these, and the search splits these."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tf_exla.ir.graph import Tensor
from tf_exla.ir.lists import is_list


@dataclass(frozen=True)
class Large:
    """A predicate for large tensors: the seed, lists, and tensors of more than `small` bytes."""

    small: int
    seed: Tensor | None

    def __call__(self, tensor: Tensor) -> bool:
        return tensor is self.seed or tensor.nbytes > self.small or is_list(tensor)


@dataclass
class AskedLarge:
    """A `Large` that records for which other values of `small` its answers would be the same.

    These are the values from `least` to just below `below`. A region grown with one of them is the
    same, so it need not be grown again.
    """

    is_large: Large
    least: int = 0
    below: float = math.inf

    def __call__(self, tensor: Tensor) -> bool:
        if tensor is self.is_large.seed or is_list(tensor):
            return True
        size = tensor.nbytes
        if size <= self.is_large.small:
            if size > self.least:
                self.least = size
            return False
        if size < self.below:  # large because of its bytes only
            self.below = size
        return True

    def answers_for(self, small: int) -> bool:
        """Return whether the bound `small` would give the same answers."""
        return self.least <= small < self.below
