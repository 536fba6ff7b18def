"""The usual rates of GPUs: measured on an H100, and derived from them for an H200.

`python -m tf_exla calibrate` measured the rates of the H100 (80 GB HBM3) on 2026-11-26, with driver
580.159.04 and TensorFlow 2.21. Rates of products, solves, top-k and short axes still included
the cost of a call then, perhaps 0.5 ms. The other rates:

- `iteration` and `top_k_start` are fitted to the milliseconds of docs/gpu.md, `compiling` to the
  first calls there.
- `flop`, `compiling_node` and `top_k_kept` are estimates.

`python tests/gpu/rows.py` prints what the rates predict for these rows.

A GPU that is not in the table has the rates of the H100: GPUs for data centres have similar ratios,
and no other GPU was measured. Users of another GPU can calibrate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tf_exla.ir.rates import Rates


def following(byte: float) -> Mapping[str, float]:
    """Return the rates that follow from the seconds per byte."""
    return {
        "cached_byte": byte,  # chunks are as large as the memory allows, too large for any cache
        "run": 32 * byte,  # memory is read in sectors of 32 bytes
        "written_byte": 2 * byte,  # copied into the result: read and written
        "product_byte": byte,  # operands are not packed
        "patch_byte": byte / 9,  # patches are not copied; windows of 3 by 3 share elements
        "top_k_maximum": 8 * byte,  # twice the four bytes of an element: rows of a group are short
        "top_k_gathered": 140 * 8 * byte,  # a group of 140 float32, read and written
        "top_k_copied": 8 * byte,
    }


_BYTE = 4.12e-13  # 2.4 TB/s, of 3.35 in the data sheet

H100 = Rates(
    byte=_BYTE,
    launch=1.1e-5,
    convolution=0.0,
    lookup=0.0,
    fork=0.0,  # the work of a kernel is divided between all processors at no cost
    **following(_BYTE),
    product_8=2.12e-14,  # 47 TFLOPS, of 67 in the data sheet
    product_4=2.74e-14,
    product_tf32=9.7e-15,
    # An exponential counts as 12 operations, but takes about 100 instructions in float64.
    pointwise_8=3.54e-13,
    pointwise_4=2.55e-14,
    compiled_pointwise=0.42,
    serial=4.13,  # a solve of 50,000 columns
    # A While that does almost nothing takes 20 µs for an iteration. The rows fit best at 390 µs,
    # those with thousands of iterations at 190. So this includes work that the model does not
    # count, perhaps because small kernels do not fill the device.
    iteration=350e-6,
    cluster=3.65e-5,
    flop=1.5e-13,  # not measured: between products and pointwise ops
    short_axis_element=8.46e-12,
    compiling=2.0,  # the median first call of a compiled row; 0.3 to 14 s
    compiling_node=0.02,  # an estimate: as long again for a cluster of a hundred nodes
    # The top ten of 1 to 1,000 rows of 200,000 elements took 0.6 to 1.8 ms: a row takes as long
    # alone as with fifty others. Twice that for an element: the model divides rows between two
    # cores.
    top_k_column=3e-9,
    top_k_element=1.3e-11,
    top_k_best=1.3e-11,
    top_k_fork=0.0,
    # Plans of L2 neighbours take 0.95 ms to find the top ten of 270 rows by groups, 0.3 of them for
    # what the model counts. The host waits for the test for NaN, and short rows are sorted.
    top_k_start=7e-4,
    # A chunk of 1,000 rows whose best are merged takes 0.35 ms longer than one of whole rows: short
    # rows are sorted, in several kernels.
    top_k_merge=3.5e-4,
    top_k_kept=1e-9,  # an estimate: a row's heap is in shared memory
)

_H200_BYTE = _BYTE * 3.35 / 4.8
"""The same chip with a memory of 4.8 instead of 3.35 TB/s."""
H200 = replace(H100, byte=_H200_BYTE, **following(_H200_BYTE))


def in_module(rates: Rates) -> Rates:
    """Return the rates in a module that XLA compiles, whose loops need no host.

    On an H100, eight iterations took 0.19 ms longer than three. Neighbours by L1 took 2.9 ms where
    their top-k was found by groups, and 5.4 ms otherwise. XLA's own kernel of a top-k takes 2.6 ns
    for each element of a row, and for 1,000 rows 13 ps for each of all. In a chunk of 1,000 rows of
    6,496 elements it took 0.48 ms, and 0.05 ms for 256 rows of 1,400: 0.2 µs or more for a row.
    """
    return replace(
        rates, iteration=4e-5, top_k_start=12 * rates.launch,
        top_k_column=2.6e-9, top_k_element=2.6e-11, top_k_best=2.6e-11, top_k_kept=4e-8,
        top_k_merge=4 * rates.launch,
    )  # fmt: skip


USUAL: Mapping[str, Rates] = {"NVIDIA H100": H100, "NVIDIA H200": H200}
"""Rates by the beginning of the GPU's name."""


def usual_gpu(name: str) -> Rates:
    """Return the rates of a GPU that nobody has measured; the H100's if it is not in the table."""
    return next((rates for known, rates in USUAL.items() if name.startswith(known)), H100)
