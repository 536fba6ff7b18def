"""Writers of the nodes of a graph; they track which results are known during capture.

Arithmetic on constant indices is folded at once, since it decides whether a gather is a slice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from tf_exla.frontends.numpy.kernels import KERNELS, array_dtype
from tf_exla.ir.graph import Array, Graph, Node, Tensor, const
from tf_exla.ir.traits import REDUCTIONS
from tf_exla.vocabulary.table import VOCABULARY, make

KNOWN_ELEMENTS = 1 << 20
"""The most elements of an integer tensor whose value is tracked: enough for indices."""
SMALL_ELEMENTS = 8
"""Known results of up to this many elements become constants, such as starts and lists of axes."""
NOTHING = "void"
"""The dtype of tangents of integers (float0): their elements have no bytes."""
_EXACT = frozenset(
    {"astype", "concat", "expand_dims", "permute_dims", "reshape", "slice", "squeeze"}
)
"""Ops that are folded for real numbers as well, since they round equally in all frameworks."""


@dataclass(frozen=True)
class Call:
    """One equation of a jaxpr: its primitive, its operands in the graph, its abstract results.

    `context`: settings of JAX under which it was traced, such as the generator of random numbers.
    `given`: the abstract values of the operands, if it is an equation of the user's program.
    """

    primitive: Any
    inputs: Sequence[Tensor]
    params: Mapping[str, Any]
    avals: Sequence[Any]
    effects: bool = False
    context: Any = None
    given: Sequence[Any] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the only result."""
        return tuple(self.avals[0].shape)

    @property
    def dtype(self) -> str:
        """The dtype of the only result."""
        return dtype_name(self.avals[0])


class Like:
    """The shape and dtype of a tensor, with the attributes of an abstract value."""

    def __init__(self, tensor: Tensor) -> None:
        self.shape = tensor.dims
        self.dtype = self
        self.name = tensor.dtype

    def of(self, shape: Sequence[int]) -> Like:
        """Return the same with another shape."""
        return Like(Tensor(tuple(shape), self.name))


def dtype_name(aval: Any) -> str:
    return str(aval.dtype.name)


@dataclass
class Walk:
    """Shared state of the writers of all graphs of one program.

    `converters`: functions by the names of primitives, which write a primitive and return its
    results, or None if it is to become an opaque node. `known`: known values of integer tensors.
    `maker`: the producer of each tensor. `platform`: the platform that the program is for, as JAX
    names it.
    """

    converters: Mapping[str, Callable[[Writer, Call], Sequence[Tensor] | None]]
    platform: str
    known: dict[Tensor, Array] = field(default_factory=dict)
    maker: dict[Tensor, Node] = field(default_factory=dict)
    names: Counter[str] = field(default_factory=Counter)


class Writer:
    """The nodes of one graph, in order. `name` and `source` are those of the current equation.

    `inner`: whether the graph is a sub-graph, which may run many times. `inside`: whether the
    equations being written define one equation of the user's program.
    """

    def __init__(self, walk: Walk, source: str = "", inner: bool = False) -> None:
        self.walk = walk
        self.nodes: list[Node] = []
        self.name = ""
        self.source = source
        self.inner = inner
        self.inside = False

    def sub(self) -> Writer:
        """Return the writer of a sub-graph."""
        return Writer(self.walk, self.source, inner=True)

    @contextmanager
    def definition(self) -> Iterator[None]:
        """Give nodes that are written in this context the source line of the current equation."""
        self.inside = True
        try:
            yield
        finally:
            self.inside = False

    # Nodes.

    def add(self, node: Node) -> tuple[Tensor, ...]:
        self.nodes.append(node)
        for tensor in node.outputs:
            self.walk.maker[tensor] = node
        return node.outputs

    def op(
        self,
        op: str,
        *inputs: Tensor,
        shape: Sequence[int] | None = None,
        dtype: str | None = None,
        **attrs: object,
    ) -> Tensor:
        """Return the result of an op of the vocabulary; infer its shape if none is given.

        The default dtype is that of the vocabulary; with `shape`, that of the first input.
        """
        name = self._unique(f"{self.name}/{op}" if self.name else op)
        if shape is None:
            made = make(op, inputs, attrs, name)
            if made is None:
                raise ValueError(f"the shape of {op} cannot be inferred")
            shape, dtype = made.output.dims, dtype or made.output.dtype
            attrs = dict(made.attrs)
        else:
            attrs = {**VOCABULARY[op].attrs, **attrs}
            dtype = dtype or inputs[0].dtype
        tensor = Tensor(tuple(shape), dtype, name)
        node = Node(op, inputs, (tensor,), attrs, name=name, source=self.source)
        known = self._computed(node)
        if known is not None and known.size <= SMALL_ELEMENTS:
            return self.const(known, dtype)
        if known is not None:
            self.walk.known[tensor] = known
        return self.add(node)[0]

    def several(
        self, op: str, inputs: Sequence[Tensor], avals: Sequence[Any], **attrs: object
    ) -> tuple[Tensor, ...]:
        """Return the results of an op with several results."""
        return self.add(self.node(op, inputs, avals, attrs))

    def node(
        self,
        op: str,
        inputs: Sequence[Tensor],
        avals: Sequence[Any],
        attrs: Mapping[str, object],
        stateful: bool = False,
    ) -> Node:
        name = self._unique(self.name or op)
        outputs = tuple(
            Tensor(tuple(aval.shape), dtype_name(aval), f"{name}:{k}" if k else name)
            for k, aval in enumerate(avals)
        )
        return Node(op, tuple(inputs), outputs, attrs, stateful, name, self.source)

    def const(self, value: npt.ArrayLike, dtype: str = "int32") -> Tensor:
        array = np.asarray(value, array_dtype(Tensor((), dtype)))
        tensor = self.add(const(array, self._unique(f"{self.name}/const"), dtype))[0]
        if array.dtype.kind in "biu":
            self.walk.known[tensor] = array
        return tensor

    def _unique(self, name: str) -> str:
        self.walk.names[name] += 1
        count = self.walk.names[name]
        return name if count == 1 else f"{name}_{count - 1}"

    # Known values.

    def known(self, tensor: Tensor) -> Array | None:
        """Return the value of a tensor if it is known, else None."""
        return tensor.value if tensor.value is not None else self.walk.known.get(tensor)

    def _computed(self, node: Node) -> Array | None:
        """Return the result of a node if it follows from known operands, else None."""
        tensor = node.output
        whole = tensor.dtype.startswith(("int", "uint", "bool"))
        if tensor.size > (KNOWN_ELEMENTS if whole else SMALL_ELEMENTS) or node.op not in KERNELS:
            return None
        if not whole and node.op not in _EXACT:
            return None
        operands = [one for one in map(self.known, node.inputs) if one is not None]
        if not operands or len(operands) < len(node.inputs) or not _folds(node, operands):
            return None
        with np.errstate(all="ignore"):
            made = KERNELS[node.op](node, *operands)
        return np.asarray(made, array_dtype(tensor))

    def bare(self, tensor: Tensor) -> Tensor:
        """Return the operand if a tensor is a broadcast, else the tensor itself.

        Ops of the vocabulary broadcast their operands themselves.
        """
        node = self.walk.maker.get(tensor)
        return node.inputs[0] if node is not None and node.op == "broadcast_to" else tensor

    def ancestor(self, tensor: Tensor, op: str) -> Node | None:
        """Return the producer of a tensor if it is an `op`, else None."""
        node = self.walk.maker.get(tensor)
        return node if node is not None and node.op == op else None

    # Movement of elements. A node that would change nothing is not written.

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        if x.dims == tuple(shape):
            return x
        return self.op("reshape", x, self.const(list(shape)), shape=shape)

    def insert(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return a tensor with axes of size one at `axes` of the result."""
        shape = list(x.dims)
        for axis in sorted(axes):
            shape.insert(axis, 1)
        if len(axes) == 1:
            return self.op("expand_dims", x, self.const(axes[0]), shape=shape)
        return self.reshape(x, shape)

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        if list(order) == list(range(len(x.dims))):
            return x
        return self.op("permute_dims", x, self.const(list(order)))

    def broadcast(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Return a tensor broadcast as NumPy does."""
        if x.dims == tuple(shape):
            return x
        return self.op("broadcast_to", x, self.const(list(shape)))

    def full(self, shape: Sequence[int], value: npt.ArrayLike, dtype: str) -> Tensor:
        return self.broadcast(self.const(value, dtype), shape)

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        return x if x.dtype == dtype else self.op("astype", x, dtype=dtype)

    def slice(self, x: Tensor, begin: Sequence[int], shape: Sequence[int]) -> Tensor:
        if x.dims == tuple(shape):
            return x
        return self.op("slice", x, self.const(list(begin)), self.const(list(shape)))

    def graph(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
        return Graph(tuple(inputs), tuple(self.nodes), tuple(outputs))


def _folds(node: Node, operands: Sequence[Array]) -> bool:
    """Return whether NumPy computes the same result of a node as XLA.

    They differ if no number of the result's dtype is right: for a cast out of range, a quotient by
    zero or of the least integer, or the largest of no elements.
    """
    x, kind = operands[0], operands[0].dtype.kind
    if node.op == "astype" and kind == "f" and node.output.dtype.startswith(("int", "uint")):
        info = jnp.iinfo(array_dtype(node.output))  # type: ignore[no-untyped-call]
        numbers = x.astype(np.float64)
        return bool(np.all((numbers >= info.min) & (numbers < float(info.max))))
    if node.op in ("floor_divide", "remainder", "truncate_divide") and kind in "iu":
        least = jnp.iinfo(x.dtype).min if kind == "i" else None  # type: ignore[no-untyped-call]
        return bool(np.all(operands[1] != 0)) and not np.any(x == least)
    return x.size > 0 or node.op not in REDUCTIONS
