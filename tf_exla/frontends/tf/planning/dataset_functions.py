"""Functions that datasets run, such as those of `Dataset.map`: no plan contains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tensorflow.core.framework import attr_value_pb2

from tf_exla.caller import warn
from tf_exla.errors import UnboundedMemoryError, UnboundedMemoryWarning
from tf_exla.frontends.tf.capture import CaptureError, capture
from tf_exla.frontends.tf.nodes.names import DATASET_LOOPS
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.ir.graph import Graph, Node
from tf_exla.ir.open_sizes import is_of_unknown_size
from tf_exla.ir.traverse import walk
from tf_exla.model.projection import Projector

_WHY = "which is neither split nor counted"
_EAGERLY = "Call the function eagerly and outside of tapes, or loop outside of the function"
_IN_A_LOOP = "Compute it in the loop over the dataset, which is planned in an eager call"
_SMALL = 100
"""A function is small if it takes at most this part of the limit."""


def check_datasets(
    graph: Graph, functions: Sequence[Any], function: str, limit: int, firm: bool
) -> None:
    """Warn of functions that datasets run, which no plan contains; raise if `firm`.

    `functions`: those that nodes of `graph` name. Raises `UnboundedMemoryError`.
    """
    for node, what in _uncounted(graph, functions, limit):
        if firm:
            raise UnboundedMemoryError(
                function, node=node.name, op=node.op, source=node.source, bytes=None
            )
        warn(
            f"{function}: {node.name} ({node.op}) runs {what}.",
            UnboundedMemoryWarning,
        )
        return


def _uncounted(graph: Graph, functions: Sequence[Any], limit: int) -> Iterator[tuple[Node, str]]:
    """Yield the nodes that run the body of a loop or a large function, with a description of it."""
    named = {one.name.decode(): one for one in functions if one is not None}
    for node in walk(graph):
        if node.op in DATASET_LOOPS:
            yield node, f"the body of a loop over a dataset, {_WHY}. {_EAGERLY}"
        elif "Dataset" in node.op:
            names = (
                value.name
                for value in node.attrs.values()
                if isinstance(value, attr_value_pb2.NameAttrList)
            )
            if any(name in named and not _is_small(named[name], limit) for name in names):
                yield node, f"a function for each element of a dataset, {_WHY}. {_IN_A_LOOP}"


def _is_small(concrete: Any, limit: int) -> bool:
    try:
        graph = capture(concrete).graph
    except CaptureError:
        return True  # nothing is known of it
    known = not any(is_of_unknown_size(tensor) for node in graph.nodes for tensor in node.outputs)
    return known and Projector(OPS).working_set(graph) <= limit // _SMALL
