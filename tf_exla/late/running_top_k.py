"""A running top-k: only the elements of a chunk that exceed the k-th value so far are searched.

After the first chunks these are few. They are found by the maxima of groups of neighbouring
elements. If many groups exceed the k-th value, as in the first chunks, the chunk's own top k is
merged as usual. This is a late pass, since splitting needs the op `top_k` itself, whose results
over chunks it merges. It comes before the pass that expands a top-k.
"""

from __future__ import annotations

import dataclasses
import math

from tf_exla.ir.graph import Graph, Loop, Node, Tensor
from tf_exla.ir.op_set import OpSet
from tf_exla.model.top_k import running_pairs, running_seconds

RUNNING = "running_top_k"
"""The op that updates the values and positions of the top k with the elements of a chunk x.

Operands: x, the values so far, their positions. Attributes: `block`, the positions per index of the
loop, and `seconds`, the estimated time of one run.
"""


def run_top_k(graph: Graph, ops: OpSet) -> Graph:
    """Let the loops of a graph accumulate top-k results in their bodies, where that is faster."""
    if not ops.picks_rows():
        return graph
    nodes = [_running(node) if isinstance(node, Loop) else node for node in graph.nodes]
    return graph.with_nodes(nodes)


def _running(loop: Loop) -> Loop:
    pairs = running_pairs(loop)
    if not pairs:
        return loop
    results = list(loop.results)
    for position in pairs:
        for k in (position, position + 1):
            results[k] = dataclasses.replace(results[k], accumulates_in_body=True)
    made = dataclasses.replace(loop, results=tuple(results))
    rest = loop.remainder and _folding(loop, made, loop.remainder, tuple(pairs))
    return dataclasses.replace(
        made, body=_folding(loop, made, loop.body, tuple(pairs)), remainder=rest
    )


def _folding(loop: Loop, made: Loop, body: Graph, pairs: tuple[int, ...]) -> Graph:
    """Return a body of `loop` that accumulates the top-k results at the positions `pairs`.

    It has the inputs of `made`, the changed loop.
    """
    count = len(loop.inputs)
    before = dict(zip(loop.folds, body.inputs[count:], strict=True))
    outputs = list(body.outputs)
    nodes = {node.outputs: node for node in body.nodes}
    instead: dict[Node, Node] = {}
    for position in pairs:
        pair = slice(position, position + 2)
        node = nodes[body.outputs[pair]]
        whole = loop.outputs[pair]
        for k, tensor in enumerate(whole, position):
            before[k] = Tensor(tensor.shape, tensor.dtype, f"{tensor.name}/before")
        outputs[pair] = [
            Tensor(t.shape, t.dtype, one.name) for t, one in zip(whole, node.outputs, strict=True)
        ]
        instead[node] = _node(
            loop, node, position, (before[position], before[position + 1]), tuple(outputs[pair])
        )
    return Graph(
        (*body.inputs[:count], *(before[k] for k in made.folds)),
        tuple(instead.get(node, node) for node in body.nodes),
        tuple(outputs),
    )


def _node(
    loop: Loop,
    node: Node,
    position: int,
    before: tuple[Tensor, Tensor],
    outputs: tuple[Tensor, ...],
) -> Node:
    *batch, n = node.inputs[0].dims
    k = outputs[0].dims[-1]
    attrs = {
        "block": loop.results[position + 1].block,
        "seconds": running_seconds(math.prod(batch), n, k, int(loop.mean_trip_count)),
    }
    inputs = (node.inputs[0], *before)
    return Node(RUNNING, inputs, outputs, attrs, name=node.name, source=node.source)
