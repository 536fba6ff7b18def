"""The context in which a graph is emitted: the chunk of the enclosing loop, and the last loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.ir.graph import SplitAxis

X = Any  # an array


@dataclass(frozen=True)
class Start:
    """The first index of a chunk: `number` times `chunk`.

    `number`: the number of the chunk, an integer scalar that is traced in a loop. `chunk`: its
    size.
    """

    number: X
    chunk: int

    def at(self, block: int) -> X:
        """Return the position in a tensor with `block` elements for each index."""
        return self.number * np.asarray(self.chunk * block, self.number.dtype)

    def cut(self, x: X, slot: SplitAxis, size: int) -> X:
        """Return the chunk of a tensor: `size` elements of its axis."""
        return lax.dynamic_slice_in_dim(jnp.asarray(x), self.at(slot.block), size, slot.axis)

    def put(self, whole: X, part: X, slot: SplitAxis) -> X:
        """Return `whole` with the part of this chunk written into it."""
        return lax.dynamic_update_slice_in_dim(whole, part, self.at(slot.block), slot.axis)


@dataclass
class Scope:
    """The context in which the nodes of one graph are emitted.

    `around`: the chunk of the enclosing loop; None outside of loops and if the chunk is the whole
    extent. `first`: whether this is certainly the first chunk. `token`: a zero that depends on the
    end of the loop emitted last; None before the first loop. `repeated`: another loop computes the
    same numbers again and compares them with those computed here. `buffers`: how many buffers of
    results were allocated.
    """

    around: Start | None = None
    first: bool = True
    token: X | None = None
    repeated: bool = False
    buffers: int = 0

    def buffer(self, dims: tuple[int, ...], dtype: Any) -> X:
        """Return an array that will be overwritten.

        XLA merges equal arrays, and then copies the one for each loop that writes into it. So each
        has its own number in all elements.
        """
        self.buffers += 1
        return jnp.full(dims, self.buffers % 100, dtype)

    def after(self, number: int, dtype: Any) -> X:
        """Return a number whose value XLA knows only after the last loop has ended."""
        made = jnp.asarray(number, dtype)
        return made if self.token is None else made + self.token.astype(dtype)

    def held_back(self, function: Callable[[], list[X]]) -> list[X]:
        """Return the results of a function that XLA runs only after the last loop has ended.

        The function becomes a branch that XLA cannot choose earlier, so its buffers do not exist
        earlier.
        """
        if self.token is None:
            return function()
        shapes = jax.eval_shape(function)

        def zeros() -> Any:
            return jax.tree.map(lambda one: jnp.zeros(one.shape, one.dtype), shapes)

        made: list[X] = lax.cond(self.token == 0, function, zeros)
        return made
