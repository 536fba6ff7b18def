"""Run a script within a limit and measure the peak of each of its plans; in a fresh process."""

from __future__ import annotations

import contextlib
import gc
import io
import runpy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator
from tensorflow.python.ops import gen_dataset_ops

from tf_exla.frontends.tf.measuring.measure import measured_peak
from tf_exla.frontends.tf.planning.planner import Planner
from tf_exla.frontends.tf.restore import Restored
from tf_exla.fuzz.heap import heap_peak
from tf_exla.pipeline.plan import Plan
from tf_exla.run.script import optimized_functions


class Plans:
    """The plans that run: those of functions, of their gradients, and of heads."""

    def __init__(self) -> None:
        self._made: dict[Restored, tuple[Planner, Plan]] = {}
        self._ran: list[tuple[str, Plan, Callable[[], object], object]] = []

    @contextlib.contextmanager
    def noted(self) -> Iterator[None]:
        """Record each plan that runs in this context, with the arguments of its first run."""
        restored, run, create = Planner.restore, Restored._run, OwnedIterator._create_iterator

        def restore(planner: Planner, plan: Plan) -> Restored:
            made = restored(planner, plan)
            self._made[made] = planner, plan
            return made

        def noting(one: Restored, arguments: list[Any]) -> list[Any]:
            if one in self._made:
                planner, plan = self._made.pop(one)
                alive = planner, planner.concrete.graph.variables
                again = partial(_renewing, partial(run, one, arguments), _iterators(arguments))
                self._ran.append((planner.settings.name, plan, again, alive))
            return run(one, arguments)

        def created(iterator: Any, dataset: Any) -> None:
            create(iterator, dataset)
            iterator.dataset = dataset

        with (
            mock.patch.object(OwnedIterator, "_create_iterator", created),
            mock.patch.object(Planner, "restore", restore),
            mock.patch.object(Restored, "_run", noting),
        ):
            yield

    def peaks(self) -> list[dict[str, Any]]:
        """Run each plan again and measure it."""
        return [_peak(name, plan, call) for name, plan, call, _ in self._ran]


def _iterators(arguments: list[Any]) -> list[OwnedIterator]:
    """Return the iterators whose handles are among the arguments of a call."""
    handles = {id(one) for one in arguments if one.dtype == tf.resource}
    if not handles:
        return []
    iterators = (one for one in gc.get_objects() if isinstance(one, OwnedIterator))
    return [one for one in iterators if id(one._iterator_resource) in handles]


def _renewing(call: Callable[[], object], iterators: list[OwnedIterator]) -> object:
    """Call; if iterators have reached their ends, restart them and call again."""
    try:
        return call()
    except tf.errors.OutOfRangeError:
        for one in iterators:
            gen_dataset_ops.make_iterator(one.dataset._variant_tensor, one._iterator_resource)
        return call()


def _peak(name: str, plan: Plan, call: Callable[[], object]) -> dict[str, Any]:
    read = heap = measured_peak(call, fresh=False).working_set
    if read > plan.working_set:
        # XLA's compiler leaves memory in its threads, which the resident set of later calls shows.
        # Packing buffers of products, which are never touched, show only in the heap.
        seen = heap_peak(call)
        heap = read if seen is None else seen
    return {
        "function": name,
        "failure": plan.failure,
        "before": plan.projected_peak_before,
        "limit": plan.limit,
        "projected": plan.projected_peak,
        "measured": plan.resident + min(read, heap),
    }


def run(path: str, limit: str) -> dict[str, Any]:
    """Run a script; return what it prints, the refused functions, and the peaks of its plans.

    Peaks are measured after the script has ended, so that its numbers come from its own calls.
    """
    plans = Plans()
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        optimized_functions(limit, keep=True) as session,
    ):
        with plans.noted():
            names = runpy.run_path(path, run_name="__main__")
        peaks = plans.peaks()
        del names  # models and iterators, which the plans read
    return {"printed": output.getvalue(), "refused": session.refused, "peaks": peaks}
