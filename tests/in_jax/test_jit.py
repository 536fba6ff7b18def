"""`jit` and `optimize` are called like the functions that they are made of, and transformed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fresh_process import run_fresh
from jax_programs import normal, rbf
from jax_x64 import enable_x64

import tf_exla.jax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax.compat import warn_if_untested
from tf_exla.ir.graph import Loop
from tf_exla.report.report import MemoryReport

LIMIT = "1.5MB"
"""Planned in loops: the program of 300 points holds matrices of 720 kB, and the runtime 1 MB."""


@pytest.fixture(autouse=True)
def _x64() -> Any:
    with enable_x64():
        yield


def loss(x: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.sum((rbf(x, x) @ v) ** 2)


def points(n: int = 300) -> tuple[jax.Array, jax.Array]:
    return normal(n, 3), normal(n)


def same(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert one.dtype == other.dtype
        assert one.weak_type == other.weak_type
        scale = float(jnp.max(jnp.abs(other))) if other.size else 0.0
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * scale)


Transform = Callable[[Callable[..., Any]], Callable[..., Any]]
BATCH = np.random.default_rng(1).standard_normal((3, 300, 3))
TRANSFORMS: dict[str, Transform] = {
    "as it is": lambda f: f,
    "jit": jax.jit,
    "grad": lambda f: jax.grad(f, (0, 1)),
    "jit of grad": lambda f: jax.jit(jax.grad(f, (0, 1))),
    "value_and_grad": jax.value_and_grad,
    "jvp": lambda f: lambda x, v: jax.jvp(f, (x, v), (v[:, None] * x, v)),
    "linear in one": lambda f: lambda x, v: jax.jvp(lambda v: f(x, v), (v,), (v,)),
    "vmap": lambda f: lambda x, v: jax.vmap(f, (0, None))(BATCH, v),
    "vmap of grad": lambda f: lambda x, v: jax.vmap(jax.grad(f), (0, None))(BATCH, v),
    "grad of vmap": lambda f: lambda x, v: jax.grad(
        lambda batch: jax.vmap(f, (0, None))(batch, v).sum())(BATCH),
    "Hessian times vector, forward over reverse": lambda f: lambda x, v: jax.jvp(
        lambda v: jax.grad(f, 1)(x, v), (v,), (v,)),
    "Hessian times vector, reverse over reverse": lambda f: lambda x, v: jax.grad(
        lambda v: jax.grad(f, 1)(x, v) @ v)(v),
    "scan": lambda f: lambda x, v: jax.lax.scan(lambda c, x: (c + f(x, v), c), 0.0, BATCH),
    "grad of scan": lambda f: lambda x, v: jax.grad(
        lambda b: jax.lax.scan(lambda c, x: (2 * c + f(x, v), c), 0.0, b)[0])(BATCH),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
    "closure": lambda f: lambda x, v: jax.grad(
        lambda v: tf_exla.jax.optimize(lambda x: f(x, v), LIMIT)(x))(v),
    "shard_map": lambda f: lambda x, v: jax.shard_map(
        lambda x, v: f(x, v)[None], mesh=jax.sharding.Mesh(np.array(jax.devices()[:1]), "i"),
        in_specs=jax.sharding.PartitionSpec("i"), out_specs=jax.sharding.PartitionSpec("i"),
    )(x, v),
}  # fmt: skip


SELDOM = {"checkpoint", "grad of vmap", "Hessian times vector, reverse over reverse"}


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.thorough] * (n in SELDOM)) for n in TRANSFORMS],
)
def test_transformed_functions_keep_their_numbers(name: str) -> None:
    transform = TRANSFORMS[name]
    x, v = points()
    same(transform(tf_exla.jax.optimize(loss, LIMIT))(x, v), transform(loss)(x, v))


def test_the_limit_of_these_programs_asks_for_loops() -> None:
    plan = tf_exla.jax.jit(loss, LIMIT).call(*points()).program.certified().plan
    assert plan is not None
    assert any(isinstance(node, Loop) for node in plan.graph.nodes)


def test_what_a_custom_rule_says_is_the_gradient() -> None:
    @jax.custom_vjp
    def tripled(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    tripled.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (3 * g * jnp.cos(x),))
    x = normal(5)
    made = tf_exla.jax.optimize(lambda x: tripled(x).sum(), "2MB")
    same(jax.grad(made)(x), 3 * jnp.cos(x))


def _named(x: Any, k: int = 2, *, scale: Any = 1.0) -> dict[str, Any]:
    return {"sum": x["a"] * scale, "power": (x["a"] ** k, None), "k": k}


CALLS: dict[str, tuple[dict[str, Any], tuple[Any, ...], dict[str, Any]]] = {
    "static by name": ({"static_argnames": "k"}, ({"a": 2.0},), {"k": 3}),
    "static by name, by position": ({"static_argnames": ["k"]}, ({"a": 2.0}, 3), {}),
    "static by number, by name": ({"static_argnums": 1}, ({"a": 2.0},), {"k": 3, "scale": 2}),
    "static from the end": ({"static_argnums": (-1,)}, ({"a": np.ones(3)}, 3), {}),
    "keyword arrays": ({"static_argnums": 1}, ({"a": np.ones(3, "f4")}, 3), {"scale": 2.0}),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("x64", [True, False])
def test_calls_are_those_of_jit(name: str, x64: bool) -> None:
    how, args, kwargs = CALLS[name]
    with enable_x64(x64):
        found = tf_exla.jax.jit(_named, "10MB", **how)(*args, **kwargs)
        same(found, jax.jit(_named, **how)(*args, **kwargs))


def test_what_is_traced_once_is_not_traced_again() -> None:
    traced = []

    def function(x: jax.Array) -> jax.Array:
        traced.append(x)
        return x * 2

    made = tf_exla.jax.jit(function, "10MB")
    x = normal(3)

    def call() -> None:
        with enable_x64():
            made(x)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made(x + 1)
    assert len(traced) == 1
    made(2.0)
    with enable_x64(False):
        assert made(2.0).dtype == np.float32
    assert len(traced) == 3


def test_donated_arguments_are_used() -> None:
    x, y = normal(3), normal(3)
    tf_exla.jax.jit(lambda x, y: x + y, "10MB", donate_argnums=0)(x, y)
    assert x.is_deleted()
    assert not y.is_deleted()


def test_effects_happen_once_and_random_numbers_are_those_of_jax() -> None:
    seen: list[float] = []

    def function(x: jax.Array, key: jax.Array) -> jax.Array:
        jax.debug.callback(lambda one: seen.append(float(one)), x[0])
        return x + jax.random.normal(key, x.shape)

    x, key = normal(4), jax.random.key(3)
    made = tf_exla.jax.jit(function, "10MB")(x, key)
    jax.effects_barrier()
    assert seen == [float(x[0])]
    same(made, x + jax.random.normal(key, x.shape))


def test_too_small_a_limit_names_one_that_works() -> None:
    x, v = points()
    with pytest.raises(MemoryLimitError, match="loss") as failure:
        tf_exla.jax.jit(loss, "10kB")(x, v)
    smallest = failure.value.smallest_limit
    made = tf_exla.jax.jit(loss, smallest)
    same(made(x, v), loss(x, v))
    assert made.call(x, v).program.certified().certificate.peak <= smallest


def test_explain_runs_nothing() -> None:
    def function(x: jax.Array, v: jax.Array) -> jax.Array:
        jax.debug.callback(pytest.fail)
        return rbf(x, x) @ v

    like = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in points()]
    report = tf_exla.jax.explain(function, *like, limit=LIMIT)
    assert isinstance(report, MemoryReport)
    assert report.loops
    assert any("Certified peak" in note for note in report.notes)
    made = tf_exla.jax.jit(function, "1GB")
    assert not tf_exla.jax.explain(made, *like).loops
    with pytest.raises(TypeError, match="limit"):
        tf_exla.jax.explain(function, *like)


def test_the_curve_of_limits() -> None:
    like = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in points()]
    curve = tf_exla.jax.explain(lambda x, v: rbf(x, x) @ v, *like, limit="1GB").curve(3)
    first, *_, last = curve.points
    assert first.limit < last.limit == curve.stock_peak
    assert first.loops
    assert first.seconds >= last.seconds


def test_tensorflow_is_not_imported() -> None:
    assert not run_fresh(
        "import sys, tf_exla.jax; send('tensorflow' in sys.modules)", env={"LANG": "C"}
    )


def test_repeated_calls_are_found_by_their_types() -> None:
    traced = []

    def double(x: jax.Array, k: int) -> jax.Array:
        traced.append(x.shape)
        return x * k

    within = tf_exla.jax.jit(double, "2MB", static_argnums=1)
    for x in (jnp.ones(3), jnp.zeros(3), jnp.ones(4)):
        np.testing.assert_array_equal(within(x, 2), 2 * x)
    np.testing.assert_array_equal(within(jnp.ones(3), 5), np.full(3, 5.0))
    assert traced == [(3,), (4,), (3,)]
    assert repr(within) == "<double within 2.00 MB>"


class _Model:
    """A class whose methods keep a limit."""

    def __init__(self, power: float) -> None:
        self.power = power

    @tf_exla.jax.jit(limit=LIMIT, static_argnums=0)
    def loss(self, x: jax.Array, v: jax.Array) -> jax.Array:
        return loss(x, v) ** self.power

    @tf_exla.jax.optimize(limit=LIMIT, static_argnums=0)
    def part(self, x: jax.Array, v: jax.Array) -> jax.Array:
        return loss(x, v) ** self.power


def test_methods_are_decorated() -> None:
    x, v = points()
    one, other = _Model(1.0), _Model(2.0)
    same(one.loss(x, v), loss(x, v))
    same(other.loss(x, v), loss(x, v) ** 2.0)
    same(jax.grad(other.part)(x, v), jax.grad(lambda x: loss(x, v) ** 2.0)(x))
    assert isinstance(_Model.loss, type(tf_exla.jax.jit(loss, LIMIT)))


def test_lowered_functions_are_compiled_and_certified() -> None:
    x, v = points()
    traced = []

    def named(x: jax.Array, *, v: jax.Array, k: int) -> dict[str, jax.Array]:
        traced.append(k)
        return {"a": k * loss(x, v)}

    within = tf_exla.jax.jit(named, LIMIT, static_argnames="k")
    shapes = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct(v.shape, v.dtype)
    assert within.eval_shape(shapes[0], v=shapes[1], k=3)["a"].dtype == np.float64
    compiled = within.lower(shapes[0], v=shapes[1], k=3).compile()
    same(compiled(x, v=v, k=3), {"a": 3 * loss(x, v)})
    assert 0 < compiled.certificate.peak <= 1.5e6
    assert compiled.certificate.temporary == compiled.memory_analysis().temp_size_in_bytes
    assert "while" in compiled.as_text()
    assert traced == [3]
    within(x, v=v, k=3)
    within.clear_cache()
    within(x, v=v, k=3)
    assert len(traced) > 1
    with pytest.raises(MemoryLimitError):
        within.within(1000).lower(x, v=v, k=3).compile()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tf_exla.jax.jit("1GB"), "limit='1GB'"),
        (lambda: tf_exla.jax.jit(loss), "no limit"),
        (lambda: tf_exla.jax.optimize(static_argnums=0), "no limit"),
        (lambda: tf_exla.jax.optimize(loss, "1XB"), "got '1XB'"),
    ],
)
def test_what_is_no_function_or_no_limit_is_told(call: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_untested_releases_are_told() -> None:
    warn_if_untested((0, 6))
    with pytest.warns(UserWarning, match=r"0\.6 to 0\.\d+, not with 0\.99"):
        warn_if_untested((0, 99))
