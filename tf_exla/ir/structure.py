"""The structure of loops, a key that is equal for loops that do the same to different tensors.

Layers, heads, unrolled steps and members of an ensemble are split into loops that differ only in
names. Such loops need the same bytes for each chunk size.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from tf_exla.ir.graph import Loop, Tensor


@dataclass(frozen=True, eq=False)
class _Same:
    """A value compared by identity; it lives as long as the key."""

    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def structure_of(loop: Loop) -> Hashable:
    """Return a key that is equal for loops of equal templates, axes and results.

    Sub-graphs, and attributes of a front end that have no value to compare, are compared by
    identity.
    """
    number: dict[Tensor, int] = {}

    def of(tensor: Tensor) -> Hashable:
        """Return a description of a tensor at its first appearance, later only its number."""
        if tensor in number:
            return number[tensor]
        number[tensor] = len(number)
        known = _value(tensor.value), carried.get(tensor)
        return tensor.shape, tensor.items, tensor.dtype, tensor.held, *known

    carried = loop.split_axes
    template = loop.template
    inputs = tuple(map(of, template.inputs))
    nodes = tuple(
        (
            node.op,
            tuple(map(of, node.inputs)),
            tuple(map(of, node.outputs)),
            tuple((key, _value(value)) for key, value in node.attrs.items()),
        )
        for node in template.nodes
    )
    outputs = tuple(map(of, template.outputs))
    outer = tuple((tensor.shape, tensor.dtype) for tensor in loop.outputs)
    return inputs, nodes, outputs, outer, loop.slots, loop.results, loop.extent, loop.min_chunk


def _value(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return _Same(value)
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, tuple | list):
        return tuple(map(_value, value))
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return type(value), value
    return _Same(value)
