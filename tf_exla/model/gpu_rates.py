"""The usual rates of GPUs: derived from the vendor's peaks and from docs/gpu.md, not calibrated.

Peaks are those of NVIDIA's data sheet for the H100 SXM: 3.35 TB/s; 67 TFLOPS of float64 on tensor
cores and 34 without; 67 TFLOPS of float32; 495 TFLOPS of TF32 without sparsity. A rate is the
inverse of a peak times the factor next to it. The factors were fitted to the milliseconds of
docs/gpu.md, and rounded: least squares of the logarithms, a loss that is linear beyond a fifth,
and a weak pull to earlier guesses. Six figures were left out because the model has no part for
them: XLA's neighbours, stock's by L1, and two plans that have no clusters any more.
`python tests/gpu/rows.py` prints what the rates predict for these rows.

A GPU that is not in the table has the rates of the H100: GPUs for data centres have similar ratios,
and no other GPU was measured. Users of another GPU can calibrate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tf_exla.ir.rates import Rates

LAUNCH_SHOWN = 0.5
"""The visible part of a kernel's launch, fitted: 20 of the 40 µs that docs/gpu.md names. The host
launches while the device works, and nodes such as reshapes launch nothing."""


def following(byte: float, launch: float) -> Mapping[str, float]:
    """Return the rates that follow from the seconds per byte and per visible launch."""
    return {
        "cached_byte": byte,  # chunks are as large as the memory allows, too large for any cache
        "written_byte": 2 * byte,  # copied into the result: read and written
        "product_byte": byte,  # operands are not packed
        "top_k_start": 12 * launch,  # the nodes of an expanded top-k
        "top_k_maximum": 8 * byte,  # twice the four bytes of an element: rows of a group are short
        "top_k_gathered": 140 * 8 * byte,  # a group of 140 float32, read and written
        "top_k_copied": 8 * byte,
    }


_BYTE = 1 / (0.93 * 3.35e12)
"""Fitted between 0.5 and 0.95 of the peak, it ends near the latter, which stock's kernel matvecs
and attention decide."""
_LAUNCH = LAUNCH_SHOWN * 40e-6

H100 = Rates(
    byte=_BYTE,
    launch=_LAUNCH,
    **following(_BYTE, _LAUNCH),
    # SGPR. The fit ends at the allowed minimum, 25 TFLOPS: it includes other waits of SGPR.
    product_8=1 / (0.4 * 67e12),
    product_4=1 / (0.4 * 67e12),  # no row has float32 without TF32: the factor of float64
    product_tf32=1 / (0.5 * 495e12),  # neighbours with 784 columns; attention
    # An exponential counts as 12 operations, but takes about 100 instructions in float64 and 30 in
    # float32. Hence the small factors.
    pointwise_8=1 / (0.05 * 34e12),  # kernel matvecs in float64
    pointwise_4=1 / (0.08 * 67e12),  # kernel matvecs in float32, and attention
    compiled_pointwise=0.3,  # XLA's kernel matvec, 6.0 of 20 ms
    serial=1.0,  # solves of many columns are products; also the allowed minimum
    # A While's condition, counter and slices: about six kernels, and the host's part of them.
    iteration=240e-6,  # matvecs of 20,000 and 500,000 points: 14 and 1,980 iterations
    cluster=2 * _LAUNCH,  # a call's kernels, two for a chain that ends in a sum or a product
    flop=1.5e-13,  # between products and pointwise ops, the geometric mean
    # L1 distances of ten columns: stock takes 47 ms, 13 of them for bytes. It handles 8e9 elements,
    # each counted by half.
    short_axis_element=8.5e-12,
    compiling=2.0,  # docs/gpu.md: "XLA takes seconds to compile for a GPU"
    compiling_node=0.02,  # as long again for a cluster of a hundred nodes
    # 2.3 ms for 1,000 rows of 200,000 in stock's L2 neighbours, without bytes, product and
    # launches. The model shares rows out between two cores, so the rate is doubled.
    top_k_element=2.3e-11,
    top_k_kept=1e-9,  # a row's heap is in shared memory: negligible relative to its elements
)

_H200_BYTE = _BYTE * 3.35 / 4.8
"""The same chip with a memory of 4.8 TB/s."""
H200 = replace(H100, byte=_H200_BYTE, **following(_H200_BYTE, _LAUNCH))

USUAL: Mapping[str, Rates] = {"NVIDIA H100": H100, "NVIDIA H200": H200}
"""Rates by the beginning of the GPU's name."""


def usual_gpu(name: str) -> Rates:
    """Return the rates of a GPU that nobody has measured; the H100's if it is not in the table."""
    return next((rates for known, rates in USUAL.items() if name.startswith(known)), H100)
