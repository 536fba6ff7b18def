"""Turns the graph of a plan back into a JAX function.

XLA chooses the order of execution itself. A *token* keeps loops in the order of the plan. It is the
final counter of a loop minus the number of its iterations: a zero that XLA does not fold. The
counter of the next loop starts from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tf_exla.frontends.jax.compat import apply
from tf_exla.frontends.jax.device import on_gpu
from tf_exla.frontends.jax.held import held, hold
from tf_exla.frontends.jax.jaxprs.writer import NOTHING
from tf_exla.frontends.jax.restore.convolutions import convolve
from tf_exla.frontends.jax.restore.emit import EMIT, array_dtype
from tf_exla.frontends.jax.restore.loops import emit_loop
from tf_exla.frontends.jax.restore.positions import merge_top_k
from tf_exla.frontends.jax.restore.scope import Scope
from tf_exla.frontends.jax.restore.top_k import top_k
from tf_exla.ir.contraction import OP as CONTRACTION
from tf_exla.ir.contraction import contraction_of
from tf_exla.ir.control_flow import body_of, cond_of
from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.late.running_top_k import RUNNING

X = Any  # an array
Emit = Callable[[Node, list[X], Scope], Sequence[X]]


def restore(graph: Graph) -> Callable[..., list[X]]:
    """Return a function of flat arrays that computes the outputs of a graph.

    JAX can transform it, but loops only in forward mode. It raises NotImplementedError for an op
    that JAX lacks, TypeError for a dtype that JAX lacks (float64 without x64).
    """

    def restored(*inputs: X) -> list[X]:
        given = [_as_tensor(*pair) for pair in zip(graph.inputs, inputs, strict=True)]
        return _run(graph, given, Scope())

    return restored


def _run(graph: Graph, inputs: Sequence[X], scope: Scope) -> list[X]:
    """Emit a graph into `scope`; return its outputs."""
    known: dict[Tensor, X] = dict(zip(graph.inputs, inputs, strict=True))
    kept = held(graph, scope.repeated)
    for node in graph.nodes:
        operands = [_static(tensor, known[tensor]) for tensor in node.inputs]
        for tensor, result in zip(node.outputs, _emit(node, operands, scope), strict=True):
            made = _as_tensor(tensor, result)
            known[tensor] = hold(made) if tensor in kept else made
    made = [known[tensor] for tensor in graph.outputs]
    return [one if one.dtype == jax.dtypes.float0 else jnp.asarray(one) for one in made]


def _static(tensor: Tensor, value: X) -> X:
    """Return the value of a tensor, as a NumPy array if it is known statically."""
    if tensor.value is None or isinstance(value, np.ndarray):
        return value
    return np.asarray(tensor.value, array_dtype(tensor))


def _as_tensor(tensor: Tensor, value: X) -> X:
    """Return an array of exactly the dtype of a tensor, without a weak type."""
    if tensor.is_static and np.shape(value) != tensor.shape:
        raise ValueError(f"{tensor} is an array of shape {np.shape(value)}")
    if hasattr(value, "dtype") and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        return value  # keys of random numbers
    if tensor.dtype == NOTHING:
        return np.zeros(tensor.dims, jax.dtypes.float0)
    dtype = array_dtype(tensor)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype == dtype:
        made: X = np.asarray(value)  # consumers may need its value
    else:
        made = lax.convert_element_type(value, dtype)
    canonical = jax.dtypes.canonicalize_dtype(made.dtype)
    if canonical != dtype:
        raise TypeError(f"{tensor} would be {canonical}: it needs jax_enable_x64")
    return made


def _emit(node: Node, operands: list[X], scope: Scope) -> Sequence[X]:
    if isinstance(node, Loop):
        return emit_loop(node, operands, scope, _run)
    if node.op in _STRUCTURED:
        return _STRUCTURED[node.op](node, operands, scope)
    if "primitive" in node.attrs:
        return _bind(node, operands)
    kernel = EMIT.get(node.op)
    if kernel is None:
        raise NotImplementedError(f"JAX has no op {node.op}: {node}")
    made = kernel(node, *operands)
    return made if isinstance(made, (list, tuple)) else [made]


def _bind(node: Node, operands: list[X]) -> Sequence[X]:
    """Bind a primitive of JAX that is not an op of the vocabulary."""
    primitive: Any = node.attrs["primitive"]
    params: Any = node.attrs["params"]
    context: Any = node.attrs["context"]
    with nullcontext() if context is None else context.manager:
        if primitive is lax.conv_general_dilated_p and not on_gpu():
            return [convolve(operands, params)]
        made = apply(primitive, operands, params)
    return made if primitive.multiple_results else [made]


def _while(node: Node, variables: list[X], scope: Scope) -> Sequence[X]:
    cond, body = cond_of(node), body_of(node)
    made: list[X] = lax.while_loop(
        lambda state: _run(cond, state, Scope())[0],
        lambda state: _run(body, state, Scope()),
        [jnp.asarray(one) for one in variables],
    )
    return made


def _choice(node: Node, operands: list[X], scope: Scope) -> Sequence[X]:
    branches = [graph for _, graph in node.subgraphs]
    chosen, *rest = operands
    if node.op == "cond":
        branches = [dict(node.subgraphs)[key] for key in ("else_branch", "then_branch")]
        at = lax.convert_element_type(chosen, np.int32)
    else:
        last = len(branches) - 1
        at = jnp.where((chosen >= 0) & (chosen <= last), chosen, last).astype(np.int32)
    functions = [_branch(graph) for graph in branches]
    made: list[X] = lax.switch(at, functions, *rest)
    return made


def _branch(graph: Graph) -> Callable[..., list[X]]:
    return lambda *operands: _run(graph, operands, Scope())


def _cluster(node: Node, operands: list[X], scope: Scope) -> Sequence[X]:
    ((_, inner),) = node.subgraphs
    return _run(inner, operands, Scope(scope.around, scope.first))


def _contraction(node: Node, operands: list[X], scope: Scope) -> Sequence[X]:
    contraction = contraction_of(node)
    assert contraction is not None
    return _run(contraction.template, operands, Scope(scope.around, scope.first))


def _running_top_k(node: Node, operands: list[X], scope: Scope) -> Sequence[X]:
    x, values, places = operands
    block, k = int(str(node.attrs["block"])), values.shape[-1]
    best, at = top_k(x, min(k, x.shape[-1]))
    at = at.astype(places.dtype)
    if scope.around is not None:
        at += scope.around.at(block).astype(places.dtype)
    return merge_top_k([None] if scope.first else [values, places], (best, at), k)


_STRUCTURED: Mapping[str, Emit] = {
    "cond": _choice,
    "constant": lambda node, operands, scope: [np.asarray(node.attrs["value"])],
    "switch": _choice,
    "while": _while,
    "xla_cluster": _cluster,
    CONTRACTION: _contraction,
    RUNNING: _running_top_k,
}
