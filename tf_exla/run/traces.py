"""Traces that are made only to be compared, and how to free what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorflow.python.framework import ops
from tensorflow.python.framework.func_graph import dismantle_func_graph

_GRADIENT = "_gradient_op_type"
_CUSTOM = b"CustomGradient-"


def discard(graph: Any, definition: Any) -> None:
    """Free a traced graph that nothing will run; `definition`: its `GraphDef`.

    TensorFlow registers each custom gradient of a trace for good, with tensors that lead to the
    graph. A process that traces again and again, as for eager calls, would keep all of them.
    """
    registered = getattr(ops.gradient_registry, "_registry", {})
    for name in set(_custom_gradients(definition)):
        registered.pop(name, None)
    dismantle_func_graph(graph)


def _custom_gradients(definition: Any) -> Iterator[str]:
    """Yield the names under which gradients are registered for this trace alone."""
    for nodes in (definition.node, *(one.node_def for one in definition.library.function)):
        for node in nodes:
            name = node.attr[_GRADIENT].s if _GRADIENT in node.attr else b""
            if name.startswith(_CUSTOM):
                yield name.decode()
