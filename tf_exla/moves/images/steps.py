"""How a node computes some rows of its results from some rows of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tf_exla.ir.axis_rule import Axes, AxisRule
from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.moves.images.batch import of_images
from tf_exla.moves.images.rows import (
    Blocks,
    Carried,
    Fill,
    Layout,
    Rows,
    Step,
    part,
    read_alike,
    shape_in_blocks,
)
from tf_exla.moves.images.windowed import windowed
from tf_exla.moves.places import moves_of
from tf_exla.vocabulary.rules.builders import static_axes
from tf_exla.vocabulary.table import VOCABULARY


def step_of(node: Node, tensor: Tensor, axis: int, ops: OpSet) -> Step | None:
    """Return how a node computes rows along an axis of one of its tensors; None if it cannot."""
    if node.stateful or node.subgraphs or node.op in _AS_IT_IS:
        return None
    if not all(one.is_static for one in (*node.inputs, *node.outputs)):
        return None
    if node.op == "sum" and tensor in node.inputs and axis in _summed(node):
        return Summed(node, (Carried(tensor, axis),))
    windows = ops.windows(node)
    window = None if windows is None else windows.along(axis)
    if windows is not None and window is not None:
        return windowed(node, ops, windows, window)
    return _mirrored(node, axis) or _shifted(node, axis) or _pointwise(node, tensor, axis, ops)


_AS_IT_IS = frozenset({"check_numerics", "constant", "random_rows"})
"""Ops that are not computed in blocks: they must not read rows outside of the tensor, or their
chunks must be consecutive."""


# Ops that compute each row from the same row of their operands.


@dataclass(frozen=True)
class Pointwise:
    """A node whose axis rule passes on both the rows and the images.

    `of_images`: positions of operands that have an axis of images but none of rows.
    """

    node: Node
    carried: tuple[Carried, ...]
    of_images: tuple[int, ...]
    ops: OpSet

    def _steps(self, made: Rows) -> Rows:
        """Return the steps that contain the rows `made` of the result.

        A step is the rows of each tensor that belong together, one or more of each (its `rate`).
        """
        each = self._rows_per_step(self.node.outputs[0])
        return Rows(made.first // each, -(-made.stop // each))

    def _rows_per_step(self, tensor: Tensor) -> int:
        return next(int(one.rate) for one in self.carried if one.tensor is tensor)

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        tensors, steps = {one.tensor for one in self.carried}, self._steps(made)
        return {
            at: steps * self._rows_per_step(one)
            for at, one in enumerate(self.node.inputs)
            if one in tensors
        }

    def _safe(self, w: Builder, operand: Tensor) -> Fill | None:
        """Return a value for rows outside of the image for which an op that may fail does not.

        None if the op accepts any value.
        """
        if "int" not in operand.dtype or self.node.op not in _MAY_FAIL:
            return None
        return w.const(_MAY_FAIL[self.node.op], operand.dtype)

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        operands = list(self.node.inputs)
        for position, rows in self.reads(made, blocks).items():
            one = operands[position]
            operands[position] = blocks.read(w, one, rows, self._safe(w, one))
        for position in self.of_images:
            operands[position] = blocks.of_images(w, operands[position])
        axes, steps = {one.tensor: one.axis for one in self.carried}, self._steps(made)
        shapes = []
        for one in self.node.outputs:
            rows = steps * self._rows_per_step(one)
            shapes.append(shape_in_blocks(one, axes[one], rows.count, blocks.count))
        nodes = self.ops.resized(self.node, operands, shapes)
        w.nodes += nodes
        if len(self.node.outputs) > 1:
            return nodes[-1].outputs
        has = steps * self._rows_per_step(self.node.output)
        return (part(w, nodes[-1].output, axes[self.node.output], has, made),)


_MAY_FAIL = {
    **dict.fromkeys(("floor_divide", "pow", "remainder", "truncate_divide"), 1),
    **dict.fromkeys(("sparse_cross_entropy", "take"), 0),
}
"""Ops that fail for some integer operands, each with an integer for which it does not fail.

Ops outside of the vocabulary may fail for other integers, so they do not run on such rows.
"""


def _pointwise(node: Node, tensor: Tensor, axis: int, ops: OpSet) -> Pointwise | None:
    rule = ops.rule(node)
    if not isinstance(rule, AxisRule):
        return None
    tensors, names = (*node.inputs, *node.outputs), (*rule.operands, *rule.results)
    own = names[tensors.index(tensor)]
    rows = None if own is None else own[axis]
    if rows is None or not rows.splittable:
        return None
    carried: list[Carried] = []
    for position, (one, axes) in enumerate(zip(tensors, names, strict=True)):
        at = _axis_of(rows.label, axes)
        if at is None and position < len(node.inputs):
            continue
        if not at or axes is None or one.dims[0] != tensor.dims[0]:
            return None  # a sum over rows, or rows that are no part of images
        axis_of_rows = axes[at]
        assert axis_of_rows is not None
        carried.append(Carried(one, at, Fraction(axis_of_rows.block)))
        labels = [axis.label for axis in axes if axis is not None]
        if position < len(node.inputs) and len(set(labels)) < len(labels):
            return None  # square matrices may be singular if they have rows outside of the image
    if len(node.outputs) > 1 and any(one.rate != 1 for one in carried):
        return None
    integers = any("int" in one.tensor.dtype for one in carried if one.tensor in node.inputs)
    if integers and node.op not in VOCABULARY:
        return None  # it may fail for the integers in rows outside of the image
    if not read_alike(node, carried):
        return None
    images = of_images(node, [one.tensor for one in carried], ops)
    return None if images is None else Pointwise(node, tuple(carried), images, ops)


def _axis_of(label: str, axes: Axes | None) -> int | None:
    """Return the axis that carries a label."""
    for at, axis in enumerate(axes or ()):
        if axis is not None and axis.label == label:
            return at
    return None


# Sums over rows, and moved rows.


@dataclass(frozen=True)
class Summed:
    """A sum over rows: each block sums the rows that belong to it."""

    node: Node
    carried: tuple[Carried, ...]

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        return {0: Rows(0, layout.rows_per_block(self.node.inputs[0]))}

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        x = self.node.inputs[0]
        axes = _summed(self.node)
        own = blocks.read(w, x, self.reads(made, blocks)[0], "zero")
        total = w.op("sum", own, w.const(sorted(axes)), keep_dims=True)
        if 0 not in axes:  # the result has one sum per image
            of_blocks = w.const([x.dims[0], blocks.count // x.dims[0], *total.dims[1:]])
            total = w.op("sum", w.op("reshape", total, of_blocks), w.const([1]), keep_dims=False)
        return (w.op("reshape", total, w.const(list(self.node.output.dims))),)


def _summed(node: Node) -> frozenset[int]:
    known = node.inputs[1].value is not None
    return static_axes(node, 1, len(node.inputs[0].dims)) if known else frozenset()


@dataclass(frozen=True)
class Shifted:
    """A slice or a pad: row i of the result is row i + `by` of the operand, or `fill`.

    `around`: elements that other axes gain (or lose, if negative) before and after.
    """

    node: Node
    carried: tuple[Carried, ...]
    by: int
    fill: Fill | None
    around: tuple[tuple[int, int], ...]

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        at = self.node.inputs.index(self.carried[0].tensor)
        return {at: Rows(made.first + self.by, made.stop + self.by)}

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        ((at, rows),) = self.reads(made, blocks).items()
        x = blocks.read(w, self.node.inputs[at], rows, self.fill)
        begin = [max(-before, 0) for before, _ in self.around]
        left = [
            size - max(-before, 0) - max(-after, 0)
            for size, (before, after) in zip(x.dims, self.around, strict=True)
        ]
        if tuple(left) != x.dims:
            x = w.op("slice", x, w.const(begin), w.const(left))
        more = [[max(before, 0), max(after, 0)] for before, after in self.around]
        if not np.any(more):
            return (x,)
        if isinstance(self.fill, Tensor):
            return (w.op("pad_with", x, w.const(more), self.fill),)
        return (w.op("pad", x, w.const(more)),)


def _shifted(node: Node, axis: int) -> Shifted | None:
    found = moves_of(node)
    if found is None or not any(at == axis for at, _ in found.places):
        return None
    around = [(0, 0)] * len(found.data.dims)
    for at, places in found.places:
        kept = np.flatnonzero(places >= 0)
        if not kept.size or np.any(np.diff(places[kept]) != 1) or np.any(np.diff(kept) != 1):
            return None
        first, last = int(places[kept[0]]), int(places[kept[-1]])
        before, after = int(kept[0]) - first, len(places) - 1 - int(kept[-1])
        around[at] = before, after - (found.data.dims[at] - 1 - last)
        if (before > 0) != bool(kept[0]) or (around[at][1] > 0) != bool(after):
            return None
    if around[0] != (0, 0):
        return None  # it adds or removes images
    (by, _), around[axis] = around[axis], (0, 0)
    padded = node.op != "slice" and node.op != "strided_slice"
    fill: Fill | None = (found.fill or "zero") if padded else None
    carried = Carried(found.data, axis), Carried(node.output, axis)
    return Shifted(node, carried, -by, fill, tuple(around))


@dataclass(frozen=True)
class Mirrored:
    """A pad by mirrored rows; `places`: the operand's row for each row of the result."""

    node: Node
    carried: tuple[Carried, ...]
    places: tuple[int, ...]

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        places = self._places(made, layout)
        return {0: Rows(int(places.min()), int(places.max()) + 1)}

    def _places(self, made: Rows, layout: Layout) -> npt.NDArray[np.int64]:
        """Return the row for each row of a block, relative to the operand's block."""
        x, result = self.carried
        blocks = np.arange(layout.count) % (layout.count // x.tensor.dims[0])
        first = blocks[:, None] * layout.rows_per_block(result.tensor)
        rows = np.clip(first + np.arange(made.first, made.stop), 0, len(self.places) - 1)
        places: npt.NDArray[np.int64] = np.asarray(self.places)[rows]
        return places - blocks[:, None] * layout.rows_per_block(x.tensor)

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        (rows,) = self.reads(made, blocks).values()
        places = w.const(self._places(made, blocks) - rows.first)
        x = blocks.moved(w, self.carried[0].tensor, rows, places)
        around = np.array(self.node.inputs[1].value)
        around[self.carried[0].axis] = 0
        if not around.any():
            return (x,)
        mode = self.node.attrs["mode"]
        return (w.op("mirror_pad", x, w.const(around), mode=mode),)


def _mirrored(node: Node, axis: int) -> Mirrored | None:
    found = moves_of(node) if node.op == "mirror_pad" else None
    places = {} if found is None else dict(found.places)
    if axis not in places or not axis or 0 in places:
        return None
    carried = Carried(node.inputs[0], axis), Carried(node.output, axis)
    return Mirrored(node, carried, tuple(places[axis].tolist()))
