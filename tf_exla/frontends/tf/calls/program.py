"""A program: a concrete function of flat tensors, captured, planned and restored.

`Program.run` calls it. If a gradient may be requested, the call is recorded for TensorFlow's tapes
and for `tf.gradients`, with the gradient of `gradient.py`.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, record
from tensorflow.python.framework import ops

from tf_exla.errors import MemoryLimitError, UnboundedMemoryError
from tf_exla.frontends.tf.capture import Captured, capture
from tf_exla.frontends.tf.capture.given import NOTHING, Given
from tf_exla.frontends.tf.capture.random_state import RandomStates, keeps_state
from tf_exla.frontends.tf.cutting.bodies import Runner
from tf_exla.frontends.tf.cutting.cuts import Cut, cut_away
from tf_exla.frontends.tf.cutting.heads import Head, first_within
from tf_exla.frontends.tf.cutting.sources import cut_finders, find_computed_cut, find_cut
from tf_exla.frontends.tf.devices.data import ShardedTensor
from tf_exla.frontends.tf.gradients.gradient import Gradient, backward_function
from tf_exla.frontends.tf.gradients.saved_values import own_saves, substitute, take_little
from tf_exla.frontends.tf.gradients.tapes import (
    has_tangents,
    keep_python_tapes,
    may_be_recorded,
    recorded_backward,
    watched,
)
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.planning.planner import Planner, Runnable
from tf_exla.frontends.tf.planning.settings import Settings
from tf_exla.ir.graph import Graph, Tensor
from tf_exla.ir.traverse import without_dead
from tf_exla.model.sizes import Sizes
from tf_exla.pipeline.plan import Plan


class Program:
    """A function of flat tensors: arguments, then captures.

    The program of level 0 is the user's. Level k+1 computes the gradient of level k, its `inner`.
    `prefix` precedes the names of `inner`'s nodes in this program.

    *Saved* values are those that a gradient cannot recompute: values of variables, results of
    stateful nodes. A call takes those of the lower levels and returns its own after its outputs.

    `apart`: positions of inputs that are sharded tensors, whose rows are on several devices.

    `states`: states of the function's random ops, shared by all programs that run eagerly.

    If sizes appear during a call (`sources.py`), an eager call first runs the program's `head`. The
    rest is a program specialised to these sizes, which is `given` the results of the head.
    """

    # Many parameters: those of a program of a higher level, or after a head.
    def __init__(
        self,
        concrete: Any,
        settings: Settings,
        shapes: Sequence[Any] | None = None,
        inner: Program | None = None,
        prefix: str = "",
        given: Given = NOTHING,
        plans_before: Callable[[], list[Plan]] = list,
        apart: tuple[int, ...] = (),
        states: RandomStates | None = None,
        lock: threading.RLock | None = None,
    ) -> None:
        self.apart = apart
        self.given = given
        self._plans_before = plans_before
        self.known: Given = given if inner is None else inner.known.within(prefix)
        self.concrete = concrete
        self.settings = settings
        self.inner = inner
        self.shapes = shapes
        fresh = inner is not None and inner.states is not None
        self.states: RandomStates | None = RandomStates() if fresh else states
        self.captured: Captured = capture(concrete, shapes, self.known, self.states)
        self.count = len(concrete.function_type.flat_outputs)
        self.graph: Graph = self.captured.graph
        self.by_name: dict[str, list[int | None]] = {}  # saved values by their stateful node
        self.by_handle: dict[int, int] = {}  # and by the position of their handle
        if inner is not None:
            substitute(self, inner, prefix)
        saves = own_saves(self)
        self.saves: list[Tensor] = saves if given.saves else []
        if given.nodes or given.outputs:
            self.graph = cut_away(self.graph, self.saves, given)
        sharded = tuple(self.graph.inputs[k] for k in apart)
        made = self.captured
        self.planner = Planner(settings, concrete, made.functions, made.constants, sharded)
        self._firm = False  # whether unbounded sizes raise even if the user asked for a warning
        self._gradients: dict[tuple[bool, ...], Gradient] = {}
        self._checked: set[tuple[bool, ...]] = set()  # gradients that a call has planned, or tried
        # Programs behind heads share it: they trace gradients of one function.
        self._lock = threading.RLock() if lock is None else lock
        whole = inner is not None or settings.unlimited
        cut = None if whole else find_cut(self.graph, self.saves, given)
        self.head: Head[Program] | None = None if cut is None else self._head_at(cut)

    @property
    def first_save(self) -> int:
        """Number of values that the lower levels have saved."""
        return 0 if self.inner is None else self.inner.first_save + len(self.inner.saves)

    def given_at(self, index: int) -> Tensor:
        """Return a gradient's input for a saved value, with the bytes that a list holds."""
        if index < self.first_save:
            assert self.inner is not None
            return self.inner.given_at(index)
        saved = self.saves[index - self.first_save]
        lists = Sizes(OPS).lists(self.graph)
        held = lists[saved].total if saved in lists else 0
        return Tensor(saved.shape, saved.dtype, f"saved_{index}", held=held)

    @cached_property
    def recording_plan(self) -> Plan:
        """The plan that returns the saved values after the outputs."""
        return self._plan((*self.graph.outputs, *self.saves))

    @cached_property
    def plan(self) -> Plan:
        """The plan of a call whose gradient is not needed."""
        if take_little(self.saves, self.graph):
            return self.recording_plan
        return self._plan(self.graph.outputs)

    @cached_property
    def _recording(self) -> Runnable:
        return self.planner.restore(self.recording_plan)

    @cached_property
    def _plain(self) -> Runnable:
        # Do not create the recording plan for this test: it may need more than the limit.
        if self.plan is self.__dict__.get("recording_plan"):
            return self._recording
        return self.planner.restore(self.plan)

    @property
    def plans(self) -> list[Plan]:
        """The plans of a call in their order, as far as they are known without a call."""
        loop = [] if self.head is None else self.head.planned_loop
        return [*self._plans_before(), *(loop or [self.plan])]

    def without_saves(self) -> Runnable:
        """Return the planned function without saved values after its outputs."""
        graph = self.plan.graph
        graph = without_dead(graph.replace(outputs=graph.outputs[: self.count]))
        return self.planner.restore(dataclasses.replace(self.plan, graph=graph), called=False)

    @property
    def latest(self) -> Program:
        """The specialisation that ran last; the program itself if none did."""
        return self._rests[-1].latest if self._rests else self

    @property
    def specialised(self) -> list[Program]:
        """The specialisations that are kept; the program itself if there are none."""
        return [one for program in self._rests for one in program.specialised] or [self]

    @property
    def _rests(self) -> list[Program]:
        return [] if self.head is None else self.head.rests

    def prepare(self) -> Runnable:
        """Plan and restore the program, unless that is done. Raises `MemoryLimitError`.

        If an eager call cuts it, only the head is planned: the rest has sizes not known yet.
        """
        return self._or_head(self.whole, records=False)

    def whole(self) -> Runnable:
        """Plan and restore the program without a cut, as it is called from a graph."""
        if "_plain" not in self.__dict__:
            with self._lock:
                return self._plain
        return self._plain

    def ready(self, inputs: Sequence[tf.Tensor]) -> Runnable:
        """Plan and restore what a call with `inputs` runs, without running it."""
        if self.apart:
            return self.whole()
        if not may_be_recorded(inputs):
            return self.prepare()
        whole = self._or_head(lambda: self._recording, records=True)
        return whole if self.head is not None else self._or_late_head(whole, watched(inputs))

    def _or_head(self, whole: Callable[[], Runnable], records: bool) -> Runnable:
        """Return the head if an eager call has one, else the result of `whole`.

        If that exceeds the limit, or a size has no bound, it is cut where its sizes are computed.
        """
        if self.settings.unlimited or not context.executing_eagerly():
            return whole()
        with self._lock:
            head = self._head(records)
            self._firm = self.inner is None
            try:
                return whole() if head is None else head.function
            except (MemoryLimitError, UnboundedMemoryError) as error:
                if self.inner is None and (late := self._late_head(records, error)) is not None:
                    self.head = late
                    return late.function
                if isinstance(error, MemoryLimitError) or head is not None:
                    raise
            finally:
                self._firm = False
            return whole()  # warns of sizes without a bound, or raises

    def _or_late_head(self, whole: Runnable, mask: tuple[bool, ...]) -> Runnable:
        """Return `whole`, or a head up to computed sizes if only the gradient exceeds the limit."""
        if self.inner is not None or self.settings.unlimited or not context.executing_eagerly():
            return whole
        with self._lock:
            new = mask not in self._checked
            self._checked.add(mask)
            if new and find_computed_cut(self.graph, self.saves, self.given) is not None:
                try:
                    self.gradient(mask).ready(())
                except MemoryLimitError as error:
                    self.head = self._late_head(True, error)
                except Exception:  # raised again if the gradient is requested
                    pass
            return whole if self.head is None else self.head.function

    def _head(self, records: bool) -> Head[Program] | None:
        """Return the head that a call runs; `records`: whether its gradient may be requested."""
        if self.head is None or (records and not self.head.is_differentiable):
            return None
        return self.head

    def _late_head(self, records: bool, error: Exception) -> Head[Program] | None:
        """Return a head up to where sizes are computed, or up to control flow with open sizes."""
        cuts = (find(self.graph, self.saves, self.given) for find in cut_finders(records))
        heads = (self._head_at(cut) for cut in cuts if cut is not None)
        return first_within(heads, error, self.settings.options.unbounded == "warn")

    def _head_at(self, cut: Cut) -> Head[Program]:
        def behind(given: Given, settings: Settings) -> Program:
            return Program(
                self.concrete, settings, self.shapes, given=given,
                plans_before=lambda: [*self._plans_before(), *head.plans],
                states=self.states, lock=self._lock,
            )  # fmt: skip

        loop = None
        if cut.loop is not None:
            loop = Runner(cut.loop, self.captured.functions, self.settings, Program)
        return (head := Head(cut, self.planner, loop, self._lock, behind))

    def run(
        self, inputs: list[tf.Tensor], saved: Sequence[tf.Tensor] = (), forward: bool = False
    ) -> list[tf.Tensor]:
        """Call the program, eagerly or from the graph that is being built.

        `saved`: the inputs after its constants: saved values of the lower levels, or of heads.
        `forward`: a forward accumulator differentiates the call, with a tape of its own.
        """
        eager = context.executing_eagerly()
        if self.states is not None:
            self.states.renew()
        devices = self.settings.devices
        if self.apart or (devices is not None and devices.keep_rows):
            return self._run_apart(inputs)
        function = self.ready(inputs)
        records = may_be_recorded(inputs)
        if eager and self._head(records) is not None:
            rest, values = self._behind(inputs, saved)
            return rest.run(inputs, values, forward)
        if not eager and any(map(keeps_state, self.graph.nodes)):
            # TensorFlow inlines a call there, so that each call has its own kernels.
            function = self.planner.restore(self.recording_plan if records else self.plan)
        arguments = self._arguments(inputs, saved)
        if not records:
            return function(arguments)[: self.count]
        forward = forward or has_tangents(inputs)
        mask = (True,) * len(inputs) if forward else watched(inputs)
        if eager:
            keep_python_tapes(self.graph)
            made = function(arguments)
        else:
            overridden = backward_function(self)
            graph = ops.get_default_graph()
            calls = {"PartitionedCall": overridden, "StatefulPartitionedCall": overridden}
            with graph._override_gradient_function(calls):
                made = function(arguments)
        below = saved if self.inner is not None else ()
        outputs, everything = made[: self.count], [*below, *made[self.count :]]
        if outputs:
            backward = recorded_backward(lambda: self.gradient(mask), inputs, everything, forward)
            record.record_operation(self.settings.name, outputs, inputs, backward)
        return outputs

    def _run_apart(self, inputs: list[Any]) -> list[tf.Tensor]:
        """Call a program with sharded tensors, only eagerly and without an outer tape."""
        name = self.settings.name
        if not context.executing_eagerly():
            raise TypeError(f"{name}: sharded tensors are none of a tf.function's")
        plain = [one for one in inputs if not isinstance(one, ShardedTensor)]
        if may_be_recorded(plain) and any(watched(plain)):
            raise TypeError(
                f"{name}: a tape records a call that takes or returns sharded tensors; "
                f"put the tape inside of {name}"
            )
        return self.whole()(self._arguments(inputs, ()))[: self.count]

    def _behind(
        self, inputs: Sequence[tf.Tensor], before: Sequence[tf.Tensor]
    ) -> tuple[Program, list[tf.Tensor]]:
        """Run the head; return the rest for the sizes that it returned, and its values.

        `before`: the values that heads before this one have returned.
        """
        assert self.head is not None
        given, values = self.head.run(self._arguments(inputs, before), self.given, before)
        return self.head.rest(given, inputs), values

    def settled(self, inputs: Sequence[tf.Tensor], before: Sequence[tf.Tensor] = ()) -> Program:
        """Return the last program that a call with `inputs` runs; run heads that have no effect."""
        self.prepare()
        if self.head is None or not self.head.only_reads:
            return self.latest
        rest, values = self._behind(inputs, before)
        return rest.settled(inputs, values)

    def gradient(self, mask: tuple[bool, ...]) -> Gradient:
        """Return the gradient with respect to the inputs that `mask` selects."""
        with self._lock:
            if mask not in self._gradients:
                self._gradients[mask] = Gradient(self, mask, Program)
            return self._gradients[mask]

    def _arguments(
        self, inputs: Sequence[tf.Tensor], saved: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        return [*inputs, *self.captured.constants, *saved]

    def _plan(self, outputs: Sequence[Tensor]) -> Plan:
        graph = self.graph.replace(outputs=tuple(outputs))
        return self.planner.plan(graph, firm=self._firm)
