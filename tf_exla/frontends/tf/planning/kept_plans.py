"""Plans of earlier traces: the same program, traced again, is neither planned nor restored again.

Each call of GPflow's `Scipy().minimize` traces a new function, and so do models that a loop builds
for each fold. Their graphs are equal but for names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from tf_exla.caller import warn
from tf_exla.errors import UnboundedMemoryWarning
from tf_exla.frontends.tf.capture.random_state import keeps_state
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.recently_used import RecentlyUsed
from tf_exla.frontends.tf.restore import Restored
from tf_exla.ir.digest import digest
from tf_exla.ir.graph import Graph
from tf_exla.ir.notes import note, noted
from tf_exla.model.options import Options
from tf_exla.pipeline.plan import Plan

_MOST = 16


@dataclass(frozen=True, eq=False)
class Kept:
    """A plan and its restored functions.

    `functions`: by whether the function is called, or else is the body of a loop.
    """

    plan: Plan
    functions: dict[bool, Restored] = field(default_factory=dict)

    def plan_of(self, graph: Graph) -> Plan:
        """Return the plan on the inputs of an equal graph."""
        graph_of_plan = on_inputs(self.plan.graph, graph)
        note(graph_of_plan, "kept", OPS, self)
        return dataclasses.replace(self.plan, graph=graph_of_plan, seconds=0.0)

    def restored(self, called: bool, emit: Callable[[Plan], Restored]) -> Restored:
        """Return the function, emitted if there is none.

        If kernels keep the state of seeded random ops, each trace needs a function of its own.
        """
        if any(map(keeps_state, self.plan.graph.nodes)):
            return emit(self.plan)
        if called not in self.functions:
            self.functions[called] = emit(self.plan)
        return self.functions[called]


class KeptPlans:
    """The plans that are kept, at most `_MOST`. Several threads may make plans at the same time."""

    def __init__(self) -> None:
        self._kept: RecentlyUsed[Kept] = RecentlyUsed(_MOST)

    def get(
        self, graph: Graph, limit: int, held: int | None, options: Options, function: str,
        make: Callable[[], Plan],
    ) -> Plan:  # fmt: skip
        """Return the plan of a graph, made if no equal graph has one.

        The other arguments must be equal, too: the limit, the bytes `held` before a call, options,
        and the name of the `function` in messages. So must the device and its rates.
        """
        # `awaited` are names of nodes, in which equal graphs may differ.
        described = None if options.awaited else digest(graph)
        if described is None:
            return make()
        key = described, limit, held, repr(options), function, OPS.device, OPS.rates()
        known = self._kept.find(key)
        if known is not None:
            for message in known.plan.uncounted:
                warn(message, UnboundedMemoryWarning)
            return known.plan_of(graph)
        kept = self._kept.replace(key, Kept(make()))
        note(kept.plan.graph, "kept", OPS, kept)
        return kept.plan

    def clear(self) -> None:
        """Forget all plans."""
        self._kept.clear()


def on_inputs(graph: Graph, like: Graph) -> Graph:
    """Return the graph with the inputs of `like`, one for one, in place of its own."""
    instead = dict(zip(graph.inputs, like.inputs, strict=True))
    return Graph(
        like.inputs,
        tuple(node.substitute(instead) for node in graph.nodes),
        tuple(instead.get(tensor, tensor) for tensor in graph.outputs),
    )


def kept_of(plan: Plan) -> Kept | None:
    """Return what is kept of a plan; None if nothing is."""
    found: Kept | None = noted(plan.graph, "kept", OPS)
    return found


KEPT_PLANS = KeptPlans()
"""The plans of this process."""
