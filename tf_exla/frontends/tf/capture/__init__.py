"""Capture a concrete function as a `Graph`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tf_exla.frontends.tf.capture.control_flow import STRUCTURED
from tf_exla.frontends.tf.capture.effects import settle
from tf_exla.frontends.tf.capture.func_graphs import CaptureError
from tf_exla.frontends.tf.capture.given import NOTHING, Given
from tf_exla.frontends.tf.capture.normalization import normalize
from tf_exla.frontends.tf.capture.ragged import RAGGED
from tf_exla.frontends.tf.capture.random_state import RandomStates, counted
from tf_exla.frontends.tf.capture.row_numbers import COUNTED_ROWS
from tf_exla.frontends.tf.capture.scope import Scope, Walk
from tf_exla.ir.graph import Graph
from tf_exla.pipeline.collecting import rare_collections

__all__ = ["CaptureError", "Captured", "capture"]


@dataclass(frozen=True)
class Captured:
    """A captured program.

    `graph.inputs`: the concrete function's flat inputs (arguments, then captures), then one input
    for each of `constants`: the program's large constants as eager tensors, then handles of the
    states of random ops. `inputs`: the number of flat inputs. `functions`: functions named by
    attributes of nodes, kept alive by this object.
    """

    graph: Graph
    inputs: int
    constants: tuple[tf.Tensor, ...]
    functions: tuple[Any, ...]


@rare_collections()
def capture(
    concrete: Any,
    input_shapes: Sequence[tf.TensorShape | None] | None = None,
    given: Given = NOTHING,
    states: RandomStates | None = None,
) -> Captured:
    """Capture `concrete` for inputs of `input_shapes` (arguments, then captures).

    `given`: the sizes that are known in this call. Unknown sizes of the shapes stay unknown.
    `states`: of random ops, which are then stateless (`random_state.py`). Raises
    `CaptureError`.
    """
    source = concrete.graph
    walk = Walk({**STRUCTURED, **RAGGED, **COUNTED_ROWS}, given=given)
    shapes = input_shapes or [None] * len(source.inputs)
    variables = _variables(source)
    inputs = []
    for k, (tensor, shape) in enumerate(zip(source.inputs, shapes, strict=True)):
        holds, held = variables.get(id(tensor), ""), given.lists.get(k, 0)
        inputs.append(walk.input(tensor, shape, _plain(tensor.name), holds, held))
    scope = Scope(walk, hoist=True)
    outputs = source.outputs[: len(concrete.function_type.flat_outputs)]
    results = scope.inline(source, list(map(scope.sized, inputs, range(len(inputs)))), outputs, "")
    extra, constants = zip(*walk.constants, strict=True) if walk.constants else ((), ())
    graph = normalize(settle(Graph((*inputs, *extra), tuple(scope.nodes), tuple(results))))
    handles: list[tf.Tensor] = []
    if states is not None:
        graph, handles = counted(graph, states.handle)
    return Captured(graph, len(inputs), (*constants, *handles), tuple(walk.functions))


def _variables(source: Any) -> dict[int, str]:
    """Return the name and shape of the variable behind each captured handle."""
    # Deleted variables have no name, and `source.variables` would raise for them.
    alive = [one for ref in source._weak_variables if (one := ref()) is not None]
    outside = {id(variable.handle): variable for variable in alive}
    return {
        id(inner): f"{_plain(found.name)} {found.dtype.name}{found.shape}".replace(
            "(", "["
        ).replace(")", "]")
        for outer, inner in source.captures
        if (found := outside.get(id(outer))) is not None
    }


def _plain(name: str) -> str:
    return name.removesuffix(":0")
