"""A sharded plan as a function of flat tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, record

from tf_exla.frontends.tf.devices.choice import DeviceSet
from tf_exla.frontends.tf.devices.combining import Combiner
from tf_exla.frontends.tf.devices.pieces import part_of, read_part, send
from tf_exla.frontends.tf.devices.pool import Patience
from tf_exla.frontends.tf.nodes.emit import define, new_graph, placeholder
from tf_exla.frontends.tf.restore import NO_INLINE, Restored
from tf_exla.ir.graph import Graph, Tensor
from tf_exla.shard.plan import PlannedLocal, PlannedLoop, ShardedPlan

Emit = Callable[[Graph, Sequence[Any]], Restored]
"""Restores a graph; its inputs take the handle data of the given tensors."""
Values = dict[Tensor, tf.Tensor]


class ShardedFunction:
    """A function that runs a sharded plan: local parts on the driver, shards on devices.

    It is used like a `Restored`. Called from a graph, it adds one call, whose parts are placed on
    the devices. Faults of devices are then errors of the call.
    """

    def __init__(
        self, plan: ShardedPlan, devices: DeviceSet, emit: Emit, like: Sequence[Any]
    ) -> None:
        self.plan = plan
        self.pool = devices.pool
        self.driver = devices.driver
        self.inputs = plan.graph.inputs
        self.given = frozenset(self.inputs)
        handles = dict(zip(self.inputs, like, strict=False))
        self.locals: dict[PlannedLocal, Restored] = {}
        self.shards: dict[PlannedLoop, list[Restored]] = {}
        for part in plan.parts:
            if isinstance(part, PlannedLocal):
                likes = [handles.get(tensor) for tensor in part.inputs]
                self.locals[part] = emit(part.graph, likes)
            else:
                graphs = {graph: emit(graph, ()) for graph in dict.fromkeys(part.graphs)}
                self.shards[part] = [graphs[graph] for graph in part.graphs]
        self.patience = {part: Patience(part.seconds) for part in self.shards}
        self._like = like
        self._lock = threading.Lock()
        self._whole: Restored | None = None
        self._last_read = _last_reads(plan)

    @property
    def graph(self) -> Any:
        """The function that a graph calls."""
        return self.whole().graph

    def __call__(self, inputs: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Run eagerly, or add a call to the graph being built. Tapes record nothing."""
        if not context.executing_eagerly():
            return self.whole()(inputs)
        with record.stop_recording(), tf.device(self.driver):
            return self._run(dict(zip(self.inputs, inputs, strict=True)), self._eagerly)

    def whole(self) -> Restored:
        """Return the program as one function, whose parts are placed on the devices."""
        with self._lock:
            if self._whole is None:
                self._whole = self._placed()
            return self._whole

    def _run(
        self, values: Values, sharded: Callable[[PlannedLoop, Values], list[tf.Tensor]]
    ) -> list[tf.Tensor]:
        """Run the parts one after the other, in the order in which their memory is counted."""
        before: list[tf.Operation] = []
        for at, part in enumerate(self.plan.parts):
            with tf.control_dependencies(before):
                if isinstance(part, PlannedLocal):
                    made = self.locals[part]([values[tensor] for tensor in part.inputs])
                else:
                    made = sharded(part, values)
            if not context.executing_eagerly():
                before = _ends(made)
            values.update(zip(part.outputs, made, strict=True))
            for tensor in self._last_read[at]:
                values.pop(tensor, None)
        return [values[tensor] for tensor in self.plan.graph.outputs]

    def _eagerly(self, part: PlannedLoop, values: Values) -> list[tf.Tensor]:
        """Run the shards of a loop, each in the thread of its device.

        If the driver is one of the devices, results stay on the others until its own shard has
        ended: what arrived earlier would take memory beside that shard, and is not counted there.
        """
        combiner = Combiner(part)
        numbers = range(len(part.shards))
        own = {number for number in numbers if self.pool.home(number) == self.driver}
        ended: dict[int, list[tf.Tensor]] = {}

        def job(number: int) -> Callable[[str], list[tf.Tensor]]:
            return lambda device: self._shard(part, values, number, device)

        def take(number: int, made: list[tf.Tensor]) -> None:
            own.discard(number)
            ended[number] = made
            while ended and not own:
                number, made = ended.popitem()
                combiner.take(number, self._on_driver(part, made))

        self.pool.run([job(number) for number in numbers], take, self.patience[part])
        return combiner.results()

    def _on_driver(self, part: PlannedLoop, made: list[tf.Tensor]) -> list[tf.Tensor]:
        """Send the results of a shard to the driver; those that are there are not copied."""
        return [
            tensor if whole in part.kept else send(tensor, self.driver)
            for whole, tensor in zip(part.outputs, made, strict=True)
        ]

    def _shard(
        self, part: PlannedLoop, values: Values, number: int, device: str
    ) -> list[tf.Tensor]:
        """Run one shard on a device and return its results.

        Results of a worker are sent to the driver here, in the thread of the device, since a worker
        may hang while it sends.
        """
        indices, pieces = part.shards[number], self.pool.pieces
        at_home = self.pool.home(number) == device
        with record.stop_recording(), tf.device(self.driver):
            operands = []
            for tensor, slot in zip(part.inputs, part.slots, strict=True):
                value = values[tensor]
                # Rows are kept on the home device of their shard, whole operands on each device.
                if tensor in self.given and (at_home or slot is None):
                    operands.append(pieces.part(value, slot, indices, device))
                else:
                    operands.append(read_part(value, slot, indices, device))
            with tf.device(device):
                made = self.shards[part][number](operands)
            return self._on_driver(part, made) if self.plan.fleet.remote else made

    def _placed(self) -> Restored:
        """Emit the parts as calls in one graph, each on its device."""
        graph = new_graph("sharded")
        with graph.as_default(), tf.device(self.driver):
            like = [*self._like, *[None] * (len(self.inputs) - len(self._like))]
            inputs = [
                placeholder(graph, tensor.dtype, tensor.shape, source)
                for tensor, source in zip(self.inputs, like, strict=True)
            ]
            outputs = self._run(dict(zip(self.inputs, inputs, strict=True)), self._in_graph)
            outputs = [tf.identity(tensor) for tensor in outputs]
        parts = [
            *self.locals.values(),
            *(one for shards in self.shards.values() for one in shards),
        ]
        stateful = any(one.stateful for one in parts)
        effects = [op for op in graph.get_operations() if op.type == "StatefulPartitionedCall"]
        # The anchors of the parts, which follow their inputs.
        captured = list(graph.external_captures)
        arguments = [*inputs, *graph.internal_captures]
        function = define(graph, "sharded", arguments, outputs, effects, attrs=NO_INLINE)
        return Restored(function, tuple(captured), stateful, tuple(parts))

    def _in_graph(self, part: PlannedLoop, values: Values) -> list[tf.Tensor]:
        combiner = Combiner(part)
        before: dict[str, list[tf.Operation]] = {}
        ended: list[list[tf.Tensor]] = []
        for number, indices in enumerate(part.shards):
            device = self.pool.home(number)
            # Shards run one at a time on each device, and their operands are sent as late, as the
            # memory of both is counted.
            with tf.control_dependencies(before.get(device, [])):
                with tf.device(self.driver):
                    operands = [
                        part_of(values[tensor], slot, indices)
                        for tensor, slot in zip(part.inputs, part.slots, strict=True)
                    ]
                with tf.device(device):
                    made = self.shards[part][number](operands)
            before[device] = [made[0].op]
            ended.append(made)
        for number, made in enumerate(ended):
            # As in `_eagerly`: results leave their device once the driver's own shard has ended.
            with (
                tf.device(self.pool.home(number)),
                tf.control_dependencies(before.get(self.driver, [])),
            ):
                made = [tf.identity(tensor) for tensor in made]
            combiner.take(number, made)
        return combiner.results()


def _ends(made: list[tf.Tensor]) -> list[tf.Operation]:
    """Return the last ops of the part that was added to a graph last; `made`: its results."""
    if made:
        return [tensor.op for tensor in made]
    call: list[tf.Operation] = tf.compat.v1.get_default_graph().get_operations()[-1:]
    return call  # a part without results is a call for its effects


def _last_reads(plan: ShardedPlan) -> list[list[Tensor]]:
    """Return, for each part, the tensors that nothing reads after it."""
    last: dict[Tensor, int] = {}
    for at, part in enumerate(plan.parts):
        last.update(dict.fromkeys(part.inputs, at))
    for tensor in plan.graph.outputs:
        last.pop(tensor, None)
    return [[t for t, k in last.items() if k == at] for at in range(len(plan.parts))]
