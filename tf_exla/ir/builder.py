"""Builders of the nodes that replace another node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tf_exla.ir.graph import Node, Tensor, const
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.refusal import Refusal


def make_node(
    ops: OpSet, op: str, inputs: Sequence[Tensor], attrs: Mapping[str, object], name: str
) -> Node:
    """Make a node; raise `Refusal` if the op set has no such op."""
    made = ops.make(op, inputs, attrs, name)
    if made is None:
        raise Refusal(f"{op} cannot be made here")
    return made


class Builder:
    """A collector of the nodes that replace one node; they inherit its name and source line."""

    def __init__(self, node: Node, ops: OpSet) -> None:
        self.name = node.name or node.op
        self.source = node.source
        self.ops = ops
        self.nodes: list[Node] = []

    def op(self, op: str, *inputs: Tensor, **attrs: object) -> Tensor:
        made = make_node(self.ops, op, inputs, attrs, f"{self.name}/{op}")
        self.nodes.append(made.replace(source=self.source))
        return made.output

    def const(self, value: npt.ArrayLike, dtype: str = "int32") -> Tensor:
        made = const(np.asarray(value, _numpy(dtype)), f"{self.name}/const", dtype)
        self.nodes.append(made)
        return made.output

    def positions(self, size: int, axis: int, rank: int, start: int = 0) -> Tensor:
        """Return `start`, `start + 1`, ... along `axis` of `rank` axes, the others of size one."""
        bounds = [self.const(value, position_dtype(size)) for value in (start, start + size, 1)]
        shape = [size if one == axis else 1 for one in range(rank)]
        return self.op("reshape", self.op("arange", *bounds), self.const(shape))

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        return tensor if tensor.dtype == dtype else self.op("astype", tensor, dtype=dtype)

    def zeros(self, like: Tensor) -> Tensor:
        return self.const(0, like.dtype)

    def shaped(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        same = tensor.dims == tuple(shape)
        return tensor if same else self.op("reshape", tensor, self.const(shape))

    def ended(self, result: Tensor) -> list[Node]:
        """Return the nodes, of which the last one now makes the tensor `result`."""
        self.nodes[-1] = self.nodes[-1].replace(outputs=(result,))
        return self.nodes


def position_dtype(size: int) -> str:
    """Return the dtype of the positions along an axis."""
    return "int32" if size < 2**30 else "int64"


def _numpy(dtype: str) -> npt.DTypeLike:
    return "float32" if dtype == "bfloat16" else dtype
