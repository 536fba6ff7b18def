"""Stages that need a maximum, or a scale, stream in one pass, on whatever numbers there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from frontends.run_node import cut_loops

import tf_exla
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Graph, Loop, Tensor
from tf_exla.ir.traverse import walk
from tf_exla.late.compiling import compile_loops
from tf_exla.moves.lowering import lower
from tf_exla.split.loops.stages import arrange, rewrite
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow

OPS = TensorFlowOps()
Function = Callable[..., Any]


def normal(*shape: int, seed: int = 0, scale: float = 1.0, dtype: str = "float64") -> tf.Tensor:
    return tf.constant(scale * np.random.default_rng(seed).standard_normal(shape), dtype)


def split_along(function: Function, arguments: Sequence[tf.Tensor], axis: int, chunk: int) -> Graph:
    """Split the first tensor that the function exponentiates; stages merged as far as they can."""
    captured = capture(tf.function(function, autograph=False).get_concrete_function(*arguments))
    graph = lower(captured.graph, OPS, 0)
    index = DefUse(graph, OPS)
    seed = next(node.output for node in graph.nodes if node.op == "exp")

    def is_large(tensor: Tensor) -> bool:
        return tensor.size >= seed.size

    region = grow(index, seed, axis, is_large)
    assert region is not None
    *_, last = rewrite(index, arrange(index, region, is_large))
    last = cut_loops(last, chunk)
    check_graph(last, graph)
    return last


def stages(graph: Graph) -> int:
    return sum(isinstance(node, Loop) for node in graph.nodes)


def compare(
    function: Function, arguments: Sequence[tf.Tensor], graph: Graph, rtol: float = 1e-12
) -> None:
    found = restore(graph)(list(arguments))
    expected = tf.nest.flatten(tf.function(function, autograph=False)(*arguments))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        want = tf.cast(other, tf.float64).numpy()
        scale = np.nanmax(np.abs(np.where(np.isfinite(want), want, 0)), initial=0.0)
        np.testing.assert_allclose(
            tf.cast(one, tf.float64), want, rtol=rtol, atol=rtol * scale, equal_nan=True
        )


def attend(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)


def with_mask(q: tf.Tensor, k: tf.Tensor, v: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) + mask), v)


def log_sums(x: tf.Tensor, y: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    return tf.reduce_logsumexp(x[:, None] * y[None, :] + mask, 1)


def gradients(function: Function, loss: Function = tf.identity) -> Function:
    def both(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = tf.reduce_sum(loss(function(*arguments)))
        return value, tape.gradient(value, arguments)

    return both


def qkv(queries: int, keys: int, *batch: int, scale: float = 1.0, dtype: str = "float64") -> Any:
    shapes = [(queries, 5), (keys, 5), (keys, 3)]
    return [
        normal(*batch, *shape, seed=s, scale=scale, dtype=dtype) for s, shape in enumerate(shapes)
    ]


def masks(rows: int, columns: int) -> tf.Tensor:
    """Rows that are hidden at first, at last, now and then, all but one, and altogether."""
    mask = np.zeros((rows, columns))
    mask[0, : columns // 2] = -np.inf
    mask[1, columns // 2 :] = -np.inf
    mask[2, ::2] = -np.inf
    mask[3, :-1] = -np.inf
    mask[4] = -np.inf
    mask[5, columns // 2] = np.inf
    mask[6, columns // 3] = np.nan
    mask[7] = -1e9
    mask[8] = np.linspace(-3e3, 3e3, columns)
    mask[9] = np.linspace(3e3, -3e3, columns)
    return tf.constant(mask)


SIZES = [(1, 13), (7, 2), (11, 31), (31, 31)]


@pytest.mark.parametrize("chunk", [1, 4])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
def test_attention(batch: tuple[int, ...], size: tuple[int, int], chunk: int) -> None:
    arguments = qkv(*size, *batch, scale=3.0)
    graph = split_along(attend, arguments, len(batch) + 1, chunk)
    assert stages(graph) == 1
    compare(attend, arguments, graph)


@pytest.mark.parametrize("chunk", [1, 5, 7, 100])
def test_hidden_rows(chunk: int) -> None:
    """A row of minus infinities is no number, one that starts with them is one."""
    q, k, v = qkv(10, 23)
    mask = masks(10, 23)
    graph = split_along(with_mask, (q, k, v, mask), 1, chunk)
    assert stages(graph) == 1
    compare(with_mask, (q, k, v, mask), graph)


@pytest.mark.parametrize("shift", [0.0, -3e4, 3e4])
@pytest.mark.parametrize("chunk", [1, 5, 7, 100])
def test_log_sum_exp(chunk: int, shift: float) -> None:
    """Its shift is zero where the maximum is not finite: minus infinity for a hidden row."""
    arguments = (normal(10), normal(23), masks(10, 23) + shift)
    graph = split_along(log_sums, arguments, 1, chunk)
    assert stages(graph) == 1
    compare(log_sums, arguments, graph)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_short_floats(dtype: str) -> None:
    arguments = qkv(3, 1001, dtype=dtype)
    graph = split_along(attend, arguments, 1, 10)
    assert stages(graph) == 1
    exact = attend(*(tf.cast(argument, tf.float64) for argument in arguments))
    (found,) = restore(graph)(list(arguments))
    stock = attend(*arguments)
    assert found.dtype == stock.dtype
    error, stock_error = (np.abs(tf.cast(one, tf.float64) - exact).max() for one in (found, stock))
    assert error <= 2 * stock_error


@pytest.mark.parametrize("chunk", [1000, 100_003])
def test_sums_beyond_half_precision(chunk: int) -> None:
    """The sums of a row are more than half precision holds, the softmax is not."""
    keys = 100_003
    shapes = [(2, 1), (keys, 1), (keys, 1)]
    arguments = [
        tf.fill(shape, tf.constant(value, "float16"))
        for shape, value in zip(shapes, (0, 0, 300), strict=True)
    ]
    graph = split_along(attend, arguments, 1, chunk)
    (found,) = restore(graph)(arguments)
    np.testing.assert_allclose(found, np.full((2, 1), 300), rtol=1e-3)


@pytest.mark.parametrize(("loss", "count"), [(tf.identity, 2), (tf.sin, 3)])
@pytest.mark.parametrize("chunk", [1, 6, 100])
def test_gradients_need_a_second_pass(chunk: int, loss: Function, count: int) -> None:
    """y (g - sum of g y): the sum streams with the softmax where g does not depend on it."""
    arguments = qkv(7, 29, 2)
    graph = split_along(gradients(attend, loss), arguments, 2, chunk)
    assert stages(graph) == count
    compare(gradients(attend, loss), arguments, graph, 1e-11)


@pytest.mark.parametrize("size", [(0, 23), (10, 0)], ids=str)
@pytest.mark.parametrize("function", [log_sums, gradients(log_sums)], ids=["value", "gradients"])
def test_empty_axes(function: Function, size: tuple[int, int]) -> None:
    """Nothing to add in a chunk, and nothing to take the maximum of."""
    arguments = normal(size[0]), normal(size[1]), normal(*size)
    compare(function, arguments, split_along(function, arguments, int(size[0] == 0), 4))


@pytest.mark.parametrize("jit_compile", [None, True])
def test_empty_axes_below_a_limit(jit_compile: bool | None) -> None:
    arguments = normal(0), normal(23), normal(0, 23)
    optimized = tf_exla.optimize(gradients(log_sums), 1, jit_compile=jit_compile)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        optimized.report(*arguments)
    limit = info.value.smallest_limit
    optimized = tf_exla.optimize(gradients(log_sums), limit, jit_compile=jit_compile)
    for found, expected in zip(
        tf.nest.flatten(optimized(*arguments)),
        tf.nest.flatten(gradients(log_sums)(*arguments)),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("chunk", [4, 10])
def test_compiled_bodies(chunk: int) -> None:
    """XLA's kernels for the bodies, also where rows are hidden: exp(-inf), 0 / 0."""
    rows = qkv(10, 23, scale=3.0)
    cases: list[tuple[Function, Sequence[tf.Tensor]]] = [
        (attend, rows),
        (with_mask, [*rows, masks(10, 23)]),
        (log_sums, [normal(10), normal(23), masks(10, 23)]),
        (gradients(attend), rows),
    ]
    for function, arguments in cases:
        split = split_along(function, arguments, 1, chunk)
        graph = compile_loops(split, OPS, forced=True)
        assert any(node.op == "xla_cluster" for node in walk(graph))
        compare(function, arguments, graph, 1e-11)


@pytest.mark.parametrize("chunk", [1, 6, 100])
def test_gradients_of_log_sum_exp(chunk: int) -> None:
    arguments = (normal(7), normal(29), normal(7, 29))
    graph = split_along(gradients(log_sums), arguments, 1, chunk)
    assert stages(graph) == 2
    compare(gradients(log_sums), arguments, graph, 1e-11)


def by_hand(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A shift of its own, not of the maximum."""
    k = x[:, None] * y[None, :]
    shift = 2.0 * tf.reduce_max(k, 1, keepdims=True) - 1.0
    e = tf.exp(k - shift)
    return tf.linalg.matvec(e, y) / tf.reduce_sum(e, 1)


def normalized(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """No maximum: the scale keeps the sums in range, so it is not postponed."""
    k = tf.exp(-tf.square(x[:, None] - y[None, :]))
    return tf.linalg.matvec(k / tf.reduce_sum(k, 1, keepdims=True), y)


def whole_maximum(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """One maximum for all rows."""
    k = x[:, None] * y[None, :]
    e = tf.exp(k - tf.reduce_max(k))
    return tf.linalg.matvec(e, y)


def through_moves(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Transposes, new axes and einsum between the softmax and its sums."""
    k = x[:, None, None] * y[None, :, None] * tf.constant([1.0, 2.0, 3.0], y.dtype)
    p = tf.nn.softmax(tf.transpose(k, [2, 0, 1]))
    moved = tf.transpose(p, [1, 2, 0])[:, :, None, :]
    return tf.einsum("xyoc,y->cxo", moved, y), tf.reduce_sum(tf.squeeze(moved, 2) * y[:, None], 1)


def selected(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A row that is masked as a whole is zero, whatever it would be divided by."""
    k = x[:, None] * y[None, :]
    return tf.reduce_sum(tf.where(k > -1.0, tf.nn.softmax(k), 0.0), 1)


def other_shift(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The maximum is that of other numbers: what streams by it could overflow."""
    k = x[:, None] * y[None, :]
    return tf.reduce_sum(tf.exp(k - tf.reduce_max(2.0 * k, 1, keepdims=True)), 1)


def crossed(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The maximum of a row is taken from another row."""
    k = x[:, None] * y[None, :]
    shift = tf.reverse(tf.reduce_max(k, 1, keepdims=True), [0])
    return tf.reduce_sum(tf.exp(k - shift), 1)


def not_linear(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    k = x[:, None] * y[None, :]
    return tf.reduce_sum(tf.square(tf.nn.softmax(k)), 1)


def offset(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """What a centred softmax adds is no multiple of it."""
    p = tf.nn.softmax(x[:, None] * y[None, :])
    return tf.reduce_sum((p - 0.1) * y, 1)


def weights_too(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """The weights themselves are a result: they need a pass after the sum."""
    p = tf.nn.softmax(x[:, None] * y[None, :])
    return p, tf.linalg.matvec(p, y)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("function", "count"),
    [
        (by_hand, 1), (normalized, 2), (whole_maximum, 1), (through_moves, 1), (crossed, 1),
        (other_shift, 2), (selected, 2), (not_linear, 2), (offset, 2), (weights_too, 2),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_stages(function: Function, count: int, chunk: int) -> None:
    arguments = normal(11), normal(23, scale=3.0)
    axis = 2 if function is through_moves else 1
    graph = split_along(function, arguments, axis, chunk)
    compare(function, arguments, graph)
    assert stages(graph) == count


def test_one_pass_below_a_limit() -> None:
    """Few long rows: the plan that is chosen reads keys and values once."""
    arguments = qkv(2, 200_003, 1, 2, dtype="float32")
    resident = sum(4 * argument.shape.num_elements() for argument in arguments)
    optimized = tf_exla.optimize(attend, resident + 2_500_000)
    report = optimized.report(*arguments)
    assert [loop.stage for loop in report.loops] == [0]
    np.testing.assert_allclose(optimized(*arguments), attend(*arguments), rtol=1e-5, atol=1e-7)
