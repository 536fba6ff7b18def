"""The largest elements of float64 rows are those that `lax.top_k` finds, in its order."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax
from jax_x64 import enable_x64

from tf_exla.frontends.jax.restore.top_k import top_k

_SPECIAL = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0])


@pytest.mark.one_of(5)
@pytest.mark.parametrize("k", [1, 7, 30])
@pytest.mark.parametrize("shape", [(31,), (2, 0, 200), (2, 3, 127), (5, 4001)])
@pytest.mark.parametrize("kind", ["ties", "special"])
def test_top_k(shape: tuple[int, ...], k: int, kind: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape)
    if kind == "ties":
        x = np.round(x)
    if kind == "special":
        x = np.where(rng.random(shape) < 0.3, rng.choice(_SPECIAL, shape), x)
    with enable_x64(True):
        found = jax.jit(lambda x: top_k(x, k))(x)
        expected = lax.top_k(x, k)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    signs = np.signbit(np.asarray(found[0])) == np.signbit(np.asarray(expected[0]))
    assert signs.all()
