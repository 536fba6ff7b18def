"""Reductions of sparse tensors order the entries by groups: the permutations are counted."""

from __future__ import annotations

import pytest
from fresh_process import run_fresh

REDUCTIONS = ["reduce_max", "reduce_sum", "softmax"]


def measure(name: str, rank: int) -> tuple[int, int, int]:
    """Run in a fresh process; return the measured and the projected peak, and the limit."""
    import numpy as np
    import tensorflow as tf

    import tf_exla

    def reduced(positions: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        entries = tf.SparseTensor(positions, values, [2003, 503, 2][:rank])
        if name == "softmax":
            return tf.sparse.softmax(entries).values
        return getattr(tf.sparse, name)(entries, 1)

    at = np.arange(0, 900_000, 3)
    columns = [at // 503, at % 503, at % 2][:rank]
    arguments = tf.constant(np.stack(columns, 1)), tf.constant(np.sin(at))
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.explain(reduced, *arguments, limit=1)
    limit = info.value.smallest_limit
    limited = tf_exla.optimize(reduced, limit, strict=True)
    np.testing.assert_array_equal(limited(*arguments), reduced(*arguments))
    peak = tf_exla.measured_peak(limited, *arguments, fresh=False)
    return int(peak), limited.report(*arguments).projected_peak, limit


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_limit_holds(name: str, rank: int) -> None:
    peak, projected, limit = run_fresh(measure, name, rank)
    assert peak <= projected <= limit
    assert projected < 1.4 * peak
