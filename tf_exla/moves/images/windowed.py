"""How ops that read windows compute rows of each block, without padding, since blocks overlap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.windows import Role, Window, Windows
from tf_exla.moves.images.rows import (
    Blocks,
    Carried,
    Fill,
    Layout,
    Rows,
    Step,
    lowest,
    part,
    read_alike,
    shape_in_blocks,
)


def windowed(node: Node, ops: OpSet, windows: Windows, window: Window) -> Step | None:
    """Return how a node computes rows that lie along the axis of `window`."""
    tensors, roles = (*node.inputs, node.output), (*windows.operands, windows.result)
    carried = [
        Carried(one, window.axis, Fraction(window.stride if role == "image" else 1))
        for one, role in zip(tensors, roles, strict=True)
        if role
    ]
    others = [one for one in windows.axes if one is not window]
    if not read_alike(node, carried) or any(min(one.before, one.after) < 0 for one in others):
        return None
    if windows.interpolates:
        between = Between if windows.result == "image" else BetweenGradient
        return between(node, tuple(carried), ops, windows, window)
    kinds: Mapping[Role, type[Pooled | Spread | Correlated]]
    kinds = {"pooled": Pooled, "image": Spread, "": Correlated}
    return kinds[windows.result](node, tuple(carried), ops, windows, window)


@dataclass(frozen=True)
class _Windowed:
    node: Node
    carried: tuple[Carried, ...]
    ops: OpSet
    windows: Windows
    window: Window

    def positions(self, role: Role) -> list[int]:
        return [at for at, one in enumerate(self.windows.operands) if one == role]

    def read_by(self, places: Rows) -> Rows:
        """Return the rows of the image that rows of the pooled tensor read."""
        one = self.window
        first = one.stride * places.first - one.before
        return Rows(first, first + one.stride * (places.count - 1) + one.size)

    def padded(self, w: Builder, x: Tensor) -> Tensor:
        """Pad the other axes, since the node itself pads nothing."""
        if not any(one.pads for one in self._others()):
            return x
        around = [[0, 0] for _ in x.dims]
        for one in self._others():
            around[one.axis] = [one.before, one.after]
        if self.windows.fill == "zero":
            return w.op("pad", x, w.const(around))
        return w.op("pad_with", x, w.const(around), lowest(w, x.dtype))

    def full(self, dims: tuple[int, ...], rows: int, count: int) -> tuple[int, ...]:
        """Return the shape of blocks of a padded image."""
        shape = [count, *dims[1:]]
        for one in self._others():
            shape[one.axis] += one.before + one.after
        shape[self.window.axis] = rows
        return tuple(shape)

    def _others(self) -> list[Window]:
        return [one for one in self.windows.axes if one.axis != self.window.axis]

    def made(self, w: Builder, operands: list[Tensor], shape: tuple[int, ...]) -> Tensor:
        """Make the node without padding."""
        node = self.node
        if self.windows.attrs:
            node = node.replace(attrs=self.windows.attrs)
        nodes = self.ops.resized(node, operands, [shape])
        w.nodes += nodes
        return nodes[-1].output


class Pooled(_Windowed):
    """A convolution, or a pooling."""

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        return dict.fromkeys(self.positions("image"), self.read_by(made))

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        operands = list(self.node.inputs)
        fill: Fill | None = self.windows.fill if self.window.pads else None
        for at, rows in self.reads(made, blocks).items():
            operands[at] = self.padded(w, blocks.read(w, operands[at], rows, fill))
        shape = shape_in_blocks(self.node.output, self.window.axis, made.count, blocks.count)
        return (self.made(w, operands, shape),)


class Spread(_Windowed):
    """A transposed convolution, or the gradient of an image.

    Each place of the pooled tensor adds to a window of the image.
    """

    def _places(self, made: Rows) -> Rows:
        """Return the rows of the pooled tensor whose windows contain rows of the image."""
        one = self.window
        first = made.first + one.before
        start = min(-((one.size - 1 - first) // one.stride), first // one.stride)
        return Rows(start, (made.stop - 1 + one.before) // one.stride + 1)

    def _image(self, made: Rows) -> Rows:
        rows = self.read_by(self._places(made))
        return Rows(rows.first, max(rows.stop, made.stop))

    def _meets_other_places(self) -> bool:
        """Return whether a row may also be in a window at a place outside of the pooled tensor."""
        one = self.window
        rows = {c.tensor: c.tensor.dims[one.axis] for c in self.carried}
        places = rows[self.node.inputs[self.positions("pooled")[0]]]
        return one.size > one.stride or one.pads or rows[self.node.output] > places * one.stride

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        return {
            **dict.fromkeys(self.positions("pooled"), self._places(made)),
            **dict.fromkeys(self.positions("image"), self._image(made)),
        }

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        operands, one = list(self.node.inputs), self.window
        fill_places: Fill | None = "zero" if self._meets_other_places() else None
        for at, rows in self.reads(made, blocks).items():
            if at in self.positions("pooled"):
                operands[at] = blocks.read(w, operands[at], rows, fill_places)
            else:
                fill = self.windows.fill if one.pads else None
                operands[at] = self.padded(w, blocks.read(w, operands[at], rows, fill))
        image = self._image(made)
        shape = self.full(self.node.output.dims, image.count, blocks.count)
        x = self.made(w, operands, shape)
        begin = [0] * len(shape)
        for other in self._others():
            begin[other.axis] = other.before
        begin[one.axis] = made.first - image.first
        wanted = shape_in_blocks(self.node.output, one.axis, made.count, blocks.count)
        if wanted == shape:
            return (x,)
        return (w.op("slice", x, w.const(begin), w.const(wanted)),)


class Correlated(_Windowed):
    """The gradient of filters: a sum over all places, so each block sums the places it has."""

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        pooled = self.positions("pooled")
        own = Rows(0, layout.rows_per_block(self.node.inputs[pooled[0]]))
        return {
            **dict.fromkeys(pooled, own),
            **dict.fromkeys(self.positions("image"), self.read_by(own)),
        }

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        operands = list(self.node.inputs)
        for at, rows in self.reads(made, blocks).items():
            operands[at] = blocks.read(w, operands[at], rows, "zero")
            if at in self.positions("image"):
                operands[at] = self.padded(w, operands[at])
        return (self.made(w, operands, self.node.output.dims),)


class Between(_Windowed):
    """An interpolation of rows: each row of the result reads the nearest rows on both sides."""

    def _steps(self, made: Rows) -> Rows:
        each = self.window.stride
        return Rows(made.first // each - 1, -(-made.stop // each) + 1)

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        return dict.fromkeys(self.positions("pooled"), self._steps(made))

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        operands, axis = list(self.node.inputs), self.window.axis
        for at, rows in self.reads(made, blocks).items():
            operands[at] = blocks.read(w, operands[at], rows, "edge")
        has = self._steps(made) * self.window.stride
        shape = shape_in_blocks(self.node.output, axis, has.count, blocks.count)
        return (part(w, self.made(w, operands, shape), axis, has, made),)


class BetweenGradient(_Windowed):
    """The gradient of an interpolation.

    The interpolation reads the edge in place of rows outside of the image, so the gradients of
    those rows are added to the edge.
    """

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        steps = Rows(made.first - 1, made.stop + 1)
        return {
            **dict.fromkeys(self.positions("pooled"), steps),
            **dict.fromkeys(self.positions("image"), steps * self.window.stride),
        }

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        operands, axis, result = list(self.node.inputs), self.window.axis, self.node.output
        for at, rows in self.reads(made, blocks).items():
            fill: Fill | None = "zero" if at in self.positions("image") else None
            operands[at] = blocks.read(w, operands[at], rows, fill)
        has = Rows(made.first - 1, made.stop + 1)
        x = self.made(w, operands, shape_in_blocks(result, axis, has.count, blocks.count))
        total = part(w, x, axis, has, made)
        for edge, beyond in ((0, -1), (result.dims[axis] - 1, 1)):
            near = part(w, x, axis, has, Rows(made.first + beyond, made.stop + beyond))
            total = w.op("add", total, blocks.only(w, near, result, made, edge))
        return (total,)
