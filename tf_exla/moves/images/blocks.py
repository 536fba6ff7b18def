"""Images in overlapping blocks of rows, so that one image is split like a batch of images.

A chunk of a convolution's rows reads rows of its neighbours. So a chain of convolutions, poolings
and pointwise ops is computed for blocks of rows. A block of the input has all rows that the block
of the result depends on, and each op computes the rows that later ops need. Rows that two blocks
need are computed twice. Rows outside of the image are masked wherever a window reads them, since
the ops themselves pad nothing. The blocks are the first axis, which is split like any batch:

    conv(relu(conv(x))) [1, 512, w, c]
    -> conv(relu(conv(x at rows [16, 36]))) [16, 32, w, c], reshaped to [1, 512, w, c]

Blocks are along one axis, the longest. The deeper a network, the wider the overlaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tf_exla.ir.builder import Builder
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.moves.images.cutting import Cut
from tf_exla.moves.images.rows import Fill, Rows, lowest, part


def in_blocks(graph: Graph, ops: OpSet, cuts: Iterable[Cut]) -> Graph:
    """Return the program with images cut into blocks, as each of `cuts` says."""
    made = {node: blocks for blocks in map(_Blocks, cuts) for node in blocks.images.steps}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += made[node].nodes_of(node) if node in made else [node]
    return clean(graph.with_nodes(nodes), ops)


def one_block(cut: Cut) -> Graph:
    """Return the part of a program that computes blocks, for one block of each image.

    Its peak is about that of the body of a loop over blocks. So it tells how large blocks may be.
    """
    images = cut.images
    blocks = _Blocks(cut)
    blocks.count, blocks.joined = images.batch, ()
    nodes = [new for node in images.steps for new in blocks.nodes_of(node)]
    made = {tensor for node in nodes for tensor in node.outputs}
    read = dict.fromkeys(tensor for node in nodes for tensor in node.inputs if tensor not in made)
    sums = [t for node in images.steps for t in node.outputs if t not in images.made_by(node)]
    results = [blocks.blocks[tensor] for tensor in cut.joined]
    return clean(Graph(tuple(read), tuple(nodes), (*sums, *results)), images.ops)


class _Blocks(Cut):
    """Makes the nodes for blocks of one image."""

    def __init__(self, cut: Cut) -> None:
        super().__init__(cut.images, cut.rows)
        self.blocks: dict[Tensor, Tensor] = {}
        self.parts: dict[tuple[Tensor, Rows, Fill | None], Tensor] = {}

    def nodes_of(self, node: Node) -> list[Node]:
        """Return the nodes that replace a node."""
        in_blocks, w = self.images.made_by(node), Builder(node, self.images.ops)
        results = self.images.steps[node].compute(w, self.made(node), self)
        for old, new in zip(node.outputs, results, strict=True):
            if old not in in_blocks:
                _as(w, new, old)
                continue
            self.blocks[old] = new
            if old in self.joined:
                _as(w, self._rows_in_order(w, old), old)
        return w.nodes

    def read(self, w: Builder, tensor: Tensor, rows: Rows, fill: Fill | None = None) -> Tensor:
        """Return rows of each block; `fill`: the values of rows outside of the tensor."""
        axis = self.images.carried[tensor].axis
        size, each = tensor.dims[axis], self.rows_per_block(tensor)
        if rows.first >= 0 and (self.of_an_image - 1) * each + rows.stop <= size:
            fill = None
        known = self.parts.get((tensor, rows, fill))
        if known is not None:
            return known
        if tensor not in self.blocks:
            self.blocks[tensor] = self._taken(w, tensor)
        x = part(w, self.blocks[tensor], axis, self.needed[tensor], rows)
        if fill is not None:
            x = self._filled(w, x, tensor, rows, fill)
        self.parts[tensor, rows, fill] = x
        return x

    def of_images(self, w: Builder, tensor: Tensor) -> Tensor:
        """Repeat a tensor that has one entry per image, [images, ...], for each block of them."""
        image = w.op("reshape", self._image(w), w.const([self.count]))
        return w.op("take", tensor, image, w.const(0))

    def _image(self, w: Builder) -> Tensor:
        """Return the index of each block's image, [blocks, 1]."""
        block = w.positions(self.count, 0, 2)
        return w.op("floor_divide", block, w.const(self.of_an_image, block.dtype))

    def only(self, w: Builder, x: Tensor, tensor: Tensor, rows: Rows, row: int) -> Tensor:
        """Return `x`, the rows `rows` of a tensor's blocks, with all but row `row` set to zero."""
        numbers = self._numbers(w, tensor, rows)
        here = w.op("equal", numbers, w.const(row, numbers.dtype))
        return w.op("where", self._across(w, here, x, tensor), x, w.zeros(x))

    def moved(self, w: Builder, tensor: Tensor, rows: Rows, places: Tensor) -> Tensor:
        """Return rows of each block in another order.

        `places`: [blocks, rows], the positions of the rows within `rows`.
        """
        x = self.read(w, tensor, rows)
        return w.op("take", x, places, w.const(self.images.carried[tensor].axis), batch_dims=1)

    def _filled(self, w: Builder, x: Tensor, tensor: Tensor, rows: Rows, fill: Fill) -> Tensor:
        """Return `x` with the rows outside of the tensor replaced by `fill`."""
        axis = self.images.carried[tensor].axis
        numbers = self._numbers(w, tensor, rows)
        zero, size = (w.const(value, numbers.dtype) for value in (0, tensor.dims[axis]))
        if fill == "edge":
            last = w.const(tensor.dims[axis] - 1, numbers.dtype)
            nearest = w.op("minimum", w.op("maximum", numbers, zero), last)
            own = w.cast(w.positions(rows.count, 1, 2), numbers.dtype)
            places = w.op("add", own, w.op("subtract", nearest, numbers))
            last = w.const(rows.count - 1, numbers.dtype)
            places = w.op("minimum", w.op("maximum", places, zero), last)
            return w.op("take", x, places, w.const(axis), batch_dims=1)
        inside = w.op("logical_and", w.op("greater_equal", numbers, zero),
                      w.op("less", numbers, size))  # fmt: skip
        if not isinstance(fill, Tensor):
            fill = lowest(w, x.dtype) if fill == "lowest" else w.zeros(x)
        return w.op("where", self._across(w, inside, x, tensor), x, fill)

    def _across(self, w: Builder, of_rows: Tensor, x: Tensor, tensor: Tensor) -> Tensor:
        """Reshape `of_rows`, [blocks, rows], so that it broadcasts to `x`, blocks of `tensor`."""
        axis = self.images.carried[tensor].axis
        shape = [n if at in (0, axis) else 1 for at, n in enumerate(x.dims)]
        return w.op("reshape", of_rows, w.const(shape))

    def _numbers(self, w: Builder, tensor: Tensor, rows: Rows) -> Tensor:
        """Return the row index in the tensor of each row of each block, [blocks, rows].

        Some are outside of the tensor.
        """
        each = self.rows_per_block(tensor)
        block = w.positions(self.count, 0, 2)
        if self.images.batch > 1:
            block = w.op("remainder", block, w.const(self.of_an_image, block.dtype))
        first = w.op("multiply", block, w.const(each, block.dtype))
        more = w.cast(w.positions(rows.count, 1, 2, rows.first), first.dtype)
        return w.op("add", first, more)

    def _taken(self, w: Builder, tensor: Tensor) -> Tensor:
        """Take the blocks of a tensor that exists whole. Rows outside of it repeat its edge."""
        axis, rows = self.images.carried[tensor].axis, self.needed[tensor]
        dims = tensor.dims
        numbers = self._numbers(w, tensor, rows)
        last = w.const(dims[axis] - 1, numbers.dtype)
        numbers = w.op("minimum", w.op("maximum", numbers, w.const(0, numbers.dtype)), last)
        between = range(1, axis)
        if self.images.batch == 1:
            x = w.op("reshape", tensor, w.const(dims[1:]))
            x = w.op("take", x, numbers, w.const(axis - 1))  # [..., blocks, rows, ...]
            x = _permuted(w, x, [axis - 1, *range(axis - 1), *range(axis, len(x.dims))])
        else:  # take rows from all images, joined to one axis
            x = _permuted(w, tensor, [0, axis, *between, *range(axis + 1, len(dims))])
            x = w.op("reshape", x, w.const([dims[0] * dims[axis], *x.dims[2:]]))
            image = w.cast(self._image(w), numbers.dtype)
            first = w.op("multiply", image, w.const(dims[axis], numbers.dtype))
            x = w.op("take", x, w.op("add", numbers, first), w.const(0))  # [blocks, rows, ...]
            x = _permuted(w, x, [0, *range(2, axis + 1), 1, *range(axis + 1, len(x.dims))])
        return x

    def _rows_in_order(self, w: Builder, tensor: Tensor) -> Tensor:
        """Return the whole tensor, joined from the rows that belong to each block."""
        axis, each = self.images.carried[tensor].axis, self.rows_per_block(tensor)
        x = self.read(w, tensor, Rows(0, each))
        batch, total, dims = self.images.batch, self.of_an_image * each, tensor.dims
        if batch == 1:
            x = _permuted(w, x, [*range(1, axis), 0, *range(axis, len(dims))])
        else:
            x = w.op("reshape", x, w.const([batch, self.of_an_image, *x.dims[1:]]))
            x = _permuted(w, x, [0, *range(2, axis + 1), 1, *range(axis + 1, len(x.dims))])
        whole = [total if at == axis else n for at, n in enumerate(dims)]
        x = w.op("reshape", x, w.const(whole))
        return part(w, x, axis, Rows(0, total), Rows(0, dims[axis]))


def _permuted(w: Builder, x: Tensor, order: Sequence[int]) -> Tensor:
    """Permute axes; if only axes of size one change places, that is a reshape."""
    dims = [x.dims[axis] for axis in order]
    moved = [axis for axis in order if x.dims[axis] > 1]
    if moved == sorted(moved):
        return w.op("reshape", x, w.const(dims))
    return w.op("permute_dims", x, w.const(order))


def _as(w: Builder, made: Tensor, tensor: Tensor) -> None:
    """Name the result of the last node `tensor`."""
    w.op("reshape", made, w.const(list(tensor.dims)))
    w.ended(tensor)
