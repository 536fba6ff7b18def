"""Finds the parts of a program that compute rows of images from rows of images."""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction

from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import consumers, producers
from tf_exla.moves.images.cutting import Images
from tf_exla.moves.images.rows import Carried, Step
from tf_exla.moves.images.steps import step_of


def find_images(graph: Graph, ops: OpSet, least: int) -> list[Images]:
    """Return the parts of a program around nodes that read windows of images.

    Only tensors of more than `least` bytes are considered.
    """
    found: list[Images] = []
    taken: set[Node] = set()
    for node in graph.nodes:
        windows = None if node in taken else ops.windows(node)
        if windows is None:
            continue
        roles = (*windows.operands, windows.result)
        tensors = [t for t, role in zip((*node.inputs, node.output), roles, strict=True) if role]
        image = max(tensors, key=lambda one: one.nbytes)
        if image.nbytes <= image.dims[0] * least:
            continue
        axis = max(windows.axes, key=lambda one: image.dims[one.axis]).axis
        images = _Growth(graph, ops, least, taken).grown(Carried(image, axis))
        if images.steps and images.size > 1:
            found.append(images)
            taken.update(images.steps)
    return found


class _Growth:
    """Finds all nodes that compute rows from rows, from one image on.

    `taken`: nodes that belong to other images.
    """

    def __init__(self, graph: Graph, ops: OpSet, least: int, taken: Collection[Node]) -> None:
        self.graph, self.ops, self.least, self.taken = graph, ops, least, taken
        self.made_by, self.readers = producers(graph), consumers(graph)
        self.carried: dict[Tensor, Carried] = {}
        self.steps: dict[Node, Step] = {}

    def grown(self, seed: Carried) -> Images:
        self.carried[seed.tensor] = seed
        waiting = [seed.tensor]
        while waiting:
            tensor = waiting.pop()
            near = [reader for reader, _ in self.readers.get(tensor, ())]
            if tensor in self.made_by:
                near.append(self.made_by[tensor])
            for node in near:
                waiting += self._joined(node, tensor)
        nodes = [node for node in self.graph.nodes if node in self.steps]
        used = {one.tensor for node in nodes for one in self.steps[node].carried}
        least = min((self.carried[one].rate for one in used), default=Fraction(1))
        whole = math.lcm(*((self.carried[one].rate / least).denominator for one in used))
        carried = {
            one: self.carried[one]._replace(rate=self.carried[one].rate / least * whole)
            for one in used
        }
        size = max((-(-one.tensor.dims[one.axis] // int(one.rate)) for one in carried.values()),
                   default=0)  # fmt: skip
        steps = {node: self.steps[node] for node in nodes}
        return Images(self.graph, self.ops, carried, steps, seed.tensor.dims[0], size)

    def _joined(self, node: Node, tensor: Tensor) -> list[Tensor]:
        """Add a node if it computes rows from rows; return the tensors that are new with it."""
        if node in self.steps or node in self.taken:
            return []
        known = self.carried[tensor]
        step = step_of(node, tensor, known.axis, self.ops)
        if step is None:
            return []
        large = max(one.tensor.nbytes for one in step.carried) > known.tensor.dims[0] * self.least
        if not large and self.ops.windows(node) is not None:
            return []
        own = next((one for one in step.carried if one.tensor is tensor), None)
        if own is None:
            return []  # it is read whole, as filters
        scale = known.rate / own.rate
        found = {one.tensor: one._replace(rate=one.rate * scale) for one in step.carried}
        if any(self.carried.get(one, new) != new for one, new in found.items()):
            return []
        new = [one for one in found if one not in self.carried]
        self.carried.update(found)
        self.steps[node] = step
        return new
