"""Values with their positions: merge the best of a chunk with those of the chunks before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from tf_exla.frontends.jax.restore.top_k import top_k

X = Any  # an array


def merge_top_k(before: Sequence[X], new: Sequence[X], k: int) -> list[X]:
    """Return the k best values and their positions; of equal values, those of `before` come first.

    `before`: values and positions; the first of them is None before the first chunk.
    """
    if before[0] is None:
        return list(new)
    values, places = (jnp.concatenate(pair, -1) for pair in zip(before, new, strict=True))
    values, chosen = top_k(values, k)
    return [values, jnp.take_along_axis(places, chosen, -1)]


def merge_best(before: Sequence[X], new: Sequence[X], *, largest: bool) -> list[X]:
    """Return the better values and their positions; of equal values, those of `before`.

    NaN is the best value, as for JAX's argmax and argmin.
    """
    old, part = before[0], new[0]
    better = part > old if largest else part < old
    better |= (part != part) & (old == old)
    return [jnp.where(better, *pair) for pair in zip(new, before, strict=True)]
