"""Loops that work on each row independently are split along the batch: `row_loop_programs.py`."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from fresh_process import run_fresh
from programs import normal, with_gradients
from programs_check import difference
from row_loop_programs import ARGUMENTS, SPLIT, WHOLE
from samples import but

import tf_exla
from tf_exla.model.projection import RUNTIME_BYTES


def check(names: list[str], measure: bool) -> list[dict[str, Any]]:
    """Check each program at the smallest limit that it can run with."""
    found = []
    for name in names:
        function, arguments = SPLIT[name]()
        stock = tf.function(function, autograph=False)
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.optimize(stock, 1, strict=True).report(*arguments)
        whole = tf_exla.optimize(stock, 10**12, strict=True).report(*arguments)
        expected = stock(*arguments)
        optimized = tf_exla.optimize(stock, info.value.smallest_limit, strict=True)
        found.append({
            "name": name,
            "before": whole.projected_peak,
            "fixed": whole.resident + RUNTIME_BYTES,
            "limit": info.value.smallest_limit,
            "projected": optimized.report(*arguments).projected_peak,
            "measured": int(tf_exla.measured_peak(optimized, *arguments)) if measure else 0,
            "worst": difference(expected, optimized(*arguments), 1e-9),
        })  # fmt: skip
    return found


SELDOM = (
    "both-ways", "two-layers", "trained", "mean", "not-from-zero", "one-number", "replaced",
    "squared", "ties",
)  # fmt: skip
"""What takes long, and is like another program here or in another file."""
MEASURED = ("last-gradient", "lstm", "gru")


def hold(found: list[dict[str, Any]]) -> None:
    for one in found:
        assert one["measured"] <= one["projected"] <= one["limit"], one
        assert one["limit"] - one["fixed"] < (one["before"] - one["fixed"]) / 4, one
        assert one["worst"] <= 1, one


def test_rows_are_split() -> None:
    hold(run_fresh(check, list(MEASURED), True))


@pytest.mark.parametrize("name", but(SELDOM, sorted(SPLIT.keys() - set(MEASURED))))
def test_rows_are_split_with_the_same_numbers(name: str) -> None:
    hold(check([name], False))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("name", but(SELDOM, WHOLE))
def test_rows_that_meet_stay_whole(name: str) -> None:
    for function in (WHOLE[name], with_gradients(WHOLE[name])):
        stock = tf.function(function, autograph=False)
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.optimize(stock, 1, strict=True).report(*ARGUMENTS)
        smallest = info.value.smallest_limit
        expected = stock(*ARGUMENTS)
        for limit in (smallest, smallest + smallest // 8):
            optimized = tf_exla.optimize(stock, limit, strict=True)
            assert difference(expected, optimized(*ARGUMENTS), 1e-9) <= 1


@pytest.mark.parametrize(
    "name", but(["lstm", "two-layers"], ["last-gradient", "lstm", "two-layers"])
)
def test_rows_of_unknown_number_are_split(name: str) -> None:
    """Gradients read the shapes of a call from lists: they are as good as static ones."""
    function, arguments = SPLIT[name]()
    specs = [tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in arguments[:2]]
    specs += [tf.TensorSpec.from_tensor(x) for x in arguments[2:]]
    least = []
    for signature in (None, specs):
        stock = tf.function(function, input_signature=signature, autograph=False)
        with pytest.raises(tf_exla.MemoryLimitError) as info:
            tf_exla.optimize(stock, 1, strict=True).report(*arguments)
        least.append(info.value.smallest_limit)
    assert least[1] < 1.1 * least[0]
    optimized = tf_exla.optimize(stock, least[1], strict=True)
    assert difference(stock(*arguments), optimized(*arguments), 1e-9) <= 1


def test_a_region_ends_before_a_list_that_it_could_only_cut() -> None:
    """The gradient of a loop over heads keeps lists that do not depend on the rows."""
    x, z, w = normal(1501, 3), normal(40, 3), normal(2, 40, 1)

    def function(x: tf.Tensor, z: tf.Tensor, w: tf.Tensor) -> Any:
        kernel = tf.exp(-tf.reduce_sum((x[:, None] - z[None]) ** 2, -1))
        gram = tf.matmul(z, z, transpose_b=True) + 41.0 * tf.eye(40, dtype=z.dtype)
        solved = tf.linalg.triangular_solve(tf.linalg.cholesky(gram), tf.transpose(kernel))
        heads = tf.map_fn(lambda v: tf.matmul(solved, v, transpose_a=True), w)
        return tf.reduce_sum(tf.sin(heads) * tf.reduce_sum(kernel * kernel, 1)[None, :, None])

    stock = tf.function(with_gradients(function), autograph=False)
    with pytest.raises(tf_exla.MemoryLimitError) as info:
        tf_exla.optimize(stock, 1, strict=True).report(x, z, w)
    smallest = info.value.smallest_limit
    optimized = tf_exla.optimize(stock, smallest, strict=True)
    assert smallest <= 0.65 * optimized.report(x, z, w).projected_peak_before
    assert difference(stock(x, z, w), optimized(x, z, w), 1e-9) <= 1
