"""A user's function within a limit, with arguments that are pytrees, static or donated."""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr

from tf_exla.byte_size import format_bytes
from tf_exla.frontends.jax.calls.primitive import bind
from tf_exla.frontends.jax.calls.program import Program
from tf_exla.frontends.jax.calls.stages import Compiled, Lowered
from tf_exla.frontends.jax.calls.static_leaves import hidden, is_array, shown, static_leaves
from tf_exla.frontends.jax.compat import closed_over, named_errors, trace_state_clean, varying_along
from tf_exla.frontends.jax.jaxprs import spec
from tf_exla.frontends.jax.planning import Settings

X = Any  # an array or a tracer
Names = str | Sequence[str] | None
Numbers = int | Sequence[int] | None


@dataclass(frozen=True)
class Call:
    """A traced call: the program, its operands, and the structure of its results.

    `donated`: positions of operands whose buffers the caller donates. `hides`: whether some leaves
    of the results are not arrays.
    """

    program: Program
    operands: list[X]
    structure: Any
    donated: frozenset[int] = frozenset()
    hides: bool = False


@jax.tree_util.register_pytree_node_class
class _Ticket:
    """A call for arguments of some types, as a pytree without arrays.

    As such, it can be returned by a function under `jax.jit`. JAX's cache then finds it by the
    types of the arguments in a few microseconds.
    """

    def __init__(self, call: Call) -> None:
        self.call = call

    def tree_flatten(self) -> tuple[tuple[()], Call]:
        return (), self.call

    @classmethod
    def tree_unflatten(cls, call: Call, _: Any) -> _Ticket:
        return cls(call)


class Function:
    """A function within a limit, called like the original function."""

    def __init__(
        self,
        function: Callable[..., Any],
        settings: Settings,
        *,
        static_argnums: Numbers = None,
        static_argnames: Names = None,
        donate_argnums: Numbers = None,
        donate_argnames: Names = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.settings = settings
        self._made: tuple[Any, dict[str, Any]] = (
            function,
            {
                "static_argnums": static_argnums,
                "static_argnames": static_argnames,
                "donate_argnums": donate_argnums,
                "donate_argnames": donate_argnames,
            },
        )
        self._static = _Places(function, static_argnums, static_argnames)
        self._donated = _Places(function, donate_argnums, donate_argnames)
        static: dict[str, Any] = {
            "static_argnums": static_argnums,
            "static_argnames": static_argnames,
        }

        @functools.wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = shown((args, kwargs))
            return hidden(function(*args, **kwargs))

        self._traced: Any = jax.jit(traced, **static)

        @functools.wraps(function)
        def ticket(*args: Any, **kwargs: Any) -> _Ticket:
            return _Ticket(replace(self.call(*args, **kwargs), operands=[]))

        self._ticket: Any = jax.jit(ticket, **static)
        self._programs: dict[int, Program] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            return self._made[0](*args, **kwargs)
        args, kwargs, operands = self._hidden(args, kwargs)
        if trace_state_clean() and not any(isinstance(one, jax.core.Tracer) for one in operands):
            call = self._ticket(*args, **kwargs).call
            with named_errors():
                made = call.program.certified(call.donated).run(*operands)
        else:
            call = self.call(*args, **kwargs)
            made = bind(call.program, call.operands)
        results = jax.tree.unflatten(call.structure, made)
        return shown(results) if call.hides else results

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        return self  # as for functions, of which `copy.deepcopy` makes no copy

    def __repr__(self) -> str:
        return f"<{self.settings.name} within {format_bytes(self.settings.limit)}>"

    def within(self, limit: int) -> Function:
        """Return the same function for another limit."""
        function, places = self._made
        return Function(function, self.settings.within(limit), **places)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Return the function lowered for arguments of these types, as `jax.jit` does.

        Its method `compile()` plans and certifies it. Arguments may be `jax.ShapeDtypeStruct`s.
        """

        args, kwargs, _ = self._hidden(args, kwargs)
        lowered_for = self._static_leaves(args, kwargs)

        def arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[X]:
            args, kwargs, operands = self._hidden(args, kwargs)
            if self._static_leaves(args, kwargs) != lowered_for:
                raise TypeError("a function or a name among the arguments is not as at lowering")
            return operands

        def compiled() -> Compiled:
            call = self.call(*args, **kwargs)
            certified = call.program.certified(call.donated)
            return Compiled(certified, arrays, call.structure)

        return Lowered(compiled)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Return `jax.ShapeDtypeStruct`s of the results, as `jax.eval_shape` does."""
        args, kwargs, _ = self._hidden(args, kwargs)
        return shown(self._traced.eval_shape(*args, **kwargs))

    def clear_cache(self) -> None:
        """Drop all traces, plans and compiled programs."""
        with self._lock:
            self._traced.clear_cache()
            self._ticket.clear_cache()
            self._programs.clear()

    def call(self, *args: Any, **kwargs: Any) -> Call:
        """Trace a call without running it; arguments may be `jax.ShapeDtypeStruct`s."""
        args, kwargs, operands = self._hidden(args, kwargs)
        if any(varying_along(jax.typeof(one)) for one in operands):
            args, kwargs = self._static.mapped(_plain, args, kwargs)
        traced = self._traced.trace(*args, **kwargs)
        closed = closed_over(traced)
        operands = [*closed, *operands]
        donated = self._donated.leaves(args, kwargs, self._static) if not closed else frozenset()
        structure = jax.tree.structure(traced.out_info)
        program = self._program(traced.jaxpr)
        return Call(program, operands, structure, donated, bool(static_leaves(structure)))

    def _hidden(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, list[X]]:
        """Return the arguments with all leaves but arrays hidden, and the arrays among them."""
        operands = self._operands(args, kwargs)
        if not all(map(is_array, operands)):
            args, kwargs = self._static.mapped(hidden, args, kwargs)
            operands = self._operands(args, kwargs)
        return args, kwargs, operands

    def _static_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        return static_leaves(jax.tree.structure(self._static.without(args, kwargs)))

    def _operands(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[X]:
        """Return the arrays of a call, without static arguments."""
        return jax.tree.leaves(self._static.without(args, kwargs))

    def _program(self, jaxpr: ClosedJaxpr) -> Program:
        # JAX caches one jaxpr for all calls with arguments of the same types.
        with self._lock:
            if id(jaxpr) not in self._programs:
                self._programs[id(jaxpr)] = Program(jaxpr, self.settings)
            return self._programs[id(jaxpr)]


def _plain(one: X) -> jax.ShapeDtypeStruct:
    """Return the spec of an array, without the `shard_map` axes along which it varies."""
    return spec(jax.typeof(one))


class _Places:
    """Some arguments of a function, by number and by name, as `jax.jit` takes them."""

    def __init__(self, function: Callable[..., Any], numbers: Numbers, names: Names) -> None:
        self.numbers = _several(numbers)
        self.names = set(_several(names))
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return
        positional = [
            one.name
            for one in parameters
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        if numbers is None:
            self.numbers = [k for k, name in enumerate(positional) if name in self.names]
        elif names is None:
            self.names = {
                positional[number]
                for number in self.numbers
                if -len(positional) <= number < len(positional)
            }

    def has(self, key: int | str, count: int) -> bool:
        """Return whether an argument is one of these; `count`: the number of positional ones."""
        if isinstance(key, str):
            return key in self.names
        return any(key == number % count for number in self.numbers if -count <= number < count)

    def without(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Return all arguments but these."""
        if not self.numbers and not self.names:
            return args, kwargs
        count = len(args)
        return (
            tuple(one for k, one in enumerate(args) if not self.has(k, count)),
            {name: one for name, one in kwargs.items() if not self.has(name, count)},
        )

    def mapped(
        self, change: Callable[[Any], Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """Return the arguments, with `change` applied to the leaves of all but these."""
        count = len(args)

        def of(key: int | str, one: Any) -> Any:
            return one if self.has(key, count) else jax.tree.map(change, one)

        return (
            tuple(of(k, one) for k, one in enumerate(args)),
            {k: of(k, one) for k, one in kwargs.items()},
        )

    def leaves(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], static: _Places
    ) -> frozenset[int]:
        """Return the positions of these arguments' arrays among the arrays of all arguments.

        `static`: arguments that are static, and so are left out.
        """
        marked = self.mapped(lambda _: False, *static.mapped(lambda _: True, args, kwargs))
        leaves = jax.tree.leaves(static.without(*marked))
        return frozenset(k for k, kept in enumerate(leaves) if kept)


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return [given] if isinstance(given, (int, str)) else list(given)
