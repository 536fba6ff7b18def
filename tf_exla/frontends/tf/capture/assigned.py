"""Integers that a graph assigns to variables: later reads are the assigned tensors.

A size may be read from a variable that the same graph has just assigned. The assigned tensor has a
bound, or even a value, where a read has none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tf_exla.frontends.tf.capture.effects import READS
from tf_exla.frontends.tf.nodes.folding import FOLD_ELEMENTS
from tf_exla.frontends.tf.nodes.names import graph_name
from tf_exla.ir.dtypes import INTEGERS
from tf_exla.ir.graph import Tensor


class Assigned:
    """The integers that variables hold at a point of one graph, by their handles.

    Ops must be noted in the order in which they run. A handle that is an operand of any other op
    than a read or an assignment is not tracked: the op may return it, and the variable may then be
    written by that result.
    """

    def __init__(self) -> None:
        self._values: dict[Tensor, Tensor] = {}
        self._passed_on: set[Tensor] = set()

    def read(self, kind: str, inputs: Sequence[Tensor]) -> Tensor | None:
        """Return the tensor that was last assigned to the variable that an op reads.

        None if that is not known, or if the op reads no variable.
        """
        return self._values.get(inputs[0]) if kind == "ReadVariableOp" else None

    def note(self, kind: str, inputs: Sequence[Tensor]) -> None:
        """Update the known values after an op that may write variables or return their handles."""
        if graph_name(kind, "") in READS:
            return
        handles = [one for one in inputs if one.dtype == "resource"]
        for handle in handles:
            self._values.pop(handle, None)
        if kind == "AssignVariableOp":
            handle, value = inputs
            few = value.is_static and value.size <= FOLD_ELEMENTS
            if few and value.dtype in INTEGERS and handle not in self._passed_on:
                self._values[handle] = value
        elif not kind.startswith("Assign"):
            self._passed_on.update(handles)
