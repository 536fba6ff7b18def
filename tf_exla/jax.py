"""JAX functions within a memory limit: `jit`, `optimize` and `explain`. Imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from tf_exla.arguments import check_function, check_names
from tf_exla.byte_size import parse_bytes
from tf_exla.frontends.jax.calls.explaining import report
from tf_exla.frontends.jax.calls.function import Function, Names, Numbers
from tf_exla.frontends.jax.compat import warn_if_untested
from tf_exla.frontends.jax.planning import Settings, options
from tf_exla.report.report import MemoryReport

__all__ = ["explain", "jit", "optimize"]

warn_if_untested()

Limit = int | float | str
Decorator = Callable[[Callable[..., Any]], Function]


# Many parameters: those of `jax.jit`.
@overload
def jit(
    fn: Callable[..., Any],
    limit: Limit,
    *,
    static_argnums: Numbers = ...,
    static_argnames: Names = ...,
    donate_argnums: Numbers = ...,
    donate_argnames: Names = ...,
    rewrites: Mapping[str, bool] | bool | None = ...,
) -> Function: ...


# Many parameters: as above.
@overload
def jit(
    fn: None = ...,
    limit: Limit | None = ...,
    *,
    static_argnums: Numbers = ...,
    static_argnames: Names = ...,
    donate_argnums: Numbers = ...,
    donate_argnames: Names = ...,
    rewrites: Mapping[str, bool] | bool | None = ...,
) -> Decorator: ...


# Many parameters: as above.
def jit(
    fn: Callable[..., Any] | None = None,
    limit: Limit | None = None,
    *,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    donate_argnums: Numbers = None,
    donate_argnames: Names = None,
    rewrites: Mapping[str, bool] | bool | None = None,
) -> Function | Decorator:
    """Return `fn`, compiled like `jax.jit(fn)` and certified to stay below `limit`.

    Only direct calls are certified. Under another transformation (`jax.jit`, `jax.grad`) the
    function behaves like the result of `optimize`.

    Args:
        fn: A function. Without it, a decorator is returned: `@jit(limit="500MB")`. It applies to
            methods too (with `static_argnums=0`, as for `jax.jit`).
        limit: Bytes, or a string such as "500MB".
        static_argnums: As for `jax.jit`, like the next three arguments.
        static_argnames: Names of static arguments.
        donate_argnums: Arguments whose buffers may be reused.
        donate_argnames: Names of such arguments.
        rewrites: Families of rewrites to switch on or off, such as {"chains": False}. True or False
            switches all.

    Raises:
        MemoryLimitError: By the first call with arguments of a type, before anything is allocated,
            if no plan is within the limit.
    """

    return _within(
        fn,
        limit,
        rewrites,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
    )


@overload
def optimize(
    fn: Callable[..., Any],
    limit: Limit,
    *,
    static_argnums: Numbers = ...,
    static_argnames: Names = ...,
    rewrites: Mapping[str, bool] | bool | None = ...,
) -> Function: ...


@overload
def optimize(
    fn: None = ...,
    limit: Limit | None = ...,
    *,
    static_argnums: Numbers = ...,
    static_argnames: Names = ...,
    rewrites: Mapping[str, bool] | bool | None = ...,
) -> Decorator: ...


def optimize(
    fn: Callable[..., Any] | None = None,
    limit: Limit | None = None,
    *,
    static_argnums: Numbers = None,
    static_argnames: Names = None,
    rewrites: Mapping[str, bool] | bool | None = None,
) -> Function | Decorator:
    """Return `fn`, planned to stay below `limit` under JAX's transformations.

    The function can be used under `jit`, `grad`, `value_and_grad`, `vmap`, `jvp` and in `scan`. The
    functions that they derive, such as a gradient, are planned under the same limit. JAX compiles
    the surrounding program and may order it differently. Therefore plans use only half of what the
    limit leaves free, if such a plan exists, and are not certified. To certify a whole step, make
    it a function of its own and call `jit`. Without `fn`, a decorator is returned.
    """

    return _within(
        fn, limit, rewrites, static_argnums=static_argnums, static_argnames=static_argnames
    )


def explain(
    fn: Callable[..., Any], *args: Any, limit: Limit | None = None, **kwargs: Any
) -> MemoryReport:
    """Return the report of `jit(fn, limit)` for these arguments, without running `fn`.

    Arguments may be `jax.ShapeDtypeStruct`s. `limit` defaults to the limit of `fn` if it has one.
    Raises `MemoryLimitError` if no plan is within the limit.
    """
    check_function(fn)
    check_names(fn, kwargs, ("limit",))
    if not isinstance(fn, Function):
        if limit is None:
            raise TypeError("explain needs a limit")
        fn = jit(fn, limit)
    elif limit is not None:
        fn = fn.within(parse_bytes(limit))
    return report(fn.call(*args, **kwargs).program)


def _within(
    fn: Callable[..., Any] | None, limit: Limit | None, rewrites: Any, **places: Any
) -> Function | Decorator:
    """Return `fn` within a limit, or a decorator; `places`: static and donated arguments.

    Raises TypeError or ValueError if `fn` is no function, or `limit` no limit.
    """
    if fn is not None:
        check_function(fn)
    if limit is None:
        raise TypeError('there is no limit; write limit="500MB"')
    size = parse_bytes(limit)

    def made(function: Callable[..., Any]) -> Function:
        name = getattr(function, "__name__", None) or type(function).__name__
        return Function(function, Settings(name, size, options(rewrites)), **places)

    return made if fn is None else made(fn)
