"""Emit a cluster: a call of a function that XLA compiles."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tf_exla.frontends.tf.nodes.emit import placeholder
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import Graph, Node, const
from tf_exla.late.compiling import merge


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
    """Return a cluster of one node.

    Its static integer operands, such as shapes, become constants of the cluster, since XLA must
    know them.
    """
    known = {
        tensor: const(tensor.value, tensor.name, tensor.dtype)
        for tensor in node.inputs
        if tensor.value is not None and tensor.dtype.startswith("int")
    }
    own = node.substitute({tensor: made.output for tensor, made in known.items()})
    return merge(Graph(node.inputs, (*known.values(), own), node.outputs), [own])
