"""Measured peak memory of one call, and what the device has free."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import tensorflow as tf

from tf_exla.fresh_measure import (
    CannotSendError,
    in_child,
    leave_script,
    make_call,
    measure_fresh,
)
from tf_exla.frontends.tf.device import GPU_ALLOCATOR, counts_exactly, device

_AUTO_SHARE = 0.9
_FIRST_GPU = "GPU:0"
_SAMPLE_SECONDS = 0.001
# <malloc.h>: the numbers of glibc's malloc parameters.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Blocks from this size on are mapped alone, so that a freed one leaves the process at once. Of
# smaller ones each thread's heap keeps some that are free: with 64 kB up to 2 MB, measured.
_MEASURING_THRESHOLD = 16 * 2**10
# Where glibc's own moving threshold ends up once large blocks were freed.
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

    Calls `fn` twice, side effects and all: the first call traces and compiles, the second is
    measured. `fresh`: whether in a fresh process, which imports the module of `fn`, or runs the
    script up to its first measurement; the function goes there by its name, or pickled as the
    arguments are. None: where this process cannot see what the call takes, since TensorFlow's
    allocator is oneDNN's pool; where the function cannot go there, a warning says what is missing.
    Raises RuntimeError where `fresh` is True and that is not possible.

    `resident` counts each distinct argument, captured tensor, variable and constant once; where
    `fn` has a method `resident_bytes`, that is asked instead.

    On a GPU `working_set` is the growth of its allocator's peak. TensorFlow's default allocator
    counts the blocks that it hands out, which may be twice as large as a tensor, by 128 MB at most;
    with TF_GPU_ALLOCATOR=cuda_malloc_async the number is exact. On a CPU it is the growth
    of the process's resident set at its high-water mark, with freed blocks returned to the system
    at once. That is right where nothing large ran before: blocks that the heap kept from earlier
    calls come back to life. So measure in a fresh process, or one that was started with
    MALLOC_MMAP_THRESHOLD_=16384 and MALLOC_TRIM_THRESHOLD_=16384. In a fresh process with
    TF_ENABLE_ONEDNN_OPTS=0 this was within 0.6 MB of memray's heap peak for single kernels
    (pointwise, reductions, copies, 50 to 400 MB) and sequential loops. Memory that a kernel
    allocates and never touches is not in it (packing buffers of products, for which memray shows up
    to 1.3 times the operands' size more), and what runs side by side overlaps differently from call
    to call; whatever else the process does meanwhile is. Where XLA compiled other programs in this
    process before, up to 2 MB more are read than the heap holds. With oneDNN, TensorFlow's CPU
    allocator is a pool that never gives back: the number is then the growth of the pool, which
    understates a call whose memory the pool already had, and `method` says so.
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
            warnings.warn(_NOT_FRESH.format(name=_name(fn), why=why), stacklevel=2)
    resident = _resident_bytes(fn, args, kwargs)
    measure = _on_gpu if device() == "GPU" else _on_cpu
    working_set, method = measure(lambda: fn(*args, **kwargs))
    return MeasuredPeak(resident, working_set, method)


def in_fresh(path: str) -> None:
    """Measure the call that is in a file: what a fresh process is started for."""
    make_call(path, measured_peak)


_NOT_FRESH = (
    "{name} was measured in this process: {why}. TensorFlow's allocator is oneDNN's pool here: of "
    "the call's memory, only that is seen which the pool did not have yet. Set "
    "TF_ENABLE_ONEDNN_OPTS=0 before TensorFlow is imported, or define the function in a module."
)


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", None) or fn)


def available_memory() -> int:
    """Return the bytes that the device has free now: of the first GPU, else of the main memory.

    Main memory is what the system says is available, or what the control group (a container's
    limit, version 1 or 2) leaves, the smaller. Page cache that can be dropped counts as free.
    """
    if device() == "GPU":
        return _gpu_available()
    return min([_system_available(), *_cgroup_available()])


def auto_limit() -> int:
    """Return the limit that "auto" stands for: 90 % of `available_memory()`, in bytes."""
    return int(_AUTO_SHARE * available_memory())


# Working set.


def _on_gpu(call: Callable[[], Any]) -> tuple[int, str]:
    call()
    gc.collect()
    before = tf.config.experimental.get_memory_info(_FIRST_GPU)["current"]
    tf.config.experimental.reset_memory_stats(_FIRST_GPU)
    result = call()
    tf.test.experimental.sync_devices()
    peak = tf.config.experimental.get_memory_info(_FIRST_GPU)["peak"]
    del result
    exact = counts_exactly()
    caveat = "" if exact else f", whole blocks of it (set {GPU_ALLOCATOR}=cuda_malloc_async)"
    return max(0, peak - before), f"peak of the GPU allocator{caveat}"


def _on_cpu(call: Callable[[], Any]) -> tuple[int, str]:
    caveat = ", growth of oneDNN's pool (set TF_ENABLE_ONEDNN_OPTS=0)" if _onednn_pool() else ""
    with _freed_blocks_leave() as leave:
        if not leave:
            caveat += ", heap reuse may hide memory (no glibc malloc)"
        # The first call must run under the new thresholds: what an earlier call left on the free
        # lists of other threads' heaps would otherwise leave during the measurement.
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
            # The mark of the whole lifetime is exact if this call was what raised it.
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
    """Make malloc return freed blocks to the system meanwhile; yield whether that is possible."""
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
    """Wait till the threads of earlier calls have freed what they still hold.

    Blocks that are freed between the reset of the mark and the reading beside it would count as
    allocated, those that are freed later would hide allocations. On a busy machine that happens.
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
    return _field_bytes(Path("/proc/self/status"), field)


def _field_bytes(path: Path, field: str) -> int:
    """Read `field` of a file with lines such as "VmRSS:   1234 kB"."""
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == field:
            return int(rest.split()[0]) * 1024
    raise KeyError(f"{path} has no field {field!r}")


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
    """Watch the resident set from a thread; TensorFlow's ops release the interpreter lock."""
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
    """Tell whether TensorFlow's CPU allocator is oneDNN's pool."""
    try:
        from tensorflow.python.util import _pywrap_util_port

        return bool(_pywrap_util_port.IsMklEnabled())
    except (ImportError, AttributeError):
        return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() not in ("0", "false")


# Resident tensors.


def _resident_bytes(fn: Callable[..., Any], args: Any, kwargs: Any) -> int:
    own = getattr(fn, "resident_bytes", None)
    if own is not None:
        return int(own(*args, **kwargs))
    buffers = dict(_buffers(tf.nest.flatten((args, kwargs), expand_composites=True)))
    constants = 0
    if hasattr(fn, "get_concrete_function"):
        concrete = fn.get_concrete_function(*args, **kwargs)
        buffers.update(_buffers([*concrete.captured_inputs, *concrete.graph.variables]))
        constants = sum(map(_constant_bytes, _graphs(concrete.graph)))
    return sum(buffers.values()) + constants


def _buffers(values: Iterable[Any]) -> Iterator[tuple[object, int]]:
    """Yield a key for each value's buffer, the same for values that share one, and its bytes."""
    for value in values:
        if isinstance(value, tf.Variable):
            yield ("variable", id(value.handle)), _tensor_bytes(value)
        elif isinstance(value, np.ndarray):
            yield (value.__array_interface__["data"][0], value.nbytes), value.nbytes
        elif isinstance(value, tf.Tensor) and value.dtype not in (tf.resource, tf.variant):
            size = _tensor_bytes(value)
            yield (_address(value), size), size


def _address(tensor: tf.Tensor) -> int:
    """The address of a tensor's buffer, or its identity where that cannot be told."""
    try:
        if "CPU" in tensor.device:
            # No copy: the buffer protocol of a tensor on the CPU shows its own memory.
            return int(np.asarray(memoryview(tensor)).__array_interface__["data"][0])
    except (TypeError, ValueError, BufferError, NotImplementedError):
        pass
    return id(tensor)


def _tensor_bytes(tensor: Any) -> int:
    # An unknown shape has no number of elements; a string or resource has no size.
    elements = tensor.shape.num_elements()
    return 0 if elements is None else int(elements) * int(tensor.dtype.size)


def _constant_bytes(graph: tf.Graph) -> int:
    # Sizes from the shapes: the attribute "value" would be a copy of the whole constant.
    return sum(_tensor_bytes(op.outputs[0]) for op in graph.get_operations() if op.type == "Const")


def _graphs(graph: tf.Graph) -> list[tf.Graph]:
    """`graph` and the graphs of all functions that it calls, each once."""
    found: dict[str, tf.Graph] = {}

    def visit(outer: Any) -> None:
        for name, function in getattr(outer, "_functions", {}).items():
            inner = getattr(function, "graph", None)
            if name not in found and inner is not None:
                found[name] = inner
                visit(inner)

    visit(graph)
    return [graph, *found.values()]


# Free memory.


def _gpu_available() -> int:
    """What TensorFlow may take of the first GPU that it sees, less what it holds."""
    (first, *_) = tf.config.get_visible_devices("GPU")
    shares = tf.config.get_logical_device_configuration(first)
    share = shares[0].memory_limit if shares else None
    total = _gpu_bytes() if share is None else int(share) * 2**20
    return total - int(tf.config.experimental.get_memory_info(_FIRST_GPU)["current"])


def _gpu_bytes() -> int:
    import subprocess

    # TensorFlow's own numbers tell what it uses, not what the device has.
    seen = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    query = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    query.append(f"--id={seen}")
    try:
        said = subprocess.run(query, check=True, capture_output=True, text=True).stdout
        return int(said) * 2**20
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise RuntimeError(
            f"nvidia-smi does not tell how much memory the GPU has ({error}): give a limit in bytes"
        ) from error


def _system_available() -> int:
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        return _field_bytes(meminfo, "MemAvailable")
    import psutil

    return int(psutil.virtual_memory().available)


def _cgroup_available(root: Path = Path("/sys/fs/cgroup"), own: Path | None = None) -> list[int]:
    """What each control group of this process leaves, in bytes; those without a limit are absent.

    `root` is where the groups are mounted, `own` the file that lists the process's groups.
    """
    try:
        lines = (own or Path("/proc/self/cgroup")).read_text().splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, limit, usage = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            mount, limit, usage = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # A limit of an outer group holds too; in a container only the mount itself may be visible.
        relative = PurePosixPath(path.lstrip("/"))
        for group in {mount, *(mount / inner for inner in (relative, *relative.parents))}:
            try:
                size = int((group / limit).read_text())
                used = int((group / usage).read_text())
            except (OSError, ValueError):  # no such group, or "max"
                continue
            left.append(max(0, size - used + _inactive_file(group / "memory.stat")))
    return left


def _inactive_file(path: Path) -> int:
    """Page cache in bytes that a control group can drop at once."""
    try:
        fields = dict(line.split(" ", 1) for line in path.read_text().splitlines())
    except OSError:
        return 0
    return int(fields.get("total_inactive_file", fields.get("inactive_file", "0")))
