"""Emit a cluster: a call of a function that XLA compiles."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_exla.frontends.tf.emit import placeholder
from tf_exla.frontends.tf.emitter import Emitter
from tf_exla.ir.graph import Graph, Node, Tensor, const


def emit_compiled(emitter: Emitter, node: Node) -> list[tf.Tensor]:
    """Emit an `xla_cluster` node and return its outputs."""
    inputs = emitter.values(node.inputs)
    ((_, graph),) = node.subgraphs
    inner = emitter.child("cluster", compiled=True)
    own = [
        placeholder(inner.graph, tensor.dtype, tensor.shape, value)
        for tensor, value in zip(graph.inputs, inputs, strict=True)
    ]
    outputs = inner.run(graph, own)
    must = {"_XlaMustCompile": True, "_noinline": True}
    attrs = {
        "Tin": [value.dtype.name for value in inputs],
        "Tout": [value.dtype.name for value in outputs],
        "f": emitter.function("cluster", inner, own, outputs, **must),
        "config": "",
        "config_proto": "",
        "executor_type": "",
    }
    call = emitter.op("PartitionedCall", inputs, attrs, large=True, name=node.name)
    call._set_attr("_XlaMustCompile", attr_value_pb2.AttrValue(b=True))
    return list(call.outputs)


def alone(node: Node) -> Node:
    """Return the cluster of one node. XLA must know its integers, which are shapes."""
    inputs: list[Tensor] = []
    own: list[Tensor] = []
    operands: list[Tensor] = []
    nodes: list[Node] = []
    for tensor in node.inputs:
        if tensor.value is not None and tensor.dtype.startswith("int"):
            nodes.append(const(tensor.value, tensor.name, tensor.dtype))
            operands.append(nodes[-1].output)
        else:
            inputs.append(tensor)
            own.append(tensor.fresh_copy())
            operands.append(own[-1])
    results = tuple(tensor.fresh_copy() for tensor in node.outputs)
    nodes.append(node.replace(inputs=tuple(operands), outputs=results))
    graph = Graph(tuple(own), tuple(nodes), results)
    return Node("xla_cluster", tuple(inputs), node.outputs, {"cluster": graph}, name=node.name)
