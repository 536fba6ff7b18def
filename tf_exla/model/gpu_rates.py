"""The usual rates of GPUs: derived from the vendor's peaks and from docs/gpu.md, not calibrated.

Peaks are those of NVIDIA's data sheet for the H100 SXM: 3.35 TB/s; 67 TFLOPS of float64 on tensor
cores and 34 without; 67 TFLOPS of float32; 495 TFLOPS of TF32 without sparsity. A peak times the
factor that stands beside it gives the rate. Factors were fitted to the milliseconds of docs/gpu.md:
least squares of the logarithms, a loss that grows linearly from a fifth on, a weak pull to what
was guessed before, then rounded. Left out were six figures that the model has no part for: XLA's
neighbours, stock's by L1, and two plans that have no clusters any more.
`python tests/gpu/rows.py` prints what the rates make of these rows.

A GPU that is not in the table has the rates of the H100: of GPUs for data centres ratios are alike,
and nothing else was measured. Users of another one calibrate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tf_exla.ir.rates import Rates

LAUNCH_SHOWN = 0.5
"""The part of a kernel's launch that a plan's time shows, fitted: of the 40 µs that docs/gpu.md
names 20. The host launches while the device works, and nodes such as reshapes launch nothing."""


def following(byte: float, launch: float) -> Mapping[str, float]:
    """Return what follows from the seconds of a byte and of a launch that shows."""
    return {
        "cached_byte": byte,  # chunks are as large as the memory allows: no cache holds them
        "written_byte": 2 * byte,  # copied into the result: read and written
        "product_byte": byte,  # operands are not packed
        "top_k_start": 12 * launch,  # the nodes of an expanded top-k
        "top_k_maximum": 8 * byte,  # twice the four bytes of an element: rows of a group are short
        "top_k_gathered": 140 * 8 * byte,  # a group of 140 float32, read and written
        "top_k_copied": 8 * byte,
    }


_BYTE = 1 / (0.93 * 3.35e12)
"""Fitted between 0.5 and 0.95 of the peak, it ends near the latter: stock's kernel matvecs and
attention decide it."""
_LAUNCH = LAUNCH_SHOWN * 40e-6

H100 = Rates(
    byte=_BYTE,
    launch=_LAUNCH,
    **following(_BYTE, _LAUNCH),
    # SGPR. The fit ends at the least that was allowed, 25 TFLOPS: other waits of SGPR are in it.
    product_8=1 / (0.4 * 67e12),
    product_4=1 / (0.4 * 67e12),  # no row has float32 without TF32: the factor of float64
    product_tf32=1 / (0.5 * 495e12),  # neighbours with 784 columns; attention
    # An exponential counts as 12 operations, and takes some 100 instructions in float64, 30 in
    # float32: small factors.
    pointwise_8=1 / (0.05 * 34e12),  # kernel matvecs in float64
    pointwise_4=1 / (0.08 * 67e12),  # kernel matvecs in float32, and attention
    compiled_pointwise=0.3,  # XLA's kernel matvec, 6.0 of 20 ms
    serial=1.0,  # solves of many columns are products; the least that was allowed, too
    # A While's condition, counter and slices: some six kernels, and the host's part of them.
    iteration=240e-6,  # matvecs of 20,000 and 500,000 points: 14 and 1,980 iterations
    cluster=2 * _LAUNCH,  # a call's kernels, two for a chain that ends in a sum or a product
    flop=1.5e-13,  # between products and pointwise ops, the geometric mean
    # L1 distances of ten columns: stock takes 47 ms, 13 of them for bytes, and 8e9 elements were
    # handled, each counted by half.
    short_axis_element=8.5e-12,
    compiling=2.0,  # docs/gpu.md: "XLA takes seconds to compile for a GPU"
    compiling_node=0.02,  # as long again for a cluster of a hundred nodes
    # What 1,000 rows of 200,000 take in stock's L2 neighbours beside bytes, product and launches,
    # 2.3 ms. The model shares rows out between two: the rate is doubled.
    top_k_element=2.3e-11,
    top_k_kept=1e-9,  # a row's heap is in shared memory: lost beside its elements
)

_H200_BYTE = _BYTE * 3.35 / 4.8
"""The same chip with a memory of 4.8 TB/s."""
H200 = replace(H100, byte=_H200_BYTE, **following(_H200_BYTE, _LAUNCH))

USUAL: Mapping[str, Rates] = {"NVIDIA H100": H100, "NVIDIA H200": H200}
"""By the beginning of the GPU's name."""


def usual_gpu(name: str) -> Rates:
    """Return the rates of a GPU that nobody has measured; those of the H100 where it is unknown."""
    return next((rates for known, rates in USUAL.items() if name.startswith(known)), H100)
