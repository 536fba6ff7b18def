"""Upper bounds of sizes by TensorFlow's shape inference.

For most ops the shapes of operands determine the shapes of results, and larger operands make larger
results. So shape inference on operands of the largest sizes gives the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_exla.frontends.tf.ops.bounds.values import largest_value
from tf_exla.ir.bounds import HANDLES, Most
from tf_exla.ir.graph import Array, Node, Shape, Tensor


def infer(node: Node, operands: Sequence[Most], shape_operand: int | None = None) -> list[Most]:
    """Infer the shapes of the results from the largest operands.

    `shape_operand`: the operand whose larger integers make larger results.
    """
    if all(tensor.is_static or tensor.dtype in HANDLES for tensor in node.outputs):
        return [Most(tensor.shape, tensor.size) for tensor in node.outputs]
    if node.subgraphs:
        return [Most() for _ in node.outputs]
    shapes = _shapes(node, operands, shape_operand)
    return [Most(shape).within(tensor.shape) for shape, tensor in
            zip(shapes, node.outputs, strict=True)]  # fmt: skip


def _shapes(node: Node, operands: Sequence[Most], shape_operand: int | None) -> list[Shape | None]:
    # Only graphs with unknown sizes need TensorFlow here.
    from tf_exla.frontends.tf.nodes.attrs import shape_of
    from tf_exla.frontends.tf.nodes.shape_inference import MisfitError, Operand, infer_shapes

    given = [
        Operand(
            tensor.dtype,
            most.within(tensor.shape).dims,
            _value(tensor, most, position == shape_operand),
        )
        for position, (tensor, most) in enumerate(zip(node.inputs, operands, strict=True))
    ]
    try:
        made = infer_shapes(node.op, given, node.attrs)
    except MisfitError:
        # Operands that fit each other may not do so at their largest sizes.
        return [tensor.shape for tensor in node.outputs]
    return [shape_of(shape) for shape in made]


def _value(tensor: Tensor, most: Most, is_shape: bool) -> Array | None:
    """Return the value of a static operand, the largest value of a shape, or None."""
    if tensor.value is not None:
        return tensor.value
    return largest_value(tensor, most) if is_shape and most.value is not None else None


def broadcast(node: Node, operands: Sequence[Most], made: Most) -> Most:
    """Return the largest size of each axis; for an unknown rank, the product of the sizes."""
    pairs = dict(zip(node.inputs, operands, strict=True))
    ranks = [None if one.dims is None else len(one.dims) for one in pairs.values()]
    if None in ranks:
        sizes = [one.size for one in pairs.values()]
        if None in sizes:
            return made
        # A row and a column broadcast to a matrix.
        return made.at_most(math.prod(one for one in sizes if one is not None))
    rank = max((one for one in ranks if one is not None), default=0)
    dims: list[int | None] = []
    for axis in range(-rank, 0):
        sizes = [one.dims[axis] for one in pairs.values() if one.dims and len(one.dims) >= -axis]
        bounded = [one for one in sizes if one is not None]
        dims.append(max(bounded, default=1) if len(bounded) == len(sizes) else None)
    counts = [one.size for one in pairs.values() if one.size != 1]
    return Most(tuple(dims), counts[0] if len(counts) == 1 else None)
