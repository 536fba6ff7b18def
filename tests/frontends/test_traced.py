"""One formula, all front ends: the same graph, and the same numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from formulas import FORMULAS
from frontends.tensorflow_namespace import TENSORFLOW

from tf_exla.frontends.numpy import NUMPY, evaluate, trace
from tf_exla.frontends.numpy.trace import flat
from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Array, Graph
from tf_exla.ir.traverse import walk

SAID = ("adj", "align", "axis", "batch_dims", "keep_dims", "lower", "squeeze_dims", "transpose")
OPS = TensorFlowOps(threads=2, device="CPU")


def arrays(shapes: list[tuple[int, ...]]) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in shapes]


def nodes(graph: Graph) -> Counter[str]:
    """Return what is computed, of what; constants that nodes read are among their operands."""
    found = []
    for node in walk(clean(graph, OPS)):
        if node.op in ("constant", "identity", "while"):
            continue
        read = [
            str(t.shape) if t.value is None or t.dtype == "float64" else np.ravel(t.value).tolist()
            for t in node.inputs
        ]
        attrs = {
            k: v for k, v in node.attrs.items() if "mask" in k or "adj" in k or "transpose" in k
        }
        found.append(
            f"{node.op} {read} {[str(t.shape) for t in node.outputs]} {sorted(attrs.items())}"
        )
    return Counter(found)


@pytest.mark.parametrize("name", FORMULAS)
def test_graphs_are_those_of_tensorflow(name: str) -> None:
    formula, shapes = FORMULAS[name]
    values = arrays(shapes)
    traced = trace(formula, *shapes)
    check_graph(traced)
    stock = tf.function(lambda *args: formula(TENSORFLOW, *args), autograph=False)
    captured = capture(stock.get_concrete_function(*map(tf.constant, values))).graph
    if name != "loop":  # TensorFlow's has counters of its own
        assert nodes(traced) == nodes(captured)
    expected = flat(formula(NUMPY, *values))
    eager = [one.numpy() for one in tf.nest.flatten(stock(*values))]
    for found in (evaluate(traced, *values), eager):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
