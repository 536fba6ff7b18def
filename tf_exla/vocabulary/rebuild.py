"""Rebuild nodes for other shapes: what changes besides operands and results.

Most ops depend only on the shapes of their operands. Some carry a size elsewhere: in an operand
that holds the result's shape (`=` in the axis rule), in an attribute, in a count of repeats
(`Rebuild`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tf_exla.ir.graph import Node, Shape, Tensor, const
from tf_exla.vocabulary.rules.builders import sizes
from tf_exla.vocabulary.rules.movement import whole_axis_masks

CHUNK = "/chunk"  # the suffix of names of nodes for a chunk


@dataclass(frozen=True, slots=True)
class Rebuild:
    """How an op is rebuilt for a chunk.

    `attrs`: attributes for results of other shapes. `operand`: the position of an operand that is
    a size, and its value for other operands and another shape of the first result.
    """

    attrs: Callable[[Node, Sequence[Shape]], Mapping[str, object]] | None = None
    operand: tuple[int, Callable[[Sequence[Tensor], Sequence[int]], list[int] | int]] | None = None


def _squeezed_axes(node: Node, shapes: Sequence[Shape]) -> Mapping[str, object]:
    """Name the squeezed axes: else an axis of which a chunk has one index is squeezed too."""
    before, after = sizes(node.inputs[0]), sizes(node.output)
    named = node.attrs.get("squeeze_dims")
    if isinstance(named, Sequence) and named:
        return {}
    gone = [axis for axis, size in enumerate(before) if size == 1]
    return {"squeeze_dims": gone} if len(gone) == len(before) - len(after) else {}


def _declared_shape(node: Node, shapes: Sequence[Shape]) -> Mapping[str, object]:
    return {"shape": tuple(shapes[0])}


def _multiples(inputs: Sequence[Tensor], shape: Sequence[int]) -> list[int]:
    return [after // max(before, 1) for before, after in zip(inputs[0].dims, shape, strict=True)]


def _result_shape(inputs: Sequence[Tensor], shape: Sequence[int]) -> list[int]:
    return list(shape)


def element_shape(position: int) -> Rebuild:
    """Rebuild an op that makes or reads a list; operand `position` is the shape of its tensors."""

    def items(inputs: Sequence[Tensor], shape: Sequence[int]) -> list[int] | int:
        old = inputs[position].value
        if old is None:
            raise ValueError(f"{inputs[position]} is not known")
        if not old.ndim:
            return -1
        new = shape[len(shape) - old.size :]
        return [size if known >= 0 else -1 for size, known in zip(new, old.tolist(), strict=True)]

    return Rebuild(operand=(position, items))


squeeze = Rebuild(_squeezed_axes)
strided_slice = Rebuild(lambda node, shapes: whole_axis_masks(node))
declared_shape = Rebuild(_declared_shape)
tile = Rebuild(operand=(1, _multiples))
space = Rebuild(operand=(1, lambda inputs, shape: list(shape[1:-1])))
top_k = Rebuild(operand=(1, lambda inputs, shape: shape[-1]))  # a chunk may hold fewer elements


def rebuild(
    node: Node,
    how: Rebuild | None,
    inputs: Sequence[Tensor],
    shapes: Sequence[Shape],
    shape_operands: frozenset[int],
) -> tuple[Node, ...]:
    """Rebuild `node` on `inputs`, with results of `shapes`, after the constants it needs."""
    if node.op == "top_k":
        most = inputs[0].dims[-1]
        k = min(sizes(node.outputs[0])[-1], most)
        shapes = [(*shape[:-1], k) for shape in shapes if shape is not None]
    outputs = tuple(
        old.with_axes(tuple(shape), _of_chunk(old.name))
        for old, shape in zip(node.outputs, shapes, strict=True)
    )
    attrs = node.attrs
    if "_output_shapes" in attrs:
        attrs = {key: value for key, value in attrs.items() if key != "_output_shapes"}
    if how is not None and how.attrs is not None:
        attrs = {**attrs, **how.attrs(node, shapes)}
    changes: dict[int, Callable[[Sequence[Tensor], Sequence[int]], list[int] | int]] = {}
    if shape_operands:
        changes = dict.fromkeys(shape_operands, _result_shape)
    if how is not None and how.operand is not None:
        position, change = how.operand
        changes[position] = change
    name = _of_chunk(node.name)
    if not changes:
        return (node.replace(inputs=tuple(inputs), outputs=outputs, attrs=attrs, name=name),)
    operands = list(inputs)
    constants = []
    for position, change in sorted(changes.items()):
        old = node.inputs[position]
        sizes_of_first = [size or 0 for size in outputs[0].axes or ()]
        value = np.asarray(change(inputs, sizes_of_first), old.dtype)
        if old.value is not None and old.value.tolist() == value.tolist():
            continue
        constants.append(const(value, f"{node.name}/chunk/{position}"))
        operands[position] = constants[-1].output
    again = node.replace(inputs=tuple(operands), outputs=outputs, attrs=attrs, name=name)
    return (*constants, again)


def _of_chunk(name: str) -> str:
    return name if name.endswith(CHUNK) else name + CHUNK
