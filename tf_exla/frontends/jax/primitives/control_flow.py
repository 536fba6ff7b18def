"""Loops and choices.

A scan becomes a while over a counter, which reads row `counter` of its xs and writes that row of
its ys. Constants of a loop become variables that it passes on unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from jax import lax

from tf_exla.frontends.jax.compat import of_scan
from tf_exla.frontends.jax.jaxprs.inlining import apply, inline
from tf_exla.frontends.jax.jaxprs.writer import Call, Like, Writer, dtype_name
from tf_exla.frontends.jax.primitives.mapping import mapped
from tf_exla.frontends.jax.primitives.pointwise import kind_of
from tf_exla.ir.graph import Graph, Node, Tensor


def _while(w: Writer, call: Call) -> Sequence[Tensor]:
    params = call.params
    conds, bodies = params["cond_nconsts"], params["body_nconsts"]
    start = conds + bodies

    def test(inner: Writer, state: Sequence[Tensor]) -> Tensor:
        return inline(inner, params["cond_jaxpr"], [*state[:conds], *state[start:]])[0]

    def cond(inner: Writer, state: Sequence[Tensor]) -> Sequence[Tensor]:
        return [_any(inner, test(inner, state))]

    def body(inner: Writer, state: Sequence[Tensor]) -> Sequence[Tensor]:
        made = inline(inner, params["body_jaxpr"], state[conds:])
        if not several:
            return made
        goes_on = test(inner, state)
        pairs = zip(made, state[start:], strict=True)
        return [_where(inner, goes_on, new, old) for new, old in pairs]

    # If the condition has a shape, this is a batch of loops: each one stops by itself.
    several = params["cond_jaxpr"].out_avals[0].shape

    graphs = {
        "cond": _sub_graph(w, call.inputs, start, cond),
        "body": _sub_graph(w, call.inputs, start, body, passes=start),
    }
    return _append(w, "while", call.inputs, graphs)[start:]


def _any(w: Writer, tests: Tensor) -> Tensor:
    if not tests.dims:
        return tests
    return w.op("any", tests, w.const(list(range(len(tests.dims)))))


def _where(w: Writer, which: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Select between two tensors by a mask of their first axes."""
    shape = (*which.dims, *[1] * (len(new.dims) - len(which.dims)))
    return w.op("where", w.reshape(which, shape), new, old)


def _scan(w: Writer, call: Call) -> Sequence[Tensor] | None:
    params = call.params
    batch = mapped(w, call)
    if batch is not None:
        return batch
    (consts, carried), length = of_scan(params), params["length"]
    xs = len(call.inputs) - consts - carried
    given, state = call.inputs[:consts], call.inputs[consts : consts + carried]
    rows = call.inputs[consts + carried :]
    avals = call.avals[carried:]
    if any(not kind_of(dtype_name(aval)) for aval in avals):
        return None  # keys of random numbers have no zeros as an initial value
    empty = [w.full(aval.shape, 0, aval.dtype.name) for aval in avals]
    if not length:
        return [*state, *empty]
    zero = w.const(0)
    variables = [*given, *rows, zero, *state, *empty]
    passed = consts + xs

    def cond(inner: Writer, inside: Sequence[Tensor]) -> Sequence[Tensor]:
        return [inner.op("less", inside[passed], inner.const(length))]

    def body(inner: Writer, inside: Sequence[Tensor]) -> Sequence[Tensor]:
        counter, *rest = inside[passed:]
        at = counter
        if params["reverse"]:
            at = inner.op("subtract", inner.const(length - 1), counter)
        taken = [_row(inner, one, at) for one in inside[consts:passed]]
        made = inline(inner, params["jaxpr"], [*inside[:consts], *rest[:carried], *taken])
        written = [
            write_row(inner, whole, row, at)
            for whole, row in zip(rest[carried:], made[carried:], strict=True)
        ]
        after = inner.op("add", counter, inner.const(1))
        return [after, *made[:carried], *written]

    graphs = {
        "cond": _sub_graph(w, variables, passed, cond),
        "body": _sub_graph(w, variables, passed, body, passes=passed),
    }
    return _append(w, "while", variables, graphs)[passed + 1 :]


def _row(w: Writer, whole: Tensor, at: Tensor) -> Tensor:
    """Return a row of a tensor; one of keys of random numbers is read by a `lax` primitive."""
    if kind_of(whole.dtype):
        return w.op("take", whole, at, w.const(0))
    one = (1, *whole.dims[1:])
    start = [at, *(w.const(0) for _ in one[1:])]
    key = Like(whole)
    part = Call(lax.dynamic_slice_p, [whole, *start], {"slice_sizes": one}, [key.of(one)])
    squeezed = Call(lax.squeeze_p, apply(w, part), {"dimensions": (0,)}, [key.of(one[1:])])
    return apply(w, squeezed)[0]


def write_row(w: Writer, whole: Tensor, row: Tensor, at: Tensor) -> Tensor:
    """Return a tensor with the row at an index along its first axis replaced."""
    start = [at, *(w.const(0) for _ in row.dims)]
    inputs = [whole, w.insert(row, [0]), *start]
    return apply(w, Call(lax.dynamic_update_slice_p, inputs, {}, [Like(whole)]))[0]


def _sub_graph(
    w: Writer, inputs: Sequence[Tensor], given: int, write: Any, passes: int = 0
) -> Graph:
    """Return a sub-graph with inputs like `inputs`; `write` writes its nodes.

    Known values of the first `given` inputs are known in the sub-graph as well. The first `passes`
    inputs are passed on as its first outputs.
    """
    inner = w.sub()
    prefix = w.name
    inside = [Tensor(one.dims, one.dtype, f"{prefix}/{one.name}") for one in inputs]
    seen = []
    for k, (one, outer) in enumerate(zip(inside, inputs, strict=True)):
        if k < given and outer.value is not None:
            seen.append(inner.const(outer.value, outer.dtype))
        else:
            seen.append(one)
            if k < given and (known := w.known(outer)) is not None:
                w.walk.known[one] = known
    results = write(inner, seen)
    return inner.graph(inside, [*inside[:passes], *results])


def _append(
    w: Writer, op: str, inputs: Sequence[Tensor], graphs: Mapping[str, Graph]
) -> Sequence[Tensor]:
    """Write a node with sub-graphs, and return its results.

    They have the shapes and dtypes of the outputs of the last sub-graph.
    """
    *_, last = graphs.values()
    avals = [Like(tensor) for tensor in last.outputs]
    stateful = any(sub.is_stateful for sub in graphs.values())
    node = w.node(op, inputs, avals, dict(graphs), stateful)
    return w.add(node)


def _cond(w: Writer, call: Call) -> Sequence[Tensor]:
    branches = call.params["branches"]
    index, *operands = call.inputs
    known = w.known(index)
    if known is not None or len(branches) == 1:
        at = 0 if known is None else min(max(int(known), 0), len(branches) - 1)
        return inline(w, branches[at], operands)
    written = [_sub_graph(w, operands, len(operands), partial(_branch, one)) for one in branches]
    if len(branches) == 2:
        graphs = {"then_branch": written[1], "else_branch": written[0]}
        return _append(w, "cond", [_is_true(w, index), *operands], graphs)
    graphs = {f"branch_{k}": sub for k, sub in enumerate(written)}
    least = w.op("maximum", index, w.const(0, index.dtype))
    return _append(w, "switch", [least, *operands], graphs)


def _branch(jaxpr: Any, w: Writer, operands: Sequence[Tensor]) -> Sequence[Tensor]:
    return inline(w, jaxpr, operands)


def _is_true(w: Writer, index: Tensor) -> Tensor:
    """Return a predicate: whether the second of two branches is chosen."""
    node: Node | None = w.ancestor(index, "astype")
    if node is not None and node.inputs[0].dtype == "bool":
        return node.inputs[0]
    return w.op("greater", index, w.const(0, index.dtype))


def _platform_index(w: Writer, call: Call) -> Sequence[Tensor]:
    """Return the index of the branch for the platform that the program is captured for."""
    names = call.params["platforms"]
    chosen = next((k for k, some in enumerate(names) if some is None or w.walk.platform in some), 0)
    return [w.const(chosen)]


CONVERTERS: Mapping[str, Any] = {
    "cond": _cond,
    "platform_index": _platform_index,
    "scan": _scan,
    "while": _while,
}
