"""Calls, loops, keys and effects of JAX, planned for the smallest limit: the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.shard_map import shard_map
from jax.sharding import PartitionSpec
from jax_captured import kernel, rand
from jax_x64 import enable_x64

import tf_exla.jax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax.restore import restore

X = Any
N = 150


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def _k(x: X) -> X:
    return kernel(x, x)


@jax.custom_vjp
def _own_gradient(x: X) -> X:
    return _k(x) @ x


_own_gradient.defvjp(lambda x: (_own_gradient(x), x), lambda x, g: (2 * _k(x) @ g,))


@jax.custom_jvp
def _own_tangent(x: X) -> X:
    return _k(x) @ x


_own_tangent.defjvp(lambda p, t: (_own_tangent(*p), 3 * (_k(*p) @ t[0])))


def _noise(key: X, x: X) -> X:
    return _k(x) @ jax.random.normal(key, (N,))


def _stepped(c: X, _: Any) -> tuple[X, None]:
    return jnp.tanh(_k(c) @ c), None


def _graded(function: Callable[[X], X]) -> Callable[[X], X]:
    return jax.grad(lambda x: jnp.sum(jnp.sin(function(x))))


def _shared(x: X) -> X:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    spec = PartitionSpec("i")
    return shard_map(
        lambda part: lax.psum(_k(part) @ part, "i"), mesh=mesh, in_specs=spec, out_specs=spec,
        check_rep=False)(x)  # fmt: skip


PROGRAMS: Mapping[str, Callable[..., X]] = {
    "keys": lambda key, x: (jax.random.split(key, 3), _noise(key, x), key),
    "keys in a loop": lambda key, x: lax.fori_loop(
        0, 3, lambda i, s: s + _noise(jax.random.fold_in(key, i), x), x[:, 0]),
    "keys carried": lambda key, x: lax.scan(
        lambda k, _: (jax.random.split(k)[0], _noise(k, x)), key, None, 3),
    "keys mapped": lambda key, x: lax.map(lambda k: _noise(k, x), jax.random.split(key, 3)),
    "keys chosen": lambda key, x: lax.cond(
        x[0, 0] > 0, lambda k: (k, _noise(k, x)), lambda k: (jax.random.fold_in(k, 1), x[:, 0]),
        key),
    "keys moved": lambda key, x: (jnp.stack([key, key]).reshape(2, 1)[::-1], _k(x) @ x),
    "other keys": lambda key, x: _noise(jax.random.key(0, impl="rbg"), x),
    "older bits": lambda key, x: _older(key, x),
    "own gradient": lambda key, x: _graded(_own_gradient)(x),
    "own tangent": lambda key, x: _graded(_own_tangent)(x),
    "checkpoint": lambda key, x: _graded(jax.checkpoint(lambda x: jnp.sin(_k(x) @ x)))(x),
    "checkpoint in a loop": lambda key, x: _graded(
        lambda x: lax.scan(jax.checkpoint(_stepped), x, None, 2)[0])(x),
    "map in batches": lambda key, x: lax.map(
        lambda row: jnp.sum(kernel(row[None], x)), x, batch_size=64),
    "map in batches, batched": lambda key, x: jax.vmap(lambda a: lax.map(
        lambda row: jnp.tanh(row) * jnp.max(row), kernel(a, a), batch_size=8) @ a)(
            jnp.stack([x[:128], x[:128] / 2])),
    "map, differentiated": lambda key, x: _graded(lambda x: lax.map(
        lambda row: jnp.sum(kernel(row[None], x)) * row, x))(x),
    "map of other keys": lambda key, x: lax.map(
        lambda k: _noise(k, x), jax.random.split(jax.random.key(0, impl="rbg"), 3)),
    "associative scan": lambda key, x: lax.associative_scan(jnp.add, _k(x), axis=1)[:, -1],
    "shards": lambda key, x: _shared(x),
    "tangents of integers": lambda key, x: jax.jvp(
        lambda x: (jnp.argmax(_k(x), 1), _k(x) @ x), (x,), (x,)),
    "cotangents of integers": lambda key, x: jax.vjp(lambda x, i: _k(x) * i, x, 3)[1](_k(x))[0],
    "names": lambda key, x: jax.named_call(lambda x: lax.optimization_barrier(_k(x)) @ x)(x),
}  # fmt: skip
"""Functions of a key and points."""


def _older(key: X, x: X) -> X:
    with jax.threefry_partitionable(False):
        return jnp.sum(_k(x) * jax.random.normal(key, (N, N)), 1)


def _leaf(one: X) -> Any:
    keys = jnp.issubdtype(one.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(one) if keys else one)


def smallest(call: Any) -> int:
    with pytest.raises(MemoryLimitError) as error:
        call.program.plan_within(1)
    return error.value.smallest_limit


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_within_the_smallest_limit(name: str) -> None:
    key, x = jax.random.key(1), jnp.asarray(rand(N, 3))
    call = tf_exla.jax.jit(PROGRAMS[name], 1).call(key, x)
    plan = call.program.plan_within(smallest(call))
    found = jax.jit(restore(plan.graph))(*call.operands, *call.program.constants)
    expected = jax.tree.leaves(jax.jit(PROGRAMS[name])(key, x))
    for one, other in zip(map(_leaf, found), map(_leaf, expected), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        if one.dtype != jax.dtypes.float0:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_keys_closed_over() -> None:
    key, x = jax.random.key(1), jnp.asarray(rand(N, 3))
    for limit in ("1GB", "1.2MB"):
        found = tf_exla.jax.jit(lambda x: _noise(key, x), limit)(x)
        np.testing.assert_allclose(found, _noise(key, x), rtol=1e-12)


def test_effects_happen_once_and_in_order() -> None:
    seen: list[str] = []

    def note(what: str, x: X) -> None:
        jax.debug.callback(lambda _: seen.append(what), x, ordered=True)

    def step(i: X, y: X) -> X:
        note("loop", i)
        return y + _k(y) @ y / N

    def function(x: X) -> X:
        note("first", x[0, 0])
        y = _k(x) @ x
        note("second", y[0, 0])
        z = lax.fori_loop(0, 2, step, y)
        kind = jax.ShapeDtypeStruct((N, 3), x.dtype)
        return _k(z) @ jax.pure_callback(lambda a: (seen.append("pure"), np.asarray(a))[1], kind, z)

    with enable_x64(False):  # callbacks run in threads, which have their own settings
        x = jnp.abs(jnp.asarray(rand(N, 3)))  # sums of positive numbers lose no digits
        expected = function(x)
        jax.effects_barrier()
        for limit in (smallest(tf_exla.jax.jit(function, 1).call(x)), "1GB"):
            seen.clear()
            planned = tf_exla.jax.jit(function, limit)
            assert not seen
            np.testing.assert_allclose(planned(x), expected, rtol=1e-4)
            jax.effects_barrier()
            assert seen == ["first", "second", "loop", "loop", "pure"]
