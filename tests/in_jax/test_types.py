"""Programs of other types, values and shapes, captured from JAX: they mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_captured import check, kernel, rand, scan, spd
from jax_x64 import enable_x64

from tf_exla.ir.graph import Array

X = Any


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


INTEGERS = np.array([[-7, 7, -1], [0, 5, -8]])
SPECIAL = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30], [-1.5, 0.5, 2.5, -0.5, 1e300, 3]])
Z = rand(3, 3) + 1j * rand(3, 3, seed=1)

OTHERS: Mapping[str, tuple[Callable[..., X], list[Array]]] = {
    "integers": (lambda i: (i // 3, i % 3, i % -3, lax.div(i, 2 + 0 * i), lax.rem(i, 3 + 0 * i),
        i**3,
        jnp.sign(i), jnp.abs(i), i << 2, i >> 1, i & 6, i | 9, i ^ 3, ~i, jnp.clip(i, -2, 2),
        jnp.mean(i, 0), jnp.prod(i), jnp.max(i, 0), i == i.T[:2, :1], i.astype(bool)), [INTEGERS]),
    "unsigned": (lambda i: (i - 3, -i, i // 3, jnp.argmax(i, 1), i.astype("int8"), i > 3),
        [np.abs(INTEGERS).astype("uint8")]),
    "types": (lambda x: (x.astype("int32"), x.astype("float16"), x.astype("bfloat16") * 2 > 1,
        x.astype(bool), x.astype("complex64"), (x > 0) + 1), [rand(3, 4)]),
    "special values": (lambda x: (jnp.maximum(x, 0.0), jnp.minimum(0.0, x), jnp.sign(x), x < 1,
        jnp.round(x), jnp.clip(x, -1, 1), jnp.max(x, 0), jnp.min(x, 1), jnp.isfinite(x), jnp.exp(x),
        jnp.isnan(x), jnp.isinf(x), x**2, jnp.sqrt(jnp.abs(x)), jnp.argmax(x, 1), jnp.nan_to_num(x),
        jnp.where(x > 0, x, 0), jnp.cumsum(x[1]), jnp.trunc(x[1]), jnp.floor(x), x != x),
        [SPECIAL]),
    "complex": (lambda z: (z * z, jnp.abs(z), jnp.exp(z), z.real, z.imag, jnp.conj(z),
        z @ z.conj().T,
        jnp.einsum("bij,bkj->bik", z[None], z[None]), jnp.sum(z, 0), z / 2, z == z, z**-2, z**1.5,
        jnp.linalg.cholesky(z @ z.conj().T + 9 * jnp.eye(3)), jnp.fft.fft(z), lax.complex(z.real,
        z.imag),
        jax.scipy.linalg.solve_triangular(z, z, trans="C"), jax.scipy.linalg.solve_triangular(z,
        z, trans=1)), [Z]),
    "powers": (lambda x: (x**0, x**1, x**5, x**-3, jnp.abs(x) ** 0.5, 2.0**x, x ** jnp.arange(3)),
        [rand(4, 3)]),
    "special functions": (lambda x: (jax.scipy.special.erf(x),
        jax.scipy.special.gammaln(jnp.abs(x)),
        jax.scipy.special.erfinv(x / 9), jax.scipy.special.digamma(jnp.abs(x) + 1), jnp.cbrt(x),
        jax.scipy.special.betainc(2.0, 3.0, jax.nn.sigmoid(x)), jnp.arctan2(x, 1 + x), jnp.exp2(x),
        jax.scipy.stats.norm.logcdf(x), jax.scipy.special.logsumexp(x, 1), jnp.hypot(x, x),
        jax.scipy.special.xlogy(x**2, x**2), jnp.sinc(x), jnp.logaddexp(x, 0.0)), [rand(4, 3)]),
    "algebra": (lambda x: (jnp.linalg.solve(spd(x), x), jnp.linalg.inv(spd(x)), jnp.linalg.slogdet(
        spd(x)), jnp.linalg.eigvalsh(spd(x)), jax.scipy.linalg.expm(x[:3] / 9),
        jnp.linalg.svd(x)[1],
        jnp.linalg.pinv(x), jnp.abs(jnp.linalg.qr(x)[1]), jnp.linalg.norm(x, 2),
        jnp.linalg.lstsq(x, x[:, 0])[0], jax.scipy.linalg.block_diag(x, x), jnp.linalg.matrix_power(
            spd(x), 3), jax.scipy.linalg.toeplitz(x[:, 0])), [rand(4, 3)]),
    "sorting": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1), jnp.median(x, 0), jnp.quantile(x,
        0.3),
        jnp.searchsorted(jnp.sort(x[:, 0]), x[0]), jnp.digitize(x, jnp.array([-1.0, 0, 1])),
        jnp.bincount(jnp.abs(x[:, 0]).astype(int), length=3), lax.cummax(x), jnp.percentile(x, 50,
        1),
        jnp.unique(jnp.round(x), size=3), jnp.nonzero(x > 0, size=4)), [rand(5, 4)]),
    "signals": (lambda x: (jnp.fft.rfft(x, axis=0), jnp.fft.ifft2(x).real, jnp.convolve(x[0], x[1]),
        jax.nn.avg_pool(x[None, ..., None], (2, 2)) if hasattr(jax.nn, "avg_pool") else x,
        lax.conv(x[None, None], x[None, None, :2, :2], (1, 1), "SAME"), jnp.gradient(x, axis=0),
        jnp.interp(x[0], jnp.arange(3.0), x[1, :3]), jnp.trapezoid(x), jnp.cov(x), jnp.corrcoef(x),
        jnp.polyval(x[0], x), jnp.diff(x, axis=1), jnp.cross(x[:, :3], x[:, 1:])), [rand(5, 4)]),
    "random": (lambda x: (jax.random.normal(jax.random.key(3), (4, 3)) * x, jax.random.permutation(
        jax.random.PRNGKey(1), x), jax.random.uniform(jax.random.split(jax.random.key(0))[1], (2,)),
        jax.random.bernoulli(jax.random.key(7), 0.3, (5,)), jax.random.categorical(
            jax.random.key(2), x), jax.random.randint(jax.random.key(2), (3,), 0, 9),
        jax.vmap(lambda k: jax.random.normal(k, (2,)))(jax.random.split(jax.random.key(1), 3)),
        lax.scan(lambda k, _: (jax.random.split(k)[0], jax.random.normal(k)), jax.random.key(0),
            None, 3)[1], lax.map(jax.random.normal, jax.random.split(jax.random.key(1), 3))),
        [rand(4, 3)]),
    "nothing": (lambda x: (x @ x.T, x.sum(), x.max(1, initial=0.0), x[:, None] - x[None],
        lax.map(lambda r: r * 2, x), jnp.cumsum(x, 0), jnp.concatenate([x, x])), [rand(0, 3)]),
    "one": (lambda x: (x @ x.T, kernel(x, x), jnp.linalg.cholesky(spd(x)), jnp.tril(x), x[-1],
        jax.nn.softmax(x), jnp.diag(x)), [rand(1, 1)]),
    "batches": (lambda x: (jnp.linalg.cholesky(spd(x[0])), jax.vmap(spd)(x), jax.vmap(jnp.diag)(x),
        jax.vmap(lambda a: jax.scipy.linalg.solve_triangular(spd(a), a[:, 0]))(x),
        jax.vmap(jax.vmap(lambda a: a @ a))(x[None]), jax.vmap(lambda a: a.at[0].set(1.0))(x),
        jax.vmap(lambda a, i: a[i])(x, jnp.arange(2)), jax.vmap(scan)(x),
        jax.vmap(lambda a: lax.cond(a[0, 0] > 0, jnp.sin, jnp.cos, a))(x),
        jax.vmap(lambda a: lax.while_loop(lambda s: s.sum() < 9, lambda s: s * s + 1, a))(x)),
        [rand(2, 3, 3)]),
}  # fmt: skip
"""Functions of arrays of other types and values."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", OTHERS)
def test_other_programs(name: str) -> None:
    function, arguments = OTHERS[name]
    check(function, *arguments, close=1e-10)
