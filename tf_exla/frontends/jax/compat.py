"""Functions of JAX whose names or arguments differ between the releases 0.6 to 0.11."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax
from jax._src import source_info_util
from jax._src.core import trace_state_clean  # removed from `jax.core` in 0.8
from jax._src.interpreters import mlir as _mlir

from tf_exla.caller import warn
from tf_exla.frontends.jax.device import on_gpu

__all__ = [
    "along",
    "apply",
    "closed_over",
    "compiler_options",
    "lowered_function",
    "named_errors",
    "of_scan",
    "trace_state_clean",
    "user_frames",
    "varying_along",
    "warn_if_untested",
]

VERSION = jax.__version_info__[:2]
OLDEST, NEWEST = (0, 6), (0, 11)
"""The releases that the tests were run with."""


def warn_if_untested(version: tuple[int, ...] = VERSION) -> None:
    """Warn of a release that the tests were not run with."""
    if OLDEST <= version <= NEWEST:
        return
    oldest, newest, found = (".".join(map(str, one)) for one in (OLDEST, NEWEST, version))
    warn(
        f"tf_exla.jax was tested with JAX {oldest} to {newest}, not with {found}: what it uses of"
        " JAX may have changed, and kernels may allocate what is not counted"
    )


def compiler_options(concurrent: bool = False) -> dict[str, str | bool]:
    """Return the options for compiling certified programs on the default device.

    `concurrent`: whether XLA may run independent computations concurrently.
    """
    made = {} if on_gpu() else dict(_cpu_options())
    return {key: made[key] for key in made if not (concurrent and key == _SCHEDULER)}


_SCHEDULER = "xla_cpu_enable_concurrency_optimized_scheduler"


@cache
def _cpu_options() -> Mapping[str, str | bool]:
    """Return the options of XLA on a CPU, as far as this release has them.

    By default XLA would run nodes concurrently that the plan runs in sequence, and need the buffers
    of both. Newer releases hand products to a library, YNNPACK, that allocates by itself: for
    attention, 24 MB were certified and 39 MB measured. Both are switched off.
    """
    libraries: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}
    try:
        jax.jit(lambda: 0).lower().compile(compiler_options=libraries)
    except jax.errors.JaxRuntimeError:  # no such option
        libraries = {}
    return {_SCHEDULER: False, **libraries}


def user_frames(info: Any) -> Iterable[Any]:
    """Return the frames of an equation's source outside of JAX, the innermost first."""
    frames: Iterable[Any] = source_info_util.user_frames(
        info if VERSION < (0, 7) else info.traceback
    )
    return frames


def apply(primitive: Any, operands: Iterable[Any], params: Mapping[str, Any]) -> Any:
    """Apply a primitive to operands; return its result, or a list if it has several results."""
    found = primitive.get_bind_params(params)
    functions, rest = found if isinstance(found, tuple) else ((), found)
    return primitive.bind(*functions, *operands, **rest)


def of_scan(params: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many operands of a scan are constants, and how many are carried."""
    if "ft_in" in params:  # since 0.11
        consts, carried, _ = params["ft_in"].unpack()
        return len(consts), len(carried)
    return params["num_consts"], params["num_carry"]


@contextmanager
def named_errors() -> Iterator[None]:
    """Raise JAX's internal error of `jax_debug_nans` as the one that `jax.jit` raises."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "InternalFloatingPointError":
            raise
        found = error.args[-1] if error.args else "nan"
        raise FloatingPointError(f"invalid value ({found}) in a compiled program") from error


def closed_over(traced: Any) -> Sequence[Any]:
    """Return the tracers of enclosing transformations that a traced function closes over.

    JAX passes them as its first operands.
    """
    if hasattr(traced, "_consts"):
        consts: Sequence[Any] = traced._consts
        return consts
    first: Sequence[Any] = traced._args_flat[: getattr(traced, "_num_consts", 0)]
    return first


def varying_along(aval: Any) -> frozenset[Any]:
    """Return the axes of enclosing `shard_map`s along which an array varies."""
    if hasattr(aval, "mat"):  # since 0.10
        return frozenset(aval.mat.varying)
    return frozenset(getattr(aval, "vma", ()))


def along(aval: Any, axes: frozenset[Any]) -> Any:
    """Return an aval that varies along these axes of enclosing `shard_map`s."""
    if varying_along(aval) == axes or not hasattr(aval, "update"):
        return aval
    if hasattr(aval, "mat"):
        return aval.update(manual_axis_type=type(aval.mat)(varying=axes))
    return aval.update(vma=axes)


def lowered_function(primitive: Any) -> Callable[..., Any] | None:
    """Return the function by whose trace a primitive of another library is lowered, else None.

    None also for a primitive with rules for some platforms only: these may differ.
    """
    if any(primitive in rules for rules in _mlir._platform_specific_lowerings.values()):
        return None
    found: Any = _mlir._lowerings.get(primitive)
    rule = getattr(found, "rule", found)  # since 0.7, `found` is an entry with the rule
    if getattr(rule, "__qualname__", "") != "lower_fun.<locals>.f_lowered":
        return None
    cells = dict(zip(rule.__code__.co_freevars, rule.__closure__ or (), strict=True))
    run = cells["fun"].cell_contents if "fun" in cells else None
    module = getattr(getattr(run, "func", run), "__module__", None) or "jax"
    return None if module.split(".")[0] == "jax" else run
