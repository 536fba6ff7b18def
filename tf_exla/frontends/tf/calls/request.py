"""The arguments of `optimize`, with the defaults of the environment."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tf_exla.arguments import check_switch, did_you_mean
from tf_exla.byte_size import parse_bytes, read_bytes
from tf_exla.frontends.tf.device import counts_exactly, device
from tf_exla.frontends.tf.devices.choice import DeviceSet
from tf_exla.frontends.tf.free_memory import auto_limit
from tf_exla.frontends.tf.versions import exact_allocator
from tf_exla.model.allocator import BLOCKS
from tf_exla.model.options import Options, Unbounded
from tf_exla.rewrite.families import switches

Limit = int | float | str

LIMIT_VARIABLE = "TF_EXLA_LIMIT"
FLAGS_VARIABLE = "TF_EXLA_FLAGS"
# On a GPU chunks need not fit a cache, and launching the kernels of a small chunk takes longer than
# running them. Chunks of 1 GB were faster than those of 256 MB (a matvec of 60,000 points, float64,
# within 1 GB: 55 ms against 77, compiled 34 against 91; H100).
_GPU_CHUNK_BYTES = 1 << 30


@dataclass(frozen=True)
class Request:
    """The arguments of `optimize`.

    `limit`: bytes; None for "auto", a share of the memory that is free when a plan is made.
    `devices`: those that loops are sharded over; None if the program runs on one.
    """

    limit: int | None
    jit_compile: bool | None = None
    tensor_size_threshold: int | None = None
    tensor_split_size: int | None = None
    rewrites: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    unbounded: Unbounded = "raise"
    strict: bool = False
    trace: bool = False
    devices: DeviceSet | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A mappingproxy cannot be pickled.
        return _rebuilt, ({**vars(self), "rewrites": dict(self.rewrites)},)

    # Many parameters: those of `optimize`.
    @classmethod
    def of(
        cls,
        limit: Limit,
        jit_compile: bool | None = None,
        tensor_size_threshold: Limit | None = None,
        tensor_split_size: Limit | None = None,
        rewrites: Mapping[str, bool] | bool | None = None,
        unbounded: Unbounded = "raise",
        strict: bool = False,
        devices: Any = None,
        outputs: str = "whole",
    ) -> Request:
        """Read the arguments of `optimize`. A ValueError or TypeError quotes a bad argument."""
        if unbounded not in ("raise", "warn"):
            raise ValueError(f'unbounded must be "raise" or "warn", got {unbounded!r}')
        check_switch("jit_compile", jit_compile, optional=True)
        check_switch("strict", strict)
        threshold, size = _flags()
        if tensor_size_threshold is not None:
            threshold = parse_bytes(tensor_size_threshold)
        if tensor_split_size is not None:
            size = parse_bytes(tensor_split_size)
        return cls(
            _limit(limit),
            jit_compile,
            threshold,
            size,
            switches(rewrites),
            unbounded,
            strict,
            devices=DeviceSet.of(devices, outputs),
        )

    def with_limit(self, limit: Limit) -> Request:
        """Return the same request for another limit."""
        return dataclasses.replace(self, limit=_limit(limit))

    def with_devices(self, devices: Any) -> Request:
        """Return the same request for other devices."""
        return dataclasses.replace(self, devices=DeviceSet.of(devices))

    def with_trace(self) -> Request:
        """Return the same request with plans that record the candidates of each step."""
        return dataclasses.replace(self, trace=True)

    def bytes(self) -> int:
        """Return the current limit in bytes."""
        return auto_limit() if self.limit is None else self.limit

    def options(self, jit_compile: bool | None = None) -> Options:
        """Return the options of passes; `jit_compile` applies if the request leaves it open."""
        made = Options(
            jit_compile=self.jit_compile if self.jit_compile is not None else jit_compile,
            rewrites=self.rewrites,
            tensor_size_threshold=self.tensor_size_threshold,
            tensor_split_size=self.tensor_split_size,
            unbounded=self.unbounded,
            trace=self.trace,
            allocator=exact_allocator(),
        )
        return gpu_options(made) if device() == "GPU" else made


def gpu_options(options: Options) -> Options:
    """Return the options adapted to a GPU."""
    return dataclasses.replace(
        options,
        jit_compile=bool(options.jit_compile),  # the default was measured on a CPU only
        whole=bool(options.jit_compile),
        chunk_bytes=_GPU_CHUNK_BYTES,
        body_bytes=4 * _GPU_CHUNK_BYTES,
        cached=False,
        allocator=exact_allocator() if counts_exactly() else BLOCKS,
        cores=1,  # kernels wait for each other, and each uses the whole GPU
    )


def _rebuilt(fields: Mapping[str, Any]) -> Request:
    return Request(**{**fields, "rewrites": MappingProxyType(fields["rewrites"])})


def _limit(limit: Limit) -> int | None:
    if limit != "auto":
        return parse_bytes(limit)
    asked = os.environ.get(LIMIT_VARIABLE, "auto")
    return None if asked == "auto" else read_bytes(asked, LIMIT_VARIABLE)


def _flags() -> tuple[int | None, int | None]:
    """Return the threshold and the chunk size of TF_EXLA_FLAGS."""
    text = os.environ.get(FLAGS_VARIABLE, "")
    parser = argparse.ArgumentParser(FLAGS_VARIABLE, add_help=False, exit_on_error=False)
    names = ("--tensor_size_threshold", "--tensor_split_size")
    for name in names:
        parser.add_argument(name)
    try:
        found, rest = parser.parse_known_args(shlex.split(text))
    except argparse.ArgumentError as error:
        raise ValueError(f"{FLAGS_VARIABLE}={text!r}: {error}") from error
    if rest:
        hint = did_you_mean(rest[0].partition("=")[0], names)
        raise ValueError(f"{FLAGS_VARIABLE}={text!r}: unknown flag {rest[0]!r}{hint}")
    threshold, size = (
        value and read_bytes(value, f"{name} of {FLAGS_VARIABLE}")
        for name, value in zip(
            names, (found.tensor_size_threshold, found.tensor_split_size), strict=True
        )
    )
    return threshold, size
