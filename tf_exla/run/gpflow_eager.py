"""Eager calls of GPflow: kernels, predictions and objectives inside a memory limit.

Methods of kernels, models and posteriors are traced at each call, since Python code may have
changed the object. A new plan is made only if the graph or a captured tensor differs.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import gpflow
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tf_exla.api import OptimizedFunction
from tf_exla.errors import MemoryLimitError, UnboundedMemoryError
from tf_exla.frontends.tf.recently_used import RecentlyUsed
from tf_exla.run.fingerprint import fingerprint
from tf_exla.run.python_state import PythonState
from tf_exla.run.session import Session
from tf_exla.run.traces import discard

METHODS = {
    gpflow.kernels.Kernel: ("K", "__call__"),
    gpflow.models.BayesianModel: (
        "elbo",
        "log_marginal_likelihood",
        "log_posterior_density",
        "maximum_log_likelihood_objective",
        "predict_f",
        "predict_log_density",
        "predict_y",
        "training_loss",
        "upper_bound",
    ),
    gpflow.posteriors.AbstractPosterior: ("_precompute", "fused_predict_f", "predict_f"),
}
# [rows, rows] matrices of 8 bytes an element that a call may hold at once. The gradient of a kernel
# of several dimensions holds about ten. Calls that fit the limit even so are not optimized, since
# tracing takes longer than running them.
_MATRICES = 16
# Plans kept for one method of one model. The least recently used is dropped first.
_PLANS = 4

# Ops that are stateful by definition but have no visible effects other than errors.
_HARMLESS = frozenset(
    {
        "Assert",
        "Case",
        "CheckNumerics",
        "CheckNumericsV2",
        "If",
        "Placeholder",
        "ReadVariableOp",
        "ResourceGather",
        "StatefulPartitionedCall",
        "While",
    }
)


class _Inside(threading.local):
    """Whether this thread runs a method whose inner calls are part of it."""

    depth = 0


_inside = _Inside()


class EagerCalls:
    """Eager calls of methods, optimized unless they are small or cannot be traced."""

    def __init__(self, session: Session) -> None:
        self._session = weakref.proxy(session)  # it keeps this object alive
        self._plans: weakref.WeakKeyDictionary[Any, dict[Any, RecentlyUsed[_Planned]]] = (
            weakref.WeakKeyDictionary()
        )
        self._as_it_was: set[Any] = set()

    def call(self, method: Any, model: Any, args: Any, kwargs: Any) -> Any:
        """Call a method of a model, optimized where that is possible and needed."""
        if (
            not tf.executing_eagerly()
            or tf.config.functions_run_eagerly()
            or _inside.depth
            or (type(model), method) in self._as_it_was
            or self._is_small(model, args, kwargs)
        ):
            return method(model, *args, **kwargs)
        traced = _Traced(method, model, args, kwargs)
        before = PythonState(model)
        _inside.depth += 1
        try:
            concrete = traced.function.get_concrete_function(*traced.tensors)
        except (MemoryLimitError, UnboundedMemoryError):
            raise
        except Exception:
            concrete = None  # the call below raises, or works only eagerly
        finally:
            _inside.depth -= 1
        definition = None if concrete is None else concrete.graph.as_graph_def()
        if definition is None or _draws(definition) or before.has_new_symbolic_tensors():
            before.restore()  # as if it had not been traced
            made = method(model, *args, **kwargs)
            self._as_it_was.add((type(model), method))  # not if the call raised
            return made
        planned = self._known(method, model, traced, concrete, definition)
        return traced.result(planned.optimized(*traced.tensors))

    def _known(
        self, method: Any, model: Any, traced: _Traced, concrete: Any, definition: Any
    ) -> _Planned:
        """Return the optimized function, reusing that of an equal graph with the same captures."""
        kept = self._plans.setdefault(model, {}).setdefault(method, RecentlyUsed(_PLANS))
        key = (
            fingerprint(concrete, definition),
            tuple(map(id, concrete.captured_inputs)),
        )  # kept alive
        function = traced.function
        planned = kept.get(key, lambda: _Planned(function, self._session.optimized(function)))
        if planned.function is not function:
            discard(concrete.graph, definition)
        return planned

    def _is_small(self, model: Any, args: Any, kwargs: Any) -> bool:
        rows = sum(map(_rows, tf.nest.flatten((args, kwargs))))
        rows += sum(map(_rows, model._flatten(predicate=_is_array)))
        limit: int = self._session.limit_bytes()
        return _MATRICES * 8 * rows * rows <= limit


class _Planned(NamedTuple):
    """A traced function, which the session does not keep alive, and its optimized function."""

    function: Any
    optimized: OptimizedFunction


class _Traced:
    """A call as a function of its tensor arguments. It keeps neither these nor the model alive."""

    def __init__(self, method: Any, model: Any, args: Any, kwargs: Any) -> None:
        leaves = tf.nest.flatten((args, kwargs))
        at = [k for k, leaf in enumerate(leaves) if _is_array(leaf) and not _is_variable(leaf)]
        self.tensors = [tf.convert_to_tensor(leaves[k]) for k in at]
        self.parts: list[Any] = []
        leaves = [None if k in at else leaf for k, leaf in enumerate(leaves)]
        structure = tf.nest.pack_sequence_as((args, kwargs), leaves)
        parts, reference = self.parts, weakref.ref(model)

        def function(*tensors: tf.Tensor) -> Any:
            given = list(leaves)
            for k, tensor in zip(at, tensors, strict=True):
                given[k] = tensor
            packed, named = tf.nest.pack_sequence_as(structure, given)
            made = method(reference(), *packed, **named)
            if method.__name__ != "_precompute":
                return made
            parts[:] = [part.axis_dynamic for part in made]
            return tuple(part.value for part in made)

        function.__name__ = f"{type(model).__name__}.{method.__name__}"
        self.function = tf.function(function, autograph=False)

    def result(self, made: Any) -> Any:
        if not self.parts:
            return made
        values = zip(made, self.parts, strict=True)
        return tuple(gpflow.posteriors.PrecomputedValue(value, axes) for value, axes in values)


def _is_variable(value: Any) -> bool:
    return isinstance(value, tf.Variable | gpflow.Parameter)


def _is_array(value: Any) -> bool:
    return isinstance(value, tf.Tensor | np.ndarray) or _is_variable(value)


def _rows(value: Any) -> int:
    if not _is_array(value) or not value.shape:
        return 0
    sizes = tuple(value.shape)
    if None in sizes:  # a variable of data that may grow
        sizes = tuple(getattr(value, "unconstrained_variable", value).read_value().shape)
    return int(np.prod(sizes[:-1] if len(sizes) > 1 else sizes))


def _draws(definition: Any) -> bool:
    """Return whether a graph has effects. Its random numbers would differ from eager ones."""
    nodes = [definition.node, *(function.node_def for function in definition.library.function)]
    known = (op_def_registry.get(node.op) for each in nodes for node in each)
    return any(op is not None and op.is_stateful and op.name not in _HARMLESS for op in known)


_calls: weakref.WeakKeyDictionary[Session, EagerCalls] = weakref.WeakKeyDictionary()


@contextmanager
def redirected(latest: Callable[[], Session | None]) -> Iterator[None]:
    """Optimize eager calls of methods of GPflow's models and of classes derived from them.

    `latest` returns the session that takes a call.
    """
    changed: list[tuple[type, str, Any]] = []

    def wrap(cls: type, names: tuple[str, ...]) -> None:
        for name in names:
            method = cls.__dict__.get(name)
            if not callable(method) or getattr(method, "__isabstractmethod__", False):
                continue
            if (cls, name) in {each[:2] for each in changed}:
                continue  # a class with two of the bases
            changed.append((cls, name, method))
            setattr(cls, name, _through(latest, method))

    def wrap_below(cls: type, names: tuple[str, ...]) -> None:
        wrap(cls, names)
        derived: type
        for derived in cls.__subclasses__():
            wrap_below(derived, names)

    hooks = []
    for base, names in METHODS.items():
        wrap_below(base, names)
        hooks.append((base, base.__dict__.get("__init_subclass__")))
        base.__init_subclass__ = classmethod(_hook(base, wrap, names))  # type: ignore[assignment]
    try:
        yield
    finally:
        for cls, name, method in changed:
            setattr(cls, name, method)
        for base, before in hooks:
            if before is None:
                del base.__init_subclass__
            else:
                base.__init_subclass__ = before  # type: ignore[method-assign]


def _hook(base: type, wrap: Callable[..., None], names: tuple[str, ...]) -> Callable[..., None]:
    def init_subclass(cls: type, **kwargs: Any) -> None:
        super(base, cls).__init_subclass__(**kwargs)  # type: ignore[arg-type]
        wrap(cls, names)

    return init_subclass


def _through(latest: Callable[[], Session | None], method: Any) -> Any:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = latest()
        if session is None:
            return method(self, *args, **kwargs)
        if session not in _calls:
            _calls[session] = EagerCalls(session)
        return _calls[session].call(method, self, args, kwargs)

    return call
