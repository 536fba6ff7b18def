"""Unrolling: replace a loop over single indices by the nodes of all its iterations."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tf_exla.ir.builder import make_node
from tf_exla.ir.clean import is_identity, node_key
from tf_exla.ir.graph import COMBINING, Loop, Node, SplitAxis, Tensor, const
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traits import REDUCTIONS
from tf_exla.model.settings import SETTINGS


class Unroller:
    """An unroller of the loops of one region.

    `share`: a stage reuses nodes of earlier stages instead of recomputing them.
    `outermost`: for (operand, slot), the operand with the axis of the slot outermost. Slices are
    then taken from it, so that they are contiguous.
    """

    def __init__(
        self,
        ops: OpSet,
        share: bool,
        outermost: Mapping[tuple[Tensor, SplitAxis], Tensor] | None = None,
    ) -> None:
        self.ops = ops
        self.share = share
        self.nodes: list[Node] = []
        self._known: dict[Hashable, Node] = {}
        self._slices: dict[tuple[Tensor, SplitAxis, int], Tensor] = {}
        self._outermost = dict(outermost or {})
        self._constants: dict[Hashable, Tensor] = {}
        self._name = ""
        self._source = ""

    def written_out(self, loop: Loop) -> list[Node]:
        """Return the nodes of all iterations; the last ones make the loop's outputs."""
        self.nodes = []
        self._name, self._source = loop.name, loop.source
        if not self.share:
            self._known = {}
        parts: list[tuple[Tensor, ...]] = []
        totals: list[Tensor | None] = [None] * len(loop.outputs)
        for i in range(loop.extent):
            made = self._iteration(loop, i)
            parts.append(made)
            for k, (part, result) in enumerate(zip(made, loop.results, strict=True)):
                if result.combine != "concat":
                    before = totals[k]
                    combine = COMBINING[result.combine]
                    totals[k] = part if before is None else self._op(combine, before, part)
        for k, result in enumerate(loop.results):
            if result.slot is not None:
                pieces = [made[k] for made in parts]
                totals[k] = self._op("concat", *pieces, self._const(result.slot.axis))
        return self._renamed(totals, loop.outputs)

    def _renamed(self, totals: Sequence[Tensor | None], results: Sequence[Tensor]) -> list[Node]:
        """Return the nodes with each of `totals` replaced by its result.

        A total that occurs twice, or that an earlier stage computed, is copied by an `identity`.
        """
        ends: dict[Tensor, Tensor] = {}
        own = {tensor for node in self.nodes for tensor in node.outputs}
        for total, result in zip(totals, results, strict=True):
            assert total is not None
            if total in ends or total not in own:
                copy = make_node(self.ops, "identity", (total,), {}, f"{self._name}/identity")
                self.nodes.append(copy)
                total = copy.output
            ends[total] = result

        self._known = {key: node.renamed(ends) for key, node in self._known.items()}
        return [node.renamed(ends) for node in self.nodes]

    def _iteration(self, loop: Loop, i: int) -> tuple[Tensor, ...]:
        """Unroll the template for index `i`; return its results."""
        mirror: dict[Tensor, Tensor] = {}
        for inner, outer, slot in zip(loop.template.inputs, loop.inputs, loop.slots, strict=True):
            mirror[inner] = outer if slot is None else self._slice(outer, slot, i)
        for node in loop.template.nodes:
            if node.op == "constant":  # the constant outside of the region is read instead
                mirror[node.output] = node.output
                continue
            operands = [mirror[tensor] for tensor in node.inputs]
            shapes = [_one_index(tensor, loop.split_axes.get(tensor)) for tensor in node.outputs]
            *constants, made = self.ops.resized(node, operands, shapes)
            same = {one.output: self._const(one.attrs["value"]) for one in constants}
            outputs = self._add(made.substitute(same))
            mirror.update(zip(node.outputs, outputs, strict=True))
        return tuple(mirror[tensor] for tensor in loop.template.outputs)

    def _slice(self, tensor: Tensor, slot: SplitAxis, i: int) -> Tensor:
        """Return the slice of a tensor at index `i`, with the axis kept."""
        key = (tensor, slot, i)
        if key not in self._slices:
            axis = slot.axis
            shape = _one_index(tensor, slot)
            inner = tensor.dims[axis + 1 :]
            strided = max(inner, default=1) > 1 or max(tensor.dims[:axis], default=1) > 1
            if (tensor, slot) in self._outermost or (
                strided and tensor.nbytes >= SETTINGS.worth_bytes
            ):
                part = self._cut(self._moved(tensor, slot), 0, slot.block, i)
                order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
                if slot.block == 1:
                    part = self._op("reshape", part, self._const(shape))
                else:
                    part = self._op("permute_dims", part, self._const(order))
            else:
                part = self._cut(tensor, axis, slot.block, i)
            self._slices[key] = part
        return self._slices[key]

    def _moved(self, tensor: Tensor, slot: SplitAxis) -> Tensor:
        """Return a tensor with the axis of a slot outermost."""
        key = (tensor, slot)
        if key not in self._outermost:
            others = [axis for axis in range(len(tensor.dims)) if axis != slot.axis]
            order = self._const([slot.axis, *others])
            self._outermost[key] = self._op("permute_dims", tensor, order)
        return self._outermost[key]

    def _cut(self, tensor: Tensor, axis: int, block: int, i: int) -> Tensor:
        begin = [0] * len(tensor.dims)
        begin[axis] = i * block
        size = [*tensor.dims[:axis], block, *tensor.dims[axis + 1 :]]
        return self._op("slice", tensor, self._const(begin), self._const(size))

    def _op(self, op: str, *inputs: Tensor) -> Tensor:
        return self._add(make_node(self.ops, op, inputs, {}, f"{self._name}/{op}"))[0]

    def _const(self, value: object) -> Tensor:
        array: npt.NDArray[np.generic] = np.asarray(value)
        if array.dtype == np.int64 and not isinstance(value, np.ndarray):
            array = array.astype(np.int32)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._constants:
            node = const(array, f"{self._name}/const")
            self.nodes.append(node)
            self._constants[key] = node.output
        return self._constants[key]

    def _add(self, node: Node) -> Sequence[Tensor]:
        """Add a node, and return the tensors for its outputs.

        A reduction of axes of size one is added as a reshape. A node that changes nothing, or that
        equals an earlier one, is not added.
        """
        node = node.replace(source=node.source or self._source)
        if node.op in REDUCTIONS and node.inputs[0].size == node.output.size:
            shape = self._const(np.asarray(node.output.dims, np.int32))
            plain = self.ops.make("reshape", (node.inputs[0], shape), {}, node.name)
            node = node if plain is None else plain.replace(source=node.source)
        if is_identity(node):
            return node.inputs[: len(node.outputs)]
        key = node_key(node)
        known = self._known.get(key) if key is not None else None
        if known is not None:
            return known.outputs
        if key is not None:
            self._known[key] = node
        self.nodes.append(node)
        return node.outputs


def _one_index(tensor: Tensor, slot: SplitAxis | None) -> tuple[int, ...]:
    shape = list(tensor.dims)
    if slot is not None:
        shape[slot.axis] = slot.block
    return tuple(shape)
