"""The ops of a radix select (`vocabulary/radix.py`) in JAX: NumPy's, except for the counts."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from tf_exla.frontends.numpy import radix
from tf_exla.ir.graph import Node
from tf_exla.vocabulary.radix import shift_of

X = Any  # an array


def counts(node: Node, x: X, state: X) -> X:
    """Add ones at the digits, as XLA has no other way to count: 4 ns per element."""
    size, key = node.output.dims[1], radix.keys(jnp, x).ravel()
    found = (radix.digits(jnp, key, prefix, shift_of(node), size) for prefix in state[0])
    empty = jnp.zeros(size, jnp.int32)
    return jnp.stack([empty.at[one].add(1, mode="drop") for one in found])


def step(node: Node, counted: X, state: X) -> X:
    return radix.step(jnp, counted, state, shift_of(node))


def values(node: Node, state: X) -> X:
    return radix.values(jnp, state)
