"""Bytes that exist before a call: arguments, captured tensors, variables, constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf


def resident_bytes(fn: Callable[..., Any], args: Any, kwargs: Any) -> int:
    """Return the bytes of the arguments, captured tensors, variables and constants of a call."""
    own = getattr(fn, "resident_bytes", None)
    if own is not None:
        return int(own(*args, **kwargs))
    buffers = dict(_buffers(tf.nest.flatten((args, kwargs), expand_composites=True)))
    constants = 0
    if hasattr(fn, "get_concrete_function"):
        concrete = fn.get_concrete_function(*args, **kwargs)
        buffers.update(_buffers([*concrete.captured_inputs, *concrete.graph.variables]))
        constants = sum(map(_constant_bytes, _graphs(concrete.graph)))
    return sum(buffers.values()) + constants


def _buffers(values: Iterable[Any]) -> Iterator[tuple[object, int]]:
    """Yield (key, bytes) of each value's buffer; values that share a buffer have the same key."""
    for value in values:
        if isinstance(value, tf.Variable):
            yield ("variable", id(value.handle)), _tensor_bytes(value)
        elif isinstance(value, np.ndarray):
            yield (value.__array_interface__["data"][0], value.nbytes), value.nbytes
        elif isinstance(value, tf.Tensor) and value.dtype not in (tf.resource, tf.variant):
            size = _tensor_bytes(value)
            yield (_address(value), size), size


def _address(tensor: tf.Tensor) -> int:
    """Return the address of a tensor's buffer, or its `id` if the address is not available."""
    try:
        if "CPU" in tensor.device:
            # No copy: the buffer protocol of a tensor on the CPU shows its own memory.
            return int(np.asarray(memoryview(tensor)).__array_interface__["data"][0])
    except (TypeError, ValueError, BufferError, NotImplementedError):
        pass
    return id(tensor)


def _tensor_bytes(tensor: Any) -> int:
    # An unknown shape has no number of elements; a string or resource has no size.
    elements = tensor.shape.num_elements()
    return 0 if elements is None else int(elements) * int(tensor.dtype.size)


def _constant_bytes(graph: tf.Graph) -> int:
    # Sizes come from shapes, since the attribute "value" would be a copy of the whole constant.
    return sum(_tensor_bytes(op.outputs[0]) for op in graph.get_operations() if op.type == "Const")


def _graphs(graph: tf.Graph) -> list[tf.Graph]:
    """Return `graph` and the graphs of all functions that it calls, each once."""
    found: dict[str, tf.Graph] = {}

    def visit(outer: Any) -> None:
        for name, function in getattr(outer, "_functions", {}).items():
            inner = getattr(function, "graph", None)
            if name not in found and inner is not None:
                found[name] = inner
                visit(inner)

    visit(graph)
    return [graph, *found.values()]
