"""Compiled JAX programs, stock (`jax.jit`) or under a limit: their certificates and peaks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import tf_exla.jax
from gp_experiments.calls import STOCK, Program
from gp_experiments.peers.peak import growth

jax.config.update("jax_enable_x64", True)

Function = Callable[..., Any]


def warm_up() -> None:
    """Start XLA's threads and let BLAS allocate its buffers, so that both exist before a cap."""

    def program(x: Any) -> Any:
        factor = jnp.linalg.cholesky(x @ x.T + 1000 * jnp.eye(len(x), dtype=x.dtype))
        solved = jax.scipy.linalg.solve_triangular(factor, jnp.exp(x), lower=True)
        return jax.lax.fori_loop(0, 4, lambda _, a: jnp.exp(-a), solved).sum()

    compiled = jax.jit(program)
    for dtype in ("float32", "float64"):
        jax.block_until_ready(compiled(jnp.ones([600, 600], dtype)))


def limit_device(cap: str, limit: str | int) -> None:
    """Refuse a cap on the device: JAX programs are certified on CPUs only."""
    if cap == "device":
        raise ValueError(f'cap = "device" ({limit}): programs of JAX are held on CPUs only')


def device() -> str:
    """Return the name of the device that JAX computes on."""
    return "CPU" if jax.default_backend() == "cpu" else str(jax.devices()[0].device_kind)


def build(
    function: Function,
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    *,
    jit_compile: bool = False,
) -> Program:
    """Compile `function` for an arm. Raises `MemoryLimitError`.

    `kind` is STOCK (`jax.jit`) or LIMIT (`tf_exla.jax.jit`). `jit_compile` is an option of
    TensorFlow and ignored: here XLA compiles everything.
    """
    arrays = [jnp.asarray(one) for one in arguments]
    made, facts = _compiled(function, arrays, kind, limit)

    def call(*given: Any) -> list[Any]:
        leaves: list[Any] = jax.tree.leaves(made(*given))
        jax.block_until_ready(leaves)
        return leaves

    return Program(
        call, arrays, {"device": device(), **facts}, lambda: measured(lambda: call(*arrays), arrays)
    )


def projected(
    function: Function,
    arguments: Sequence[Any],
    kind: str,
    limit: str | int,
    *,
    jit_compile: bool = False,
) -> dict[str, Any]:
    """Return the bytes of stock's XLA buffers and the certified peak, without running anything.

    Only shapes and dtypes of `arguments` are read. Raises `MemoryLimitError`.
    """
    return _compiled(function, arguments, kind, limit)[1]


def _compiled(
    function: Function, arguments: Sequence[Any], kind: str, limit: str | int
) -> tuple[Function, dict[str, Any]]:
    """Return a function, compiled for an arm, and values to record, such as peaks in bytes."""
    specs = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in arguments]
    stock = jax.jit(function).lower(*specs).compile()
    known: Any = stock.memory_analysis()
    buffers = known.argument_size_in_bytes + known.output_size_in_bytes
    facts = {
        "projected_stock": buffers + known.temp_size_in_bytes - known.alias_size_in_bytes,
    }
    if kind == STOCK:
        return stock, facts
    start = time.perf_counter()
    made = tf_exla.jax.jit(function, limit)
    program = made.call(*specs).program
    certified = program.certified()
    return made, facts | {
        "limit": program.settings.limit,
        "projected": certified.certificate.peak,
        "rewrite_seconds": time.perf_counter() - start,
        "split": certified.plan is not None,
    }


def measured(call: Callable[[], Any], arguments: Sequence[Any]) -> tuple[int, str]:
    """Return the peak of a call in bytes, its arguments included, and how it was measured."""
    call()  # memory that a first call keeps is not part of the peak
    grown = growth(call)
    if grown is None:
        raise RuntimeError("this system does not tell the high-water mark of a call")
    return sum(one.nbytes for one in arguments) + grown, "high-water mark of the resident set"
