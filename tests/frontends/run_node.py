"""Run a node of the intermediate representation by TensorFlow, eagerly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry

from tf_exla.frontends.tf.nodes.attrs import attr_types, decode, tensorflow_attrs
from tf_exla.frontends.tf.nodes.names import tensorflow_name
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.ir.graph import Array, Graph, Loop, Node, Tensor
from tf_exla.split.loops.resize import resize_loop


def complete_attrs(op: str, dtypes: Sequence[str], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Add defaults, as a captured node has them."""
    definition = op_def_registry.get(op)
    if definition is None:
        raise ValueError(f"TensorFlow has no op {op!r}")
    defaults = {a.name: a.default_value for a in definition.attr if a.HasField("default_value")}
    return {**decode(op, defaults, dtypes), **attrs}


def count_results(op: str, attrs: Mapping[str, Any]) -> int:
    """Return how many results an op has."""
    count = 0
    for arg in op_def_registry.get(op).output_arg:
        if arg.number_attr:
            count += attrs[arg.number_attr]
        elif arg.type_list_attr:
            count += len(attrs[arg.type_list_attr])
        else:
            count += 1
    return count


def run_op(op: str, inputs: Sequence[Array], attrs: Mapping[str, Any]) -> list[Array]:
    """Run an op by its name."""
    results = eager_op(op, [tf.convert_to_tensor(value) for value in inputs], attrs)
    return [np.asarray(result.numpy()) for result in results]


def eager_op(op: str, inputs: Sequence[tf.Tensor], attrs: Mapping[str, Any]) -> list[tf.Tensor]:
    """Run an op by its name on tensors."""
    op = tensorflow_name(op)
    types = attr_types(op)
    attrs = tensorflow_attrs(op, attrs, [tensor.dtype.name for tensor in inputs])
    flat: list[Any] = []
    for name, value in attrs.items():
        if name in types:
            flat += [name, _eager_attr(value, types[name])]
    made: list[tf.Tensor] = execute.execute(
        op.encode(),
        count_results(op, attrs),
        inputs=list(inputs),
        attrs=tuple(flat),
        ctx=context.context(),
    )
    return made


def _eager_attr(value: Any, type_: str) -> Any:
    if type_.startswith("list("):
        return [_eager_attr(item, type_[5:-1]) for item in value]
    if type_ == "type":
        return tf.as_dtype(value).as_datatype_enum
    return value.encode() if isinstance(value, str) else value


def run_nodes(nodes: Sequence[Node], values: Mapping[Tensor, Array]) -> list[Array]:
    """Run nodes in order and return the results of the last; each must be as its tensor says."""
    known = dict(values)
    for node in nodes:
        if node.op == "constant":
            known[node.output] = np.asarray(node.attrs["value"])
            continue
        results = run_op(node.op, [known[tensor] for tensor in node.inputs], node.attrs)
        for tensor, result in zip(node.outputs, results, strict=True):
            assert result.shape == tensor.shape, f"{node} made the shape {result.shape}"
            assert result.dtype.name == tensor.dtype, f"{node} made {result.dtype}"
            known[tensor] = result
    return [known[tensor] for tensor in nodes[-1].outputs]


def cut_loops(graph: Graph, chunk: int) -> Graph:
    """Give all loops of a graph the same chunk."""
    return graph.replace(
        nodes=tuple(
            resize_loop(TensorFlowOps(), node, chunk, 1) if isinstance(node, Loop) else node
            for node in graph.nodes
        )
    )
