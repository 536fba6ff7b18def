"""Capture a function, rewrite it, and run both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from core.rewritten import QUIET, TOLERANCE, only
from core.rewritten import Outcome as Before

from tf_exla.frontends.tf.capture import capture
from tf_exla.frontends.tf.op_set import TensorFlowOps
from tf_exla.frontends.tf.restore import restore
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Graph
from tf_exla.moves.blocking import write_out
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.rewrite import chosen, rewrite_graph

__all__ = ["OPS", "QUIET", "Outcome", "check_numbers", "only", "random", "rewritten", "run"]

OPS = ContractingOps(TensorFlowOps(threads=2))


@dataclass(frozen=True)
class Outcome(Before):
    """A function before and after, as TensorFlow has it."""

    concrete: Any
    functions: Any


def rewritten(
    fn: Callable[..., Any], *args: Any, families: Mapping[str, bool] | bool | None = None
) -> Outcome:
    """Rewrite a function; check the graph, and that a second application changes nothing.

    The same function of unknown sizes is rewritten as well.
    """
    concrete = tf.function(fn, autograph=False).get_concrete_function(*args)
    captured = capture(concrete)
    before = clean(captured.graph, OPS)
    rules = chosen(families)
    check_unknown_sizes(fn, args, rules)
    result = rewrite_graph(before, OPS, rules)
    check_graph(result.graph, before)
    again = rewrite_graph(result.graph, OPS, rules)
    assert again.graph is result.graph, [one.rewrite for one in again.applications]
    return Outcome(before, result, concrete, captured)


def check_unknown_sizes(fn: Callable[..., Any], args: Sequence[Any], rules: Any) -> None:
    """Rewrite a function whose arguments have unknown leading sizes, then unknown sizes only."""
    for known in (slice(1, None), slice(0, 0)):
        try:
            concrete = tf.function(fn, autograph=False).get_concrete_function(
                *(unknown(arg, known) for arg in args)
            )
        except (TypeError, ValueError, AttributeError, AssertionError):
            continue  # it needs static sizes
        graph = clean(capture(concrete).graph, OPS)
        check_graph(rewrite_graph(graph, OPS, rules).graph, graph)


def unknown(arg: Any, known: slice) -> Any:
    """Return the spec of a tensor of which only the `known` axes have a size."""
    if not tf.is_tensor(arg) or isinstance(arg, tf.Variable):
        return arg
    sizes = arg.shape.as_list()
    kept = range(len(sizes))[known]
    return tf.TensorSpec([n if axis in kept else None for axis, n in enumerate(sizes)], arg.dtype)


def runnable(outcome: Outcome, graph: Graph) -> Callable[..., list[np.ndarray]]:
    """Return a captured graph as a function of its arguments."""
    made = restore(
        write_out(graph, OPS),
        name="rewritten",
        like=outcome.concrete.graph.inputs,
        keep=outcome.functions.functions,
    )
    captured = [*outcome.concrete.captured_inputs, *outcome.functions.constants]
    return lambda *args: [tensor.numpy() for tensor in made([*args, *captured])]


def run(outcome: Outcome, graph: Graph, args: tuple[Any, ...]) -> list[np.ndarray]:
    """Run a captured graph."""
    return runnable(outcome, graph)(*args)


def check_numbers(
    fn: Callable[..., Any], *args: Any, families: Mapping[str, bool] | bool | None = None
) -> Outcome:
    """Rewrite a function and compare its numbers with the original's."""
    outcome = rewritten(fn, *args, families=families)
    values = run(outcome, outcome.result.graph, args)
    for got, want in zip(values, tf.nest.flatten(fn(*args)), strict=True):
        want = want.numpy()
        scale = max(float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want))), 1e-30)
        tolerance = TOLERANCE.get(want.dtype.name, 0.0)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale, equal_nan=True)
    return outcome


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> tf.Tensor:
    """Return a tensor of normal numbers, another for each shape and seed."""
    rng = np.random.default_rng([seed, *shape])
    return tf.constant(rng.standard_normal(shape), dtype)
