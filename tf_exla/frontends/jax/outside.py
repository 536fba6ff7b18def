"""Bytes that kernels called by XLA on a CPU allocate outside of XLA's buffers.

Eigen packs the operands of products, LAPACK allocates work arrays for each call, and stable sorts
copy their operands. The text of the optimized module shows which kernels are called. OpenBLAS's own
buffers, which a process allocates once, are not counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tf_exla.model.eigen import packed_bytes, patches_bytes

_INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (.*?) ([\w\-]+)\((.*)$")
_ARRAY = re.compile(r"\b([a-z]+[0-9]*)\w*\[([0-9,]*)\]")
_NAME = re.compile(r"%([\w.\-]+)")
_TARGET = re.compile(r'custom_call_target="(?:lapack_[sdcz])?(\w+?)(?:_ffi)?"')
_LABELS = re.compile(r"dim_labels=\w+_(\w+)->")
_LIBRARY = re.compile(r'"kind":"(__\w+)"')
_PANEL = 64
"""The most columns of a block in LAPACK (ilaenv)."""
_LINES = 16
"""The number of lines of a Fourier transform that DUCC copies to a buffer at once."""


@dataclass(frozen=True)
class Array:
    """A result of an instruction: the bytes of an element, and the shape."""

    item: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """An instruction that calls a kernel: operands, results, and the rest of its line."""

    operands: Sequence[Array]
    results: Sequence[Array]
    text: str

    def axes(self, name: str) -> tuple[int, ...]:
        """Return the numbers of an attribute."""
        match = re.search(name + r"=\{([0-9,]*)\}", self.text)
        return _numbers(match.group(1)) if match else ()


def outside_bytes(module: str) -> int:
    """Return an upper bound of the bytes that kernels allocate in a call.

    `module`: the text of the optimized module. Kernels run one after the other, so this is the
    largest of their bounds.
    """
    return max((_KERNELS[kernel](call) for kernel, call in _calls(module)), default=0)


def libraries(module: str) -> frozenset[str]:
    """Return the libraries that compute whole parts of a module; what they allocate is unknown."""
    return frozenset(_LIBRARY.findall(module))


def _calls(module: str) -> Iterator[tuple[str, Call]]:
    """Yield the instructions that call kernels of `_KERNELS`, with the kernels' names."""
    made: dict[str, list[Array]] = {}
    found: list[tuple[str, list[str], list[Array], str]] = []
    for line in module.splitlines():
        match = _INSTRUCTION.match(line)
        if match is None:
            continue
        name, kind, op, rest = match.groups()
        made[name] = [Array(_item(one), _numbers(sizes)) for one, sizes in _ARRAY.findall(kind)]
        target = _TARGET.search(rest)
        kernel = target.group(1) if target else op
        if kernel in _KERNELS:
            found.append((kernel, _NAME.findall(rest.split(")")[0]), made[name], rest))
    for kernel, names, results, text in found:
        yield kernel, Call([one for name in names for one in made.get(name, [])], results, text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size)


def _item(dtype: str) -> int:
    bits = re.search(r"[0-9]+", dtype)
    return max(1, int(bits.group()) // 8) if bits else 1


def _threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dot(call: Call) -> int:
    left, right = (one.shape for one in call.operands[:2])
    inner = prod(left[axis] for axis in call.axes("lhs_contracting_dims"))
    batch = prod(left[axis] for axis in call.axes("lhs_batch_dims"))
    rows, columns = (prod(shape) // max(1, inner * batch) for shape in (left, right))
    return batch * packing(rows, inner, columns, call.results[0].item)


def packing(rows: int, inner: int, columns: int, item: int) -> int:
    """Return an upper bound of the bytes that Eigen packs for a product."""
    if min(rows, columns, inner) <= 1:
        return 0  # computed by XLA's own loops
    return packed_bytes(rows, inner, columns, max(4, item), _threads())


def _convolution(call: Call) -> int:
    """Bound the bytes packed for a product of patches and filters, plus copies for groups."""
    (image, kernel), made = call.operands[:2], call.results[0]
    labels = _LABELS.search(call.text)
    filters = kernel.shape[labels.group(1).index("o")] if labels else 1
    patch, pixels = (prod(one.shape) // max(1, filters) for one in (kernel, made))
    groups = sum(prod(one.shape) * one.item for one in (image, made) if "_group_count" in call.text)
    return groups + patches_bytes(pixels, patch, filters, max(4, made.item), _threads())


def _square(times: int) -> Callable[[Call], int]:
    """Return a bound: the bytes of `times` square matrices of the smaller size, plus panels."""

    def bound(call: Call) -> int:
        one = call.operands[0]
        rows, columns = one.shape[-2:]
        return (times * min(rows, columns) ** 2 + _PANEL * (rows + columns)) * one.item

    return bound


def _sort(call: Call) -> int:
    """Bound a stable sort, which JAX requests: it copies one line of all operands."""
    (axis,) = call.axes("dimensions")
    return sum(2 * one.shape[axis] * one.item for one in call.results)


def _fft(call: Call) -> int:
    length = max(call.axes("fft_length"), default=1)
    return (_threads() * _LINES + 4) * length * 16


def _top_k(call: Call) -> int:
    return 16 * call.operands[0].shape[-1]


_KERNELS: Mapping[str, Callable[[Call], int]] = {
    "TopK": _top_k,
    "convolution": _convolution,
    "dot": _dot,
    "fft": _fft,
    "sort": _sort,
    **dict.fromkeys(("gehrd", "geqp3", "geqrf", "orgqr", "sytrd", "ungqr"), _square(0)),
    **dict.fromkeys(("heevd", "syevd"), _square(4)),
    **dict.fromkeys(("gees", "geev", "gesdd", "gesvd"), _square(8)),
}
"""The bound of each kernel. LAPACK's drivers request work arrays of 1 + 6 n + 2 n² numbers (syevd;
heevd: as many complex and as many real numbers) or 4 n² + 7 n (gesdd). geev works on copies of its
three matrices."""
