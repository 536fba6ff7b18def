"""What is large in the middle of a program need not exist whole: the smallest limit says so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_captured import capture, kernel
from jax_programs import product
from jax_programs import square_distance as square
from jax_x64 import enable_x64
from samples import but

import tf_exla.jax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax import planning
from tf_exla.frontends.jax.certify import RUNTIME
from tf_exla.frontends.jax.planning import Settings, make_plan

X = Any
N = 2000
WHOLE = 8 * N * N
"""Bytes of a matrix of distances."""
KEY = np.zeros(2, np.uint32)


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def _k(x: X) -> X:
    return kernel(x, x)


def _noise(key: X, x: X) -> X:
    return jax.random.normal(key, (N, N)) @ x


def _dropout(key: X, x: X) -> X:
    return jnp.where(jax.random.bernoulli(key, 0.5, (N, N)), _k(x), 0) @ x


def _monte_carlo(key: X, x: X) -> X:
    def one(each: X) -> X:
        return jnp.sum(jnp.tanh(jax.random.normal(each, (N,)) * x[:, 0]))

    return jax.vmap(one)(jax.random.split(key, N))


def _batches(work: Callable[[X], X]) -> Callable[[X], X]:
    """Return work on N matrices of 45 x 45."""
    return lambda x: work(jnp.tile(x[:, :1, None] * x[:, 1:2, None], (1, 45, 45)))


PROGRAMS: Mapping[str, Callable[..., X]] = {
    # Random numbers are functions of their places.
    "random matrix": lambda x: _noise(jax.random.key(1), x),
    "dropout": lambda x: _dropout(jax.random.key(1), x),
    "dropout, differentiated": jax.grad(lambda x: jnp.sum(_dropout(jax.random.key(1), x) ** 2)),
    "keys": lambda x: _monte_carlo(jax.random.key(1), x),
    "gumbel": lambda x: jnp.argmax(x @ x.T + jax.random.gumbel(jax.random.key(1), (N, N)), 1),
    "integers": lambda x: jax.random.randint(jax.random.key(1), (N, N), 0, 9).sum(1) * x[:, 0],
    # Reading and writing by index.
    "diagonal": lambda x: jnp.diag(_k(x) @ _k(x)),
    "trace": lambda x: jnp.trace(_k(x) @ _k(x)),
    "diagonal set": lambda x: _k(x).at[jnp.diag_indices(N)].set(2.0) @ x,
    "row added": lambda x: _k(x).at[3].add(1.0) @ x,
    "element set": lambda x: _k(x).at[3, 4].set(9.0) @ x,
    "elements added": lambda x: _k(x).at[3:9, 4:7].add(1.0).sum(0),
    "rows added": lambda x: jnp.zeros((N, N)).at[jnp.arange(N) // 2].add(_k(x)).sum(1),
    "elements": lambda x: jnp.take_along_axis(_k(x), jnp.argsort(x, 1), 1),
    "elements of own rows, differentiated": jax.grad(lambda x: jnp.sum(
        _k(x)[jnp.arange(N), jnp.argsort(x[:, 0])] - jax.nn.logsumexp(_k(x), 1))),
    "elements of own rows set": lambda x: _k(x).at[jnp.arange(N), jnp.argsort(x[:, 0])].set(1) @ x,
    "rows and columns, differentiated": jax.grad(lambda x: jnp.sum(
        _k(x)[jnp.ix_(jnp.argsort(x[:, 0])[:50], jnp.argsort(x[:, 1])[:9])] ** 2)),
    "rows": lambda x: _k(x)[jnp.argsort(x[:, 0])[:50]].sum(1),
    "segments": lambda x: jax.ops.segment_sum(_k(x), jnp.argsort(x[:, 0]) // 300, 7),
    "blocks": lambda x: jnp.block([[_k(x), _k(2 * x)], [_k(3 * x), _k(x)]]) @ jnp.tile(x, (2, 1)),
    # Maps, whose gradients keep what each row computes.
    "map": lambda x: lax.map(lambda row: jnp.sum(jnp.sin(row - x)), x),
    "map, differentiated": jax.grad(
        lambda x: jnp.sum(lax.map(lambda row: jnp.sum(kernel(row[None], x)), x))),
    "map in batches, differentiated": jax.grad(
        lambda x: jnp.sum(lax.map(lambda row: jnp.sum(kernel(row[None], x)), x, batch_size=64))),
    "map of maps, differentiated": jax.grad(lambda x: jnp.sum(lax.map(
        lambda a: jnp.sum(lax.map(lambda b: jnp.exp(-jnp.sum((a - b) ** 2)), x)), x))),
    "map of kernels, differentiated": jax.grad(lambda x: jnp.sum(lax.map(
        lambda scale: jnp.sum(jnp.sin(_k(x * scale) @ x)), x[:3, 0]))),
    # Choices, whose gradients read what the branch computed.
    "branches, differentiated": jax.grad(lambda x: jnp.sum(
        lax.cond(jnp.sum(x) > 0, lambda: jnp.sin(_k(x)) @ x, lambda: jnp.tanh(_k(x)) @ x))),
    "switch, differentiated": jax.grad(lambda x: jnp.sum(lax.switch(
        jnp.sum(x).astype(int), [lambda: jnp.sin(_k(x)) @ x, lambda: x, lambda: _k(x) @ x]) ** 2)),
    # Primitives that are no op of the vocabulary.
    "transform": lambda x: jnp.abs(jnp.fft.fft(_k(x), axis=1)).sum(1),
    "special functions": lambda x: jax.scipy.special.gammaln(1 + _k(x)).sum(1),
    "complex numbers": lambda x: jnp.abs(jnp.exp(1j * (x @ x.T)) @ x),
    "histogram": lambda x: jnp.histogram(_k(x), bins=10)[0],
    "bins": lambda x: jnp.searchsorted(jnp.sort(x[:, 0]), _k(x)).sum(1),
    "medians": lambda x: jnp.median(_k(x), axis=1),
    "median of all": lambda x: jnp.median(_k(x)),
    "bandwidth, held, differentiated": jax.grad(
        lambda x: jnp.sum(jnp.exp(-square(x, x) / lax.stop_gradient(jnp.median(square(x, x)))))),
    "quantiles of all": lambda x: jnp.quantile(_k(x), jnp.array([0.1, 0.25, 0.9])),
    "element of all, sorted": lambda x: jnp.sort(_k(x).ravel())[N * N // 3],
    "running maxima": lambda x: lax.cummax(_k(x), 1)[:, -1],
    "precision": lambda x: jnp.matmul(x, x.T, precision="highest").sum(1),
    "bits": lambda x: (lax.bitcast_convert_type(x @ x.T, np.int64) & 7).sum(1),
    "rounding": lambda x: lax.reduce_precision(_k(x), 8, 7).sum(1),
    "factors": _batches(lambda a: jnp.linalg.cholesky(a + 9 * jnp.eye(45))[:, -1]),
    "solves": _batches(lambda a: jnp.linalg.solve(a + 9 * jnp.eye(45), a[..., :1])),
    "eigenvalues": _batches(lambda a: jnp.linalg.eigh(a)[0]),
    "right-hand sides": lambda x: jnp.linalg.solve(
        _k(x[:45]) + jnp.eye(45), kernel(x[:45], jnp.tile(x, (40, 1)))).sum(0),
}  # fmt: skip
"""Functions of N points in three dimensions, with small results."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", but(["map in batches, differentiated"], PROGRAMS))
def test_the_smallest_limit_is_small(name: str) -> None:
    captured = capture(PROGRAMS[name], jax.ShapeDtypeStruct((N, 3), np.float64))
    with pytest.raises(MemoryLimitError) as error:
        make_plan(captured.graph, Settings(name, 1))
    assert error.value.smallest_limit < WHOLE / 4, error.value


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: jax.random.normal(jax.random.key(0, impl="rbg"), (N, N)) @ x,
         "lax.random_bits is never split: its numbers depend on how many there are"),
        (lambda x: jnp.linalg.cholesky(_k(x)) @ x, "cholesky: needs it whole"),
    ],
)  # fmt: skip
def test_errors_say_what_is_in_the_way(function: Callable[[X], X], reason: str) -> None:
    call = tf_exla.jax.jit(function, 1).call(jnp.zeros((N, 3)))
    with pytest.raises(MemoryLimitError, match=reason) as error:
        call.program.plan_within(1)
    assert error.value.blocker is not None
    assert error.value.blocker.source.startswith(("test_smallest_limit.py", "jax_captured.py"))


def test_singular_values_alone_need_no_square_matrix() -> None:
    tall = jax.ShapeDtypeStruct((N, 4), np.float64)
    call = tf_exla.jax.jit(lambda x: jnp.linalg.norm(x, 2), WHOLE // 4).call(tall)
    assert call.program.certified().certificate.peak < WHOLE / 4


def test_the_axis_that_leaves_fewer_elements_is_read_first() -> None:
    many, few = (jax.ShapeDtypeStruct((n,), np.int32) for n in (50_000, 3))
    x = jax.ShapeDtypeStruct((400, 300), np.float64)
    for read in (lambda x, i, j: x[jnp.ix_(i, j)], lambda x, i, j: x.T[jnp.ix_(j, i)]):
        plan = tf_exla.jax.jit(read, "1GB").call(x, many, few).program.plan
        assert plan.working_set < 3 * 8 * 50_000 * 3


def test_a_smaller_chunk_of_a_product_may_need_more() -> None:
    """Eigen packs a copy of the wide operand for each chunk, which is as large as the result."""
    call = tf_exla.jax.jit(product()[0], 1).call(*product()[1])
    for room in (200, 298, 330):
        with contextlib.suppress(MemoryLimitError):
            plan = call.program.plan_within(202_000_000 + room * 1_000_000)
            assert plan.working_set <= room * 1_000_000


def test_what_is_infeasible_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    optimize = planning.optimize_graph

    def counted(*args: X, limit: int, **how: X) -> X:
        limits.append(limit)
        return optimize(*args, limit=limit, **how)

    monkeypatch.setattr(planning, "optimize_graph", counted)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(N, 3)))
    with pytest.raises(MemoryLimitError) as caught:
        tf_exla.jax.jit(lambda x: jnp.tanh(_k(x)) @ x, 100_000)(x)
    assert limits[0] == 100_000
    assert len(limits) == 2  # the second is the smallest plan, which is compiled
    assert caught.value.smallest_limit > 1_000_000


def test_what_jax_holds_is_not_refused() -> None:
    """XLA needs half as much again for choices of matrices if it schedules them in sequence."""

    def function(x: X, y: X, kind: X, sign: X) -> X:
        d = x[:, None] - y[None]
        kernels = [lambda d: jnp.exp(-(d**2)), lambda d: 1 / (1 + d**2), lambda d: jnp.abs(d)]
        k = lax.switch(kind, kernels, d)
        k = lax.cond(sign > 0, lambda k: k / k.sum(1, keepdims=True), lambda k: k - 1.5, k)
        return k @ y, (k**2).sum(0)

    rng = np.random.default_rng(0)
    given = jnp.asarray(rng.normal(size=1000)), jnp.asarray(rng.normal(size=1200)), 1, -1.0
    stock = jax.jit(function).lower(*given).compile()
    found = stock.memory_analysis()
    peak = found.temp_size_in_bytes + found.argument_size_in_bytes + found.output_size_in_bytes
    call = tf_exla.jax.jit(function, peak + RUNTIME + 4096).lower(*given).compile()
    for one, want in zip(call(*given), stock(*given), strict=True):
        np.testing.assert_allclose(one, want, 1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_one_row_of_a_computed_matrix(axis: int) -> None:
    """XLA does not fuse the hyperbolic tangent into the slice of one row."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=N))

    def row(x: X, i: X) -> X:
        return jnp.take(jnp.tanh(x[:, None] - x[None]), i, axis)

    function = tf_exla.jax.jit(row, WHOLE // 16)
    for i in (7, N - 1, -1):
        np.testing.assert_array_equal(function(x, i), row(x, i))
