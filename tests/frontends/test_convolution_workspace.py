"""The scratch memory of convolutions on a GPU is limited and counted."""

from __future__ import annotations

import os
from typing import Any

import pytest
import tensorflow as tf

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.ops.memory.gpu import WORKSPACE_VARIABLE
from tf_exla.frontends.tf.planning import environment
from tf_exla.frontends.tf.planning.environment import limit_workspace
from tf_exla.ir.graph import Graph

MB = 1 << 20


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "device", lambda: "GPU")
    monkeypatch.setenv(WORKSPACE_VARIABLE, "1")  # so that it is as before at the end
    monkeypatch.delenv(WORKSPACE_VARIABLE)


def captured(function: Any, *shape: int) -> Graph:
    spec = tf.TensorSpec(shape, tf.float32)
    return capture(tf.function(function).get_concrete_function(spec)).graph


def smoothed(x: tf.Tensor) -> tf.Tensor:
    return tf.nn.conv2d(x, tf.ones([3, 3, 2, 2]), 1, "SAME")


def scratch(graph: Graph) -> int:
    (node,) = (one for one in graph.nodes if one.op == "Conv2D")
    return TensorFlowOps(device="GPU").scratch(node)


def test_it_is_set_and_counted() -> None:
    graph = captured(smoothed, 1, 64, 64, 2)
    before = scratch(graph)
    limit_workspace(graph)
    allowed = int(os.environ[WORKSPACE_VARIABLE])
    assert allowed == 32
    assert before < MB
    assert allowed * MB < scratch(graph) < (allowed + 1) * MB


def test_the_users_value_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORKSPACE_VARIABLE, "3")
    graph = captured(smoothed, 1, 64, 64, 2)
    limit_workspace(graph)
    assert os.environ[WORKSPACE_VARIABLE] == "3"
    assert 3 * MB < scratch(graph) < 4 * MB


def test_inside_of_loops() -> None:
    def repeated(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, smoothed(y)), (0, x))[1]

    limit_workspace(captured(repeated, 1, 64, 64, 2))
    assert WORKSPACE_VARIABLE in os.environ


def test_other_programs_and_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_workspace(captured(tf.square, 4, 4))
    assert WORKSPACE_VARIABLE not in os.environ
    monkeypatch.setattr(environment, "device", lambda: "CPU")
    limit_workspace(captured(smoothed, 1, 64, 64, 2))
    assert WORKSPACE_VARIABLE not in os.environ
