"""Arguments of a concrete function: from Python structures to flat tensors, and their shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import function_type_utils

Shapes = tuple[tuple[int | None, ...] | None, ...]


def with_defaults(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call of a `tf.function` with its defaults filled in."""
    bound = function_type_utils.canonicalize_function_inputs(
        args, kwargs, function._function_type, function._default_values
    )
    return bound.args, bound.kwargs


def flatten(concrete: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tf.Tensor]:
    """Return the tensors among arguments that `concrete` was traced for."""
    bound = concrete.function_type.bind(*args, **kwargs)
    flat: list[tf.Tensor] = concrete.function_type.unpack_inputs(bound)
    return flat


def flatten_any(concrete: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tf.Tensor]:
    """Return the tensors among arguments that may differ from those `concrete` was traced for.

    Raises TypeError if they do not fit.
    """
    bound = function_type_utils.canonicalize_function_inputs(args, kwargs, concrete.function_type)
    flat: list[tf.Tensor] = concrete.function_type.unpack_inputs(bound)
    return flat


def unknown_inputs(concrete: Any) -> tuple[int, ...]:
    """Return the positions of the inputs whose shape the signature leaves open."""
    return tuple(
        k
        for k, tensor in enumerate(concrete.graph.inputs)
        if tensor.dtype not in (tf.resource, tf.variant) and not tensor.shape.is_fully_defined()
    )


def shapes_of(tensors: Sequence[tf.Tensor], positions: Sequence[int]) -> Shapes:
    """Return the shapes of the tensors at `positions`: the key of a specialisation."""
    return tuple(
        None if tensors[k].shape.rank is None else tuple(tensors[k].shape.as_list())
        for k in positions
    )


def all_shapes(concrete: Any, positions: Sequence[int], shapes: Shapes) -> list[Any]:
    """Return the shapes of all inputs of a specialisation, None where the graph has the shape."""
    known: list[Any] = [None] * len(concrete.graph.inputs)
    for position, shape in zip(positions, shapes, strict=True):
        known[position] = tf.TensorShape(shape)
    return known
