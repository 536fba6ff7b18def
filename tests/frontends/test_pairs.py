"""Symmetric tensors by pairs of chunks: what is proven symmetric is, and the numbers are the same.

Near misses are refused: x and y of equal values, differences, one scale on one side only.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from fresh_process import run_fresh
from samples import batches

import tf_exla
from tf_exla.byte_size import parse_bytes
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph, Loop, Tensor
from tf_exla.ir.traverse import walk
from tf_exla.late.compiling import compile_loops
from tf_exla.rewrite import chosen, rewrite_graph
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.symmetric.element_numbering import ElementNumbering
from tf_exla.split.symmetric.pair_region import PairRegion, grow_pair
from tf_exla.split.symmetric.symmetric_tiles import pair_graph, saving

OPS = TensorFlowOps(threads=2)
Function = Callable[..., Any]


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> tf.Tensor:
    rng = np.random.default_rng([seed, *shape])
    return tf.constant(rng.standard_normal(shape), dtype)


def graph_of(fn: Function, *args: Any, rewrite: bool = False) -> tuple[Graph, Any, Any]:
    concrete = tf.function(fn, autograph=False).get_concrete_function(*args)
    captured = capture(concrete)
    graph = clean(captured.graph, OPS)
    if rewrite:
        graph = rewrite_graph(graph, OPS, chosen()).graph
    return graph, concrete, captured


def squares(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(x), -1, keepdims=True)


def distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    rows, columns = squares(x), tf.linalg.matrix_transpose(squares(y))
    return rows + columns - 2.0 * tf.matmul(x, y, transpose_b=True)


def difference(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return x[..., :, None, :] - y[..., None, :, :]


SCALES = np.array([1.0, 2.0, 0.5])
SYMMETRIC: dict[str, Function] = {
    "gram": lambda x, y: tf.matmul(x, x, transpose_b=True),
    "exp": lambda x, y: tf.exp(-0.5 * distances(x, x)),
    "ard": lambda x, y: tf.exp(-0.5 * distances(x / SCALES, x / SCALES)),
    "weighted": lambda x, y: tf.matmul(x * SCALES, x, transpose_b=True),
    "matern": lambda x, y: (
        (1.0 + tf.sqrt(tf.maximum(distances(x, x), 1e-36)))
        * tf.exp(-tf.sqrt(tf.maximum(distances(x, x), 1e-36)))
    ),
    "naive": lambda x, y: tf.exp(-tf.reduce_sum(tf.square(difference(x, x)), -1)),
    "squared difference": lambda x, y: tf.reduce_sum(
        tf.math.squared_difference(x[:, None], x[None]), -1
    ),
    "l1": lambda x, y: tf.exp(-tf.reduce_sum(tf.abs(difference(x, x)), -1)),
    "periodic": lambda x, y: tf.exp(-tf.reduce_sum(tf.square(tf.sin(difference(x, x))), -1)),
    "sum of kernels": lambda x, y: tf.exp(-distances(x, x)) + tf.matmul(x, x, transpose_b=True),
    "product": lambda x, y: tf.exp(-distances(x, x)) * tf.matmul(y, y, transpose_b=True),
    "outer": lambda x, y: x[:, :1] * tf.transpose(x[:, :1]),
    "outer sum": lambda x, y: tf.tanh(squares(x) + squares(x)[None, :, 0]),
    "with its transpose": lambda x, y: (
        tf.matmul(x, y, transpose_b=True) + tf.transpose(tf.matmul(x, y, transpose_b=True))
    ),
    "both ways": lambda x, y: tf.matmul(x, y, transpose_b=True) + tf.matmul(y, x, transpose_b=True),
    "equal": lambda x, y: tf.cast(tf.equal(squares(x), squares(x)[None, :, 0]), x.dtype),
    "einsum": lambda x, y: tf.einsum("ik,jk->ij", x, x),
    "unrolled": lambda x, y: tf.add_n(
        [
            tf.abs(tf.slice(x, [0, k], [-1, 1]) - tf.slice(tf.transpose(x), [k, 0], [1, -1]))
            for k in range(3)
        ]
    ),
    "constant": lambda x, y: tf.fill([x.shape[0], x.shape[0]], x[0, 0]),
}
ASYMMETRIC: dict[str, Function] = {
    "gram": lambda x, y: tf.matmul(x, y, transpose_b=True),
    "exp": lambda x, y: tf.exp(-0.5 * distances(x, y)),
    "one side scaled": lambda x, y: tf.matmul(x * 2.0, x * SCALES, transpose_b=True)
    + tf.matmul(x, y, transpose_b=True),
    "rows of one, columns of the other": lambda x, y: squares(x)
    + tf.transpose(squares(y))
    - 2.0 * tf.matmul(x, x, transpose_b=True),
    "rows twice": lambda x, y: 2.0 * squares(x) - tf.matmul(x, x, transpose_b=True),
    "difference": lambda x, y: squares(x) - tf.transpose(squares(x)),
    "sine of a difference": lambda x, y: tf.sin(squares(x) - tf.transpose(squares(x))),
    "sum of differences": lambda x, y: tf.reduce_sum(difference(x, x), -1),
    "less": lambda x, y: tf.cast(squares(x) < tf.transpose(squares(x)), x.dtype),
    "quotient": lambda x, y: squares(x) / tf.transpose(squares(x)),
    "power": lambda x, y: tf.pow(2.0 + squares(x), tf.transpose(squares(x))),
    "minus its transpose": lambda x, y: tf.matmul(x, y, transpose_b=True)
    - tf.transpose(tf.matmul(x, y, transpose_b=True)),
    "half of it": lambda x, y: tf.exp(-distances(x, x))
    * (squares(x) + 2.0 * tf.transpose(squares(x))),
    "by place": lambda x, y: x[:, :1]
    + tf.cast(tf.range(x.shape[0]), x.dtype)[None, :],
    "shifted": lambda x, y: tf.matmul(x, tf.roll(x, 1, 0), transpose_b=True),
    "reversed": lambda x, y: tf.matmul(x, x[::-1], transpose_b=True),
    "other inner order": lambda x, y: tf.matmul(x[:, ::-1], x, transpose_b=True)
    + tf.matmul(x, y, transpose_b=True),
    "concatenated apart": lambda x, y: tf.matmul(
        tf.concat([x, y], 1), tf.concat([x, x], 1), transpose_b=True
    ),
    "other columns": lambda x, y: tf.slice(x, [0, 0], [-1, 1])
    * tf.slice(tf.transpose(x), [1, 0], [1, -1]),
    "column of a part": lambda x, y: tf.slice(tf.slice(x, [0, 1], [-1, 2]), [0, 0], [-1, 1])
    * tf.slice(tf.transpose(x), [0, 0], [1, -1]),
    "select": lambda x, y: tf.where(squares(x) > 1.0, squares(x), tf.transpose(squares(x))),
}  # fmt: skip


def is_symmetric(graph: Graph, tensor: Tensor) -> bool:
    forms = ElementNumbering(DefUse(graph, OPS))
    return forms.of(tensor, (1, 2)) == forms.of(tensor, (2, 1))


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric(name: str, rewrite: bool) -> None:
    graph, *_ = graph_of(SYMMETRIC[name], random(7, 3), random(7, 3, seed=1), rewrite=rewrite)
    assert is_symmetric(graph, graph.outputs[0])


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("name", ASYMMETRIC)
def test_not_symmetric(name: str, rewrite: bool) -> None:
    """Even where y has the values of x."""
    x, y = random(7, 3), random(7, 3, seed=1)
    want = ASYMMETRIC[name](x, y).numpy()
    assert not np.allclose(want, want.T), "the case is no near miss"
    graph, *_ = graph_of(ASYMMETRIC[name], x, x, rewrite=rewrite)
    assert not is_symmetric(graph, graph.outputs[0])


def random_matrix(rng: np.random.Generator, x: tf.Tensor, y: tf.Tensor, depth: int) -> tf.Tensor:
    """Compose a random [n, n] tensor that is symmetric now and then."""
    a, b = (x if rng.random() < 0.7 else y for _ in range(2))
    if depth == 0:
        row, column = a[:, :1], tf.transpose(b[:, :1])
        leaves: list[Callable[[], tf.Tensor]] = [
            lambda: tf.matmul(a, b, transpose_b=True),
            lambda: row + column,
            lambda: row * column,
            lambda: row - column,
            lambda: tf.reduce_sum(tf.square(a[:, None] - b[None]), -1),
            lambda: tf.matmul(tf.concat([a, b], 1), tf.concat([b, a], 1), transpose_b=True),
            lambda: tf.matmul(a * b, a, transpose_b=True),
            lambda: distances(a, b),
            lambda: tf.einsum("ik,jk,k->ij", a, b, a[0]),
        ]
        return leaves[rng.integers(len(leaves))]()
    left = random_matrix(rng, x, y, depth - 1)
    if rng.random() < 0.5:
        each = [tf.sin, tf.abs, tf.square, tf.exp, tf.transpose, tf.negative, tf.cos, tf.tanh]
        return each[rng.integers(len(each))](left * 0.1)
    right = random_matrix(rng, x, y, depth - 1)
    two: list[Function] = [
        tf.add, tf.subtract, tf.multiply, tf.maximum, tf.math.squared_difference,
        lambda p, q: p + tf.transpose(q), lambda p, q: p / (2.0 + tf.square(q)),
    ]  # fmt: skip
    return two[rng.integers(len(two))](left, right)


def test_equal_forms_are_equal_numbers() -> None:
    """Whatever has the same form, in either order of its axes, has the same numbers."""
    found, refused = 0, 0
    for seed in range(150):
        x, y = random(5, 3, seed=seed), random(5, 3, seed=seed + 1000)

        def fn(x: tf.Tensor, y: tf.Tensor, seed: int = seed) -> tf.Tensor:
            rng = np.random.default_rng(seed)
            return random_matrix(rng, x, y, int(rng.integers(0, 4)))

        graph, concrete, captured = graph_of(fn, x, y)
        square = [t for node in graph.nodes for t in node.outputs if t.shape == (5, 5)]
        every = graph.replace(outputs=tuple(square))
        like = concrete.graph.inputs
        run = restore(every, name="every", like=like, keep=captured.functions)
        values = [t.numpy() for t in run([x, y, *captured.constants])]
        forms = ElementNumbering(DefUse(graph, OPS))
        known: dict[int, np.ndarray] = {}
        for tensor, value in zip(square, values, strict=True):
            both = [forms.of(tensor, (1, 2)), forms.of(tensor, (2, 1))]
            for form, lies in zip(both, (value, value.T), strict=True):
                want = known.setdefault(form.key, form.sign * lies)
                scale = np.abs(want).max() + 1e-9
                np.testing.assert_allclose(form.sign * lies, want, rtol=0, atol=1e-11 * scale)
            found += both[0] == both[1]
            refused += both[0] != both[1]
    assert found > 100
    assert refused > 100


# Pairs of loops.


def pair_region(graph: Graph) -> PairRegion | None:
    index = DefUse(graph, OPS)
    seeds = sorted(
        (t for node in graph.nodes for t in node.outputs if t.is_static), key=lambda t: -t.size
    )
    for seed in seeds:
        for first, second in itertools.combinations(range(len(seed.dims)), 2):
            if seed.dims[first] == seed.dims[second] > 1:
                region = grow_pair(index, seed, (first, second))
                if region is not None:
                    return region
    return None


def check_pairs(
    fn: Function,
    args: tuple[Any, ...],
    chunk: int,
    compiled: bool = False,
    tolerance: float = 1e-12,
) -> Graph:
    """Run a function by pairs of chunks, and compare it with itself."""
    graph, concrete, captured = graph_of(fn, *args, rewrite=True)
    index = DefUse(graph, OPS)
    region = pair_region(graph)
    assert region is not None
    made = pair_graph(index, region, ElementNumbering(index), chunk)
    check_graph(made, graph)
    if compiled:
        made = compile_loops(made, OPS, forced=True)
        check_graph(made, graph)
        assert any(node.op == "xla_cluster" for node in walk(made))
    like = concrete.graph.inputs
    run = restore(made, name="pairs", like=like, keep=captured.functions)
    flat = [*tf.nest.flatten(args), *concrete.captured_inputs, *captured.constants]
    if args[0].dtype == tf.float32:
        tolerance = 3e-5
    wanted = tf.nest.flatten(fn(*args))
    for got, want in zip(run(flat), wanted, strict=True):
        assert got.shape == want.shape
        # What adds up to zero is as exact as what was added.
        scale = max(np.abs(one.numpy()).max() for one in (wanted if want.ndim == 0 else [want]))
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale)
    return made


def uses(s: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
    """Read a matrix in every way that is a contraction."""
    return [
        tf.matmul(s, v),
        tf.matmul(s, v, transpose_a=True),
        tf.matmul(v, s, transpose_a=True),
        tf.linalg.matvec(s, v[..., 0]),
        tf.einsum("...ij,...jk->...ik", s, v),
        tf.reduce_sum(s, -1),
        tf.reduce_sum(s, -2, keepdims=True),
        tf.reduce_sum(s, [-1, -2]),
        tf.reduce_sum(s),
        tf.reduce_sum(s * tf.linalg.matrix_transpose(s), -1, keepdims=True),
    ]


@pytest.mark.each_value
@pytest.mark.parametrize("chunk", [1, 5, 8, 20, 36])
@pytest.mark.parametrize("name", ["exp", "naive", "periodic", "both ways", "outer sum"])
def test_pairs_of_symmetric(name: str, chunk: int) -> None:
    def fn(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        return uses(SYMMETRIC[name](x, y), v)

    check_pairs(fn, (random(37, 3), random(37, 3, seed=1), random(37, 2)), chunk)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "difference", "select", "one side scaled", "by place"])
def test_pairs_of_asymmetric(name: str, dtype: str) -> None:
    """Nothing is shared, nothing is wrong: each of both tiles has its own nodes."""

    def fn(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        return uses(ASYMMETRIC[name](x, y), v)

    shapes = [(23, 3), (23, 3), (23, 2)]
    args = tuple(random(*shape, dtype=dtype, seed=k) for k, shape in enumerate(shapes))
    if dtype == "float64":
        check_pairs(fn, args, 7)
    elif name != "one side scaled":
        check_pairs(fn, args, 8, compiled=True)


@pytest.mark.parametrize("chunk", [4, 7])
def test_batches(chunk: int) -> None:
    def fn(x: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        return uses(tf.exp(-0.1 * distances(x, x)), v)

    check_pairs(fn, (random(2, 19, 3), random(2, 19, 2)), chunk)


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(compiled: bool) -> None:
    """(a bᵀ + b aᵀ) ∘ K and its like: half of the tile is shared."""

    def fn(x: tf.Tensor, a: tf.Tensor, b: tf.Tensor, scales: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, a, b, scales])
            k = tf.exp(-0.5 * distances(x / scales, x / scales))
            loss = tf.reduce_sum(a * tf.matmul(k, b))
        return loss, tape.gradient(loss, [x, a, b, scales])

    args = (random(29, 3), random(29, 2), random(29, 2, seed=1), tf.constant(SCALES))
    made = check_pairs(fn, args, 6, compiled=compiled)
    exps = [n for n in walk(made) if n.op == "exp" and n.output.shape == (6, 6)]
    assert len(exps) == 2  # below the diagonal and on it


def test_two_stages() -> None:
    """K (K v): the second pass needs the first one completed."""

    def fn(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        k = tf.exp(-distances(x, x))
        return tf.matmul(k, tf.tanh(tf.matmul(k, v)))

    made = check_pairs(fn, (random(31, 3), random(31, 2)), 8)
    assert [node.stage for node in made.nodes if isinstance(node, Loop)] == [0, 1]


PROGRAMS = int(os.environ.get("TF_EXLA_RANDOM_PAIRS", "30"))


def random_program(seed: int) -> tuple[Function, tuple[Any, ...]]:
    """A random matrix, and what it is contracted to, or the gradients of that."""
    shapes = [(13, 3), (13, 3), (13, 2)]
    args = tuple(random(*shape, seed=seed + k) for k, shape in enumerate(shapes))

    def value(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        rng = np.random.default_rng(seed)
        matrix = random_matrix(rng, x, y, int(rng.integers(0, 4)))
        every = uses(matrix, v)
        return [every[k] for k in rng.choice(len(every), 3, replace=False)]

    def gradients(x: tf.Tensor, y: tf.Tensor, v: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([x, y, v])
            loss = tf.add_n([tf.reduce_sum(tf.sin(one)) for one in value(x, y, v)])
        made = tape.gradient(loss, [x, y, v], unconnected_gradients="zero")
        return [loss, *made]

    return (gradients if seed % 2 else value), args


@pytest.mark.parametrize("seeds", batches(range(0, 30, 3), PROGRAMS, 10))
def test_random_programs(seeds: list[int]) -> None:
    split = 0
    for seed in seeds:
        fn, args = random_program(seed)
        graph, *_ = graph_of(fn, *args, rewrite=True)
        if pair_region(graph) is None:
            continue
        split += 1
        check_pairs(fn, args, 1 + seed % 7, tolerance=1e-9)
    assert split > len(seeds) // 3


KERNELS: dict[str, Callable[[Any], Any]] = {
    "SquaredExponential": lambda k: k.SquaredExponential(),
    "ARD": lambda k: k.Matern32(lengthscales=[1.0, 2.0, 0.5]),
    "Matern52": lambda k: k.Matern52(),
    "RationalQuadratic": lambda k: k.RationalQuadratic(),
    "Periodic": lambda k: k.Periodic(k.SquaredExponential()),
    "Polynomial": lambda k: k.Polynomial(),
    "Cosine": lambda k: k.Cosine(),
    "ArcCosine": lambda k: k.ArcCosine(),
    "sum": lambda k: k.Matern12() + k.Linear(),
    "product": lambda k: k.Matern12() * k.SquaredExponential(),
}
"""Of the module of GPflow's kernels."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    """The numbers of GPflow's kernels, at tiles of some size and by the public API."""
    kernel = KERNELS[name](pytest.importorskip("gpflow").kernels)
    # On the diagonal it has acos(1), which makes of one unit in the last place its square root.
    tolerance = 1e-8 if name == "ArcCosine" else 1e-12
    x, v = random(301, 3), random(301, 2)

    def fn(x: tf.Tensor, v: tf.Tensor) -> Any:
        return tf.matmul(kernel(x), v)

    stock = tf.function(fn, autograph=False)
    optimized = tf_exla.optimize(stock, "2.1MB", jit_compile=False)
    graph, *_ = graph_of(fn, x, v, rewrite=True)
    index, forms = DefUse(graph, OPS), ElementNumbering(DefUse(graph, OPS))
    region = pair_region(graph)
    assert region is not None
    assert saving(index, region, forms) > 0.2
    want = stock(x, v).numpy()
    scale = np.abs(want).max()
    np.testing.assert_allclose(optimized(x, v), want, rtol=0, atol=tolerance * scale)
    check_pairs(fn, (x, v), 64, tolerance=tolerance)


def kernel_product(n: int, limit: str, symmetry: bool, jit_compile: bool) -> dict[str, Any]:
    x, v = random(n, 3), random(n, 1)

    def fn(x: tf.Tensor, v: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, v])
            loss = tf.reduce_sum(v * tf.matmul(tf.exp(-distances(x, x)), v))
        return loss, tape.gradient(loss, [x, v])

    function = tf_exla.optimize(
        tf.function(fn, autograph=False),
        limit,
        jit_compile=jit_compile,
        rewrites={"symmetry": symmetry},
    )
    report = function.report(x, v)
    return {
        "projected": report.projected_peak,
        "measured": int(tf_exla.measured_peak(function, x, v)),
        "text": report.details(),
        "worst": max(
            float(np.abs(got - want).max() / np.abs(want).max())
            for got, want in zip(
                tf.nest.flatten(function(x, v)), tf.nest.flatten(fn(x, v)), strict=True
            )
        ),
    }


@pytest.mark.each_value
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("limit", ["8MB", "40MB"])
def test_memory(limit: str, jit_compile: bool) -> None:
    """Measured <= projected <= limit, with tiles of the size that the limit leaves."""
    made = run_fresh(kernel_product, 3001, limit, True, jit_compile)
    assert "by pairs of chunks" in made["text"]
    assert made["measured"] <= made["projected"] <= parse_bytes(limit)
    assert made["worst"] < 1e-12


def test_switched_off() -> None:
    made = run_fresh(kernel_product, 1000, "4MB", False, False)
    assert "by pairs of chunks" not in made["text"]
    assert made["worst"] < 1e-12


def test_pairs_in_a_loop_of_the_program() -> None:
    """A kernel matrix that moves into a While is seen to be symmetric there."""
    kernel = pytest.importorskip("gpflow").kernels.Matern32()

    def powers(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        K = kernel(x)
        return tf.while_loop(
            lambda i, _: i < 3, lambda i, v: (i + 1, tf.linalg.l2_normalize(K @ v)), (0, v)
        )[1]

    x, v = random(1500, 3), random(1500, 1)
    fn = tf_exla.optimize(powers, "5MB")
    np.testing.assert_allclose(fn(x, v), powers(x, v), rtol=1e-10)
    assert any("symmetric" in loop.axis for loop in fn.report(x, v).loops)
