"""Sums of products that share an operand; products with row and column terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from core.kernels import InPlaceOps
from core.rewritten import check_numbers, only, random, rewritten, t
from tf_exla.frontends.numpy import NUMPY, evaluate, trace
from tf_exla.ir.graph import Loop
from tf_exla.pipeline.optimize import optimize_graph

SUMS = only("sums-of-products", "cleanup")
RANK_ONE = only("rank-one-terms", "cleanup")
M, N = 20, 300


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, g, h, a: g @ a + xp.matmul(g, a, transpose_a=True),
        lambda xp, g, h, a: g @ a + t(g) @ a,
        lambda xp, g, h, a: g @ a - h @ a,
        lambda xp, g, h, a: xp.add_n([g @ a, h @ a, t(g) @ a]),
        lambda xp, g, h, a: 2.0 * (g @ a) + (h @ a) / 3.0,
        lambda xp, g, h, a: 2.0 * (g @ a + h @ a),
        lambda xp, g, h, a: -(g @ a) + h @ (3.0 * a),
        lambda xp, g, h, a: t(t(a) @ g) + h @ a,
        lambda xp, g, h, a: t(a) @ g + t(a) @ h,
        lambda xp, g, h, a: xp.sum(g) * (g @ a) + h @ a,
        lambda xp, g, h, a: (g @ a + a) + h @ a,
        lambda xp, g, h, a: g @ a + a - h @ a,
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_product_is_left(fn: Callable[..., Any], dtype: str) -> None:
    args = (random(M, M, dtype=dtype), random(M, M, seed=1, dtype=dtype), random(M, N, dtype=dtype))
    outcome = check_numbers(fn, *args, families=SUMS)
    assert {"shared-operand", "own-transpose"} & set(outcome.names)
    assert outcome.ops.count("matmul") == 1


@pytest.mark.parametrize("limit", [0.1, 0.5, 100])
def test_a_sum_with_its_transpose_is_left_where_one_pass_is_faster(limit: float) -> None:
    def fn(xp: Any, x: Any, y: Any, a: Any) -> Any:
        g = xp.exp(x @ t(y))
        return (g + g * g) @ a + t(g + g * g) @ a

    graph = trace(fn, (3001, 3), (3001, 3), (3001, 8))
    before = optimize_graph(graph, InPlaceOps(), limit=10**12).projected_peak_before
    plan = optimize_graph(graph, InPlaceOps(), limit=int(limit * before))
    assert "own-transpose" not in [one.rewrite for one in plan.applications]
    (loop,) = (node for node in plan.graph.nodes if isinstance(node, Loop))
    assert max(tensor.size for tensor in loop.outputs) <= 9 * 3001
    values = [random(*tensor.dims, seed=k) for k, tensor in enumerate(graph.inputs)]
    (found,), (wanted,) = evaluate(plan.graph, *values), evaluate(graph, *values)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("families", [SUMS, RANK_ONE])
def test_steps_that_double_the_terms_end(families: Any) -> None:
    def steps(xp: Any, x: Any) -> Any:
        for _ in range(40):
            x = (x + xp.sin(x)) - 0.5 * x
        return x

    check_numbers(steps, random(M, N), families=families)


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, s, g, h, a: s * (s * (g @ a)) + s * (h @ a),
        lambda xp, s, g, h, a: (g @ a) / s / s + (h @ a) / s,
        lambda xp, s, g, h, a: s * (s * (g @ a)) + s * (s * (h @ a)),
    ],
)
def test_powers_of_a_scalar_differ(fn: Callable[..., Any]) -> None:
    args = np.float64(3.0), random(M, M), random(M, M, seed=1), random(M, N)
    outcome = check_numbers(fn, *args, families=SUMS)
    assert "shared-operand" in outcome.names


@pytest.mark.parametrize(
    ("fn", "products"),
    [
        (lambda xp, g, h, a: xp.add_n([g @ a, g @ a]), 1),
        (lambda xp, g, h, a: g @ a + 3.0 * (g @ a), 1),
        (lambda xp, g, h, a: xp.add_n([g @ a, h @ a, g @ a]), 1),
        (lambda xp, g, h, a: xp.add_n([g @ a, h @ a, -(g @ a)]), 1),
        (lambda xp, g, h, a: xp.sum(h) * (g @ a) + g @ a + h @ a, 1),
    ],
)
def test_equal_products(fn: Callable[..., Any], products: int) -> None:
    """No matrix is added to itself: [M, M] may be larger than the product."""
    g, h, a = random(M, M), random(M, M, seed=1), random(M, N)
    outcome = check_numbers(fn, g, h, a, families=SUMS)
    assert outcome.ops.count("matmul") == products
    sums = [node for node in outcome.result.graph.nodes if node.op in ("add", "add_n")]
    for node in sums:
        assert node.output.dims != (M, M) or len(set(node.inputs)) == len(node.inputs)


def test_batches() -> None:
    g, h, a = random(3, M, M), random(3, M, M, seed=1), random(3, M, N)
    outcome = check_numbers(lambda xp, g, h, a: g @ a + t(h) @ a, g, h, a, families=SUMS)
    assert outcome.ops.count("batch_matmul") == 1


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda xp, a, b, c: a @ c + b @ c, [(M, M), (1, M), (M, N)]),  # broadcast rows
        (lambda xp, a, b, c: a @ c + b @ c, [(2, M, M), (M, M), (M, N)]),  # broadcast batch
        (lambda xp, a, b, c: a @ c + b @ c, [(1, M), (1, M), (M, N)]),
        (lambda xp, a, b, c: a @ c + c @ b, [(M, M), (M, M), (M, M)]),
        (lambda xp, a, b, c: a @ c + b @ t(c), [(M, M), (M, M), (M, M)]),
        (lambda xp, a, b, c: xp.add_n([a @ c, a @ c, b @ c]), [(M, M), (M, M), (M, N)]),
        (lambda xp, a, b, c: (a @ c) * (b @ c), [(M, M), (M, M), (M, M)]),
        (lambda xp, a, b, c: a @ t(c) + t(c) @ b + c @ b, [(M, M), (M, M), (M, M)]),
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any], shapes: list[Any]) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    check_numbers(fn, *args, families=SUMS)


@pytest.mark.parametrize("dtype", ["int32", "complex64", "complex128", "float16"])
def test_other_dtypes_stay(dtype: str) -> None:
    a, g, h = (random(6, 6, dtype=dtype, seed=i) for i in range(3))
    outcome = rewritten(lambda xp, a, g, h: g @ a + h @ a, a, g, h)
    assert outcome.ops.count("matmul") == 2


def test_products_that_are_read_elsewhere_stay() -> None:
    def fn(xp: Any, g: Any, h: Any, a: Any) -> Any:
        one, two = g @ a, h @ a
        return one, two, one + two

    outcome = check_numbers(fn, random(M, M), random(M, M, seed=1), random(M, N), families=SUMS)
    assert not outcome.result.applications
    assert "saves no time" in outcome.reasons


def test_small_sums_of_large_operands_stay() -> None:
    a, b, c = random(N, 9), random(N, 9, seed=1), random(9, 2)
    outcome = check_numbers(lambda xp, a, b, c: a @ c + b @ c, a, b, c, families=SUMS)
    assert outcome.ops.count("matmul") in (1, 2)


# Rank-one terms.


def distance(xp: Any, x: Any, y: Any) -> Any:
    xs, ys = xp.sum(x * x, -1), xp.sum(y * y, -1)
    return -2.0 * xp.matmul(x, y, transpose_b=True) + xs[..., :, None] + ys[..., None, :]


def gpflow_distance(xp: Any, x: Any, y: Any) -> Any:
    xs, ys = xp.sum(xp.square(x), -1), xp.sum(xp.square(y), -1)
    both = xp.reshape(xs, (-1, 1)) + xp.reshape(ys, (1, -1))
    return -2.0 * xp.matmul(x, y, transpose_b=True) + both


@pytest.mark.parametrize(
    "fn",
    [
        distance,
        gpflow_distance,
        lambda xp, x, y: gpflow_distance(xp, x, x),
        lambda xp, x, y: xp.exp(-0.5 * gpflow_distance(xp, x, y)),
        lambda xp, x, y: x @ t(y) - xp.sum(x, 1)[:, None],
        lambda xp, x, y: x @ t(y) + xp.sum(y, 1),
        lambda xp, x, y: x @ t(y) + xp.sum(y, 1)[None] + xp.sum(y * y, 1)[None],
        lambda xp, x, y: t(y @ t(x)) + xp.sum(y, 1) / 2.0,
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_product_with_two_more_columns(fn: Callable[..., Any], dtype: str) -> None:
    args = random(60, 3, dtype=dtype), random(50, 3, dtype=dtype)
    outcome = check_numbers(fn, *args, families=RANK_ONE)
    assert "rank-one-terms" in outcome.names
    assert outcome.ops[-1] in ("matmul", "exp")


def test_batches_of_distances() -> None:
    outcome = check_numbers(distance, random(2, 60, 3), random(2, 50, 3), families=RANK_ONE)
    assert "rank-one-terms" in outcome.names


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (lambda xp, x, y, c: x @ t(y) + c, [(60, 40), (50, 40), (60, 1)], "not small beside"),
        (lambda xp, x, y, c: x @ t(y) + c, [(2, 60, 2), (50, 2), (2, 60, 1)], "broadcast"),
    ],
)
def test_rank_one_refuses(fn: Callable[..., Any], shapes: list[Any], reason: str) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    outcome = check_numbers(fn, *args, families=RANK_ONE)
    assert "rank-one-terms" not in outcome.names
    assert reason in outcome.reasons


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda xp, x, y, c: x @ t(y) + c, [(60, 2), (50, 2), (60, 50)]),  # a full matrix
        (lambda xp, x, y, c: x @ t(y) + c, [(60, 2), (50, 2), (1, 1)]),  # a scalar
        (lambda xp, x, y, c: x @ t(y) + c, [(60, 2), (50, 2), (3, 60, 1)]),  # the sum is a batch
        (lambda xp, x, y, c: x @ t(y) + c, [(60, 2), (60, 2), (60,)]),  # square: rows, not columns
        (lambda xp, x, y, c: x @ t(y) + c, [(1, 2), (60, 2), (1, 1)]),
        (
            lambda xp, x, y, c: x @ t(y) + x @ t(y) + c,
            [(60, 2), (50, 2), (60, 1)],
        ),  # one term twice
        (lambda xp, x, y, c: x @ t(y) + c + c + c, [(60, 2), (50, 2), (60, 1)]),
        (lambda xp, x, y, c: x @ t(y) * c, [(60, 2), (50, 2), (60, 1)]),
        (lambda xp, x, y, c: x @ t(y) + c, [(1, 2), (50, 2), (60, 1)]),  # the product is broadcast
    ],
)
def test_rank_one_near_misses_keep_their_numbers(fn: Callable[..., Any], shapes: list[Any]) -> None:
    check_numbers(fn, *[random(*s, seed=i) for i, s in enumerate(shapes)], families=RANK_ONE)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_so(value: float) -> None:
    x, y = random(60, 3), random(50, 3)
    x[7, 1] = value
    outcome = rewritten(gpflow_distance, x, y, families=RANK_ONE)
    with np.errstate(invalid="ignore"):
        (got,), want = evaluate(outcome.result.graph, x, y), gpflow_distance(NUMPY, x, y)
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


def block(xp: Any, rows: list[list[Any]]) -> Any:
    return xp.concat([xp.concat(row, axis=1) for row in rows], axis=0)


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, a, b, v: block(xp, [[a, b], [t(b), t(a)]]) @ v,
        lambda xp, a, b, v: t(v) @ block(xp, [[a, b], [t(b), t(a)]]),
        lambda xp, a, b, v: xp.matmul(v, block(xp, [[a, b], [t(b), t(a)]]), transpose_a=True),
        lambda xp, a, b, v: xp.matmul(block(xp, [[a, b], [t(b), t(a)]]), v, transpose_a=True),
        lambda xp, a, b, v: t(block(xp, [[t(a), t(b)], [b, a]])) @ v,
        lambda xp, a, b, v: xp.concat(
            [xp.concat([a, t(b)], axis=0), xp.concat([b, t(a)], axis=0)], axis=1) @ v,
        lambda xp, a, b, v: xp.sum(block(xp, [[a, b], [t(b), t(a)]]), axis=0),
        lambda xp, a, b, v: xp.sum(block(xp, [[a, b], [t(b), t(a)]]), axis=1, keepdims=True),
        lambda xp, a, b, v: xp.sum(block(xp, [[a, b], [t(b), t(a)]])),
        lambda xp, a, b, v: xp.max(block(xp, [[a, b], [t(b), t(a)]]), axis=1),
        lambda xp, a, b, v: xp.min(block(xp, [[a, b], [t(b), t(a)]]), axis=0),
        lambda xp, a, b, v: xp.mean(block(xp, [[a, b], [a, b]]), axis=1),
    ],
)  # fmt: skip
def test_blocks(fn: Callable[..., Any]) -> None:
    """Matrices of blocks are read by rows or columns of blocks."""
    outcome = check_numbers(fn, random(40, 40), random(40, 40), random(80, 2))
    assert {"block-product", "block-reduction"} & set(outcome.names)
    assert outcome.largest <= 40 * 80


def test_what_is_joined_once_stays_joined() -> None:
    outcome = check_numbers(
        lambda xp, a, b, v: xp.concat([a, b], axis=1) @ v,
        random(40, 40), random(40, 40), random(80, 2),
    )  # fmt: skip
    assert not outcome.names


def test_points_in_blocks_make_one_product() -> None:
    """Rows of two data sets, with a column beside: their Gram matrix is larger than they are."""

    def gram(xp: Any, x: Any, y: Any) -> Any:
        z = xp.concat([xp.concat([x, y], 0), xp.concat([x[:, :1], y[:, :1]], 0)], 1)
        return xp.matmul(z, z, transpose_b=True)

    outcome = check_numbers(gram, random(60, 3), random(50, 3))
    assert "block-product" not in outcome.names
