"""Compare programs that are captured from JAX and evaluated by NumPy with JAX's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.frontends.jax.capture import capture_jaxpr
from tf_exla.frontends.jax.compat import apply
from tf_exla.frontends.numpy import evaluate
from tf_exla.frontends.numpy.kernels import KERNELS
from tf_exla.ir.graph import Array, Graph, Node
from tf_exla.ir.traverse import walk

X = Any


@dataclass(frozen=True)
class Captured:
    """A captured program.

    `graph.inputs`: one for each leaf of the arguments, then one for each of `constants`.
    `constants`: arrays (or tracers) that the function closes over. `in_avals`, `out_avals`: shapes,
    dtypes and weak types of flat arguments and results.
    """

    graph: Graph
    out_tree: Any
    in_avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]
    constants: tuple[Any, ...]

    @property
    def inputs(self) -> int:
        """The number of flat arguments."""
        return len(self.in_avals)


def capture(
    function: Callable[..., Any], *args: Any, platform: str | None = None, **kwargs: Any
) -> Captured:
    """Capture `function` for arguments like `args` and `kwargs`.

    Arguments are pytrees of arrays, numbers or `jax.ShapeDtypeStruct`. `platform`: the platform
    that the program is for, as JAX names it; by default JAX's default backend.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args, **kwargs)
    graph, constants = capture_jaxpr(closed, platform)
    return Captured(
        graph,
        jax.tree.structure(shapes),
        tuple(closed.in_avals),
        tuple(closed.out_avals),
        constants,
    )


class Primitives(dict[str, Any]):
    """Kernels of opaque nodes: the primitives themselves."""

    def __init__(self) -> None:
        self.seen: list[tuple[Node, Sequence[Array], Sequence[Array]]] = []

    def __contains__(self, op: object) -> bool:
        return op not in KERNELS

    def __missing__(self, op: str) -> Callable[[Node, Sequence[Array]], Sequence[Array]]:
        return self._run

    def _run(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        results = bind(node, operands)
        self.seen.append((node, operands, results))
        return results


def bind(node: Node, operands: Sequence[Array]) -> Sequence[Array]:
    primitive: Any = node.attrs["primitive"]
    params: Any = node.attrs["params"]
    made = apply(primitive, map(jnp.asarray, operands), params)
    found = made if primitive.multiple_results else [made]
    keys = [jax.dtypes.issubdtype(one.dtype, jax.dtypes.extended) for one in found]
    return [one if key else np.asarray(one) for one, key in zip(found, keys, strict=True)]


def run(captured: Captured, *arguments: X, kernels: Primitives | None = None) -> Any:
    flat = [np.asarray(one) for one in jax.tree.leaves((arguments, {}))]
    constants = [np.asarray(one) for one in captured.constants]
    kernels = Primitives() if kernels is None else kernels
    made = evaluate(captured.graph, *flat, *constants, kernels=kernels)
    for tensor, aval in zip(captured.graph.outputs, captured.out_avals, strict=True):
        assert (tensor.dims, tensor.dtype) == (aval.shape, aval.dtype.name)
    return jax.tree.unflatten(captured.out_tree, made)


def check(function: Callable[..., X], *arguments: X, close: float = 1e-12) -> Captured:
    captured = capture(function, *arguments)
    found, expected = run(captured, *arguments), jax.jit(function)(*arguments)
    jax.tree.map(lambda a, b: _same(a, b, close), found, expected)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    return captured


def _same(found: X, expected: X, close: float) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype.kind not in "fcV":
        np.testing.assert_array_equal(found, expected)
        return
    if found.size:
        scale = np.nanmax(np.abs(np.where(np.isfinite(expected), expected, 0)))
        np.testing.assert_allclose(found, expected, rtol=close * 10, atol=close * max(scale, 1))


def rand(*shape: int, seed: int = 0, dtype: str = "float64") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def opaque(captured: Captured) -> set[str]:
    """Return the primitives that are not ops of the vocabulary."""
    return {node.op for node in walk(captured.graph) if node.op.startswith("lax.")}


def total(tree: X) -> X:
    leaves = [one for one in jax.tree.leaves(tree) if jnp.issubdtype(one.dtype, jnp.floating)]
    return sum(jnp.sum(jnp.sin(one)) for one in leaves)


def kernel(x: X, y: X) -> X:
    return jnp.exp(-jnp.sum((x[:, None] - y[None]) ** 2, -1) / 2)


def spd(x: X) -> X:
    return x @ x.T + x.shape[0] * jnp.eye(x.shape[0])


def scan(x: X, reverse: bool = False) -> X:
    def step(carry: X, row: X) -> tuple[X, X]:
        return jnp.tanh(carry + row), (carry * row, row[0])

    return lax.scan(step, jnp.ones(x.shape[1]), x, reverse=reverse)
