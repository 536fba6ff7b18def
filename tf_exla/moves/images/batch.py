"""Which operands of a node have an axis of images, but no axis of rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tf_exla.ir.axis_rule import Axes, AxisRule
from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.op_set import OpSet


def of_images(node: Node, rows: Collection[Tensor], ops: OpSet) -> tuple[int, ...] | None:
    """Return positions of the operands that have an axis of images but none of rows.

    None if the node does not compute each image from the same image of its operands. `rows`: the
    node's tensors that have an axis of rows. If there is one image only, the axis rule is asked for
    a batch of two, since a rule does not tell axes of size one apart. Operands that the op
    broadcasts over images are not among the result.
    """
    first = dict.fromkeys(rows, 0)
    batch = next(iter(first)).dims[0]
    found: dict[Tensor, int] = {}
    for tensor in dict.fromkeys(node.inputs):
        for axis, size in enumerate(tensor.dims):
            larger = {} if batch > 1 else {**first, tensor: axis}
            if tensor in rows or size != batch or not _is_batch(node, larger, tensor, axis, ops):
                continue
            if axis:
                return None
            found[tensor] = axis
    names = _names(node, {**first, **found}, ops)
    tensors = (*node.inputs, *node.outputs)
    firsts = {axes[0] for one, axes in zip(tensors, names, strict=False) if one in rows and axes}
    if len(firsts) != 1:
        return None
    label = firsts.pop()
    if label is None or not label.splittable or label.block != 1:
        return None
    return tuple(at for at, one in enumerate(node.inputs) if one in found)


def _is_batch(
    node: Node, larger: Mapping[Tensor, int], tensor: Tensor, axis: int, ops: OpSet
) -> bool:
    """Return whether an axis of an operand is that of the images, the result's first axis."""
    names = _names(node, larger, ops)
    own = names[node.inputs.index(tensor)] if names else None
    result = names[len(node.inputs)] if names else None
    if not own or not result or own[axis] is None or own[axis] != result[0]:
        return False
    return not larger or not (node.op == "batch_matmul" or _alike(own, result))


def _alike(own: Axes, result: Axes) -> bool:
    """Return whether each axis of an operand is that of the result, or of size one (broadcast)."""
    return len(own) == len(result) and all(
        a is None or a == b for a, b in zip(own, result, strict=True)
    )


def _names(node: Node, larger: Mapping[Tensor, int], ops: OpSet) -> tuple[Axes | None, ...]:
    """Return the axes of operands and results in the node's axis rule; empty if it has none.

    `larger`: for some tensors, an axis that is doubled in size before the rule is asked.
    """
    if larger:
        made = {tensor: _doubled(tensor, axis) for tensor, axis in larger.items()}
        operands = [made.get(one, one) for one in node.inputs]
        node = ops.resized(node, operands, [made.get(one, one).dims for one in node.outputs])[-1]
    rule = ops.rule(node)
    return (*rule.operands, *rule.results) if isinstance(rule, AxisRule) else ()


def _doubled(tensor: Tensor, axis: int) -> Tensor:
    dims = [2 * size if at == axis else size for at, size in enumerate(tensor.dims)]
    return tensor.with_axes(tuple(dims), tensor.name)
