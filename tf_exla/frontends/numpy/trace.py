"""Tracing of functions of arrays: `fn(xp, *arrays)` becomes a graph like those of front ends.

`xp` has the names of the Python array API standard, else those of `jax.nn` and SciPy.
`namespace.py` has the same names for NumPy. In the graph, axes and shapes are constant operands,
and flags are attributes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.ir.powers import of_known_powers
from tf_exla.vocabulary import table
from tf_exla.vocabulary.table import VOCABULARY

Axes = int | Sequence[int] | None


def trace(fn: Callable[..., Any], *arguments: Any, dtype: str = "float64") -> Graph:
    """Return the graph of `fn(xp, *arrays)`; its outputs are the flat results.

    `arguments`: arrays, or shapes of arrays of `dtype`.
    """
    xp = Tracer()
    made = []
    for argument in arguments:
        known = hasattr(argument, "dtype")
        shape = argument.shape if known else argument
        made.append(xp.input(shape, argument.dtype.name if known else dtype))
    return xp.graph(*flat(fn(xp, *made)))


def flat(results: Any) -> list[Any]:
    """Return the arrays in nested results."""
    if isinstance(results, list | tuple):
        return [one for part in results for one in flat(part)]
    return [results]


def _operator(op: str, swapped: bool = False) -> Callable[[Array, Any], Array]:
    def method(self: Array, other: Any) -> Array:
        return self.xp.op(op, *((other, self) if swapped else (self, other)))

    return method


class Array:
    """An array of the traced function."""

    __array_ufunc__ = None  # operators of NumPy's arrays defer to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, xp: Tracer, tensor: Tensor) -> None:
        self.xp, self.tensor = xp, tensor
        self.shape, self.ndim, self.dtype = tensor.dims, len(tensor.dims), tensor.dtype

    __add__, __radd__ = _operator("add"), _operator("add", True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", True)
    __floordiv__, __mod__ = _operator("floor_divide"), _operator("remainder")
    __pow__, __rpow__ = _operator("pow"), _operator("pow", True)
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # type: ignore[assignment]
    __and__, __or__ = _operator("logical_and"), _operator("logical_or")

    def __neg__(self) -> Array:
        return self.xp.op("negative", self)

    def __abs__(self) -> Array:
        return self.xp.op("abs", self)

    def __invert__(self) -> Array:
        return self.xp.op("logical_not", self)

    def __matmul__(self, other: Array) -> Array:
        return self.xp.matmul(self, other)

    def __getitem__(self, index: Any) -> Array:
        return self.xp.strided_slice(self, index if isinstance(index, tuple) else (index,))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> Array:
        return self.xp.permute_dims(self, range(self.ndim)[::-1])


class Tracer:
    """The namespace of traced functions, with the graph under construction."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.nodes: list[Node] = []
        self.linalg = SimpleNamespace(
            cholesky=partial(self.op, "cholesky"),
            diagonal=self._diagonal,
            matrix_transpose=self.matrix_transpose,
            solve_triangular=self._solve_triangular,
            trace=lambda x: self.sum(self._diagonal(x), axis=-1),
            vector_norm=partial(self._reduced, "vector_norm"),
        )
        for name in ("all", "any", "max", "mean", "min", "prod", "sum"):
            setattr(self, name, partial(self._reduced, name))

    def __getattr__(self, name: str) -> Callable[..., Array]:
        known = VOCABULARY.get(name)
        if known is None or not isinstance(known.rule, str) or name.startswith("list"):
            raise AttributeError(name)
        return partial(self.op, name)

    def input(self, shape: Iterable[int], dtype: str = "float64", name: str = "") -> Array:
        tensor = Tensor(tuple(shape), dtype, name or f"x{len(self.inputs)}")
        self.inputs.append(tensor)
        return Array(self, tensor)

    def graph(self, *outputs: Any) -> Graph:
        made = tuple(self.asarray(x).tensor for x in outputs)
        return of_known_powers(Graph(tuple(self.inputs), tuple(self.nodes), made))

    def asarray(self, value: Any, dtype: str | None = None) -> Array:
        """Return a value as an array: a constant, unless it is an `Array` already."""
        if isinstance(value, Array):
            return value
        array = np.asarray(value)
        if not hasattr(value, "dtype"):  # Python's numbers
            array = array.astype(dtype or array.dtype.name.replace("int64", "int32"))
        node = const(array, f"const{len(self.nodes)}")
        self.nodes.append(node)
        return Array(self, node.output)

    def op(self, op: str, *operands: Any, **attrs: object) -> Array:
        """Add a node for an op of the vocabulary; return its result.

        Python numbers among the operands get the dtype of the last array.
        """
        dtypes = [x.dtype for x in operands if isinstance(x, Array)]
        inputs = [self.asarray(x, dtypes[-1] if dtypes else None).tensor for x in operands]
        made = table.make(op, inputs, attrs, f"{op}{len(self.nodes)}")
        if made is None:
            raise ValueError(f"the vocabulary cannot make {op}")
        self.nodes.append(made)
        return Array(self, made.output)

    def node(
        self,
        op: str,
        operands: Sequence[Any],
        *shapes: Iterable[int],
        dtypes: Sequence[str] = (),
        stateful: bool = False,
        **attrs: Any,
    ) -> list[Array]:
        """Add any node: its results have `shapes`, and `dtypes` or that of the first operand."""
        inputs = tuple(self.asarray(x).tensor for x in operands)
        name, of_first = f"{op}{len(self.nodes)}", [inputs[0].dtype] * len(shapes) if inputs else ()
        outputs = tuple(
            Tensor(tuple(map(int, shape)), dtype, f"{name}:{k}" if k else name)
            for k, (shape, dtype) in enumerate(zip(shapes, dtypes or of_first, strict=True))
        )
        self.nodes.append(Node(op, inputs, outputs, attrs, stateful, name))
        return [Array(self, tensor) for tensor in outputs]

    def one(self, op: str, operands: Sequence[Any], shape: Iterable[int], **attrs: Any) -> Array:
        """Add a node with one result."""
        return self.node(op, operands, tuple(shape), **attrs)[0]

    # Reductions and searches.

    def _reduced(self, op: str, x: Array, axis: Axes = None, keepdims: bool = False) -> Array:
        axes = np.asarray(range(x.ndim) if axis is None else axis, "int32")
        return self.op(op, x, axes, keep_dims=keepdims)

    def argmax(self, x: Array, axis: int, op: str = "argmax") -> Array:
        shape = np.delete(x.shape, axis)
        return self.one(op, (x, axis), shape, dtypes=["int64"], output_type="int64")

    def argmin(self, x: Array, axis: int) -> Array:
        return self.argmax(x, axis, "argmin")

    def top_k(self, x: Array, k: int) -> list[Array]:
        shape = (*x.shape[:-1], k)
        return self.node("top_k", (x, k), shape, shape, dtypes=[x.dtype, "int32"], sorted=True)

    def cumsum(self, x: Array, axis: int) -> Array:
        return self.op("cumsum", x, np.int32(axis), exclusive=False, reverse=False)

    # Products.

    def matmul(
        self, x: Array, y: Array, transpose_a: bool = False, transpose_b: bool = False
    ) -> Array:
        """Multiply matrices, batches of them, or a matrix and a vector."""
        if y.ndim == 1:
            return self.squeeze(self.matmul(x, self.expand_dims(y, -1), transpose_a), -1)
        if x.ndim == y.ndim == 2:
            return self.op("matmul", x, y, transpose_a=transpose_a, transpose_b=transpose_b)
        return self.op("batch_matmul", x, y, adj_x=transpose_a, adj_y=transpose_b)

    def einsum(self, equation: str, *operands: Array) -> Array:
        shape = _shape(partial(np.einsum, equation), *operands)
        return self.one("einsum", operands, shape, equation=equation)

    def _solve_triangular(
        self, a: Array, b: Array, lower: bool = True, adjoint: bool = False
    ) -> Array:
        return self.op("solve_triangular", a, b, lower=lower, adjoint=adjoint)

    # Movement.

    def reshape(self, x: Array, shape: Iterable[int]) -> Array:
        sizes = list(shape)
        if -1 in sizes:
            sizes[sizes.index(-1)] = math.prod(x.shape) // -math.prod(sizes)
        return self.op("reshape", x, np.asarray(sizes, "int32"))

    def permute_dims(self, x: Array, axes: Iterable[int]) -> Array:
        return self.op("permute_dims", x, np.asarray(list(axes), "int32"))

    def matrix_transpose(self, x: Array) -> Array:
        return self.permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))

    def expand_dims(self, x: Array, axis: int) -> Array:
        shape = _shape(partial(np.expand_dims, axis=axis), x)
        return self.one("expand_dims", (x, np.int32(axis)), shape)

    def squeeze(self, x: Array, axis: int) -> Array:
        return self.one("squeeze", (x,), np.delete(x.shape, axis), squeeze_dims=[axis])

    def strided_slice(self, x: Array, index: tuple[Any, ...]) -> Array:
        masks = dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
        bounds = []
        for k, one in enumerate(index):
            start, stop, step = 0, 0, 1
            if one is None or one is ...:
                masks["ellipsis" if one is ... else "new_axis"] |= 1 << k
            elif isinstance(one, slice):
                start, stop, step = one.start or 0, one.stop or 0, one.step or 1
                masks["begin"] |= (one.start is None) << k
                masks["end"] |= (one.stop is None) << k
            else:
                start, stop = one, one + 1
                masks["shrink_axis"] |= 1 << k
            bounds.append((start, stop, step))
        operands = (np.asarray(each, "int32") for each in zip(*bounds, strict=True))
        attrs = {f"{name}_mask": mask for name, mask in masks.items()}
        return self.one("strided_slice", (x, *operands), _shape(lambda x: x[index], x), **attrs)

    def concat(self, arrays: Sequence[Array], axis: int = 0) -> Array:
        return self.op("concat", *arrays, np.int32(axis))

    def stack(self, arrays: Sequence[Array], axis: int = 0) -> Array:
        shape = _shape(lambda *xs: np.stack(xs, axis), *arrays)
        return self.one("stack", arrays, shape, axis=axis)

    def take(self, x: Array, indices: Any, axis: int = 0) -> Array:
        return self.op("take", x, self.asarray(indices), np.int32(axis))

    def tile(self, x: Array, repetitions: Sequence[int]) -> Array:
        shape = np.multiply(x.shape, repetitions)
        return self.one("tile", (x, np.asarray(repetitions, "int32")), shape)

    def flip(self, x: Array, axis: int) -> Array:
        return self.op("flip", x, np.asarray([axis], "int32"))

    def roll(self, x: Array, shift: int, axis: int) -> Array:
        return self.op("roll", x, np.int32(shift), np.int32(axis))

    def pad(self, x: Array, widths: Sequence[tuple[int, int]]) -> Array:
        shape = np.add(x.shape, np.sum(widths, 1))
        return self.one("pad", (x, np.asarray(widths, "int32")), shape)

    def broadcast_to(self, x: Array, shape: Sequence[int]) -> Array:
        return self.op("broadcast_to", x, np.asarray(shape, "int32"))

    def full(self, shape: Sequence[int], value: Any, dtype: str = "float64") -> Array:
        return self.op("full", np.asarray(shape, "int32"), np.asarray(value, dtype))

    def zeros(self, shape: Sequence[int], dtype: str = "float64") -> Array:
        return self.full(shape, 0, dtype)

    def arange(self, stop: int) -> Array:
        return self.op("arange", *(np.int32(bound) for bound in (0, stop, 1)))

    def tril(self, x: Array) -> Array:
        return self.band_part(x, -1, 0)

    def triu(self, x: Array) -> Array:
        return self.band_part(x, 0, -1)

    def band_part(self, x: Array, lower: int, upper: int) -> Array:
        return self.op("band_part", x, np.int32(lower), np.int32(upper))

    def eye(self, n: int, dtype: str = "float64") -> Array:
        return self.diag(self.asarray(np.ones(n, dtype)))

    def diag(self, d: Array) -> Array:
        where = (np.int32(one) for one in (0, -1, -1))
        return self.op("matrix_diag", d, *where, 0)

    def _diagonal(self, x: Array, offset: int = 0) -> Array:
        shape = _shape(lambda x: np.diagonal(x, offset, -2, -1), x)
        operands = (x, np.int32(offset), np.zeros((), x.dtype))
        return self.one("matrix_diag_part", operands, shape, align="RIGHT_LEFT")

    # Types and control flow.

    def astype(self, x: Array, dtype: str) -> Array:
        return self.op("astype", x, dtype=dtype)

    def add_n(self, arrays: Sequence[Array]) -> Array:
        return self.op("add_n", *arrays)

    def while_loop(
        self, cond: Callable[..., Any], body: Callable[..., Any], init: Sequence[Any]
    ) -> list[Array]:
        """Repeat `variables = body(xp, *variables)` while `cond(xp, *variables)`."""
        start = [self.asarray(one) for one in init]
        like = [np.broadcast_to(np.zeros((), one.dtype), one.shape) for one in start]
        attrs: dict[str, Any] = {"cond": trace(cond, *like), "body": trace(body, *like)}
        shapes, dtypes = [one.shape for one in start], [one.dtype for one in start]
        return self.node("while", start, *shapes, dtypes=dtypes, **attrs)


def _shape(function: Callable[..., Any], *arrays: Array) -> tuple[int, ...]:
    """Return the shape of a NumPy function's result for arrays of these shapes."""
    made = function(*(np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in arrays))
    return tuple(np.shape(made))
