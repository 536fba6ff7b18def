"""A key that all traces of the same computation share, whatever their nodes are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf


def fingerprint(concrete: Any, definition: Any) -> Any:
    """Return the key of a concrete function: its nodes and those of functions that they call.

    `definition`: the `GraphDef` of its graph.

    Names of nodes and functions may contain a number that counts up, so positions replace them.
    """
    graph = concrete.graph
    functions = _Functions(definition.library.function)
    nodes = definition.node
    index = {node.name: k for k, node in enumerate(nodes)}
    return (
        functions.of_nodes(nodes, index),
        tuple(_place(tensor.name, index) for tensor in (*graph.inputs, *graph.outputs)),
        repr(tf.nest.map_structure(lambda _: 0, concrete.structured_outputs)),
    )


class _Functions:
    """The functions of a library, and the keys of those that were asked for."""

    def __init__(self, definitions: Iterable[Any]) -> None:
        self._definitions = {one.signature.name: one for one in definitions}
        self._keys: dict[str, Any] = {}

    def of_nodes(self, nodes: Sequence[Any], index: Mapping[str, int]) -> Any:
        return tuple(
            (node.op, tuple(_place(name, index) for name in node.input), self._attrs(node.attr))
            for node in nodes
        )

    def of_function(self, name: str) -> Any:
        if name not in self._keys:
            self._keys[name] = self._made(self._definitions[name])
        return self._keys[name]

    def _made(self, one: Any) -> Any:
        signature = one.signature
        names = [arg.name for arg in signature.input_arg] + [node.name for node in one.node_def]
        index = {name: k for k, name in enumerate(names)}
        returned = [one.ret[arg.name] for arg in signature.output_arg]
        controlled = [one.control_ret[name] for name in signature.control_output]
        return (
            tuple(arg.type for arg in (*signature.input_arg, *signature.output_arg)),
            self.of_nodes(one.node_def, index),
            tuple(_place(name, index) for name in (*returned, *controlled)),
        )

    def _attrs(self, attrs: Mapping[str, Any]) -> Any:
        return tuple(
            (key, self._value(attrs[key])) for key in sorted(attrs) if not key.startswith("_")
        )

    def _value(self, value: Any) -> Any:
        if value.HasField("func"):
            return self._called(value.func)
        if value.HasField("list") and value.list.func:
            return tuple(map(self._called, value.list.func))
        return value.SerializeToString(deterministic=True)

    def _called(self, function: Any) -> Any:
        if function.name not in self._definitions:  # one that TensorFlow itself registers
            return function.name
        return self.of_function(function.name), self._attrs(function.attr)


def _place(name: str, index: Mapping[str, int]) -> tuple[int, str]:
    """Return the position of the node of a tensor, and which of its results that is."""
    node, _, result = name.removeprefix("^").partition(":")
    return index[node], f"^{result}" if name.startswith("^") else result or "0"
