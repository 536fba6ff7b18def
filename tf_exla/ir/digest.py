"""A digest of a graph: graphs with the same digest are the same program."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from enum import Enum

import numpy as np

from tf_exla.ir.graph import Graph, Node, Tensor

LARGEST_CONSTANTS = 1 << 20
"""A graph with more bytes of constants has no digest: a plan that is kept under its digest would
keep the constants in memory as well."""


class _NoDigest(Exception):
    """The graph has a value that cannot be described by its contents, or too much data."""


def digest(graph: Graph) -> bytes | None:
    """Return the digest; None if the graph holds a value of an unknown kind, or much data.

    Source lines are part of it, since messages and reports show them. Names of tensors and nodes
    are not: TensorFlow numbers some of them differently in each trace.
    """
    description = _Description()
    try:
        described = description.graph(graph)
    except _NoDigest:
        return None
    return hashlib.sha256(repr(described).encode("utf-8", "surrogatepass")).digest()


class _Description:
    """Nested tuples that describe graphs: tensors by their positions, values by their contents."""

    def __init__(self) -> None:
        self._constants = 0  # bytes

    def graph(self, graph: Graph) -> object:
        at: dict[Tensor, int] = {}

        def made(tensor: Tensor) -> object:
            at[tensor] = len(at)
            return self._tensor(tensor)

        def read(tensor: Tensor) -> int:
            if tensor not in at:
                raise _NoDigest(tensor)
            return at[tensor]

        inputs = tuple(map(made, graph.inputs))
        nodes = tuple(
            (tuple(map(read, node.inputs)), self._node(node), tuple(map(made, node.outputs)))
            for node in graph.nodes
        )
        return inputs, nodes, tuple(map(read, graph.outputs))

    def _node(self, node: Node) -> object:
        attrs = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
        del attrs["inputs"], attrs["outputs"], attrs["name"]
        return type(node).__name__, self._value(attrs)

    def _tensor(self, tensor: Tensor) -> object:
        if tensor.origin is not None:
            raise _NoDigest(tensor)
        value = None if tensor.value is None else self._value(tensor.value)
        sizes = tensor.shape, tensor.dtype, tensor.held, tensor.items
        return sizes, value

    def _value(self, value: object) -> object:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return type(value).__name__, value
        if isinstance(value, Enum):
            return type(value).__name__, value.name
        if isinstance(value, tuple | list):
            return type(value).__name__, tuple(map(self._value, value))
        if isinstance(value, Mapping):
            return "mapping", tuple((str(key), self._value(value[key])) for key in sorted(value))
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value))
        if isinstance(value, Graph):
            return "graph", self.graph(value)
        if isinstance(value, frozenset):
            return "set", tuple(sorted(map(repr, map(self._value, value))))
        if hasattr(value, "SerializeToString"):  # a protocol buffer
            return type(value).__name__, value.SerializeToString(deterministic=True)
        raise _NoDigest(value)

    def _array(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> object:
        self._constants += array.nbytes
        if self._constants > LARGEST_CONSTANTS:
            raise _NoDigest(array.shape)
        if array.dtype.hasobject:  # strings
            return array.shape, tuple(map(self._value, array.ravel().tolist()))
        return array.dtype.str, array.dtype.name, array.shape, array.tobytes()
