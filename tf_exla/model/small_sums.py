"""Sums over chunks that front ends accumulate with more digits than float32 has."""

from __future__ import annotations

from tf_exla.ir.graph import Loop
from tf_exla.model.lifetimes import CHAIN_BYTES


def is_small_float32_sum(loop: Loop, k: int) -> bool:
    """Return whether result `k` of a loop is a small sum of float32 over its chunks."""
    tensor, result = loop.outputs[k], loop.results[k]
    if loop.triangular or result.accumulates_in_body or result.slot is not None:
        return False
    return result.combine == "add" and tensor.dtype == "float32" and tensor.nbytes < CHAIN_BYTES
