"""Create single ops in a FuncGraph, from an op name and plain attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.eager.graph_only_ops import graph_placeholder
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import func_graph, ops
from tensorflow.python.ops import handle_data_util

from tf_exla.frontends.tf.nodes.attrs import encode, tensorflow_attrs
from tf_exla.frontends.tf.nodes.names import tensorflow_name
from tf_exla.ir.bounds import HANDLES
from tf_exla.ir.graph import Shape, Tensor
from tf_exla.model.lifetimes import CHAIN_BYTES

# An attribute of nodes that ops do not declare.
DEVICE = "_device"


def new_graph(name: str, outer: func_graph.FuncGraph | None = None) -> func_graph.FuncGraph:
    """Return an empty FuncGraph, nested in `outer` or in no graph."""
    with outer.as_default() if outer is not None else ops.init_scope():
        return func_graph.FuncGraph(name)


def placeholder(
    graph: func_graph.FuncGraph, dtype: str, shape: Shape | None, like: tf.Tensor | None = None
) -> tf.Tensor:
    """Add a graph input, with the handle data (a variable's shape) of `like`."""
    with graph.as_default():
        tensor = graph_placeholder(tf.as_dtype(dtype), tf.TensorShape(shape))
    if like is not None and tensor.dtype in (tf.resource, tf.variant):
        handle_data_util.copy_handle_data(like, tensor)
    return tensor


def emit(
    graph: func_graph.FuncGraph,
    op: str,
    inputs: Sequence[tf.Tensor],
    attrs: Mapping[str, Any],
    *,
    control: Iterable[tf.Operation] = (),
    name: str | None = None,
) -> tf.Operation:
    """Add an op to `graph`, by its name in graphs or in TensorFlow, and infer its shapes.

    Raises ValueError if the inputs do not fit.
    """
    op = tensorflow_name(op)
    device = attrs.get(DEVICE)
    dtypes = [tensor.dtype.name for tensor in inputs]
    attrs = tensorflow_attrs(op, attrs, dtypes)
    with graph.as_default(), tf.device(device) if device else nullcontext():
        made = graph._create_op_internal(op, list(inputs), name=name, attrs=encode(op, attrs))
    control = list(control)
    if control:
        made._add_control_inputs(control)
    return made


def emit_const(graph: func_graph.FuncGraph, value: Any, dtype: str | None = None) -> tf.Tensor:
    """Add a Const."""
    array = np.asarray(value)
    proto = tf.make_tensor_proto(array, dtype=dtype and tf.as_dtype(dtype), shape=array.shape)
    kind = tf.as_dtype(proto.dtype).name
    return emit(graph, "Const", (), {"value": proto, "dtype": kind}, name="Const").outputs[0]


def define(
    graph: func_graph.FuncGraph,
    name: str,
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[tf.Tensor],
    control_outputs: Sequence[tf.Operation] = (),
    attrs: Mapping[str, Any] | None = None,
) -> atomic_function.AtomicFunction:
    """Create a function from a finished graph and register it with the runtime.

    The function lives as long as the returned object.
    """
    graph.inputs = list(inputs)
    graph.outputs = list(outputs)
    graph.control_outputs = list(control_outputs)
    unique = f"__tf_exla_{name}_{ops.uid()}"
    return atomic_function.from_func_graph(unique, graph, dict(attrs or {}))


def reference(function: atomic_function.AtomicFunction) -> attr_value_pb2.NameAttrList:
    """Return the attribute value that names a function."""
    return attr_value_pb2.NameAttrList(name=function.name.decode())


def is_large(*tensors: Tensor) -> bool:
    """Return whether a node on these tensors is chained: one is large or of unknown size."""
    return any(
        tensor.nbytes >= CHAIN_BYTES or (not tensor.is_static and tensor.dtype not in HANDLES)
        for tensor in tensors
    )


def scope_name(name: str, kind: str) -> str:
    """Return a valid op name; TensorFlow makes it unique."""
    plain = "".join(char if char.isalnum() or char in "_.\\-/" else "_" for char in name)
    plain = plain.strip("/")
    return plain if plain and plain[0].isalnum() else kind
