"""What other libraries add to JAX: primitives of their own, and leaves that are no arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import mlir

import tf_exla.jax

X = Any


def _points(rows: int = 1200) -> X:
    return jnp.asarray(np.random.default_rng(0).normal(size=(rows, 3)), jnp.float32)


def _kernel(a: X, b: X) -> X:
    return jnp.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))


def _primitive(name: str, run: Callable[..., X]) -> Primitive:
    made = Primitive(name)
    made.def_impl(run)
    made.def_abstract_eval(lambda aval: aval)  # of the same shape
    mlir.register_lowering(made, mlir.lower_fun(run, multiple_results=False))
    return made


def _same(x: X) -> X:
    return x * 1


same_p = _primitive("same_of_another_library", _same)


def test_a_primitive_of_another_library_is_what_it_computes() -> None:
    def function(x: X) -> X:
        return same_p.bind(_kernel(x, x)) @ x[:, 0]

    x = _points()
    made = tf_exla.jax.jit(function, "2.5MB")
    np.testing.assert_allclose(made(x), jax.jit(function)(x), rtol=1e-5)
    assert made.lower(x).compile().certificate.peak <= 2.5e6


def test_a_primitive_that_cannot_be_traced_stays_as_it_is() -> None:
    def on_host(x: X) -> X:
        return jnp.asarray(np.asarray(x) * 2)  # fails with a tracer

    double_p = Primitive("double_on_the_host")
    double_p.def_impl(on_host)
    double_p.def_abstract_eval(lambda aval: aval)
    mlir.register_lowering(double_p, mlir.lower_fun(lambda x: x * 2, multiple_results=False))

    def function(x: X) -> X:
        return _kernel(x, x) @ double_p.bind(x[:, 0])

    x = _points()
    found = tf_exla.jax.jit(function, "2.5MB")(x)
    np.testing.assert_allclose(found, jax.jit(function)(x), rtol=1e-5)


@pytest.mark.parametrize("collective", [jax.lax.psum, jax.lax.pmean, jax.lax.pmax, jax.lax.pmin])
def test_a_collective_over_an_axis_of_vmap_is_a_reduction(collective: Callable[..., X]) -> None:
    def function(x: X) -> X:
        def row(one: X) -> tuple[X, X]:
            near = _kernel(one[None], x)[0]
            return collective((near, one), "rows")

        near, mean = jax.vmap(row, axis_name="rows", out_axes=None)(x)
        return near @ x[:, 0], mean

    x = _points()
    made = tf_exla.jax.jit(function, "2.5MB")
    for found, wanted in zip(made(x), jax.jit(function)(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-4)
    assert made.lower(x).compile().certificate.peak <= 2.5e6


def _printed(x: X) -> X:
    jax.debug.print("sum {}", x.sum(), ordered=True)
    return 2 * x


@pytest.mark.parametrize("make", [tf_exla.jax.optimize, tf_exla.jax.jit])
def test_ordered_effects_inside_of_other_functions(make: Callable[..., X], capfd: Any) -> None:
    inner = make(_printed, "10MB")

    def twice(x: X) -> X:
        return jax.lax.scan(lambda carry, _: (inner(carry), None), inner(x), length=2)[0]

    np.testing.assert_array_equal(jax.jit(twice)(jnp.ones(3)), [8, 8, 8])
    jax.effects_barrier()
    assert capfd.readouterr().out.split("\n")[:3] == ["sum 3.0", "sum 6.0", "sum 12.0"]


@jax.tree_util.register_pytree_node_class
class _Layer:
    """A module with a function among its leaves, as equinox's have."""

    def __init__(self, weight: X, activation: Callable[[X], X], name: str) -> None:
        self.weight, self.activation, self.name = weight, activation, name

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        return (self.weight, self.activation, self.name), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: tuple[Any, ...]) -> _Layer:
        return cls(*leaves)


@pytest.mark.parametrize("make", [tf_exla.jax.optimize, tf_exla.jax.jit])
def test_leaves_that_are_no_arrays_are_static(make: Callable[..., X]) -> None:
    def step(layer: _Layer, x: X, tag: str = "a") -> tuple[_Layer, X, str]:
        assert callable(layer.activation)
        loss = layer.activation(_kernel(x, x) @ layer.weight).mean()
        return _Layer(layer.weight - loss, layer.activation, layer.name + tag), loss, tag

    x = _points()
    layer = _Layer(x[:, 0], jnp.tanh, "layer ")
    made = make(step, "2.5MB")
    for tag in ("b", "c", "b"):
        changed, loss, same = made(layer, x, tag)
        wanted = step(layer, x, tag)
        assert (changed.activation, changed.name, same) == (jnp.tanh, f"layer {tag}", tag)
        np.testing.assert_allclose(loss, wanted[1], rtol=1e-4)
        np.testing.assert_allclose(changed.weight, wanted[0].weight, rtol=1e-4, atol=1e-5)
    other = _Layer(x[:, 0], jnp.sin, "layer ")
    np.testing.assert_allclose(made(other, x)[1], step(other, x)[1], rtol=1e-4, atol=1e-6)
    compiled = made.lower(layer, x).compile()
    assert compiled(layer, x)[0].name == "layer a"
    assert made.eval_shape(layer, x)[0].activation is jnp.tanh


def test_a_leaf_that_may_change_between_calls_is_rejected() -> None:
    class Counter:
        number = 1

    made = tf_exla.jax.optimize(lambda x, counter: x * counter.number, "2.5MB")
    with pytest.raises(TypeError, match="Counter"):
        made(_points(), Counter())


def test_a_compiled_function_rejects_other_static_leaves() -> None:
    made = tf_exla.jax.jit(lambda x, name, f: f(x[:, 0]), "2.5MB")
    compiled = made.lower(_points(), "a", jnp.sin).compile()
    np.testing.assert_allclose(compiled(_points(), "a", jnp.sin), jnp.sin(_points()[:, 0]))
    with pytest.raises(TypeError, match="lowering"):
        compiled(_points(), "a", jnp.cos)


def test_a_primitive_is_what_it_is_lowered_to() -> None:
    """Not what runs it eagerly, if the two differ; with the weak types of its operands."""
    twice_p = Primitive("twice_if_compiled")
    twice_p.def_impl(lambda x, y: x)
    twice_p.def_abstract_eval(lambda x, y: y)
    run = mlir.lower_fun(lambda x, y: y * 2 + x.astype(y.dtype), multiple_results=False)
    mlir.register_lowering(twice_p, run)

    def function(x: X) -> X:
        return twice_p.bind(jnp.float32(1.0), _kernel(x, x)) @ x[:, 0]

    x = _points()
    made = tf_exla.jax.jit(function, "2.5MB")
    np.testing.assert_allclose(made(x), jax.jit(function)(x), rtol=1e-4, atol=1e-4)
    assert made.lower(x).compile().certificate.peak <= 2.5e6
