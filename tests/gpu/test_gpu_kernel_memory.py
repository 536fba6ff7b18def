"""Measure TensorFlow's GPU kernels against the table of what they allocate."""

from __future__ import annotations

import pytest
from frontends.test_kernel_memory import GROUPS, forwarding, measure
from gpu.on_gpu import needs_gpu, run_on_gpu

from tf_exla.frontends.tf.ops.table import OPS as TABLE

# Kernels that TensorFlow has for the host only: what they need is no memory of the GPU.
HOST = ("Eig ", "MatrixSquareRoot ", "Qr ")


@needs_gpu
@pytest.mark.parametrize("group", GROUPS)
def test_bound_holds(group: str) -> None:
    rows = run_on_gpu(measure, group)
    exceeded = [
        row
        for row in rows
        if row["working_set"] > row["output"] + row["bound"]
        # The case makes its operand itself, a condition: that counts with the operands.
        and not row["case"].startswith("SelectV2 ")
    ]
    assert not exceeded
    wasteful = [
        row
        for row in rows
        if row["tight"]
        and not row["case"].startswith(HOST)
        and row["bound"] > (row["operands"] + row["output"]) / 5 + 1.5 * _scratch(row) + 1e6
    ]
    assert not wasteful


def _scratch(row: dict[str, int]) -> int:
    return max(0, row["working_set"] - row["output"])


@needs_gpu
def test_certain_forwarding_takes_place() -> None:
    rows = run_on_gpu(forwarding)
    assert {row["op"] for row in rows} <= {name for name, op in TABLE.items() if op.reuses}
    # A softmax takes two tensors more, which its bound counts.
    assert not [row for row in rows if row["tensors"] > (3.1 if "oftmax" in row["op"] else 1.5)]
