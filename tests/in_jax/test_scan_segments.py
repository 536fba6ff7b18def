"""Gradients of scans without a batch run the scan again in segments, and keep fewer rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax_x64 import enable_x64

import tf_exla.jax
from tf_exla.frontends.jax.capture import capture_jaxpr
from tf_exla.frontends.jax.planning import op_set
from tf_exla.ir.clean import clean
from tf_exla.ir.lists import is_list
from tf_exla.ir.traverse import walk
from tf_exla.moves.user_loops.segments import in_segments

X = Any
RNG = np.random.default_rng(0)
SIZE, STEPS = 151, 97


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with enable_x64():
        yield


def neighbours(u: X) -> X:
    return jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)


def heat(c: X, u: X) -> X:
    def step(u: X, _: None) -> tuple[X, None]:
        return u + 0.1 * jnp.tanh(c) * (neighbours(u) / 4 - u) - 0.01 * jnp.sin(u), None

    return (lax.scan(step, u, None, length=STEPS)[0] ** 2).mean()


def wave_at_receivers(c: X, u: X) -> X:
    def step(state: tuple[X, X], _: None) -> tuple[tuple[X, X], X]:
        before, now = state
        after = 2 * now - before + 0.1 * jnp.tanh(c) ** 2 * (neighbours(now) - 4 * now)
        return (now, after), after[5::20, 7]

    traces = lax.scan(step, (u, u), None, length=STEPS)[1]
    return (traces**2).sum()


def reversed_scan(c: X, u: X) -> X:
    """Also reads a row of an argument in each step, whose gradient is stacked."""

    def step(h: X, row: X) -> tuple[X, X]:
        h = jnp.sin(h + c * row)
        return h, h.mean()

    h, means = lax.scan(step, u, u[:STEPS], reverse=True)
    return (h**2).sum() + jnp.cumsum(means).sum()


def counted(c: X, u: X) -> X:
    """A loop that stops before the rows of its argument end."""
    return (lax.fori_loop(3, STEPS, lambda i, u: jnp.sin(u + c * jnp.roll(u, 1) / i), u) ** 2).sum()


def states_of_many_types(c: X, u: X) -> X:
    def step(state: X, t: X) -> tuple[X, None]:
        u, count, flag, turned = state
        u = jnp.where(flag, jnp.sin(u + c * jnp.roll(u, 1)), 0.9 * u)
        return (u, count + 1, (u.sum() + count) > 0, turned * jnp.exp(0.1j) + u), None

    start = u, 0, True, u.astype(complex)
    (u, count, _, turned), _ = lax.scan(step, start, jnp.arange(STEPS))
    return (u**2).sum() * count + jnp.abs(turned).sum()


def one_after_the_other(c: X, u: X) -> X:
    u, _ = lax.scan(lambda u, _: (jnp.sin(u + c * jnp.roll(u, 1)), None), u, None, length=53)
    u, _ = lax.scan(lambda u, _: (jnp.cos(u * c + jnp.roll(u, 3)), None), u, None, length=80)
    return (u**2).sum()


def nested(c: X, u: X) -> X:
    def inner(u: X, _: None) -> tuple[X, None]:
        return u + 0.01 * jnp.sin(jnp.roll(u, 1, 0) @ c), None

    def step(u: X, t: X) -> tuple[X, None]:
        return jnp.cos(lax.scan(inner, u, None, length=4)[0]) * t, None

    return (lax.scan(step, u, jnp.linspace(0.5, 1, 37))[0] ** 2).sum()


def unrolled(c: X, u: X) -> X:
    def step(u: X, _: None) -> tuple[X, None]:
        return jnp.sin(u + c * jnp.roll(u, 1)), None

    return (lax.scan(step, u, None, length=STEPS, unroll=3)[0] ** 2).sum()


def checkpointed(c: X, u: X) -> X:
    @jax.checkpoint
    def step(u: X, _: None) -> tuple[X, None]:
        return jnp.sin(u + c * jnp.tanh(jnp.roll(u, 1) * c)), None

    return (lax.scan(step, u, None, length=STEPS)[0] ** 2).sum()


def drawn_in_each_step(c: X, u: X) -> X:
    def step(state: tuple[X, X], _: None) -> tuple[tuple[X, X], None]:
        u, key = state
        key, now = jax.random.split(key)
        return (jnp.sin(u + c * jax.random.normal(now, u.shape)), key), None

    (u, _), _ = lax.scan(step, (u, jax.random.PRNGKey(1)), None, length=STEPS)
    return (u**2).sum()


def maxima(c: X, u: X) -> X:
    """Steps compare numbers that are computed again, but only with each other."""

    def step(u: X, _: None) -> tuple[X, X]:
        u = jnp.maximum(jnp.sin(u), jnp.roll(u, 1, 0) * c)
        return jnp.where(u > 0.3, 0.9 * u, u), u.max()

    u, peaks = lax.scan(step, u, None, length=STEPS)
    return (u**2).sum() + peaks.sum()


def typed_keys(c: X, u: X) -> X:
    """A typed key has no zero with which an array of keys could begin: all rows are kept."""

    def step(state: tuple[X, X], _: None) -> tuple[tuple[X, X], None]:
        u, key = state
        key, now = jax.random.split(key)
        return (jnp.sin(u + c * jax.random.normal(now, u.shape)), key), None

    (u, _), _ = lax.scan(step, (u, jax.random.key(1)), None, length=STEPS)
    return (u**2).sum()


def all_rows_read(c: X, u: X) -> X:
    """The loss reads the stacked states, too."""

    def step(u: X, _: None) -> tuple[X, X]:
        u = jnp.sin(u + c * jnp.roll(u, 1))
        return u, u

    states = lax.scan(step, u, None, length=STEPS)[1]
    return jnp.sort(states, axis=0)[3].sum() + (jnp.roll(states, 1, 2) * states).sum()


def curvature(c: X, u: X) -> X:
    return jax.jvp(lambda c: jax.grad(unrolled)(c, u), (c,), (u,))[1]


def layers(c: X, u: X) -> X:
    """Few steps of many operations: each is computed again alone."""

    def layer(u: X, w: X) -> tuple[X, None]:
        for _ in range(4):
            u = u + jnp.tanh(u @ w) * jax.nn.softmax(u, axis=-1)
        return u, None

    return (lax.scan(layer, u, jnp.stack([c / k for k in range(1, 9)]))[0] ** 2).sum()


PROGRAMS = [
    (heat, 0.3), (wave_at_receivers, 0.5), (reversed_scan, 0.4), (counted, 0.35),
    (states_of_many_types, 0.45), (one_after_the_other, 0.35), (nested, 0.3), (unrolled, 0.3),
    (checkpointed, 0.5), (drawn_in_each_step, 0.5), (maxima, 0.5),
    (typed_keys, 1.1), (all_rows_read, 1.1), (layers, 0.5),
]  # fmt: skip
"""Losses, and the part of XLA's bytes within which their gradients run."""


def checked(function: Callable[..., X], part: float) -> None:
    c, u = jnp.asarray(RNG.standard_normal((2, SIZE, SIZE)) / 3)
    stock = jax.jit(function).lower(c, u).compile()
    sizes = stock.memory_analysis()
    kinds = ("argument", "output", "temp")
    peak = sum(getattr(sizes, f"{kind}_size_in_bytes") for kind in kinds)
    made = tf_exla.jax.jit(function, int(part * peak))(c, u)
    for got, want in zip(jax.tree.leaves(made), jax.tree.leaves(stock(c, u)), strict=True):
        assert np.abs(got - want).max() <= 1e-9 * np.abs(want).max()


@pytest.mark.parametrize(("loss", "part"), PROGRAMS, ids=lambda one: getattr(one, "__name__", ""))
def test_gradients(loss: Callable[..., X], part: float) -> None:
    checked(jax.value_and_grad(loss, (0, 1)), part)


def there_and_back(c: X, u: X) -> X:
    """The second scan reads the rows of the first in reverse, as a smoother does."""

    def step(h: X, _: None) -> tuple[X, X]:
        h = jnp.sin(h + c * jnp.roll(h, 1))
        return h, h

    h, rows = lax.scan(step, u, None, length=23)
    h, _ = lax.scan(lambda h, row: (jnp.sin(0.9 * h + row * c), None), h, rows, reverse=True)
    return (h**2).sum()


def unchanged_states(c: X, u: X) -> X:
    """Compares rows of two iterations, of which one may start a segment, to the last bit."""

    def step(h: X, t: X) -> tuple[X, X]:
        h = jnp.where(t % 10 < 4, jnp.sin(1.1 * h + c), h)
        return h, h

    rows = lax.scan(step, u, jnp.arange(STEPS))[1]

    def back(state: tuple[X, X], row: X) -> tuple[tuple[X, X], None]:
        last, count = state
        return (row, count + (row == last).sum()), None

    return lax.scan(back, (u, 0), rows, reverse=True)[0][1]


def short_counter(c: X, u: X) -> X:
    """The position wraps around after 255: some rows are written twice, others never."""

    def step(_: X, state: X) -> X:
        u, rows, at = state
        u = jnp.sin(u + c)
        return u, lax.dynamic_update_slice(rows, u[None], (at, at * 0)), at + jnp.uint8(1)

    rows = jnp.zeros((300, SIZE))
    _, rows, _ = lax.fori_loop(0, 300, step, (u[0], rows, jnp.uint8(0)))
    return lax.scan(lambda a, row: (0.9 * a + row, None), u[0], rows, reverse=True)[0].sum()


@pytest.mark.parametrize("function", [unchanged_states, short_counter, there_and_back])
def test_some_loops_stay_as_they_are(function: Callable[..., X]) -> None:
    """No list is left over, and loops that may not run again in segments do not."""
    c, u = jnp.asarray(RNG.standard_normal((2, SIZE, SIZE)) / 3)
    if function is there_and_back:
        function = jax.grad(function)
    graph, _ = capture_jaxpr(jax.make_jaxpr(function)(c[0] if function is short_counter else c, u))
    made = in_segments(clean(graph, op_set()), op_set())
    assert not any(is_list(tensor) for node in walk(made) for tensor in node.outputs)
    if function in (unchanged_states, short_counter):
        assert [node.op for node in walk(made)].count("while") == 2


def test_second_derivatives() -> None:
    checked(curvature, 0.4)


def test_time_is_estimated_by_the_row_that_an_iteration_writes() -> None:
    """Not by the whole array: segments run the scan once more, so they take a little longer."""
    c, u = jnp.asarray(RNG.standard_normal((2, SIZE, SIZE)) / 3)
    gradient = jax.value_and_grad(heat, (0, 1))
    report = tf_exla.jax.explain(gradient, c, u, limit="12MB")
    before, after = report.steps[0].seconds_before, report.steps[-1].seconds
    assert before < after < 2 * before
    assert "moves    loops in segments" in str(report)
