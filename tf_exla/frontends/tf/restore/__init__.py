"""Restore a `Graph` as a TensorFlow function that keeps the plan.

TensorFlow runs every op that is ready. So control dependencies make nodes that touch a tensor of at
least `CHAIN_BYTES` wait for earlier ones (`order.py`). Stateful nodes are chained.
To keep this order, the function is not inlined and Grappler is disabled for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context, execute, record
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import func_graph, ops
from tensorflow.python.ops import cond_v2, while_v2

from tf_exla.frontends.tf.nodes.emit import define, new_graph, placeholder
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.frontends.tf.restore.special_ops import SPECIAL
from tf_exla.ir.graph import Graph, Node
from tf_exla.model.concurrency import Place
from tf_exla.pipeline.collecting import rare_collections
from tf_exla.pipeline.plan import Plan

NO_INLINE = {"_noinline": True}
MUST_COMPILE = "_XlaMustCompile"


@rare_collections()
def restore(
    graph: Graph,
    *,
    name: str = "optimized",
    like: Sequence[tf.Tensor] = (),
    keep: Sequence[Any] = (),
    compiled: bool = False,
    places: Mapping[Node, Place] | None = None,
) -> Restored:
    """Emit `graph` as a function of its flat inputs.

    `like`: tensors whose handle data the first inputs take. `keep`: objects that must live as long
    as the function. `compiled`: XLA compiles the function as a whole. `places`: the nodes that each
    node waits for. A node without a place waits for all before it.
    """
    function_graph = new_graph(name)
    inputs = [
        placeholder(function_graph, tensor.dtype, tensor.shape, source)
        for tensor, source in zip_longest(graph.inputs, like)
    ]
    emitter = Emitter(function_graph, SPECIAL, compiled, places)
    outputs = emitter.run(graph, inputs)
    anchors, values = emitter.anchored()
    attrs = {**NO_INLINE, MUST_COMPILE: True} if compiled else NO_INLINE
    function = define(
        function_graph, name, [*inputs, *anchors], outputs, emitter.effects, attrs=attrs
    )
    stateful = bool(emitter.effects) or any(t.dtype == "resource" for t in graph.inputs)
    return Restored(function, tuple(values), stateful, tuple(keep), compiled)


@dataclass(frozen=True, eq=False)
class Restored:
    """A function of flat tensors; `anchors`: eager tensors that follow its inputs.

    `stateful`: a graph that calls it must keep the call, and its order among other effects.
    `compiled`: XLA compiles it as a whole. `module`: then its plan, with the peak of its buffers.
    """

    function: atomic_function.AtomicFunction
    anchors: tuple[tf.Tensor, ...]
    stateful: bool
    keep: tuple[Any, ...] = ()
    compiled: bool = False
    module: Plan | None = None

    @property
    def graph(self) -> func_graph.FuncGraph:
        return self.function.graph

    def __call__(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Run eagerly, or add a call to the graph being built. Tapes record nothing."""
        arguments = [*inputs, *self.anchors]
        with record.stop_recording(), atomic_function.InterpolateRuntimeError(self.function):
            if context.executing_eagerly():
                return self._run(arguments)
            return self._add_call(arguments)

    def _run(self, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
        attrs = ("executor_type", "", "config_proto", _no_grappler())
        count = len(self.function.function_type.flat_outputs)
        name = self.function.name.decode()
        return list(execute.execute(name, count, arguments, attrs, context.context()) or ())

    def _add_call(self, arguments: list[tf.Tensor]) -> list[tf.Tensor]:
        graph = ops.get_default_graph()
        if isinstance(graph, func_graph.FuncGraph):
            arguments = [_captured_outside(graph, one) for one in arguments]
        else:
            arguments = [*map(_in_graph, arguments)]
        graph._add_function_recursive(self.function)
        types = [out.dtype.as_datatype_enum for out in self.function.function_type.flat_outputs]
        call = atomic_function.partitioned_call_op(
            self.function.name, arguments, self.stateful, types, config=_no_grappler()
        )
        atomic_function._set_read_only_resource_inputs_attr(call, self.graph)
        if self.compiled:
            call._set_attr(MUST_COMPILE, attr_value_pb2.AttrValue(b=True))
        for tensor, inner in zip(call.outputs, self.graph.outputs, strict=True):
            tensor.set_shape(inner.shape)
        return list(call.outputs)


def _captured_outside(graph: Any, tensor: tf.Tensor) -> tf.Tensor:
    """Return `tensor`, or a capture of it where TensorFlow's gradients of control flow need one.

    In the gradient of a While or a choice, a graph can only capture tensors of other graphs. So an
    eager tensor is first captured by the graph around it.
    """
    if not isinstance(tensor, ops.EagerTensor) or not isinstance(graph, func_graph.FuncGraph):
        return tensor
    outer = graph.outer_graph
    found = _captured_outside(outer, tensor)
    if isinstance(graph, _GRADIENTS) and isinstance(outer, func_graph.FuncGraph):
        with outer.as_default():
            return outer.capture(found)
    return found


def _in_graph(tensor: tf.Tensor) -> tf.Tensor:
    """Return an eager tensor of numbers as a constant: graphs of TensorFlow 1 capture none."""
    numbers = tensor.dtype not in (tf.resource, tf.variant)
    if numbers and isinstance(tensor, ops.EagerTensor):
        return tf.constant(tensor.numpy(), tensor.dtype)
    return tensor


_GRADIENTS = (cond_v2._CondGradFuncGraph, while_v2._WhileBodyGradFuncGraph)


def _no_grappler() -> bytes:
    """Return the settings of a call: those of the context, with Grappler off."""
    return _without_grappler(context.context().function_call_options.config_proto_serialized)


@lru_cache(maxsize=8)
def _without_grappler(settings: bytes) -> bytes:
    config = config_pb2.ConfigProto.FromString(settings)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return bytes(config.SerializeToString(deterministic=True))
