"""Sums of float32 over chunks, whose digits get lost if there are many chunks.

A sum of m partial sums has a relative error of about 0.7 sqrt(m) 2^-24, measured for Gram matrices:
1e-5 for 40,000 chunks of one row. Small sums are accumulated with more digits than float32 has. For
large ones the accumulators would need more memory than the chunks save, so chunks are not made too
small: 1,024 of them err by 1.4e-6, kernels for whole tensors by 4e-7 to 2e-6 (measured). With 256,
smallest limits of sums over rows that are normalized first were up to 3.5 times as high.
"""

from __future__ import annotations

from tf_exla.ir.graph import Loop, LoopResult, Tensor
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.settings import SETTINGS


def is_small_float32_sum(loop: Loop, k: int) -> bool:
    """Return whether result `k` of a loop is a small sum of float32 over its chunks."""
    tensor, result = loop.outputs[k], loop.results[k]
    if loop.triangular or result.accumulates_in_body:
        return False
    return _is_float32_sum(tensor, result) and tensor.nbytes < CHAIN_BYTES


def least_chunk(tensor: Tensor, result: LoopResult, extent: int) -> int:
    """Return the smallest chunk of an axis with `extent` indices for a result of a loop over it."""
    if not _is_float32_sum(tensor, result) or tensor.nbytes < CHAIN_BYTES:
        return 1
    return -(-extent // SETTINGS.most_float32_terms)


def _is_float32_sum(tensor: Tensor, result: LoopResult) -> bool:
    return result.combine == "add" and result.slot is None and tensor.dtype == "float32"
