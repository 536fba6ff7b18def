"""Tensors that a script makes outside of functions are named at its end if above the limit."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from tf_exla.frontends.tf.outside import Outside, watched
from tf_exla.run.script import optimized_functions


def summary(body: str, folder: Path) -> str:
    path = folder / "script.py"
    path.write_text(body)
    with optimized_functions("4MB") as session:
        exec(compile(body, str(path), "exec"), {"tf": tf})
    return session.summary()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = tf.ones([1200, 3])\ny = x @ tf.transpose(x)", "5.76 MB by MatMul at script.py:2"),
        ("x = tf.ones([1200])\n\ny = x[:, None] - x", "5.76 MB by Sub at script.py:3"),
        ("x = tf.ones([1000, 1500])\ny = tf.ones([1200, 1200])", "6.00 MB by Fill at script.py:1"),
        ("def f():\n  return tf.raw_ops.Fill(dims=[1100, 1000], value=1.0)\nf()", "script.py:2"),
    ],
)
def test_large_tensor_is_named(body: str, expected: str, tmp_path: Path) -> None:
    assert expected in summary(body, tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        "x = tf.ones([1200, 3])",
        "f = tf.function(lambda x: tf.reduce_sum(x @ tf.transpose(x)))\nf(tf.ones([1200, 3]))",
    ],
)
def test_small_tensors_and_functions_are_not(body: str, tmp_path: Path) -> None:
    assert "outside" not in summary(body, tmp_path)


CHECKED = """
tf.debugging.enable_check_numerics()
try:
    x = tf.ones([300, 3])
    f = tf.function(lambda x: tf.reduce_sum(tf.math.log(x - 1.0 - tf.abs(x))))
    g = tf.function(lambda x: tf.reduce_sum(x @ tf.transpose(x)))
    y = g(tf.abs(x))
    for call in (lambda: tf.math.log(-x), lambda: f(x)):
        try:
            call()
        except tf.errors.InvalidArgumentError as error:
            assert "NaN" in str(error)
        else:
            raise AssertionError("no error")
finally:
    tf.debugging.disable_check_numerics()
"""


def test_other_callbacks_of_ops_get_their_results(tmp_path: Path) -> None:
    """A callback gets what the one before it has returned."""
    assert "optimized, largest projected peak" in summary(CHECKED, tmp_path)


def test_ops_give_what_they_give_unwatched() -> None:
    """TensorFlow's restore of a checkpoint pops from the list that a graph's op gives."""

    def results() -> list[type]:
        x = tf.ones([4, 3])
        ops = tf.raw_ops.IdentityN(input=[x, x]), tf.unstack(x), tf.nn.top_k(x, 2), tf.shape_n([x])
        return list(map(type, ops))

    def in_graph() -> list[type]:
        with tf.Graph().as_default():
            return results()

    want = results(), in_graph()
    with watched(Outside(lambda: 10**9)):
        assert (results(), in_graph()) == want


def test_a_module_with_a_variable_is_saved_and_loaded(tmp_path: Path) -> None:
    with watched(Outside(lambda: 10**9)):
        module = tf.Module()
        module.v = tf.Variable([1.0, 2.0])
        tf.saved_model.save(module, str(tmp_path))
        assert tf.saved_model.load(str(tmp_path)).v.numpy().tolist() == [1.0, 2.0]
