"""Measuring a GPU's rates: the programs run, here on the processor, and give all rates."""

from __future__ import annotations

from dataclasses import fields

import tensorflow as tf

from tf_exla.frontends.tf.measuring.calibrate_gpu import Sizes, measure_gpu
from tf_exla.ir.rates import Rates
from tf_exla.model.rates import gpu_kind, plausible

SMALL = Sizes(
    repeats=9, large=1 << 20, side=400, columns=500, rows=20, row=1000, short=10, long=1010
)  # fmt: skip


def test_each_rate_is_measured() -> None:
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    found = measure_gpu(SMALL)
    assert tf.config.experimental.tensor_float_32_execution_enabled() is before
    known = {field.name for field in fields(Rates)}
    kept = {  # what does not differ, what is done on CPUs only, and what small programs do not show
        "sync", "flop", "compiling", "compiling_node", "search_node", "iteration", "fork",
        "variable", "convolution", "lookup",
        "top_k_merge", "top_k_start", "top_k_kept", "top_k_tested", "top_k_padded", "top_k_fork",
    }  # fmt: skip
    assert set(found) == known - kept
    # The others are differences of two times, and may be negative on a busy machine.
    assert all(found[name] > 0 for name in ("product_8", "product_4", "serial"))
    assert isinstance(plausible(found, gpu_kind("GPU")), Rates)
