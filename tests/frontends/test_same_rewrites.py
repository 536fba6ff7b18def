"""The same formula from TensorFlow, JAX and the tracer of NumPy: the same rewrites, the same loops.

Rewrites know ops, and no front end. Cleanup is not compared: how a front end writes axes of size
one, means and transposes is its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from frontends.tensorflow_namespace import TENSORFLOW
from jax_captured import capture as capture_jax

pytest.importorskip("jaxlib")

import jax
from frontends.jax_namespace import JAX
from jax_x64 import enable_x64

from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.numpy import trace
from tf_exla.frontends.tf.capture import capture as capture_tensorflow
from tf_exla.ir.graph import Graph, Loop
from tf_exla.ir.traverse import walk
from tf_exla.model.options import Options
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.rewrite.cleanup import FAMILY as CLEANUP
from tf_exla.rewrite.families import switches
from tf_exla.vocabulary.op_set import VocabularyOps

Formula = Callable[..., Any]
Shape = tuple[int, ...]
N = 600
OPTIONS = Options(rewrites=switches(True), cores=1, chunk_bytes=1 << 24, body_bytes=3 << 23)


def gaps(x: Any, y: Any) -> Any:
    return x[:, None] - y[None]


def rbf(xp: Any, x: Any, y: Any) -> Any:
    return xp.exp(-0.5 * xp.sum(xp.square(gaps(x, y)), axis=-1))


def expanded(xp: Any, x: Any, y: Any) -> Any:
    squares = xp.sum(xp.square(x), axis=1)[:, None] + xp.sum(xp.square(y), axis=1)[None]
    return squares - 2.0 * (x @ xp.matrix_transpose(y))


def softmax(xp: Any, x: Any) -> Any:
    """As JAX writes it; TensorFlow has an op."""
    e = xp.exp(x - xp.max(x, axis=1)[:, None])
    return e / xp.sum(e, axis=1)[:, None]


POINTS: list[Shape] = [(N, 3), (N - 77, 3), (N - 77, 2)]
SQUARE: list[Shape] = [(N, N), (N, N), (N, 2)]
PROGRAMS: dict[str, tuple[Formula, list[Shape], set[str]]] = {
    "kernel matvec": (lambda xp, x, y, v: rbf(xp, x, y) @ v, POINTS, {"naive-distance"}),
    "one set": (lambda xp, x, y, v: rbf(xp, x, x) @ x, POINTS, {"naive-distance"}),
    "expanded distance": (
        lambda xp, x, y, v: xp.exp(-0.5 * expanded(xp, x, y)) @ v, POINTS, set()),
    "Matern": (
        lambda xp, x, y, v: ((d := xp.sqrt(xp.sum(xp.square(gaps(x, y)), axis=-1))) + 1.0)
        * xp.exp(-d) @ v, POINTS, {"naive-distance"}),
    "L1": (lambda xp, x, y, v: xp.sum(xp.abs(gaps(x, y)), axis=-1) @ v, POINTS, set()),
    "scaled distance": (
        lambda xp, x, y, v: xp.exp(-xp.sum(xp.square(gaps(x, y) / 0.3), axis=-1)) @ v,
        POINTS, {"naive-distance"}),
    "attention": (lambda xp, q, k, v: softmax(xp, q @ xp.matrix_transpose(k) / 2.0) @ v,
        POINTS, {"rank-one-terms"}),
    "neighbours": (
        lambda xp, x, y, v: xp.top_k(-xp.sum(xp.square(gaps(x, y)), axis=-1), 5), POINTS,
        {"naive-distance"}),
    "nearest": (
        lambda xp, x, y, v: xp.argmin(xp.sum(xp.square(gaps(x, y)), axis=-1), axis=1), POINTS,
        {"naive-distance"}),
    "row and column sums": (
        lambda xp, x, y, v: (
            xp.sum(k := xp.exp(x @ xp.matrix_transpose(y)), axis=0), xp.sum(k, axis=1), k @ v),
        POINTS, set()),
    "maxima": (lambda xp, x, y, v: xp.max(xp.sin(x @ xp.matrix_transpose(y)), axis=1),
        POINTS, set()),
    "chain": (lambda xp, a, b, c: a @ b @ c, SQUARE, {"matrix-chain"}),
    "chain of transposes": (
        lambda xp, a, b, c: xp.matrix_transpose(c) @ xp.matrix_transpose(b) @ a @ c,
        SQUARE, {"matrix-chain"}),
    "scalar in a chain": (lambda xp, a, b, c: (2.0 * a) @ (3.0 * c), SQUARE, {"matrix-chain"}),
    "diagonal in a chain": (
        lambda xp, a, b, c: xp.diag(c[:, 0]) @ a @ c, SQUARE, {"matrix-chain"}),
    "sum of a product": (lambda xp, a, b, c: xp.sum(a @ b, axis=1), SQUARE, {"sum-of-product"}),
    "diagonal of a product": (
        lambda xp, a, b, c: xp.linalg.diagonal(a @ b), SQUARE, {"diagonal-of-product"}),
    "trace of a product": (
        lambda xp, a, b, c: xp.linalg.trace(a @ b), SQUARE, {"diagonal-of-product"}),
    "sum of a diagonal": (
        lambda xp, a, b, c: xp.sum(xp.diag(c[:, 0]), axis=0), SQUARE, {"sum-of-diagonal"}),
    "added diagonal": (
        lambda xp, a, b, c: (a + xp.diag(c[:, 0])) @ c, SQUARE, set()),
    "sum of products": (lambda xp, a, b, c: a @ c + b @ c, SQUARE, set()),
    "means": (lambda xp, a, b, c: xp.mean(xp.exp(a), axis=1), SQUARE, set()),
    "scaled sums": (
        lambda xp, a, b, c: (xp.sum(k := 2.0 * xp.exp(a), axis=0), k @ c), SQUARE, set()),
    "triangle": (lambda xp, a, b, c: xp.tril(a @ xp.matrix_transpose(a)) @ c, SQUARE, set()),
    "solve": (
        lambda xp, a, b, c: xp.linalg.solve_triangular(
            xp.linalg.cholesky(a @ xp.matrix_transpose(a) + 1e4 * xp.diag(xp.exp(c[:, 0]))), b @ c),
        SQUARE, set()),
    "einsum": (
        lambda xp, a, b, c: xp.einsum("ij,kj->ik", a, b) @ c, SQUARE, {"matrix-chain"}),
}  # fmt: skip
"""Formulas, shapes of their arguments, and rewrites that must be among those that fire."""

ALSO_IN_JAX = {"trace of a product": ["sum-of-diagonal"]}
"""A trace is to JAX the sum of a matrix whose other elements are zero."""


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def graphs(formula: Formula, shapes: list[Shape]) -> dict[str, Graph]:
    specs = [tf.TensorSpec(shape, tf.float64) for shape in shapes]
    stock = tf.function(lambda *args: formula(TENSORFLOW, *args), autograph=False)
    arrays = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes]
    return {
        "NumPy": trace(formula, *shapes),
        "TensorFlow": capture_tensorflow(stock.get_concrete_function(*specs)).graph,
        "JAX": capture_jax(lambda *args: formula(JAX, *args), *arrays).graph,
    }


def plan(graph: Graph, limit: int) -> Plan:
    return optimize_graph(graph, VocabularyOps(), limit=limit, options=OPTIONS)


def said(made: Plan) -> tuple[Counter[str], Counter[str]]:
    """Return which rewrites fired, and the loops: axis, extent, how results are combined."""
    fired = Counter(one.rewrite for one in made.applications if one.family != CLEANUP)
    loops = (one for one in walk(made.graph) if isinstance(one, Loop))
    return fired, Counter(f"{one.extent}: {', '.join(map(str, one.results))}" for one in loops)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_rewrites(name: str) -> None:
    formula, shapes, fired = PROGRAMS[name]
    made = graphs(formula, shapes)
    with pytest.raises(MemoryLimitError) as error:
        plan(made["NumPy"], 1)
    smallest = error.value.smallest_limit
    for limit in (1 << 30, 2 * smallest):
        found = {front: said(plan(graph, limit)) for front, graph in made.items()}
        print(name, limit, found)
        assert fired <= set(found["NumPy"][0])
        assert found["TensorFlow"] == found["NumPy"]
        found["JAX"][0].subtract(ALSO_IN_JAX.get(name, []))
        assert found["JAX"] == found["NumPy"]
