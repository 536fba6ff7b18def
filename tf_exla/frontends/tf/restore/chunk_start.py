"""The start of a chunk, as a position in tensors with the split axis and as a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tf_exla.frontends.tf.nodes.emit import DEVICE, emit_const
from tf_exla.frontends.tf.restore.emitter import Emitter
from tf_exla.ir.graph import SplitAxis


@dataclass(frozen=True)
class Start:
    """The first index of a chunk: `counter` * `step`, or `fixed` if there is no counter.

    `index`: the dtype of positions.
    """

    emitter: Emitter
    index: str
    counter: tf.Tensor | None = None
    step: int = 0
    fixed: int = 0

    def at(self, rank: int, slot: SplitAxis) -> tf.Tensor:
        """Return the position of the chunk in a tensor of `rank` axes, as a vector [rank]."""
        steps = np.zeros(rank, self.index)
        if self.counter is None:
            steps[slot.axis] = self.fixed * slot.block
            return emit_const(self.emitter.graph, steps)
        steps[slot.axis] = self.step * slot.block
        unit = emit_const(self.emitter.graph, steps)
        return self.emitter.op("Mul", [self.counter, unit], on_host(self.index)).outputs[0]

    def scalar(self, dtype: str, block: int, step: int | None = None) -> tf.Tensor:
        """Return the first index times `block`, as a scalar.

        If `step` is given, the counter is multiplied by `step` instead.
        """
        graph = self.emitter.graph
        if self.counter is None:
            return emit_const(graph, self.fixed * block, dtype)
        counter = self.counter
        if self.index != dtype:
            counter = self.emitter.op("Cast", [counter], {"dtype": dtype}).outputs[0]
        step = emit_const(graph, self.step * block if step is None else step, dtype)
        return self.emitter.op("Mul", [counter, step], {}).outputs[0]

    def rows(self, offsets: npt.NDArray[np.int32], block: int, unit: int) -> tf.Tensor:
        """Return the row numbers of the chunk; `offsets`: those of the first chunk.

        `block`: elements of an index. `unit`: elements of the split axis in a row.
        """
        graph = self.emitter.graph
        if self.counter is None:
            return emit_const(graph, offsets + np.int32(self.fixed * block // unit), "int32")
        first = self.scalar("int32", 1, self.step * block // unit)
        numbers = emit_const(graph, offsets, "int32")
        return self.emitter.op("AddV2", [numbers, first], {}).outputs[0]


def on_host(index: str) -> dict[str, Any]:
    """Return attributes that keep an op on shapes of dtype `index` on the host."""
    return {DEVICE: "/device:CPU:0"} if index == "int64" else {}
