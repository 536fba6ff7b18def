"""Plans of the graphs of one concrete function, and their restored functions.

If planning or restoring fails, the captured graph runs without a plan (`fallback.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.tf.devices.function import ShardedFunction
from tf_exla.frontends.tf.op_set import OPS, TensorFlowOps
from tf_exla.frontends.tf.planning.constant_parts import ConstantParts
from tf_exla.frontends.tf.planning.dataset_functions import check_datasets
from tf_exla.frontends.tf.planning.environment import limit_workspace, without_trials
from tf_exla.frontends.tf.planning.fallback import unplanned
from tf_exla.frontends.tf.planning.kept_plans import KEPT_PLANS, kept_of
from tf_exla.frontends.tf.planning.settings import Settings
from tf_exla.frontends.tf.restore import Restored, restore
from tf_exla.frontends.tf.restore.whole import Operands, compile_whole, in_place_of
from tf_exla.ir.graph import Graph, Node, Tensor
from tf_exla.model.concurrency import Place, places
from tf_exla.model.options import Options
from tf_exla.model.projection import Projector, resident_bytes
from tf_exla.model.settings import SETTINGS
from tf_exla.pipeline.optimize import optimize_graph
from tf_exla.pipeline.plan import Plan
from tf_exla.shard.choose import shard_graph
from tf_exla.shard.plan import ShardedPlan

Runnable = Restored | ShardedFunction


@dataclass(frozen=True)
class Planner:
    """Plans and restores graphs of one concrete function.

    `functions`: those that attributes of nodes name. `constants`: values of the inputs that follow
    those of the concrete function. `sharded`: inputs that no device holds whole.
    """

    settings: Settings
    concrete: Any
    functions: tuple[Any, ...]
    constants: tuple[Any, ...]
    sharded: tuple[Tensor, ...]
    constant_parts: ConstantParts = field(default_factory=ConstantParts)

    def plan(
        self,
        graph: Graph,
        head: bool = False,
        awaited: frozenset[str] = frozenset(),
        firm: bool = False,
    ) -> Plan:
        """Return the plan of a graph. Raises `MemoryLimitError`.

        `head`: whether the graph is the head of a cut program. `awaited`: names of nodes whose
        results need no bound, since the rest has them as inputs. `firm`: whether a size without a
        bound is an error, whatever the options say.
        """
        name, guard, options = self.settings.name, self.settings.guard, self.settings.options
        function = f"{name} up to the sizes of its data" if head else name
        options = dataclasses.replace(options, awaited=awaited)
        if firm:
            options = dataclasses.replace(options, unbounded="refuse")
        limit = self.settings.limit()
        if self.settings.unlimited:
            return unplanned(graph, limit, RuntimeError("its sizes do not fit"))
        check_datasets(graph, self.functions, function, limit, firm)
        try:
            plan = self._planned(graph, limit, options, function)
        except MemoryLimitError as error:
            raise self.settings.named(error) from None
        except Exception as error:
            if self.sharded:  # the original function cannot run on sharded tensors
                raise
            guard.take(name, error)
            return unplanned(graph, limit, error)
        guard.listener.planned(guard.located(name), plan)
        return plan

    def _planned(
        self, graph: Graph, limit: int, options: Options, name: str, ops: TensorFlowOps = OPS
    ) -> Plan:
        devices, outside = self.settings.devices, self.settings.outside
        limit_workspace(graph)
        if devices is None:
            if self.sharded:
                raise TypeError(f"{name}: sharded tensors need optimize(..., devices=...)")

            def planned(graph: Graph, beside: int = outside) -> Plan:
                held = resident_bytes(graph) + beside if beside else None

                def made() -> Plan:
                    return optimize_graph(
                        graph, ops, limit=limit, resident=held, options=options, function=name
                    )

                if ops is not OPS or self.functions:
                    return made()
                return KEPT_PLANS.get(graph, limit, held, options, name, made)

            folded = self._folded(graph, limit, planned)
            if folded is not None:
                with contextlib.suppress(MemoryLimitError):
                    return planned(folded)
            return planned(graph)
        limit -= outside
        fleet = dataclasses.replace(devices.fleet, apart=frozenset(self.sharded))
        return shard_graph(graph, OPS, fleet, limit=limit, options=options, function=name)

    def restore(self, plan: Plan, called: bool = True) -> Runnable:
        """Return the function of a plan; `called`: False if it is the body of a While."""
        try:
            if isinstance(plan, ShardedPlan):
                assert self.settings.devices is not None
                inputs = self.concrete.graph.inputs
                return ShardedFunction(plan, self.settings.devices, self._emit, inputs)
            whole = self._whole(plan) if called else None
            return whole or self._emitted(plan, called)
        except Exception as error:
            self.settings.guard.take(self.settings.name, error)
            # The graph before the passes has the same outputs in the same order.
            return self._emit(plan.original)

    def _emitted(self, plan: Plan, called: bool) -> Restored:
        def emit(plan: Plan) -> Restored:
            return self._restored(plan.graph, places=_places(plan))

        kept = kept_of(plan)
        made = emit(plan) if kept is None else kept.restored(called, emit)
        return self._with_computed(made, plan.graph)

    def _whole(self, plan: Plan) -> Restored | None:
        """Return a plan of the same program as XLA modules, if there is one within the limit."""
        options = plan.options
        if options is None or not options.whole or plan.failure:
            return None
        without_trials()
        apart = dataclasses.replace(options, jit_compile=False, whole=False)
        computed = self._computed(plan.graph)
        captured = [*self.concrete.captured_inputs, *self.constants, *computed]
        count = len(self.concrete.inputs) - len(self.concrete.captured_inputs)
        if len(plan.original.inputs) != count + len(captured):  # a gradient's saved values
            return None
        name = self.settings.name
        try:
            made = compile_whole(
                lambda limit, ops: self._planned(plan.original, limit, apart, name, ops),
                lambda graph, whole: self._emit(graph, compiled=whole),
                Operands(plan.original.inputs[:count], captured),
                plan.limit,
                options.allocator,
            )
            return None if made is None else in_place_of(plan, made)
        except Exception:  # planning or emitting for XLA failed, or XLA refuses the module
            return None

    def _folded(
        self, graph: Graph, limit: int, planned: Callable[[Graph, int], Plan]
    ) -> Graph | None:
        """Return a graph with inputs in place of results of constants.

        None if that saves too little time, or if the results take so much of the limit that the
        rest would have to be split. `planned`: returns the plan of a graph, with some bytes in use.
        """
        first, outside = len(self.concrete.graph.inputs), self.settings.outside
        sources = dict(zip(graph.inputs[first:], self.constants, strict=False))
        others = resident_bytes(graph) + outside

        def part(graph: Graph) -> Plan:
            return planned(graph, others - resident_bytes(graph))

        try:
            folded = self.constant_parts.folded(graph, sources, part)
        except MemoryLimitError:
            return None
        if folded is None:
            return None
        held = resident_bytes(folded) + outside
        if held - others <= (1 - SETTINGS.margin) * limit:
            return folded
        return folded if held + Projector(OPS).working_set(folded) <= limit else None

    def _computed(self, graph: Graph) -> tuple[tf.Tensor, ...]:
        """Return the values of the inputs of a graph that replace results of constants."""

        def run(plan: Plan, arguments: Sequence[tf.Tensor]) -> list[tf.Tensor]:
            with tf.init_scope(), context.eager_mode():
                return restore(plan.graph, keep=self.functions)(arguments)

        return self.constant_parts.values(graph, run)

    def _emit(
        self, graph: Graph, like: Sequence[Any] | None = None, compiled: bool = False
    ) -> Restored:
        return self._with_computed(self._restored(graph, like, compiled), graph)

    def _restored(
        self,
        graph: Graph,
        like: Sequence[Any] | None = None,
        compiled: bool = False,
        places: Mapping[Node, Place] | None = None,
    ) -> Restored:
        return restore(
            graph,
            name="optimized",
            like=self.concrete.graph.inputs if like is None else like,
            keep=self.functions,
            compiled=compiled,
            places=places,
        )

    def _with_computed(self, made: Restored, graph: Graph) -> Restored:
        """Return a function of a graph with the values of inputs that replace results."""
        computed = self._computed(graph)
        return dataclasses.replace(made, anchors=(*computed, *made.anchors)) if computed else made


def _places(plan: Plan) -> Mapping[Node, Place]:
    """Return which nodes may run at the same time; on a GPU none, as it has one stream."""
    return {} if plan.failure or OPS.device == "GPU" else places(Projector(OPS), plan.graph)
