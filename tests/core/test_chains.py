"""Matrix chains, scalars and diagonals inside of them, sums as products with ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from core.rewritten import OPS, check_numbers, only, random, rewritten, t
from tf_exla.frontends.numpy import trace
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Tensor
from tf_exla.rewrite import chosen, rewrite_graph
from tf_exla.rewrite.algebra import Factor
from tf_exla.rewrite.chain import Diagonal, Ones, best_order, order_within

CHAINS = only("chains", "cleanup")


def flops(graph: Any) -> int:
    from core.rewritten import OPS

    return sum(OPS.flops(node) for node in graph.nodes)


def brute_force(sizes: list[int]) -> int:
    """Return the least flops of a chain by trying all orders."""
    if len(sizes) <= 2:
        return 0
    return min(
        brute_force(sizes[: k + 1]) + brute_force(sizes[k:]) + 2 * sizes[0] * sizes[k] * sizes[-1]
        for k in range(1, len(sizes) - 1)
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(size) for size in rng.integers(1, 50, rng.integers(3, 8))]
    elements = tuple(Factor(Tensor(pair, "float64")) for pair in pairwise(sizes))
    order = best_order(elements, 10**9)
    assert order is not None
    assert order[0, len(elements) - 1].flops == brute_force(sizes)


def test_equal_flops_take_less_memory() -> None:
    # (a b) c and a (b c) take the same flops; the first makes 4 x 2, the second 8 x 1.
    elements = tuple(Factor(Tensor(s, "float64")) for s in [(2, 8), (8, 4), (4, 8), (8, 2)])
    order = best_order(elements, 10**9)
    assert order is not None
    assert order[0, 3].largest <= 8
    assert best_order(elements, 3) is None  # no order stays below three elements


def test_the_limit_chooses_among_orders_of_nearly_the_same_flops() -> None:
    def order(room: int | None, *sizes: int) -> tuple[int, int | None]:
        elements = tuple(Factor(Tensor(pair, "float64")) for pair in pairwise(sizes))
        found = order_within(elements, 10**9, room)
        assert found is not None
        step = found[0, len(elements) - 1]
        return step.flops, step.split

    # (a b) c by way of 500 elements, a (b c) by way of 400.
    near = 10, 20, 50, 20
    assert order(None, *near) == order(500, *near) == (40_000, 1)
    assert order(450, *near) == (48_000, 0)
    assert order(300, *near) == (40_000, 1)  # neither holds it: splitting must
    # The same results, but twice the flops: the larger one is split instead.
    assert order(450, 5, 20, 100, 20) == (40_000, 1)


def test_the_limit_reaches_the_chains() -> None:
    args = random(100, 200), random(200, 500), random(500, 200), random(200, 300)
    before = clean(trace(lambda xp, a, b, c, d: a @ (b @ (c @ d)), *args), OPS)

    def largest(budget: int | None) -> int:
        made = rewrite_graph(before, OPS, chosen(), budget).graph
        return max(node.output.size for node in made.nodes if node.op == "matmul")

    assert largest(None) == 50_000
    assert largest(8 * 45_000) == 40_000


def test_scalings_and_sums_are_cheap() -> None:
    d = Diagonal(Tensor((50,), "float64"))
    a = Factor(Tensor((50, 60), "float64"))
    order = best_order((Ones(1, 50), d, d, a, Ones(60, 1)), 10**9)
    assert order is not None
    assert order[1, 3].flops == 50 + 50 * 60  # the diagonals first, then the rows
    assert order[3, 4].flops == 50 * 60
    assert order[0, 1].flops == 50


@pytest.mark.parametrize(
    ("fn", "shapes", "products"),
    [
        (lambda xp, a, b, c, d: a @ b @ c @ d, [(10, 20), (20, 30), (30, 40), (40, 30)], 3),
        (lambda xp, a, b, c, d: a @ b @ c @ d, [(40, 20), (20, 30), (30, 10), (10, 30)], 3),
        (lambda xp, a, b, c, d: a @ (b @ (c @ d)), [(40, 20), (20, 30), (30, 10), (10, 30)], 3),
        (
            lambda xp, a, b, c, d, e: a @ b @ c @ d + e,
            [(40, 20), (20, 30), (30, 10), (10, 30), (40, 30)],
            3,
        ),
        (lambda xp, d, c, a, b: d @ (t(c) @ (a @ b)), [(40, 30), (20, 30), (20, 50), (50, 1)], 3),
        (lambda xp, d, c, a, b: (d @ t(c)) @ (a @ b), [(40, 30), (20, 30), (20, 50), (50, 1)], 3),
        (lambda xp, a, b, c: (a @ t(b)) @ c, [(1000, 2), (1000, 2), (1000, 2)], 2),
        (lambda xp, a, b, c: a @ (b @ t(c)), [(1000, 2), (2, 2), (1000, 2)], 2),
        (
            lambda xp, d, g, h, a: a @ t(d @ g @ h) @ a,
            [(10, 20), (20, 30), (30, 10), (10, 10)],
            4,
        ),
        (
            lambda xp, d, g, h, a: xp.matmul(a, d @ g @ h, transpose_b=True) @ a[:, :1],
            [(10, 20), (20, 30), (30, 10), (10, 10)],
            4,
        ),
        (
            lambda xp, a, b, v: (a @ b) @ v,
            [(40, 20), (20, 30), (30,)],
            2,
        ),
        (lambda xp, a, b, c: a @ b @ c, [(3, 40, 20), (3, 20, 40), (3, 40, 2)], 2),
        (lambda xp, a, b, c: a @ b @ c, [(3, 40, 20), (20, 40), (3, 40, 2)], 2),
        (lambda xp, a, b, c: t(a) @ (b @ c), [(3, 2, 40, 2), (2, 40, 40), (40, 40)], 2),
    ],
)
def test_chain(fn: Callable[..., Any], shapes: list[Any], products: int) -> None:
    args = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    outcome = check_numbers(fn, *args, families=CHAINS)
    count = outcome.ops.count("matmul") + outcome.ops.count("batch_matmul")
    assert count == products
    assert flops(outcome.result.graph) <= flops(outcome.before)


def test_paper_chain_order() -> None:
    args = [random(*s) for s in [(10, 20), (20, 30), (30, 40), (40, 30)]]
    outcome = check_numbers(lambda xp, a, b, c, d: a @ (b @ (c @ d)), *args, families=CHAINS)
    shapes = [n.output.dims for n in outcome.result.graph.nodes if n.op == "matmul"]
    assert shapes == [(10, 30), (10, 40), (10, 30)]


def test_shared_intermediates_are_not_computed_twice() -> None:
    a, b, c, d = random(30, 20), random(20, 30), random(30, 40), random(40, 1)

    def one_shared(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        abc = a @ b @ c
        return abc, abc @ d

    outcome = check_numbers(one_shared, a, b, c, d, families=CHAINS)
    assert outcome.ops.count("matmul") == 3

    def both_shared(xp: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        ab = a @ b
        abc = ab @ c
        return ab @ c @ d, abc @ c[:1, :, None][0], ab @ d[:30]

    outcome = check_numbers(both_shared, a, b, c, d, families=CHAINS)
    assert flops(outcome.result.graph) <= flops(outcome.before)


def test_shared_unless_it_is_cheaper() -> None:
    def fn(xp: Any, a: Any, b: Any, v: Any) -> Any:
        ab = a @ b  # read by cheap products only
        return ab @ v

    args = random(200, 100), random(100, 200), random(200, 1)
    outcome = check_numbers(fn, *args, families=CHAINS)
    assert flops(outcome.result.graph) == 2 * 2 * 200 * 100


@pytest.mark.parametrize(
    ("fn", "ops"),
    [
        (lambda xp, s, k, v: (s * k) @ v, ["multiply", "matmul"]),
        (lambda xp, s, k, v: s * (k @ v), ["matmul", "multiply"]),
        (lambda xp, s, k, v: (k / s) @ v, ["divide", "matmul"]),
        (lambda xp, s, k, v: (-k) @ v, ["negative", "matmul"]),
        (lambda xp, s, k, v: (2.0 * s * k) @ (3.0 * v), ["multiply", "multiply", "matmul"]),
        (lambda xp, s, k, v: s * (v @ t(k[:50])), ["multiply", "strided_slice", "matmul"]),
        (lambda xp, s, k, v: xp.sum(s * k, 1), ["sum", "multiply"]),
    ],
)
def test_scalars_move_to_the_small_operand(fn: Callable[..., Any], ops: list[str]) -> None:
    s, k, v = np.array(1.7), random(60, 50), random(50, 1)
    if "strided_slice" in ops:
        v = random(60, 50)
    outcome = check_numbers(fn, s, k, v, families=CHAINS)
    assert sorted(outcome.ops) == sorted(ops)
    large = [n for n in outcome.result.graph.nodes if n.op in ("multiply", "negative", "divide")]
    if v.shape[1] == 1:
        assert all(node.output.size <= 60 for node in large)


@pytest.mark.parametrize("scalar", [0.0, np.inf, np.nan, 1e200, 1e-200])
def test_static_scalars_that_change_what_is_finite_stay(scalar: float) -> None:
    outcome = check_numbers(
        lambda xp, k, v: (scalar * k) @ v,
        random(60, 50),
        random(50, 1),
        families=CHAINS,
    )
    assert not outcome.result.applications


def test_static_scalars_that_multiply_to_infinity_stay() -> None:
    def fn(xp: Any, k: Any, v: Any) -> Any:
        for _ in range(4):
            k = 1e100 * t(k)
        return (1e-200 * k) @ v

    check_numbers(fn, 1e-150 * random(60, 50), random(50, 1), families=CHAINS)


def test_scalar_of_rank_one_and_two() -> None:
    k, v = random(60, 50), random(50, 1)
    for s in (np.array([2.0]), np.array([[2.0]])):
        outcome = check_numbers(lambda xp, s, k, v: (s * k) @ v, s, k, v, families=CHAINS)
        assert "matrix-chain" in outcome.names
    raised = np.array([[[2.0]]])  # the product becomes a batch
    check_numbers(lambda xp, s, k, v: (s * k) @ v, raised, k, v, families=CHAINS)


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, d, e, k, v: (d[:, None] * k) @ v,
        lambda xp, d, e, k, v: (k * e) @ v,
        lambda xp, d, e, k, v: (k * e[None]) @ v,
        lambda xp, d, e, k, v: (d[:, None] * k * e) @ v,
        lambda xp, d, e, k, v: xp.diag(d) @ (k @ v),
        lambda xp, d, e, k, v: xp.diag(d) @ k @ xp.diag(e) @ v,
        lambda xp, d, e, k, v: xp.matmul(k * e, v[:, :1] * e[:, None]),
        lambda xp, d, e, k, v: t(t(k) * d) @ v,
    ],
)
def test_diagonals_move_to_the_small_operand(fn: Callable[..., Any]) -> None:
    d, e, k, v = random(60), random(50), random(60, 50), random(50, 2)
    outcome = check_numbers(fn, d, e, k, v, families=CHAINS)
    assert "matrix-chain" in outcome.names
    muls = [n for n in outcome.result.graph.nodes if n.op == "multiply"]
    assert muls
    assert all(node.output.size <= 120 for node in muls)
    assert "matrix_diag" not in outcome.ops


@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (lambda xp, d, k, v: (d * k) @ v, [(60, 50), (60, 50), (50, 1)]),  # a full matrix
        (lambda xp, d, k, v: (d * k) @ v, [(1, 1), (60, 50), (50, 1)]),
        (lambda xp, d, k, v: (d * k) @ v, [(3, 60, 1), (60, 50), (50, 1)]),  # becomes a batch
        (lambda xp, d, k, v: (d * k) @ v, [(50,), (50, 50), (50, 1)]),  # square: columns
        (lambda xp, d, k, v: (d[:, None] * k) @ v, [(50,), (50, 50), (50, 1)]),
        (lambda xp, d, k, v: (d * k) @ v, [(60, 1), (60, 1), (1, 1)]),
        (lambda xp, d, k, v: (d * k) @ v, [(1, 50), (1, 50), (50, 4)]),
        (lambda xp, d, k, v: (d * k) @ v, [(3, 1, 50), (3, 60, 50), (50, 1)]),
        (lambda xp, d, k, v: (d * k) @ v, [(3, 1, 1), (3, 60, 50), (3, 50, 1)]),
    ],
)
def test_near_misses_keep_their_numbers(fn: Callable[..., Any], shapes: list[Any]) -> None:
    check_numbers(fn, *[random(*s, seed=i) for i, s in enumerate(shapes)], families=CHAINS)


@pytest.mark.parametrize(
    ("fn", "largest"),
    [
        (lambda xp, a, b, c: xp.sum(a @ (b @ c), 1), 1200),
        (lambda xp, a, b, c: xp.sum(a @ (b @ c), 0), 1200),
        (lambda xp, a, b, c: xp.sum(a @ (b @ c)), 1200),
        (lambda xp, a, b, c: xp.sum(a @ (b @ c), (0, 1), keepdims=True), 1200),
        (lambda xp, a, b, c: xp.sum(a @ (b @ c), -1, keepdims=True), 1200),
        (lambda xp, a, b, c: xp.sum(a @ (b @ c), 1)[:, None] @ c[0][None], 2400),
        (lambda xp, a, b, c: xp.sum(2.0 * t(a @ b), 0), 1200),
    ],
)
def test_sums_are_products_with_ones(fn: Callable[..., Any], largest: int) -> None:
    a, b, c = random(40, 30), random(30, 20), random(20, 60)
    outcome = check_numbers(fn, a, b, c, families=CHAINS)
    assert "sum-of-product" in outcome.names
    assert outcome.largest <= largest
    assert all(1 in n.output.dims for n in outcome.result.graph.nodes if n.op == "matmul") or (
        largest == 2400
    )


def test_sums_of_batches() -> None:
    a, b = random(3, 40, 30), random(30, 50)
    for axis in (-1, -2, (1, 2), 0, (0, 2), (0, 1, 2)):
        check_numbers(lambda xp, a, b: xp.sum(a @ b, axis), a, b, families=CHAINS)  # noqa: B023


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "complex128"])
def test_other_dtypes_stay(dtype: str) -> None:
    a, b, c = (random(8, 8, dtype=dtype, seed=i) for i in range(3))
    outcome = rewritten(
        lambda xp, a, b, c: xp.matmul(a, b, transpose_a=dtype == "complex128") @ c[:, :1], a, b, c
    )
    assert not [name for name in outcome.names if "chain" in name]


def test_random_chains() -> None:
    """Chains of up to seven elements with transposes, scalars, diagonals and sharing."""
    for seed, batch in product(range(12), [(), (2,)]):
        rng = np.random.default_rng(seed)
        sizes = [int(s) for s in rng.choice([1, 2, 7, 30], 6)]
        flips = rng.integers(2, size=5)
        shapes = [
            (*batch, *((n, m)[::-1] if flip else (n, m)))
            for n, m, flip in zip(sizes, sizes[1:], flips, strict=False)
        ]

        def fn(xp: Any, *args: Any) -> Any:
            rng = np.random.default_rng(seed)  # noqa: B023
            parts = [t(a) if f else a for a, f in zip(args, flips, strict=True)]  # noqa: B023
            made = []
            while len(parts) > 1:
                at = int(rng.integers(len(parts) - 1))
                both = parts[at] @ parts[at + 1]
                kind = rng.integers(5)
                if kind == 0:
                    both = 2.0 * both
                elif kind == 1:
                    both = both * xp.sum(both, -1, keepdims=True)
                elif kind == 2:
                    both = both * xp.cos(both[..., :1, :])
                elif kind == 3:
                    made.append(both)
                parts[at : at + 2] = [both]
            return [*made, parts[0], xp.sum(parts[0], -1)]

        args = [random(*shape, seed=seed) for shape in shapes]
        check_numbers(fn, *args, families=CHAINS)


@pytest.mark.parametrize(
    "fn",
    [
        lambda xp, a, p, q: a @ (p * q),
        lambda xp, a, p, q: a @ (q[0] * p),
        lambda xp, a, p, q: (q * p) @ a,
        lambda xp, a, p, q: t(q * p) @ a,
        lambda xp, a, p, q: a @ (2.0 * (p * q)) @ a,
        lambda xp, a, p, q: a @ (p * xp.sum(a, axis=0, keepdims=True)) @ t(a),
    ],
)
def test_an_outer_product_is_two_elements(fn: Callable[..., Any]) -> None:
    n = 50
    outcome = check_numbers(fn, random(n, n), random(n, 1), random(1, n), families=CHAINS)
    assert "matrix-chain" in outcome.names
    # Without them, each product with a matrix takes 2 n³.
    assert flops(outcome.result.graph) < 20 * n * n


def test_batches_of_outer_products() -> None:
    def fn(xp: Any, a: Any, p: Any, q: Any) -> Any:
        return a @ (p * q)

    outcome = check_numbers(fn, random(3, 40, 40), random(3, 40, 1), random(3, 1, 40))
    assert "matrix-chain" in outcome.names
    outcome = check_numbers(fn, random(3, 40, 40), random(40, 1), random(3, 1, 40))
    assert "matrix-chain" not in outcome.names


def test_an_outer_product_alone_stays() -> None:
    outcome = check_numbers(lambda xp, p, q: p * q, random(50, 1), random(1, 50), families=CHAINS)
    assert outcome.ops == ["multiply"]
