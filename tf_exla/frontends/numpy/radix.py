"""The ops of a radix select (`vocabulary/radix.py`), for NumPy and for namespaces like it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tf_exla.ir.graph import Node
from tf_exla.vocabulary.radix import shift_of

X = Any  # an array of `xp`


def keys(xp: Any, x: X) -> X:
    """Return signed integers in the order of floats; all NaNs are the largest."""
    key = in_order(xp, x.view(f"int{8 * x.dtype.itemsize}"))
    return xp.where(x != x, np.iinfo(key.dtype).max, key)


def in_order(xp: Any, bits: X) -> X:
    """Return keys in the order of the floats with these bits, or the bits of such keys."""
    return xp.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def digits(xp: Any, key: X, prefix: X, shift: int, size: int) -> X:
    """Return the digit of each key that follows `prefix`, as int32: 0 to `size` - 1.

    A digit is the bits of a key from bit `shift` up to those that the prefix determines. It is
    `size` for keys that do not begin with the prefix.
    """
    above = (key - prefix).view(f"uint{8 * key.dtype.itemsize}")
    kinds = above.dtype.type
    return xp.minimum(above >> kinds(shift), kinds(size)).astype("int32")


def step(xp: Any, counts: X, state: X, shift: int) -> X:
    """Return the state after a pass, in which the next digit of each wanted element is known.

    `counts`: for each wanted element, how often each digit occurs, [R, size]. `state`: the prefixes
    of the wanted elements, and their ranks among the elements with that prefix, [2, R].
    """
    prefixes, ranks = state
    through = xp.cumsum(counts, 1)
    digit = xp.minimum(xp.sum(through <= ranks[:, None], 1), counts.shape[1] - 1)
    before = xp.take_along_axis(through - counts, digit[:, None], 1)[:, 0]
    prefixes = prefixes + (digit.astype(state.dtype) << shift)
    return xp.stack([prefixes, xp.maximum(ranks - before, 0)]).astype(state.dtype)


def values(xp: Any, state: X) -> X:
    """Return the floats whose keys are the prefixes of the final state."""
    return in_order(xp, state[0]).view(f"float{8 * state.dtype.itemsize}")


def counts(node: Node, x: X, state: X) -> X:
    """Count in NumPy."""
    size, key = node.output.dims[1], keys(np, x).ravel()
    found = (digits(np, key, prefix, shift_of(node), size) for prefix in state[0])
    return np.stack([np.bincount(one, minlength=size)[:size] for one in found]).astype("int32")
