"""Make a node again for other shapes: what changes beside its operands and its results.

Most ops only look at the shapes of their operands. Here are those that carry a size elsewhere: in
an operand that holds the result's shape (`=` in its rule), in an attribute, in a count of repeats.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tf_exla.frontends.tf.rule_builders import sizes
from tf_exla.graph import Node, Shape, Tensor, const

Attrs = dict[str, object]

CHUNK = "/chunk"  # what the names of nodes for a chunk end in


def squeeze(node: Node, shapes: Sequence[Shape]) -> Attrs:
    """Say which axes go: without that, an axis goes too where a chunk has one index of it."""
    before, after = sizes(node.inputs[0]), sizes(node.output)
    named = node.attrs.get("squeeze_dims")
    if isinstance(named, Sequence) and named:
        return {}
    gone = [axis for axis, size in enumerate(before) if size == 1]
    return {"squeeze_dims": gone} if len(gone) == len(before) - len(after) else {}


def declared_shape(node: Node, shapes: Sequence[Shape]) -> Attrs:
    """Declare the shape of the chunk."""
    return {"shape": tuple(shapes[0])}


ATTRS: Mapping[str, Callable[[Node, Sequence[Shape]], Attrs]] = {
    "EnsureShape": declared_shape,
    "PlaceholderWithDefault": declared_shape,
    "Squeeze": squeeze,
}


def repeats(node: Node, inputs: Sequence[Tensor], shape: Sequence[int]) -> list[int]:
    """The multiples of a Tile."""
    return [after // max(before, 1) for before, after in zip(inputs[0].dims, shape, strict=True)]


def result_shape(node: Node, inputs: Sequence[Tensor], shape: Sequence[int]) -> list[int]:
    """The shape of the first result."""
    return list(shape)


def count(node: Node, inputs: Sequence[Tensor], shape: Sequence[int]) -> int:
    """The k of a TopKV2: a chunk may hold fewer elements."""
    return shape[-1]


Change = Callable[[Node, Sequence[Tensor], Sequence[int]], list[int] | int]

OPERANDS: Mapping[str, tuple[int, Change]] = {"Tile": (1, repeats), "TopKV2": (1, count)}


def resize(
    node: Node, inputs: Sequence[Tensor], shapes: Sequence[Shape], shape_operands: frozenset[int]
) -> tuple[Node, ...]:
    """Make `node` again on `inputs`, with results of `shapes`, after the constants it needs."""
    if node.op == "TopKV2":
        most = inputs[0].dims[-1]
        k = min(sizes(node.outputs[0])[-1], most)
        shapes = [(*shape[:-1], k) for shape in shapes if shape is not None]
    outputs = tuple(
        Tensor(tuple(shape), old.dtype, _of_chunk(old.name), held=old.held)
        for old, shape in zip(node.outputs, shapes, strict=True)
    )
    changes: dict[int, Change] = dict.fromkeys(shape_operands, result_shape)
    if node.op in OPERANDS:
        position, change = OPERANDS[node.op]
        changes[position] = change
    operands = list(inputs)
    constants = []
    for position, change in sorted(changes.items()):
        old = node.inputs[position]
        value = np.asarray(change(node, inputs, outputs[0].dims), old.dtype)
        if old.value is not None and np.array_equal(old.value, value):
            continue
        constants.append(const(value, f"{node.name}/chunk/{position}"))
        operands[position] = constants[-1].output
    attrs = {key: value for key, value in node.attrs.items() if key != "_output_shapes"}
    if node.op in ATTRS:
        attrs |= ATTRS[node.op](node, shapes)
    again = dataclasses.replace(
        node,
        inputs=tuple(operands),
        outputs=outputs,
        attrs=attrs,
        name=_of_chunk(node.name),
    )
    return (*constants, again)


def _of_chunk(name: str) -> str:
    return name.removesuffix(CHUNK) + CHUNK
