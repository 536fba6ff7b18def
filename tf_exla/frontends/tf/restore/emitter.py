"""Emit the nodes of a `Graph` into a FuncGraph, chained in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import func_graph
from tensorflow.python.ops import control_flow_util_v2

from tf_exla.frontends.tf.nodes.emit import (
    define,
    emit,
    emit_const,
    is_large,
    new_graph,
    placeholder,
    reference,
    scope_name,
)
from tf_exla.frontends.tf.nodes.names import tensorflow_name
from tf_exla.frontends.tf.nodes.static_sizes import with_shape
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.ops.compiled import has_form
from tf_exla.frontends.tf.ops.table import record
from tf_exla.frontends.tf.restore.order import Order
from tf_exla.ir.control_flow import body_of, cond_of
from tf_exla.ir.graph import Array, Graph, Node, Tensor
from tf_exla.model.concurrency import Place
from tf_exla.model.views import Views

# TensorFlow must not fold results of constants above this size, since it would keep them.
FOLD_BYTES = 1024
# The operand to hide from constant folding, if it is not the first.
_DATA_OPERAND = {"full": 1, "one_hot": 2}


class Emitter:
    """An emitter of graphs into one FuncGraph.

    `effects`: the ops that must run, in order.
    `special`: functions that emit ops TensorFlow lacks, by name. If a function returns None, the op
    is emitted as TensorFlow's. `compiled`: XLA compiles this graph itself. `places`: the nodes that
    a node must wait for, if not for all before it.
    An *anchor* is an input that replaces a small constant, which TensorFlow must not fold.
    """

    def __init__(
        self,
        graph: func_graph.FuncGraph,
        special: Mapping[str, Special],
        compiled: bool = False,
        places: Mapping[Node, Place] | None = None,
    ) -> None:
        self.graph = graph
        self.special = special
        self.compiled = compiled
        self.effects: list[tf.Operation] = []
        self.around: Any = None  # the chunk of the enclosing loop
        self.begins = False  # whether this is the first chunk of split rows
        self.order = Order(graph, places or {})
        self._values: dict[Tensor, tf.Tensor] = {}
        self._constant: dict[Tensor, Array | None] = {}
        self.views = Views(OPS)
        self._anchors: dict[tuple[Any, ...], tuple[tf.Tensor, tf.Tensor]] = {}

    def run(self, graph: Graph, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Emit all nodes of `graph` on `inputs` and return its outputs."""
        self._values.update(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            self.node(node)
        return self.values(graph.outputs)

    def owned(self, tensor: Tensor) -> tf.Tensor:
        """Return an emitted tensor, or a copy if it may be a part of a larger buffer."""
        value = self._values[tensor]
        if tensor not in self.views or self.compiled:
            return value
        return self.op("DeepCopy", [value], {}, large=True, name="owned").outputs[0]

    def node(self, node: Node) -> None:
        """Emit one node."""
        self.order.begin(node)
        special = self.special.get(node.op)
        made = None if special is None else special(self, node)
        if made is not None:
            pass
        elif node.op == "constant":
            made = [self._const(node)]
        elif node.op == "while":
            made = self._while(node)
        elif node.op in ("cond", "switch"):
            made = self._choice(node)
        elif self.compiled and has_form(node, record(node.op)):
            made = [self._form(node)]
        else:
            made = self.op(
                node.op,
                self._hidden(node),
                node.attrs,
                large=is_large(*node.inputs, *node.outputs),
                stateful=node.stateful,
                name=node.name,
            ).outputs
        for tensor, value in zip(node.outputs, made, strict=True):
            self._values[tensor] = with_shape(value, tensor.shape, self.op)
        self.views.add(node)
        self.order.end(node)

    def _form(self, node: Node) -> tf.Tensor:
        """Emit the ops that replace a node in a cluster."""
        form = record(node.op).form
        assert form is not None

        def one(kind: str, *operands: Any, **attrs: Any) -> tf.Tensor:
            if kind == "Const":
                value, like = operands
                with self.graph.as_default():
                    return tf.constant(value, like.dtype)
            made = self.op(kind, operands, attrs, name=f"{node.name or node.op}/{kind}")
            return made.outputs[0]

        return form(one, node, self.values(node.inputs))

    def values(self, tensors: Sequence[Tensor]) -> list[tf.Tensor]:
        """Return the emitted tensors."""
        return [self._values[tensor] for tensor in tensors]

    def set(self, tensor: Tensor, value: tf.Tensor) -> None:
        """Use `value` for `tensor` in the nodes that follow."""
        self._values[tensor] = value

    def known(self, tensor: Tensor) -> tf.Tensor | None:
        """Return the emitted tensor, or None."""
        return self._values.get(tensor)

    def op(
        self,
        kind: str,
        inputs: Sequence[tf.Tensor],
        attrs: Mapping[str, Any],
        *,
        large: bool = False,
        stateful: bool = False,
        name: str = "",
    ) -> tf.Operation:
        """Emit one op; if large, after the last large op; if stateful, after the last stateful."""
        control = []
        large = large and not self.compiled
        if large and (last := self.order.last) is not None and not _waits(kind, inputs, last):
            control.append(last)
        if stateful and self.effects:
            control.append(self.effects[-1])
        made = emit(self.graph, kind, inputs, attrs, control=control, name=scope_name(name, kind))
        if large:
            self.order.last = made
        if stateful:
            self.effects.append(made)
        return made

    def _const(self, node: Node) -> tf.Tensor:
        array = np.asarray(node.attrs["value"])
        self._constant[node.output] = array
        return emit_const(self.graph, array, node.output.dtype)

    def _hidden(self, node: Node) -> list[tf.Tensor]:
        """Return a node's operands, one of them an anchor if TensorFlow could fold the node."""
        inputs = self.values(node.inputs)
        if (stored := record(node.op).stores) is not None:
            inputs[stored] = self.owned(node.inputs[stored])
        if (
            node.stateful
            or self.compiled
            or not all(tensor in self._constant for tensor in node.inputs)
        ):
            return inputs
        if all(tensor.is_static and tensor.nbytes <= FOLD_BYTES for tensor in node.outputs):
            self._constant.update(dict.fromkeys(node.outputs))
            return inputs
        position = _DATA_OPERAND.get(node.op, 0)
        if position < len(inputs):
            array = self._constant[node.inputs[position]]
            if array is not None:
                inputs[position] = self.anchor(array, node.inputs[position].dtype)
        return inputs

    def anchor(self, array: Array, dtype: str) -> tf.Tensor:
        """Return an input of the function that holds a small constant; for XLA, the constant."""
        if self.compiled:
            return emit_const(self.graph, array, dtype)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._anchors:
            with tf.init_scope(), tf.device("CPU:0"):
                value = tf.constant(array, dtype=tf.as_dtype(dtype))
            self._anchors[key] = (placeholder(self.graph, dtype, array.shape), value)
        return self._anchors[key][0]

    def anchored(self) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Return the inputs of the anchors and the eager tensors to feed them."""
        pairs = list(self._anchors.values())
        return [inner for inner, _ in pairs], [value for _, value in pairs]

    def adopt(self, inner: Emitter) -> list[tf.Tensor]:
        """Return this graph's tensors for the anchors of an inner function."""
        for key, (made, value) in inner._anchors.items():
            if key not in self._anchors:
                self._anchors[key] = placeholder(self.graph, made.dtype.name, made.shape), value
        return [self._anchors[key][0] for key in inner._anchors]

    def child(self, name: str, compiled: bool = False) -> Emitter:
        """Return an emitter for a function that this graph will call."""
        graph, compiled = new_graph(name, self.graph), compiled or self.compiled
        made = Emitter(graph, self.special, compiled, self.order.places)
        made.begins = self.begins
        return made

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget tensors emitted in this context, so that a graph can be emitted twice."""
        outer = self._values, self._constant
        self._values, self._constant = dict(self._values), dict(self._constant)
        try:
            yield
        finally:
            self._values, self._constant = outer

    def function(
        self,
        name: str,
        inner: Emitter,
        inputs: Sequence[tf.Tensor],
        outputs: Sequence[tf.Tensor],
        **attrs: Any,
    ) -> attr_value_pb2.NameAttrList:
        """Define the function of a child and return the attribute that names it."""
        made = define(inner.graph, name, inputs, outputs, inner.effects, attrs)
        self.graph._add_function_recursive(made)
        return reference(made)

    # Many parameters: those by keyword are attributes of the node.
    def while_loop(
        self,
        inputs: Sequence[tf.Tensor],
        cond: tuple[Emitter, list[tf.Tensor], list[tf.Tensor]],
        body: tuple[Emitter, list[tf.Tensor], list[tf.Tensor]],
        shapes: Sequence[Any],
        *,
        parallel: int,
        stateful: bool,
        large: bool,
    ) -> list[tf.Tensor]:
        """Emit a While from two finished children (emitter, inputs, outputs)."""
        inputs, shapes = list(inputs), list(shapes)
        for child, other in ((body, cond), (cond, body)):
            for own, anchor in zip(self.adopt(child[0]), child[0].anchored()[0], strict=True):
                inputs.append(own)
                shapes.append(anchor.shape)
                child[1].append(anchor)
                passed = placeholder(other[0].graph, anchor.dtype.name, anchor.shape)
                other[1].append(passed)
                body[2].append(anchor if child is body else passed)
        attrs = {
            "cond": self.function("cond", *cond),
            "body": self.function("body", *body),
            "output_shapes": shapes,
            "parallel_iterations": parallel,
        }
        kind = ("" if stateful else "Stateless") + "While"
        made = self.op(kind, inputs, attrs, large=large, stateful=stateful, name="While")
        # Lowered, a loop would keep the handles of its first iteration.
        pairs = zip(body[1], body[2], strict=True)
        swaps = any(one.dtype == tf.resource and one is not after for one, after in pairs)
        return list(made.outputs) if swaps else self._lowered(made)

    def _while(self, node: Node) -> list[tf.Tensor]:
        cond, body = cond_of(node), body_of(node)
        inputs = self.values(node.inputs)
        made = self.while_loop(
            inputs,
            self._sub_graph("cond", cond, inputs),
            self._sub_graph("body", body, inputs),
            [tensor.shape for tensor in node.outputs],
            parallel=1,
            stateful=node.stateful,
            large=True,
        )
        return made[: len(node.outputs)]

    def _choice(self, node: Node) -> list[tf.Tensor]:
        inputs = self.values(node.inputs)
        branches = [self._sub_graph(key, sub, inputs[1:]) for key, sub in node.subgraphs]
        for branch in branches:
            for own, anchor in zip(self.adopt(branch[0]), branch[0].anchored()[0], strict=True):
                inputs.append(own)
                for other in branches:
                    passed = anchor
                    if other is not branch:
                        passed = placeholder(other[0].graph, anchor.dtype.name, anchor.shape)
                    other[1].append(passed)
        functions = [self.function(node.op, *branch) for branch in branches]
        attrs: dict[str, Any] = {
            "Tout": [tensor.dtype for tensor in node.outputs],
            "output_shapes": [tensor.shape for tensor in node.outputs],
        }
        if node.op == "cond":
            attrs["then_branch"], attrs["else_branch"] = functions
        else:
            attrs["branches"] = functions
        # TensorFlow lowers a choice to switches, which wait for the predicate only.
        inputs[0] = self.op("Identity", inputs[:1], {}, large=True, name="chosen").outputs[0]
        kind = ("" if node.stateful else "Stateless") + tensorflow_name(node.op)
        made = self.op(kind, inputs, attrs, large=True, stateful=node.stateful, name=node.name)
        if not self.compiled:
            self.order.wait_for(made.outputs)
        return self._lowered(made)

    def _lowered(self, op: tf.Operation) -> list[tf.Tensor]:
        if not self.compiled:
            control_flow_util_v2.maybe_set_lowering_attr(op)
        return list(op.outputs)

    def _sub_graph(
        self, name: str, graph: Graph, like: Sequence[tf.Tensor]
    ) -> tuple[Emitter, list[tf.Tensor], list[tf.Tensor]]:
        inner = self.child(name)
        inputs = [
            placeholder(inner.graph, tensor.dtype, tensor.shape, outer)
            for tensor, outer in zip(graph.inputs, like, strict=True)
        ]
        inner.run(graph, inputs)
        return inner, inputs, [inner.owned(tensor) for tensor in graph.outputs]


Special = Callable[[Emitter, Node], list[tf.Tensor] | None]


def _waits(kind: str, inputs: Sequence[tf.Tensor], last: tf.Operation) -> bool:
    """Return whether a sum with a bias waits for an op because its convolution does.

    oneDNN merges the two if they wait for the same ops, and if there are any, ends the process.
    """
    return kind == "BiasAdd" and last in inputs[0].op.control_inputs
