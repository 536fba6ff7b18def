"""Trace a function, rewrite it, and evaluate both graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tf_exla.frontends.numpy import NUMPY, evaluate, trace
from tf_exla.frontends.numpy.kernels import array_dtype
from tf_exla.frontends.numpy.trace import flat
from tf_exla.ir.axis_rule import AxisRule
from tf_exla.ir.check import check_graph
from tf_exla.ir.clean import clean
from tf_exla.ir.graph import Array, Graph, Node, Tensor
from tf_exla.moves.contracting_ops import ContractingOps
from tf_exla.rewrite import FAMILIES, Rewritten, chosen, rewrite_graph
from tf_exla.vocabulary.op_set import VocabularyOps

OPS = ContractingOps(VocabularyOps())
TOLERANCE = {"float64": 1e-12, "float32": 2e-5}  # products are added up in another order
# What only moves numbers about, or makes them from nothing.
QUIET = frozenset({"constant", "reshape", "expand_dims", "squeeze"})
Families = Mapping[str, bool] | bool | None


@dataclass(frozen=True)
class Outcome:
    """A function before and after."""

    before: Graph
    result: Rewritten

    @property
    def ops(self) -> list[str]:
        """The ops that compute, in order."""
        return [node.op for node in self.result.graph.nodes if node.op not in QUIET]

    @property
    def names(self) -> list[str]:
        return [one.rewrite for one in self.result.applications]

    @property
    def reasons(self) -> str:
        return "\n".join(one.reason for one in self.result.refusals)

    @property
    def largest(self) -> int:
        """Elements of the largest tensor that is computed."""
        sizes = (t.size for node in self.result.graph.nodes for t in node.outputs)
        return max(sizes, default=0)


def only(*families: str) -> Mapping[str, bool]:
    """Switch on these families and no others."""
    return {name: name in families for name in FAMILIES}


def rewritten(fn: Callable[..., Any], *args: Array, families: Families = None) -> Outcome:
    """Rewrite `fn(xp, *args)`; check the graph, and that a second application changes nothing.

    The same function of unknown sizes is rewritten as well.
    """
    before = clean(trace(fn, *args), OPS)
    rules = chosen(families)
    for leading in (True, False):
        graph = of_unknown_sizes(before, leading)
        check_graph(rewrite_graph(graph, OPS, rules).graph, graph)
    result = rewrite_graph(before, OPS, rules)
    check_graph(result.graph, before)
    again = rewrite_graph(result.graph, OPS, rules)
    assert again.graph is result.graph, [one.rewrite for one in again.applications]
    return Outcome(before, result)


def check_numbers(fn: Callable[..., Any], *args: Array, families: Families = None) -> Outcome:
    """Rewrite a function and compare its numbers with the original's."""
    outcome = rewritten(fn, *args, families=families)
    with np.errstate(all="ignore"):
        expected = flat(fn(NUMPY, *args))
        found = evaluate(outcome.result.graph, *args)
    for got, want in zip(found, expected, strict=True):
        scale = max(float(np.max(np.abs(want), initial=0.0, where=np.isfinite(want))), 1e-30)
        tolerance = TOLERANCE.get(got.dtype.name, 0.0)
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale, equal_nan=True)
    return outcome


def random(*shape: int, dtype: str = "float64", seed: int = 0) -> Array:
    """Return an array of normal numbers, another for each shape and seed."""
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape).astype(array_dtype(Tensor(shape, dtype)))


def t(x: Any) -> Any:
    """Transpose the matrices of an array, or of what stands for one."""
    return np.swapaxes(x, -1, -2) if isinstance(x, np.ndarray) else x.xp.matrix_transpose(x)


def of_unknown_sizes(graph: Graph, leading: bool) -> Graph:
    """Return the graph for inputs whose first axes have unknown sizes, or all axes.

    What is not known of shapes makes shape operands inputs without a value.
    """
    known: dict[Tensor, Tensor] = {}
    extra: list[Tensor] = []
    for tensor in graph.inputs:
        rest = tensor.dims[1:] if leading else (None,) * (len(tensor.dims) - 1)
        shape = (None, *rest) if tensor.dims else ()
        known[tensor] = Tensor(shape, tensor.dtype, tensor.name)
    nodes = []
    for node in graph.nodes:
        inputs = [known[tensor] for tensor in node.inputs]
        rule = OPS.rule(node)
        shapes = [_known(node, inputs, rule, k) for k in range(len(node.outputs))]
        if isinstance(rule, AxisRule) and any(None in shape for shape in shapes):
            for k in rule.shape_operands:
                inputs[k] = Tensor(inputs[k].shape, inputs[k].dtype, inputs[k].name)
                extra.append(inputs[k])
        outputs = tuple(
            old if None not in shape else Tensor(shape, old.dtype, old.name)
            for old, shape in zip(node.outputs, shapes, strict=True)
        )
        known.update(zip(node.outputs, outputs, strict=True))
        nodes.append(node.replace(inputs=tuple(inputs), outputs=outputs))
    inputs = [known[tensor] for tensor in graph.inputs]
    return Graph((*inputs, *extra), tuple(nodes), tuple(known[t] for t in graph.outputs))


def _known(node: Node, inputs: list[Tensor], rule: Any, k: int) -> tuple[int | None, ...]:
    """Return what is known of the shape of result `k`."""
    sizes: list[int | None] = list(node.outputs[k].dims)
    if all(tensor.is_static for tensor in inputs):
        return tuple(sizes)
    if not isinstance(rule, AxisRule):
        return (None,) * len(sizes)
    for axis, bound in enumerate(rule.results[k]):
        if bound is None:  # of size one: unknown where an operand's is, of a pointwise op
            at = axis - len(sizes)
            read = [one.axes[at] for one in inputs if -at <= len(one.axes or ())]
            unknown = set(rule.text) <= set("., ->") and None in read
        else:
            places = [rule.operand_axis(at, bound.label) for at in range(len(inputs))]
            read = [one.axes[at[0]] for one, at in zip(inputs, places, strict=True) if at]
            some, every = None in read, bool(read) and not any(read)
            unknown = some if rule.shape_operands else every
        if unknown:
            sizes[axis] = None
    return tuple(sizes)
