"""`OptimizedFunction`: a `tf.function` whose concrete functions run as plans."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary, WeakSet

import tensorflow as tf
from tensorflow.python.eager import context, record
from tensorflow.python.eager.polymorphic_function import eager_function_run, polymorphic_function
from tensorflow.python.framework import ops
from tensorflow.python.ops import control_flow_util, resource_variable_ops

from tf_exla.arguments import check_function
from tf_exla.errors import MemoryLimitError, UnboundedMemoryError
from tf_exla.frontends.tf.calls import signature
from tf_exla.frontends.tf.calls.first_call import UnliftableError, run_first_call
from tf_exla.frontends.tf.calls.notes import notes_of
from tf_exla.frontends.tf.calls.program import Program
from tf_exla.frontends.tf.calls.request import Limit, Request
from tf_exla.frontends.tf.calls.saving import Saveable, SaveableConcrete
from tf_exla.frontends.tf.capture.func_graphs import ShapesError
from tf_exla.frontends.tf.capture.random_state import RandomStates
from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.devices.data import ShardedTensor, with_stand_ins
from tf_exla.frontends.tf.op_set import OPS
from tf_exla.frontends.tf.planning.fallback import Guard
from tf_exla.frontends.tf.planning.settings import Settings
from tf_exla.frontends.tf.restore.whole import module_of
from tf_exla.frontends.tf.tracing import is_tracing, tracing
from tf_exla.report.make import make_report
from tf_exla.report.report import MemoryReport

# The number of specialisations that a function keeps; the least recently used is dropped first.
CACHE_SIZE = 64


def _compiled_whole() -> bool:
    """Return whether XLA, which plans memory itself, compiles the graph that is being built."""
    graph = ops.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


class OptimizedFunction(Saveable):
    """A function with the signature, results and effects of `fn`, and a peak below a limit.

    It is traced and specialised like a `tf.function`. If the signature leaves sizes open, it is
    specialised to those of the call. Inside another optimized function, that function plans it.
    Inside a function that XLA compiles as a whole, XLA plans it.
    """

    def __init__(
        self, fn: Callable[..., Any], request: Request, guard: Guard | None = None
    ) -> None:
        if isinstance(fn, OptimizedFunction):
            fn = cast(Callable[..., Any], fn._function)
        check_function(fn)
        self._owned = not isinstance(fn, polymorphic_function.Function)
        self._function: Any = tf.function(fn) if self._owned else fn
        self._request = request
        self._guard = guard or Guard(request.strict)
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._open: WeakKeyDictionary[Any, tuple[int, ...]] = WeakKeyDictionary()
        self._states: WeakKeyDictionary[Any, RandomStates] = WeakKeyDictionary()
        self._bound: WeakKeyDictionary[Any, OptimizedFunction] = WeakKeyDictionary()
        self._as_it_was: WeakSet[Any] = WeakSet()  # concrete functions that run without a plan
        self._lock = threading.RLock()
        plain = self.python_function
        for name in ("__doc__", "__module__", "__name__", "__qualname__"):
            if hasattr(plain, name):
                setattr(self, name, getattr(plain, name))
        self.__name__ = getattr(plain, "__name__", type(plain).__name__)
        with contextlib.suppress(TypeError, ValueError):  # a builtin without a signature
            self.__signature__ = inspect.signature(plain)

    @property
    def python_function(self) -> Callable[..., Any]:
        """The Python function."""
        plain: Callable[..., Any] = self._function.python_function
        return plain

    @property
    def label(self) -> str:
        """The name, and where the function is defined if that is known."""
        return self._guard.located(self.__name__)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function. Raises `MemoryLimitError` if no plan is within the limit."""
        if eager_function_run.RUN_FUNCTIONS_EAGERLY:
            return self.python_function(*args, **kwargs)
        if is_tracing() or _compiled_whole():
            return self._function(*args, **kwargs)
        try:
            concrete, flat = self._flattened(args, kwargs)
        except UnliftableError:
            return run_first_call(self._function, args, kwargs)
        return self._call(concrete, flat)

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Trace and plan the function for these arguments (tensors or specs); run nothing."""
        self._planned(args, kwargs).prepare()

    def report(self, *args: Any, **kwargs: Any) -> MemoryReport:
        """Return the report for these arguments (tensors or specs).

        If sizes appear only during a call with these tensors, the nodes that compute them are run,
        provided that they have no effect. Nothing else is run.
        """
        return self._report(self._settled(args, kwargs))

    def reports(self) -> list[MemoryReport]:
        """Return a report for each kept specialisation that was not refused."""
        with self._lock:
            programs = list(self._programs.values())
        found = []
        for one in (each for program in programs for each in program.specialised):
            if one.head is not None or not {"plan", "recording_plan"}.isdisjoint(vars(one)):
                with contextlib.suppress(MemoryLimitError, UnboundedMemoryError):
                    found.append(self._report(one))
        return found

    def resident_bytes(self, *args: Any, **kwargs: Any) -> int:
        """Return the bytes that exist before a call: arguments, captures, variables, constants."""
        return self._settled(args, kwargs).plans[0].resident

    def needs_at_most(
        self, fraction: float, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bool:
        """Return whether the program before optimization needs at most a fraction of the limit.

        False if it cannot be planned.
        """
        try:
            program = self._planned(args, kwargs)
            program.prepare()
            peak = max(plan.projected_peak_before for plan in program.plans)
        except Exception:  # raised, or warned of, by the call
            return False
        return peak <= fraction * self._request.bytes()

    def with_limit(self, limit: Limit) -> OptimizedFunction:
        """Return the same function with another limit."""
        return OptimizedFunction(self._function, self._request.with_limit(limit))

    def with_devices(self, devices: Any) -> OptimizedFunction:
        """Return the same function on other devices."""
        return OptimizedFunction(self._function, self._request.with_devices(devices))

    def with_trace(self) -> OptimizedFunction:
        """Return the same function with reports that list the candidates of each step."""
        return OptimizedFunction(self._function, self._request.with_trace())

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> OptimizedConcreteFunction:
        """Return the function for one signature, as `tf.function` does."""
        concrete = self._trace(args, kwargs)
        made = OptimizedConcreteFunction(self, concrete)
        if not signature.unknown_inputs(concrete):
            self._program(concrete, concrete.graph.inputs).prepare()
        return made

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        bound = self._function.__get__(instance, owner)
        if not isinstance(bound, polymorphic_function.Function):
            return types.MethodType(self, instance)
        try:
            known = self._bound.get(instance)
        except TypeError:  # an instance that has no hash or takes no weak reference
            return types.MethodType(self, instance)
        if known is None:
            # The function holds its instance weakly, as the table does.
            known = self._bound[instance] = OptimizedFunction(bound, self._request, self._guard)
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy starts untraced, as that of a `tf.function` would: graphs cannot be copied.
        plain = self.python_function if self._owned else self._function._clone(None)
        return type(self), (plain, self._request)

    def __repr__(self) -> str:
        return f"<OptimizedFunction {self.__name__}{getattr(self, '__signature__', '(...)')}>"

    def _trace(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        with tracing():
            return self._function.get_concrete_function(*args, **kwargs)

    def _flattened(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, list[tf.Tensor | ShardedTensor]]:
        """Return the concrete function for arguments, and the tensors among them."""
        args, kwargs, apart = with_stand_ins(args, kwargs)
        args, kwargs = signature.with_defaults(self._function, args, kwargs)
        concrete = self._trace(args, kwargs)
        flat = signature.flatten(concrete, args, kwargs)
        return concrete, [apart.get(id(tensor), tensor) for tensor in flat]

    def _call(self, concrete: Any, flat: list[tf.Tensor]) -> Any:
        graph = concrete.graph
        if record.could_possibly_record() or hasattr(ops.get_default_graph(), "watch_variable"):
            for variable in graph.variables:
                resource_variable_ops.variable_accessed(variable)
        inputs = [*flat, *concrete.captured_inputs]
        misfit: ShapesError | None = None
        try:
            program = self._ready(concrete, inputs)
        except ShapesError as error:
            program, misfit = None, error
        if program is None:
            results = concrete._call_flat(flat, concrete.captured_inputs)
            if misfit is not None:  # the original accepts the shapes that capture did not
                self._guard.take(self.__name__, misfit)
            return results
        return concrete.function_type.pack_output(program.run(inputs))

    def _ready(self, concrete: Any, inputs: Sequence[tf.Tensor]) -> Program | None:
        """Return the program of a call, planned and restored, or None if that failed.

        After a failure, later calls of `concrete` run without a plan, too. But if only the shapes
        of this call do not fit, `ShapesError` is raised, and other shapes are still planned.
        """
        if concrete in self._as_it_was:
            return None
        try:
            program = self._program(concrete, inputs)
            program.ready(inputs)
        except ShapesError:
            raise
        except Exception as error:
            if any(isinstance(one, ShardedTensor) for one in inputs):
                raise  # the original function cannot run on sharded tensors
            self._guard.take(self.__name__, error)
            self._as_it_was.add(concrete)
            return None
        return program

    def _planned(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Program:
        return self._program(*self._inputs(args, kwargs))

    def _settled(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Program:
        """Return the last program that a call with these arguments runs (`Program.settled`)."""
        concrete, inputs = self._inputs(args, kwargs)
        program = self._program(concrete, inputs)
        if not context.executing_eagerly() or inputs is concrete.graph.inputs:
            return program.latest
        return program.settled(inputs)

    def _inputs(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Sequence[tf.Tensor]]:
        """Return the concrete function for tensors or specs, and its flat inputs.

        If there are specs among the arguments, the inputs are the symbolic ones of its graph.
        """
        args, kwargs = signature.with_defaults(self._function, args, kwargs)
        leaves = tf.nest.flatten((args, dict(kwargs)))
        if any(isinstance(leaf, tf.TypeSpec) for leaf in leaves):
            concrete = self._trace(args, kwargs)
            return concrete, concrete.graph.inputs
        concrete, flat = self._flattened(args, kwargs)
        return concrete, [*flat, *concrete.captured_inputs]

    def _program(self, concrete: Any, flat: Sequence[tf.Tensor]) -> Program:
        with self._lock:
            positions = self._open.get(concrete)
            if positions is None:
                positions = self._open[concrete] = signature.unknown_inputs(concrete)
            shapes = signature.shapes_of(flat, positions) if positions else ()
            apart = tuple(k for k, one in enumerate(flat) if isinstance(one, ShardedTensor))
            # States are shared between eager calls only. In a graph, each call has its own kernels,
            # and they keep the states of random ops.
            states = None
            if context.executing_eagerly():
                states = self._states.setdefault(concrete, RandomStates())
            key = (id(concrete), shapes, apart, states is None)
            program = self._programs.get(key)
            if program is None:
                known = signature.all_shapes(concrete, positions, shapes)
                program = self._programs[key] = Program(
                    concrete, self._settings(), known, apart=apart, states=states
                )
                self._shrink()
            self._programs.move_to_end(key)
            return program

    def _settings(self) -> Settings:
        jit_compile = True if self._function._jit_compile else None
        options = self._request.options(jit_compile)
        request = self._request
        return Settings(self.__name__, request.bytes, options, self._guard, request.devices)

    def _shrink(self) -> None:
        while len(self._programs) > CACHE_SIZE:
            _, dropped = self._programs.popitem(last=False)
            concrete = dropped.concrete
            if self._owned and all(p.concrete is not concrete for p in self._programs.values()):
                _forget(self._function, concrete)

    def _report(self, program: Program) -> MemoryReport:
        module = None if program.head else module_of(program.settings.options, program.whole)
        plans = [module] if module is not None else program.plans
        largest = max(plans, key=lambda plan: plan.projected_peak_before)
        peak = max(plan.projected_peak for plan in plans)
        notes = tuple(notes_of(program, largest, self._function._jit_compile))
        report = make_report(largest, OPS, function=self.__name__, device=device(), notes=notes)
        return dataclasses.replace(report, projected_peak=peak)


class OptimizedConcreteFunction(SaveableConcrete):
    """An optimized function for one signature; other attributes are those of the original."""

    def __init__(self, function: OptimizedFunction, concrete: Any) -> None:
        self._function = function
        self._concrete = concrete

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat = signature.flatten_any(self._concrete, args, kwargs)
        return self._function._call(self._concrete, flat)

    @property
    def graph(self) -> Any:
        """The optimized graph, or the original if the signature leaves sizes open."""
        if signature.unknown_inputs(self._concrete):
            return self._concrete.graph
        program = self._function._program(self._concrete, self._concrete.graph.inputs)
        return program.whole().graph

    def __getattr__(self, name: str) -> Any:
        return getattr(self._concrete, name)

    def __repr__(self) -> str:
        return f"<Optimized{self._concrete!r}>"


def _forget(function: Any, concrete: Any) -> None:
    """Drop a concrete function from the cache of a `tf.function`, which is unbounded."""
    cache = function._function_cache
    for (place, function_type), made in list(cache._primary.items()):
        if made is concrete:
            cache.delete(function_type, place)
