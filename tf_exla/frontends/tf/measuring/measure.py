"""Measured peak memory of one call."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from tf_exla.caller import warn
from tf_exla.frontends.tf.device import FIRST_GPU, GPU_ALLOCATOR, counts_exactly, device
from tf_exla.frontends.tf.free_memory import field_bytes
from tf_exla.frontends.tf.measuring.fresh_measure import (
    CannotSendError,
    in_child,
    leave_script,
    make_call,
    measure_fresh,
)
from tf_exla.frontends.tf.resident import resident_bytes

_SAMPLE_SECONDS = 0.001
# <malloc.h>: the numbers of glibc's malloc parameters.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Blocks from this size on are mapped separately, so that freed ones leave the process at once. Each
# thread's heap keeps some smaller free blocks: with a threshold of 64 kB up to 2 MB, measured.
_MEASURING_THRESHOLD = 16 * 2**10
# The value that glibc's dynamic threshold reaches once large blocks were freed.
_USUAL_THRESHOLD = 32 * 2**20


class MeasuredPeak(int):
    """The peak of one call in bytes: `resident` + `working_set`. `method` says how it was read."""

    resident: int
    working_set: int
    method: str

    def __new__(cls, resident: int, working_set: int, method: str) -> MeasuredPeak:
        peak = super().__new__(cls, resident + working_set)
        peak.resident = resident
        peak.working_set = working_set
        peak.method = method
        return peak

    def __getnewargs__(self) -> tuple[int, int, str]:  # type: ignore[override]
        return self.resident, self.working_set, self.method

    def __repr__(self) -> str:
        return (
            f"MeasuredPeak({int(self)} bytes = {self.resident} resident"
            f" + {self.working_set} working set, {self.method})"
        )


def measured_peak(
    fn: Callable[..., Any], *args: Any, fresh: bool | None = None, **kwargs: Any
) -> MeasuredPeak:
    """Return the peak memory of `fn(*args, **kwargs)` in bytes, resident tensors included.

    Calls `fn` twice, including side effects: the first call traces and compiles, the second is
    measured.

    `fresh`: whether to measure in a fresh process, which imports the module of `fn`, or runs the
    script up to its first measurement. The function is sent by name, or pickled like the arguments.
    True raises RuntimeError if that is not possible. None measures in a fresh process only if this
    process cannot see the memory of the call, since TensorFlow's allocator is oneDNN's pool. If the
    function cannot be sent, a warning says why.

    `resident` counts each distinct argument, captured tensor, variable and constant once. If `fn`
    has a method `resident_bytes`, its result is used instead.

    On a GPU `working_set` is the growth of its allocator's peak. TensorFlow's default allocator
    counts the blocks that it hands out, which may be twice as large as a tensor, by 128 MB at most.
    With TF_GPU_ALLOCATOR=cuda_malloc_async the number is exact.

    On a CPU `working_set` is the growth of the process's resident set at its high-water mark, with
    freed blocks returned to the system at once. That is accurate only if nothing large ran before,
    since blocks that the heap kept from earlier calls are reused. So measure in a fresh process, or
    one that was started with MALLOC_MMAP_THRESHOLD_=16384 and MALLOC_TRIM_THRESHOLD_=16384. In a
    fresh process with TF_ENABLE_ONEDNN_OPTS=0 this was within 0.6 MB of memray's heap peak for
    single kernels (pointwise, reductions, copies, 50 to 400 MB) and sequential loops. Memory that a
    kernel allocates and never touches is not counted (packing buffers of products, for which memray
    shows up to 1.3 times the operands' size more). Concurrent ops overlap differently from call to
    call. Anything else that the process does meanwhile is counted. If XLA compiled other programs
    in this process before, up to 2 MB more are read than the heap holds.

    With oneDNN, TensorFlow's CPU allocator is a pool that never returns memory. The number is then
    the growth of the pool, which understates a call whose memory the pool already had, and `method`
    says so.
    """
    leave_script()
    if fresh is None:
        fresh, needed = device() == "CPU" and _onednn_pool() and not in_child(), False
    else:
        needed = fresh
    if fresh:
        try:
            return MeasuredPeak(*measure_fresh(fn, args, kwargs))
        except CannotSendError as why:
            if needed:
                raise RuntimeError(f"{_name(fn)} was not measured afresh: {why}") from why
            warn(_NOT_FRESH.format(name=_name(fn), why=why))
    resident = resident_bytes(fn, args, kwargs)
    measure = _on_gpu if device() == "GPU" else _on_cpu
    working_set, method = measure(lambda: fn(*args, **kwargs))
    return MeasuredPeak(resident, working_set, method)


def in_fresh(path: str) -> None:
    """Measure the call in a file; the entry point of a fresh process."""
    make_call(path, measured_peak)


_NOT_FRESH = (
    "{name} was measured in this process: {why}. TensorFlow's allocator is oneDNN's pool here: of "
    "the call's memory, only that is seen which the pool did not have yet. Set "
    "TF_ENABLE_ONEDNN_OPTS=0 before TensorFlow is imported, or define the function in a module."
)


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", None) or fn)


# Working set.


def _on_gpu(call: Callable[[], Any]) -> tuple[int, str]:
    call()
    gc.collect()
    before = tf.config.experimental.get_memory_info(FIRST_GPU)["current"]
    tf.config.experimental.reset_memory_stats(FIRST_GPU)
    result = call()
    tf.test.experimental.sync_devices()
    peak = tf.config.experimental.get_memory_info(FIRST_GPU)["peak"]
    del result
    exact = counts_exactly()
    caveat = "" if exact else f", whole blocks of it (set {GPU_ALLOCATOR}=cuda_malloc_async)"
    return max(0, peak - before), f"peak of the GPU allocator{caveat}"


def _on_cpu(call: Callable[[], Any]) -> tuple[int, str]:
    caveat = ", growth of oneDNN's pool (set TF_ENABLE_ONEDNN_OPTS=0)" if _onednn_pool() else ""
    with _freed_blocks_leave() as leave:
        if not leave:
            caveat += ", heap reuse may hide memory (no glibc malloc)"
        # The first call must run under the new thresholds. Blocks that an earlier call left on the
        # free lists of other threads' heaps would otherwise be released during the measurement.
        call()
        gc.collect()
        _malloc_trim()
        _wait_until_steady()
        if _reset_high_water_mark():
            before = _status_bytes("VmRSS")
            result = call()
            peak = _status_bytes("VmHWM")
            method = "high-water mark of the resident set"
        else:
            before = _resident_set()
            mark_before = _lifetime_high_water_mark()
            with _sampled_resident_set() as sampled:
                result = call()
            mark = _lifetime_high_water_mark()
            # The mark of the whole lifetime is exact if this call raised it.
            peak = mark if mark > mark_before else sampled()
            method = (
                "lifetime high-water mark of the resident set"
                if mark > mark_before
                else f"resident set sampled every {_SAMPLE_SECONDS * 1000:.0f} ms, a lower bound"
            )
        del result
    return max(0, peak - before), method + caveat


@contextmanager
def _freed_blocks_leave() -> Iterator[bool]:
    """Make malloc return freed blocks to the system at once; yield whether that is possible."""
    if "MALLOC_MMAP_THRESHOLD_" in os.environ:  # set for the whole life of the process: better
        yield True
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        yield False
        return
    mallopt(_M_MMAP_THRESHOLD, _MEASURING_THRESHOLD)
    mallopt(_M_TRIM_THRESHOLD, _MEASURING_THRESHOLD)
    try:
        yield True
    finally:
        mallopt(_M_MMAP_THRESHOLD, _USUAL_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, 2 * _USUAL_THRESHOLD)


def _malloc_trim() -> None:
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _wait_until_steady(seconds: float = 2.0) -> None:
    """Wait until the threads of earlier calls have freed what they still hold.

    Blocks freed between the reset of the mark and the reading after it would count as allocated.
    Blocks freed later would hide allocations. Both happen on a busy machine.
    """
    end = time.monotonic() + seconds
    steady, last = 0, _resident_set()
    while steady < _STEADY_READINGS and time.monotonic() < end:
        time.sleep(_STEADY_SECONDS)
        now = _resident_set()
        steady = steady + 1 if abs(now - last) <= _STEADY_BYTES else 0
        last = now


_STEADY_READINGS, _STEADY_SECONDS, _STEADY_BYTES = 4, 0.005, 2**16


def _reset_high_water_mark() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    # Some sandboxes accept the write and ignore it.
    return _status_bytes("VmHWM") <= _status_bytes("VmRSS") + 2**20


def _status_bytes(field: str) -> int:
    return field_bytes(Path("/proc/self/status"), field)


def _resident_set() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import psutil

        return int(psutil.Process().memory_info().rss)


def _lifetime_high_water_mark() -> int:
    import resource
    import sys

    mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return mark if sys.platform == "darwin" else mark * 1024


@contextmanager
def _sampled_resident_set() -> Iterator[Callable[[], int]]:
    """Sample the resident set from a thread; TensorFlow's ops release the interpreter lock."""
    largest = _resident_set()
    stop = threading.Event()

    def watch() -> None:
        nonlocal largest
        while not stop.wait(_SAMPLE_SECONDS):
            largest = max(largest, _resident_set())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: max(largest, _resident_set())
    finally:
        stop.set()
        thread.join()


def _onednn_pool() -> bool:
    """Return whether TensorFlow's CPU allocator is oneDNN's pool."""
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() not in ("0", "false")
