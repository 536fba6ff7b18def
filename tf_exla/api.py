"""The user's entry points: `optimize` and `explain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from tf_exla.arguments import check_function, check_names
from tf_exla.frontends.tf.calls.optimized import OptimizedFunction
from tf_exla.frontends.tf.calls.request import Limit, Request
from tf_exla.frontends.tf.versions import warn_if_untested
from tf_exla.model.options import Unbounded
from tf_exla.report.report import MemoryReport

warn_if_untested()

Devices = Sequence[Any] | Literal["all"] | int | None

__all__ = ["OptimizedFunction", "explain", "optimize"]


# Many parameters: what users choose, by keyword.
@overload
def optimize(
    fn: Callable[..., Any],
    limit: Limit = ...,
    *,
    jit_compile: bool | None = ...,
    tensor_size_threshold: int | str | None = ...,
    tensor_split_size: int | str | None = ...,
    rewrites: Mapping[str, bool] | bool | None = ...,
    unbounded: Unbounded = ...,
    strict: bool = ...,
    devices: Devices = ...,
    outputs: Literal["whole", "sharded"] = ...,
) -> OptimizedFunction: ...


# Many parameters: as above.
@overload
def optimize(
    fn: None = ...,
    limit: Limit = ...,
    *,
    jit_compile: bool | None = ...,
    tensor_size_threshold: int | str | None = ...,
    tensor_split_size: int | str | None = ...,
    rewrites: Mapping[str, bool] | bool | None = ...,
    unbounded: Unbounded = ...,
    strict: bool = ...,
    devices: Devices = ...,
    outputs: Literal["whole", "sharded"] = ...,
) -> Callable[[Callable[..., Any]], OptimizedFunction]: ...


# Many parameters: as above.
def optimize(
    fn: Callable[..., Any] | None = None,
    limit: Limit = "auto",
    *,
    jit_compile: bool | None = None,
    tensor_size_threshold: int | str | None = None,
    tensor_split_size: int | str | None = None,
    rewrites: Mapping[str, bool] | bool | None = None,
    unbounded: Unbounded = "raise",
    strict: bool = False,
    devices: Devices = None,
    outputs: Literal["whole", "sharded"] = "whole",
) -> OptimizedFunction | Callable[[Callable[..., Any]], OptimizedFunction]:
    """Return `fn` with the same signature, results and side effects, and a peak below `limit`.

    Args:
        fn: A Python function or a `tf.function`. Without it, a decorator is returned.
        limit: Bytes, a string such as "500MB", or "auto": TF_EXLA_LIMIT if it is set, else 90 % of
            the memory that is free on the device when a plan is made.
        jit_compile: Whether XLA compiles the bodies of loops. None: where that is known to be
            faster, on a CPU. The report names the ops that XLA leaves to TensorFlow. On a GPU, True
            compiles the whole plan with its loops if that is within the limit. This takes seconds,
            and pays in programs that are called hundreds of times.
        tensor_size_threshold: Bytes. Every larger tensor that can be split is split, whatever the
            limit. Defaults to the flag in TF_EXLA_FLAGS.
        tensor_split_size: Bytes. No chunk is larger. Defaults to the flag in TF_EXLA_FLAGS.
        rewrites: Families of rewrites to switch on or off, such as {"chains": False}. True or False
            switches all of them. The family "in-cache" also splits programs that fit the limit, on
            a CPU, where that is estimated to be much faster.
        unbounded: What happens if a size depends on data and nothing bounds it. "raise" raises
            `UnboundedMemoryError`. "warn" issues `UnboundedMemoryWarning` and runs the function
            without counting that size.
        strict: Whether a failure of tf_exla itself is raised. By default the function then runs
            unchanged, with one `NotOptimizedWarning`.
        devices: Logical devices of TensorFlow, devices of a `tf_exla.Cluster`, or "all" of this
            process. Loops are divided among them where that is estimated to be faster. The limit
            holds for each device. By default the function runs on one device.
        outputs: With "sharded", results whose rows are computed on several devices stay there. They
            are `tf_exla.sharded` tensors, which other functions on the same devices take as
            arguments.

    Raises:
        MemoryLimitError: By a call, at tracing, if no plan is within the limit.
        ValueError: If the limit or an option has an invalid value.
        TypeError: If the limit or an option has an invalid type.
    """
    request = Request.of(
        limit,
        jit_compile,
        tensor_size_threshold,
        tensor_split_size,
        rewrites,
        unbounded,
        strict,
        devices,
        outputs,
    )
    if fn is None:
        return lambda function: OptimizedFunction(function, request)
    return OptimizedFunction(fn, request)


def explain(
    fn: Callable[..., Any],
    *args: Any,
    limit: Limit | None = None,
    trace: bool = False,
    devices: Devices = None,
    **kwargs: Any,
) -> MemoryReport:
    """Return the report of `optimize(fn, limit)` for these arguments, without running `fn`.

    Args:
        fn: A Python function, a `tf.function`, or a function that `optimize` returned.
        *args: Arguments of `fn`: tensors, arrays, or `tf.TensorSpec`s.
        limit: As for `optimize`. Defaults to the limit of `fn` if it is optimized, else to "auto".
        trace: Whether the report also lists the alternatives of each step, and why they lost.
        devices: As for `optimize`, or a number of devices, which need not exist.
        **kwargs: Keyword arguments of `fn`.

    Raises:
        MemoryLimitError: If no plan is within the limit.
    """
    check_function(fn)
    check_names(fn, kwargs, ("limit", "trace", "devices"))
    if not isinstance(fn, OptimizedFunction):
        fn = optimize(fn, "auto" if limit is None else limit)
    elif limit is not None:
        fn = fn.with_limit(limit)
    if devices is not None:
        fn = fn.with_devices(devices)
    if trace:
        fn = fn.with_trace()
    return fn.report(*args, **kwargs)
