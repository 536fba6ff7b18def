"""Images cut into blocks of rows: which rows of each tensor a block needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.moves.images.rows import Carried, Rows, Step


@dataclass(frozen=True)
class Images:
    """Connected tensors and nodes of a program that can be computed in blocks of rows.

    All tensors are cut along a common grid of `size` rows. `carried`: for each tensor, the axis of
    its rows, and the number of its rows per row of the grid. `batch`: the number of images.
    `steps`: how each node computes some rows of its results.
    """

    graph: Graph
    ops: OpSet
    carried: Mapping[Tensor, Carried]
    steps: Mapping[Node, Step]
    batch: int
    size: int

    def made_by(self, node: Node) -> list[Tensor]:
        """Return the results that a node computes in blocks: all but sums over rows."""
        made = {one.tensor for one in self.steps[node].carried}
        return [one for one in node.outputs if one in made]

    @cached_property
    def read_whole(self) -> tuple[Tensor, ...]:
        """The tensors that are computed in blocks but read whole by some node or as an output."""
        read = set(self.graph.outputs)
        for node in self.graph.nodes:
            step = self.steps.get(node)
            in_blocks = set() if step is None else {one.tensor for one in step.carried}
            read.update(one for one in node.inputs if one not in in_blocks)
        return tuple(one for node in self.steps for one in self.made_by(node) if one in read)

    @cached_property
    def cuts(self) -> list[Cut]:
        """Ways to cut the images, the largest blocks first; none if each block needs all rows.

        A block has at least a quarter as many rows as overlap. With fewer rows, halving them would
        save at best a fifth of the memory.
        """
        cuts: list[Cut] = []
        rows, whole = self.size, self._whole()
        while rows > 1:
            rows = _nearby_divisor(whole, rows // 2)
            cuts.append(Cut(self, rows))
            if 4 * (rows // 2) < cuts[-1].overlap():
                break
        return [one for one in cuts if one.is_smaller()]

    def _whole(self) -> int:
        """Return the number of rows of the grid that blocks should divide evenly, if possible.

        It is that of the largest tensor that is read whole: if the last block of this tensor had
        rows outside of it, these would be cut off by a copy.
        """
        if not self.read_whole:
            return self.size
        largest = self.carried[max(self.read_whole, key=lambda one: one.nbytes)]
        rows, rest = divmod(largest.tensor.dims[largest.axis], int(largest.rate))
        return self.size if rest else rows

    def cut_to(self, share: float) -> Cut:
        """Return the cut into the largest blocks whose `share()` is at most `share`.

        If there are none, return the cut into the smallest blocks.
        """
        smallest = self.cuts[-1] if self.cuts else Cut(self, self.size)
        return next((one for one in self.cuts if one.share() <= share), smallest)


def _nearby_divisor(size: int, rows: int) -> int:
    """Return the largest divisor of `size` in (rows / 2, rows]; `rows` if there is none."""
    return next((one for one in range(rows, rows // 2, -1) if size % one == 0), rows)


class Cut:
    """Images cut into blocks of `rows` rows of the grid.

    `needed`: the rows of each tensor that a block needs. `of_an_image`: blocks of one image.
    `count`: blocks of all images. `joined`: tensors that are joined from their blocks.
    """

    def __init__(self, images: Images, rows: int) -> None:
        self.images, self.rows = images, rows
        self.of_an_image = -(-images.size // rows)
        self.count = images.batch * self.of_an_image
        self.needed: dict[Tensor, Rows] = {}
        self.joined = images.read_whole
        for tensor in self.joined:
            self._need(tensor, Rows(0, self.rows_per_block(tensor)))
        for node, step in reversed(list(images.steps.items())):
            made = self.made(node)
            self.needed.update((one, made) for one in images.made_by(node))
            for at, one in step.reads(made, self).items():
                self._need(node.inputs[at], one)

    def rows_per_block(self, tensor: Tensor) -> int:
        return int(self.images.carried[tensor].rate) * self.rows

    def made(self, node: Node) -> Rows:
        """Return the rows that a node computes; they are the same for all its results."""
        own = self.images.made_by(node)
        if not own:
            return Rows(0, 0)
        known = [self.needed[one] for one in own if one in self.needed]
        return reduce(or_, known) if known else Rows(0, self.rows_per_block(own[0]))

    def _need(self, tensor: Tensor, rows: Rows) -> None:
        known = self.needed.get(tensor)
        self.needed[tensor] = rows if known is None else known | rows

    def overlap(self) -> int:
        """Return the largest number of rows of the grid that a block needs beside its own rows."""
        carried = self.images.carried
        rows = (rows.count // int(carried[tensor].rate) for tensor, rows in self.needed.items())
        return max(rows) - self.rows

    def is_smaller(self) -> bool:
        """Return whether a block needs only a part of the rows of the largest tensor."""
        largest = max(self.needed, key=lambda one: one.nbytes)
        size = largest.dims[self.images.carried[largest].axis]
        return self.needed[largest].count < size

    def share(self) -> float:
        """Return the bytes of the rows that a block needs, divided by those of all rows."""
        carried = self.images.carried
        whole = sum(tensor.nbytes for tensor in self.needed)
        needed = sum(
            tensor.nbytes * rows.count / tensor.dims[carried[tensor].axis]
            for tensor, rows in self.needed.items()
        )
        return needed / max(whole, 1)
