"""Rows of blocks: the interface between the steps of nodes and the blocks of tensors.

"Rows" are the elements along one axis of images, whichever it is. The first axis of a tensor is
that of the images of a batch. It becomes the axis of blocks: all blocks of the first image, then
those of the second, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Literal, NamedTuple, Protocol

import numpy as np

from tf_exla.ir.builder import Builder
from tf_exla.ir.graph import Node, Tensor
from tf_exla.ir.tensor import MOST_SLICED_AXES

Fill = Literal["zero", "lowest", "edge"] | Tensor
"""The values of rows outside of a tensor; "edge": those of its nearest row."""


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of each block, from `first` to before `stop`, relative to its first row."""

    first: int
    stop: int

    def __or__(self, other: Rows) -> Rows:
        return Rows(min(self.first, other.first), max(self.stop, other.stop))

    def __mul__(self, each: int) -> Rows:
        """Return the rows of these steps, each of which is `each` rows."""
        return Rows(each * self.first, each * self.stop)

    @property
    def count(self) -> int:
        return self.stop - self.first


class Carried(NamedTuple):
    """A tensor with rows along `axis`; `rate`: rows of this tensor per row of a common grid."""

    tensor: Tensor
    axis: int
    rate: Fraction = Fraction(1)


class Layout(Protocol):
    """How tensors are cut into blocks; `count`: the number of blocks of all images."""

    count: int

    def rows_per_block(self, tensor: Tensor) -> int:
        """Return the number of a tensor's rows that belong to each block, without overlap."""


class Blocks(Layout, Protocol):
    """The blocks of all tensors, as far as they are computed."""

    def read(self, w: Builder, tensor: Tensor, rows: Rows, fill: Fill | None = None) -> Tensor:
        """Return rows of each block. `fill`: the values of rows outside of the tensor."""

    def only(self, w: Builder, x: Tensor, tensor: Tensor, rows: Rows, row: int) -> Tensor:
        """Return `x`, the rows `rows` of a tensor's blocks, with all but row `row` set to zero."""

    def moved(self, w: Builder, tensor: Tensor, rows: Rows, places: Tensor) -> Tensor:
        """Return rows of each block in another order.

        `places`: [blocks, rows], the positions of the rows within `rows`.
        """

    def of_images(self, w: Builder, tensor: Tensor) -> Tensor:
        """Repeat a tensor that has one entry per image, [images, ...], for each block of them."""


class Step(Protocol):
    """A node that can be computed for blocks of rows."""

    @property
    def node(self) -> Node: ...

    @property
    def carried(self) -> tuple[Carried, ...]:
        """The tensors that have rows, with their rates relative to each other."""

    def reads(self, made: Rows, layout: Layout) -> Mapping[int, Rows]:
        """Return, by operand position, the rows that the rows `made` of the results depend on."""

    def compute(self, w: Builder, made: Rows, blocks: Blocks) -> tuple[Tensor, ...]:
        """Compute the rows `made` of the results for all blocks."""


def read_alike(node: Node, carried: Sequence[Carried]) -> bool:
    """Return whether no tensor is read twice, once in blocks and once whole or along another axis.

    `carried`: one for each operand or result that has rows.
    """
    known = {one.tensor: one for one in carried}
    reads = sum(tensor in known for tensor in (*node.inputs, *node.outputs))
    return reads == len(carried) and all(known[one.tensor] == one for one in carried)


def part(w: Builder, x: Tensor, axis: int, has: Rows, wanted: Rows) -> Tensor:
    """Return the rows `wanted` of `x`, which has the rows `has` along an axis."""
    if has == wanted:
        return x
    dims = [wanted.count if at == axis else size for at, size in enumerate(x.dims)]
    if len(dims) > MOST_SLICED_AXES:
        flat = [x.dims[0], prod(x.dims[1:axis]), has.count, prod(x.dims[axis + 1 :])]
        rows = part(w, w.op("reshape", x, w.const(flat)), 2, has, wanted)
        return w.op("reshape", rows, w.const(dims))
    begin = [wanted.first - has.first if at == axis else 0 for at in range(len(dims))]
    return w.op("slice", x, w.const(begin), w.const(dims))


def shape_in_blocks(tensor: Tensor, axis: int, rows: int, count: int) -> tuple[int, ...]:
    """Return the shape of `count` blocks of `rows` rows."""
    return (count, *tensor.dims[1:axis], rows, *tensor.dims[axis + 1 :])


def lowest(w: Builder, dtype: str) -> Tensor:
    """Return the lowest number of a dtype, as a constant."""
    if "int" in dtype:
        return w.const(np.iinfo(dtype).min, dtype)
    return w.const(-np.inf, dtype)
