"""Settings that the user and the machine give to the passes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from tf_exla.model.allocator import EXACT, Allocator
from tf_exla.model.machine import cache_bytes

Unbounded = Literal["raise", "warn"]
"""What to do about sizes without a bound, as users choose it; `Options` also has "refuse"."""


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of one optimization; sizes in bytes.

    `jit_compile`: whether XLA compiles the bodies of loops; None: where it pays off.
    `whole`: whether XLA compiles a plan with its loops, if it can and its buffers fit the limit.
    `rewrites`: families of rewrites to switch on or off, in place of their defaults.
    `tensor_size_threshold`: split every tensor above it that can be split, whatever the limit.
    `tensor_split_size`: the largest chunk of a split tensor.
    `chunk_bytes`, `body_bytes`: the fastest size of a chunk's largest tensor, and of all tensors
    that one iteration holds. On a CPU they should stay in cache, on a GPU fill the device.
    `cached`: whether chunks stay in a cache that is faster than memory.
    `allocator`: how many bytes of the device are taken for those that a call requests.
    `unbounded`: what happens if nothing bounds the size of a result. "raise": an error, except that
    sizes from outside of the program only warn. "refuse": an error for these, too. "warn": a
    warning, and the result does not count.
    `awaited`: names of nodes whose results may have sizes without a bound, since the program is cut
    there and a later plan has them as inputs.
    `trace`: keep the candidates of each step of the search.
    `cores`: cores that run ops; with more than one, iterations of a loop run concurrently.
    """

    jit_compile: bool | None = None
    whole: bool = False
    rewrites: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    tensor_size_threshold: int | None = None
    tensor_split_size: int | None = None
    chunk_bytes: int = field(default_factory=lambda: cache_bytes() // 2)
    body_bytes: int = field(default_factory=lambda: cache_bytes() * 3 // 4)
    cached: bool = True
    cores: int = os.cpu_count() or 1
    allocator: Allocator = EXACT
    unbounded: Unbounded | Literal["refuse"] = "raise"
    awaited: frozenset[str] = frozenset()
    trace: bool = False

    @property
    def cache_bytes(self) -> int:
        """The size of the cache, half of which the largest tensor of a chunk takes."""
        return 2 * self.chunk_bytes

    def uses(self, family: str) -> bool:
        """Return whether a family of passes other than rewrites is on, which is the default."""
        return self.rewrites.get(family, True)

    @property
    def largest_chunk(self) -> int:
        """The most bytes that the largest tensor of a chunk takes."""
        if self.tensor_split_size is None:
            return self.chunk_bytes
        return min(self.chunk_bytes, self.tensor_split_size)
