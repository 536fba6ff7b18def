"""Chunks of bfloat16 and float16: never worse than twice the stock's own error.

The error is that against float64. Where the stock happens to be exact, half a unit in the last
place of the largest result is allowed: a rounding of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from frontends.op_cases import ALGEBRA, REDUCTIONS, Case
from frontends.run_node import complete_attrs, cut_loops, run_op
from frontends.test_op_rules import IMAGES, INDEXING, MOVEMENT, operand
from hypothesis import given, settings
from hypothesis import strategies as st
from programs_check import limits_of

import tf_exla
from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.fuzz.table import reductions
from tf_exla.fuzz.values import Pool, Value
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.check import check_graph
from tf_exla.ir.graph import Array, Graph, Node, Tensor
from tf_exla.split.loops.stages import arrange, rewrite
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow

OPS = TensorFlowOps()
UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Half a unit in the last place, of 1."""

SUMS = [
    case
    for case in (*REDUCTIONS, *ALGEBRA, *IMAGES, *MOVEMENT, *INDEXING)
    if "; add" in case.rule or "; mul" in case.rule
]


def shortened(case: Case, dtype: str) -> tuple[Node, list[Array], list[Array]] | None:
    """Return a case with short floats, its operands, and the stock's results; None: no kernel."""
    kind = tf.as_dtype(dtype).as_numpy_dtype
    values, static = zip(*map(operand, case.operands), strict=True)
    short = [v.astype(kind) if v.dtype.kind == "f" else v for v in values]
    if all(one is value for one, value in zip(short, values, strict=True)):
        return None
    try:
        given = {key: dtype if value == "float64" else value for key, value in case.attrs.items()}
        attrs = complete_attrs(case.op, [value.dtype.name for value in short], given)
        results = run_op(case.op, short, attrs)
    except (tf.errors.OpError, TypeError):
        return None
    if not any(map(_is_short, results)):
        return None
    inputs = tuple(
        Tensor(value.shape, value.dtype.name, f"x{k}", value if known else None)
        for k, (value, known) in enumerate(zip(short, static, strict=True))
    )
    outputs = tuple(Tensor(r.shape, r.dtype.name, f"y{k}") for k, r in enumerate(results))
    return (
        Node(graph_name(case.op, outputs[0].dtype), inputs, outputs, attrs, name=case.op),
        short,
        results,
    )


def exact(case: Case, short: list[Array]) -> list[Array]:
    values = [v.astype(np.float64) if _is_short(v) else v for v in short]
    return run_op(
        case.op, values, complete_attrs(case.op, [v.dtype.name for v in values], case.attrs)
    )


def _is_short(value: Array) -> bool:
    return value.dtype.name in UNIT


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("case", SUMS, ids=str)
def test_every_sum_of_the_table(case: Case, dtype: str) -> None:
    """Split each label that is added over, one index at a time."""
    made = shortened(case, dtype)
    if made is None:
        pytest.skip(f"no kernel of {dtype}")
    node, values, stock = made
    rule = OPS.rule(node)
    assert isinstance(rule, AxisRule)
    want = exact(case, values)
    graph = Graph(
        tuple(t for t in node.inputs if t.value is None),
        (*(_const(t) for t in node.inputs if t.value is not None), node),
        node.outputs,
    )
    index = DefUse(graph, OPS)
    for position, axes in enumerate(rule.operands):
        for axis, one in enumerate(axes or ()):
            if one is None or one.label not in rule.combine:
                continue
            region = grow(index, node.inputs[position], axis, lambda _: True)
            if region is None or node not in region.members:
                continue
            split = next(rewrite(index, arrange(index, region, lambda _: True)))
            split = cut_loops(split, 1)
            check_graph(split, graph)
            given = [v for v, t in zip(values, node.inputs, strict=True) if t.value is None]
            found = restore(split)([tf.constant(value) for value in given])
            for k, (new, old, truth) in enumerate(zip(found, stock, want, strict=True)):
                if k not in case.unset and _is_short(old):
                    assert_not_worse(new.numpy(), old, truth)


def _const(tensor: Tensor) -> Node:
    return Node("constant", (), (tensor,), {"value": tensor.value}, name=tensor.name)


def assert_not_worse(found: Array, stock: Array, truth: Array) -> None:
    assert found.dtype == stock.dtype
    new, old = (np.abs(one.astype(np.float64) - truth).max(initial=0) for one in (found, stock))
    rounding = UNIT[stock.dtype.name] * np.abs(truth).max(initial=0)
    lost = np.isnan(old)  # the stock's mean of many numbers in float16: infinite sum and count
    assert new <= (2 * max(old, rounding) if not lost else 4 * rounding)


# Programs, at limits from the smallest on.


def draw(*shape: int, dtype: str, seed: int = 0) -> tf.Tensor:
    return tf.cast(np.random.default_rng(seed).standard_normal(shape), dtype)


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def graded(*arguments: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            value = tf.reduce_sum(function(*arguments))
        return tape.gradient(value, list(arguments))

    return graded


def kernel(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.tanh(tf.matmul(x, y, transpose_b=True) / 4)


def products(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.matmul(kernel(x, y), y)


def other_products(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.matmul(kernel(x, y), x, transpose_a=True)


def gram(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    k = kernel(x, y)
    return tf.matmul(k, k, transpose_a=True)[:5]


def symmetric(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.matmul(kernel(x, x), x)


def segments(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    ids = tf.math.floormod(tf.range(x.shape[0]), 3)
    return tf.math.unsorted_segment_sum(kernel(x, y), ids, 3)


def softmax(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.matmul(tf.nn.softmax(tf.matmul(x, y, transpose_b=True)), y)


def manhattan(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """A short axis is written out."""
    return tf.reduce_sum(tf.exp(-tf.reduce_sum(tf.abs(x[:, None] - y), 2)), 1)


def in_a_loop(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    k = kernel(x, y)
    start = tf.ones([y.shape[0], 1], x.dtype)

    def body(i: tf.Tensor, v: tf.Tensor) -> Any:
        w = tf.matmul(k, tf.matmul(k, v), transpose_a=True)
        return i + 1, w / tf.reduce_max(tf.abs(w))

    return tf.while_loop(lambda i, v: i < 2, body, (0, start))[1]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, y: tf.reduce_sum(tf.square(kernel(x, y)), [0, 1]),
    "sums": lambda x, y: (tf.reduce_sum(kernel(x, y), 0), tf.reduce_sum(kernel(x, y) + 1, 1)),
    "means": lambda x, y: (tf.reduce_mean(kernel(x, y) + 1, 0), tf.reduce_mean(kernel(x, y))),
    "mean of many": lambda x, y: tf.reduce_mean(tf.exp(kernel(x, y))),
    "product": lambda x, y: tf.reduce_prod(1 + kernel(x, y) / 64, 1),
    "l2 loss": lambda x, y: tf.nn.l2_loss(kernel(x, y) / 8),
    "moments": lambda x, y: tf.nn.moments(kernel(x, y), 0),
    "log sum exp": lambda x, y: tf.reduce_logsumexp(4 * kernel(x, y), 1),
    "einsum": lambda x, y: tf.einsum("ij,ik->jk", kernel(x, y), x),
    "symmetric": symmetric,
    "segments": segments,
    "softmax": softmax,
    "manhattan": manhattan,
    "loop": in_a_loop,
    "products": products,
    "other products": other_products,
    "gram": gram,
    "gradient of a sum": gradient(lambda x, y: tf.square(kernel(x, y))),
    "gradient of products": gradient(products),
    "gradient of a softmax": gradient(softmax),
    "gradient of manhattan": gradient(manhattan),
    "gradient of a segment sum": gradient(segments),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("dtype", "jit"), [("bfloat16", None), ("float16", True)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, dtype: str, jit: bool | None) -> None:
    function = PROGRAMS[name]
    stock = tf.function(function, autograph=False)
    arguments = draw(601, 5, dtype=dtype), draw(503, 5, dtype=dtype, seed=1)
    expected = tf.nest.flatten(stock(*arguments))
    truth = tf.nest.flatten(function(*(tf.cast(one, tf.float64) for one in arguments)))
    smallest, unsplit = limits_of(stock, arguments, jit)
    for limit in (smallest, (3 * smallest + unsplit) // 4)[: 1 if jit else 2]:
        optimized = tf_exla.optimize(stock, limit, jit_compile=jit)
        found = tf.nest.flatten(optimized(*arguments))
        for new, old, exact in zip(found, expected, truth, strict=True):
            assert_not_worse(new.numpy(), old.numpy(), exact.numpy())


# Sums that a body completes: the other axis is split, and the matrix is narrower than stock's.


COMPLETED: dict[str, Callable[..., Any]] = {
    "broadcasts": lambda x, y: tf.reduce_sum(kernel(x, y) * x[:, :1] + y[:, 0], 0),
    "gathered rows": lambda x, y: tf.reduce_sum(tf.gather(kernel(x, y), tf.range(900) % 401), 0),
    "variance": lambda x, y: tf.math.reduce_variance(kernel(x, y), 0),
    "euclidean norm": lambda x, y: tf.math.reduce_euclidean_norm(kernel(x, y), 0),
    "in two steps": lambda x, y: tf.reduce_sum(tf.reduce_mean(kernel(x, y)[:, :, None] + y, 0), 1),
}


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("name", COMPLETED)
def test_sums_that_a_body_completes(name: str, dtype: str) -> None:
    assert not worse(COMPLETED[name], dtype, (0.0, 0.05, 0.2, 0.45, 0.8))


@pytest.mark.parametrize("dtype", UNIT)
def test_products_of_an_einsum_are_added_in_float32(dtype: str) -> None:
    """Its kernel adds in the precision of the operands, for few columns with three times the error.

    The root of the mean square tells: the largest error of a few thousand numbers varies.
    """

    def products(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        k = tf.square(tf.tanh(tf.einsum("bie,bje->bij", x, x) / 4))
        return tf.einsum("bid,bij->bjd", y, k)

    stock = tf.function(products, autograph=False)
    x, y = draw(2, 800, 4, dtype=dtype), draw(2, 800, 16, dtype=dtype, seed=1)
    truth = products(tf.cast(x, tf.float64), tf.cast(y, tf.float64)).numpy()

    def error(found: tf.Tensor) -> float:
        return float(np.sqrt(np.mean(np.square(tf.cast(found, tf.float64) - truth))))

    smallest, unsplit = limits_of(stock, (x, y), None)
    for limit in (smallest, (3 * smallest + unsplit) // 4, unsplit - 1):
        assert error(tf_exla.optimize(stock, limit)(x, y)) <= 1.05 * error(stock(x, y))


@pytest.mark.parametrize("dtype", UNIT)
def test_sums_of_segments_are_not_cut_into_columns(dtype: str) -> None:
    """The kernel adds few columns in another order than many."""

    def sums(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        return tf.math.segment_sum(tf.tanh(x[:, :1] - y), tf.minimum(tf.range(997), 0)) / 997

    x, y = draw(997, 3, dtype=dtype), draw(512, dtype=dtype, seed=1) - 3
    stock = tf.function(sums, autograph=False)
    truth = np.tanh(x.numpy().astype(float)[:, :1] - y.numpy().astype(float)).mean(0)
    before = np.abs(stock(x, y).numpy().astype(float) - truth).max()
    peak = tf_exla.explain(stock, x, y, limit="1GB").projected_peak
    with pytest.raises(tf_exla.MemoryLimitError) as error:
        tf_exla.explain(stock, x, y, limit=1)
    smallest = error.value.smallest_limit
    for limit in (smallest, (smallest + peak) // 2):
        found = tf_exla.optimize(stock, limit, strict=True)(x, y).numpy().astype(float)
        assert np.abs(found - truth).max() <= 2 * before


@pytest.mark.one_of(2)
@pytest.mark.parametrize("dtype", UNIT)
def test_reductions_of_the_fuzz_table(dtype: str) -> None:
    codes: set[str] = set()

    @given(st.data())
    @settings(max_examples=12, deadline=None, derandomize=True)
    def draw_lines(data: st.DataObject) -> None:
        pool = Pool([Value("k", (401, 307), dtype, True)])
        steps = [row(data.draw, pool) for row in reductions.ROWS]
        codes.update(
            s.code for s in steps if s and s.dtype == dtype and "keepdims" not in s.code
            and not s.exact
        )  # fmt: skip

    draw_lines()
    assert len(codes) >= 20
    found = {
        code: worse(lambda x, y, c=code: eval(c, {"tf": tf, "k": kernel(x, y)}), dtype, (0.0, 0.3))
        for code in sorted(codes)
    }
    assert not {code: bad for code, bad in found.items() if bad}


def worse(function: Callable[..., Any], dtype: str, parts: Sequence[float]) -> list[str]:
    """Return where a program is worse than it may be; `parts`: of the range of limits."""
    stock = tf.function(function, autograph=False)
    arguments = draw(401, 5, dtype=dtype), draw(307, 5, dtype=dtype, seed=1)
    expected = stock(*arguments).numpy()
    truth = function(*(tf.cast(one, tf.float64) for one in arguments)).numpy()
    smallest, unsplit = limits_of(stock, arguments, None)
    found = []
    for part in parts:
        limit = int(smallest + part * (unsplit - smallest))
        result = tf_exla.optimize(stock, limit, strict=True)(*arguments).numpy()
        try:
            assert_not_worse(result, expected, truth)
        except AssertionError as error:
            found.append(f"{part}: {error}")
    return found
