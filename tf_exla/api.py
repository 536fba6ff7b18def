"""The user's functions: `optimize` and `explain`."""

from __future__ import annotations

import inspect
import os
import shlex
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any, overload
from weakref import WeakKeyDictionary

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from tf_exla.byte_size import parse_bytes
from tf_exla.frontends.tf import signature
from tf_exla.frontends.tf.program import OPS, Program, Settings
from tf_exla.measure import auto_limit
from tf_exla.options import Options
from tf_exla.report import MemoryReport, make_report

Limit = int | float | str
# Specialisations that one function keeps, the least recently used dropped first.
CACHE_SIZE = 64
_FLAGS = ("tensor_size_threshold", "tensor_split_size")
# On a GPU a chunk must fill the device.
_GPU_CHUNK_BYTES = 256 << 20


@overload
def optimize(
    fn: Callable[..., Any],
    limit: Limit = ...,
    *,
    jit_compile: bool | None = ...,
    tensor_size_threshold: int | str | None = ...,
    tensor_split_size: int | str | None = ...,
) -> OptimizedFunction: ...


@overload
def optimize(
    fn: None = ...,
    limit: Limit = ...,
    *,
    jit_compile: bool | None = ...,
    tensor_size_threshold: int | str | None = ...,
    tensor_split_size: int | str | None = ...,
) -> Callable[[Callable[..., Any]], OptimizedFunction]: ...


def optimize(
    fn: Callable[..., Any] | None = None,
    limit: Limit = "auto",
    *,
    jit_compile: bool | None = None,
    tensor_size_threshold: int | str | None = None,
    tensor_split_size: int | str | None = None,
) -> OptimizedFunction | Callable[[Callable[..., Any]], OptimizedFunction]:
    """Return `fn` with the same signature, results and side effects, its peak below `limit`.

    `fn`: a Python function or a `tf.function`; without it, a decorator. `limit`: bytes, a string
    such as "500MB", or "auto": TF_EXLA_LIMIT where it is set, else 90 % of what the device has free
    when a plan is made. `jit_compile`: XLA compiles the bodies of loops. `tensor_size_threshold`:
    every tensor above it is split where it can be, whatever the limit; `tensor_split_size`: no chunk
    is larger; both default to the flags in TF_EXLA_FLAGS.

    Calls raise `MemoryLimitError` at tracing where no plan holds the limit. Raises ValueError or
    TypeError for what is no limit.
    """
    flags = _environment_flags()
    threshold = flags["tensor_size_threshold"] if tensor_size_threshold is None else tensor_size_threshold
    chunk = flags["tensor_split_size"] if tensor_split_size is None else tensor_split_size
    made = _Request(
        _limit(limit),
        jit_compile,
        None if threshold is None else parse_bytes(threshold),
        None if chunk is None else parse_bytes(chunk),
    )
    if fn is None:
        return lambda function: _optimized(function, made)
    return _optimized(fn, made)


def explain(
    fn: Callable[..., Any], *args: Any, limit: Limit | None = None, **kwargs: Any
) -> MemoryReport:
    """Return what `optimize(fn, limit)` would do for these arguments, without running `fn`.

    `limit` defaults to that of `fn` where it is optimized already, else to "auto". Arguments may be
    `tf.TensorSpec`s. Raises `MemoryLimitError` where no plan holds the limit.
    """
    if isinstance(fn, OptimizedFunction):
        if limit is None:
            return fn.report(*args, **kwargs)
        return OptimizedFunction(fn._function, fn._request.with_limit(_limit(limit))).report(
            *args, **kwargs
        )
    return optimize(fn, "auto" if limit is None else limit).report(*args, **kwargs)
