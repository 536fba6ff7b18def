"""Leaves of arguments and results that are not arrays: functions in equinox's modules, strings.

`jax.jit` rejects them, but a function that is not compiled may have them. Here they become a part
of the structure of the pytree, like static arguments. Other objects may change between two calls,
so they are rejected.
"""

from __future__ import annotations

import functools
import types
from enum import Enum
from typing import Any

import jax
import numpy as np

_ARRAYS = (
    jax.Array,
    jax.core.Tracer,
    np.ndarray,
    np.generic,
    bool,
    int,
    float,
    complex,
    jax.ShapeDtypeStruct,
)
_CONSTANTS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    functools.partial,
    type,
    str,
    bytes,
    np.dtype,
    np.ufunc,
    Enum,
)


@jax.tree_util.register_pytree_node_class
class _Static:
    """A leaf as a pytree without arrays.

    Two are equal if the leaves are equal or are the same object.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[()], _Static]:
        return (), self

    @classmethod
    def tree_unflatten(cls, static: _Static, _: Any) -> _Static:
        return static

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static):
            return NotImplemented
        same = type(self.value) is type(other.value)
        return same and (self.value is other.value or bool(self.value == other.value))

    def __hash__(self) -> int:
        return hash(self.value)


def hidden(tree: Any) -> Any:
    """Return a pytree in which functions and names are part of the structure, not leaves.

    `shown` is the inverse.
    """
    if all(map(is_array, jax.tree.leaves(tree))):
        return tree
    return jax.tree.map(lambda one: _Static(one) if _is_constant(one) else one, tree)


def shown(tree: Any) -> Any:
    """Return a pytree with the leaves that `hidden` made a part of its structure."""
    return jax.tree.map(
        lambda one: one.value if isinstance(one, _Static) else one, tree, is_leaf=_is_static
    )


def static_leaves(structure: Any) -> list[Any]:
    """Return the leaves that `hidden` made a part of a structure."""
    kind = structure.node_data()
    if kind is not None and kind[0] is _Static:
        return [kind[1]]
    return [leaf for inner in structure.children() for leaf in static_leaves(inner)]


def _is_constant(one: Any) -> bool:
    """Return whether an object does not change between calls: a function (also JAX's) or a name."""
    of_jax = callable(one) and type(one).__module__.split(".")[0] in ("jax", "jaxlib")
    return not is_array(one) and (isinstance(one, _CONSTANTS) or of_jax)


def _is_static(one: Any) -> bool:
    return isinstance(one, _Static)


def is_array(one: Any) -> bool:
    """Return whether `jax.jit` accepts a leaf as an array."""
    kind = type(one)
    found = _known.get(kind)
    if found is None:
        found = _known[kind] = isinstance(one, _ARRAYS) or hasattr(kind, "__jax_array__")
    return found


_known: dict[type, bool] = {}
"""Memoized results of `is_array` by type, since each call tests all of its leaves."""
