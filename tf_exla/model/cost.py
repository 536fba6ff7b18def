"""Cost model: estimated run time of nodes, loops and graphs, by which plans are compared.

The time of a node is that of its launch, its flops and the bytes that it moves. A While takes the
time of its body for each iteration if a counter bounds their number, else for one iteration. Only
ratios of times matter. The rates of the device come from the op set (`ir/rates.py`).
"""

from __future__ import annotations

import math

from tf_exla.ir.aliases import roots
from tf_exla.ir.control_flow import is_while
from tf_exla.ir.graph import Graph, Loop, Node, SplitAxis, Tensor, item_bytes
from tf_exla.ir.notes import note, noted
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.rates import Rates
from tf_exla.ir.traverse import walk
from tf_exla.model.fusion import in_registers
from tf_exla.model.machine import CACHE
from tf_exla.model.settings import SETTINGS
from tf_exla.model.top_k import merge_seconds, saved_seconds, top_k_seconds

LIKELY = "likely"
"""The attribute of a choice with the name of the branch whose time counts, as others are rare."""


def node_seconds(
    ops: OpSet, node: Node, byte: float | None = None, parallel: int = 1, promises: bool = True
) -> float:
    """Estimate the seconds of one run of a node, if `parallel` runs of it are concurrent.

    `byte`: seconds per byte of the memory that holds the tensors; None: of main memory.
    `promises`: subtract the time that a late pass will save, such as a running top-k; else
    estimate the node as it is.
    """
    byte = ops.rates().byte if byte is None else byte
    # Memoized: most nodes stay the same from one step of a search to the next.
    known: dict[tuple[float, int, bool], float] | None = noted(node, "seconds", ops)
    if known is None:
        note(node, "seconds", ops, known := {})
    key = byte, parallel, promises
    seconds = known.get(key)
    if seconds is None:
        seconds = known[key] = _node_seconds(ops, node, byte, parallel, promises)
    return seconds


_READS_PARTS = frozenset({"slice", "strided_slice", "take"})
"""Ops that read only as many elements of their first operand as they return."""


def _node_seconds(ops: OpSet, node: Node, byte: float, parallel: int, promises: bool) -> float:
    rates = ops.rates()
    if isinstance(node, Loop):
        return _loop_seconds(ops, node, promises)
    if node.op == "xla_cluster":
        return sum(compiled_seconds(ops, sub, byte, parallel) for _, sub in node.subgraphs)
    if is_while(node):
        return _while_seconds(ops, node, ops.iterations(node, {}), promises)
    if node.subgraphs:
        return _once_seconds(ops, node, promises)
    if node.op == "constant":
        return 0.0
    if node.op == "top_k" and node.inputs[0].is_static and node.outputs[0].is_static:
        return rates.launch + top_k_seconds(node, rates, promises)
    if node.op == "running_top_k":
        seconds = node.attrs["seconds"]
        assert isinstance(seconds, float)
        return rates.launch + seconds
    moved = 0 if ops.aliases(node) else _moved_bytes(ops, node, frozenset())
    seconds = work_seconds(ops, node, parallel) + moved * _byte_seconds(ops, node, byte, parallel)
    seconds += ops.lookups(node) * rates.lookup
    if ops.work(node) != "serial":
        seconds = _divided(seconds, rates, parallel)
    return rates.launch / beside(parallel) + seconds


def _moved_bytes(ops: OpSet, node: Node, hidden: frozenset[Tensor]) -> int:
    """Return the bytes that a node reads and writes; `hidden`: tensors that stay in registers."""
    if ops.writes(node):  # in place, as into the arrays of loops
        part = node.inputs[1]
        return part.nbytes if part in hidden else 2 * part.nbytes
    made = sum(t.nbytes for t in node.outputs)
    moved = sum(t.nbytes for t in (*node.inputs, *node.outputs) if t not in hidden)
    if node.op in _READS_PARTS and node.inputs[0] not in hidden:
        moved += min(0, made - node.inputs[0].nbytes)
    return moved


def _divided(seconds: float, rates: Rates, parallel: int) -> float:
    """Return the time of work that takes `seconds` on two cores, or on one if that is faster.

    Starting a second core takes `rates.fork` seconds.
    """
    return min(2 * seconds / beside(parallel), seconds + rates.fork)


def _loop_seconds(ops: OpSet, node: Loop, promises: bool) -> float:
    rates = ops.rates()
    full = rates.iteration / beside(node.parallel)
    fits = node.parallel * _largest_bytes(node.body) <= CACHE
    byte = rates.cached_byte if fits else rates.byte
    full += graph_seconds(ops, node.body, byte, node.parallel, promises)
    for chunk, slot in zip(node.body.inputs, node.slots, strict=False):
        if slot is not None:
            full += rates.launch + chunk.nbytes * (rates.byte + rates.cached_byte)
            full += rates.run * _runs(chunk, slot)
    for part, result in zip(node.body.outputs, node.results, strict=True):
        if result.slot is not None:
            full += rates.written_byte * part.nbytes + rates.run * _runs(part, result.slot)
    merged = [
        values.dims
        for values, result in zip(node.outputs, node.results, strict=True)
        if result.combine == "top_k" and not result.accumulates_in_body
    ]
    full += sum(merge_seconds(dims, rates) for dims in merged[::2])
    if promises and ops.picks_rows():
        full -= saved_seconds(node)
    full *= (1 + rates.sync / node.parallel) / (1 + rates.sync)
    if node.remainder is None:
        return node.mean_trip_count * full
    return node.mean_trip_count * full + graph_seconds(
        ops, node.remainder, rates.cached_byte, promises=promises
    )


def _runs(chunk: Tensor, slot: SplitAxis) -> int:
    """Return the number of contiguous runs of a chunk in the tensor that it is a part of."""
    return math.prod(chunk.dims[: slot.axis])


def _largest_bytes(body: Graph) -> int:
    """Return the bytes of the largest tensor of a body.

    Tensors are read soon after they are written, so it decides whether they are read from cache.
    """
    known: int | None = noted(body, "largest", None)
    if known is None:
        known = max((t.nbytes for node in walk(body) for t in node.outputs), default=0)
        note(body, "largest", None, known)
    return known


def beside(parallel: int) -> int:
    """Return the cores that single-core work uses in `parallel` concurrent iterations.

    At most two are counted, so that plans do not depend on the machine.
    """
    return min(parallel, 2)


def graph_seconds(
    ops: OpSet, graph: Graph, byte: float | None = None, parallel: int = 1, promises: bool = True
) -> float:
    """Estimate the time of one run of a graph; `byte`, `parallel`, `promises`: as for a node."""
    byte = ops.rates().byte if byte is None else byte
    # Memoized: loops of equal structure share their bodies.
    known: dict[tuple[float, int, bool], float] | None = noted(graph, "seconds", ops)
    if known is None:
        note(graph, "seconds", ops, known := {})
    key = byte, parallel, promises
    if key not in known:
        known[key] = _graph_seconds(ops, graph, byte, parallel, promises)
    return known[key]


def _graph_seconds(ops: OpSet, graph: Graph, byte: float, parallel: int, promises: bool) -> float:
    hidden, seconds = ops.fused(graph), 0.0
    counts: dict[Tensor, int] = {}  # the iterations of a loop, which bound those of its gradient
    times = 1
    for node in graph.nodes:
        if is_while(node):
            # Most loops whose length is unknown are gradients of a loop before them, or of one
            # outside of this graph. So such a loop is assumed to run as often as the loop before.
            times = ops.iterations(node, counts) or times
            counts |= {tensor: most for tensor, (_, most) in ops.counted(node, times).items()}
            seconds += _while_seconds(ops, node, times, promises)
        elif not hidden or node.subgraphs or node.op == "top_k":
            seconds += node_seconds(ops, node, byte, parallel, promises)
        else:
            seconds += _fused_seconds(ops, node, hidden, byte, parallel)
    return seconds


def _while_seconds(ops: OpSet, node: Node, times: int | None, promises: bool) -> float:
    rates = ops.rates()
    variables = 2 * rates.launch + len(node.inputs) * rates.variable
    return (times or 1) * (_once_seconds(ops, node, promises) + variables)


def _once_seconds(ops: OpSet, node: Node, promises: bool) -> float:
    """Estimate the time of one run of the sub-graphs of control flow that are likely to run."""
    return sum(
        graph_seconds(ops, sub, promises=promises)
        for name, sub in node.subgraphs
        if node.attrs.get(LIKELY, name) == name
    )


def compiled_seconds(
    ops: OpSet, graph: Graph, byte: float | None = None, parallel: int = 1
) -> float:
    """Estimate the time of one run of a graph that XLA compiles; `byte` None: in cache.

    Results that one pointwise node passes to another stay in registers.
    """
    byte = ops.rates().cached_byte if byte is None else byte
    root = roots(ops, graph)
    kept = in_registers(ops, graph)
    hidden = kept | {alias for alias, source in root.items() if source in kept}
    nodes = (_fused_seconds(ops, node, hidden, byte, parallel) for node in graph.nodes)
    return ops.rates().cluster + sum(nodes)


def _fused_seconds(
    ops: OpSet, node: Node, hidden: frozenset[Tensor], byte: float, parallel: int
) -> float:
    """Estimate the time of a node in compiled code; `hidden`: tensors that stay in registers."""
    if node.op == "constant" or ops.aliases(node):
        return 0.0
    moved = _moved_bytes(ops, node, hidden)
    rates, kind = ops.rates(), ops.work(node)
    if kind == "pointwise" and rates.fork:  # of a CPU
        small = sum(tensor.nbytes for tensor in node.outputs) < SETTINGS.compiled_alone
        flops = ops.compiled_flops(node) / (beside(parallel) if small else 2)
        work = flops * _pointwise_rate(ops, node)
    else:
        work = work_seconds(ops, node)
    work *= 1 if kind == "product" else rates.compiled_pointwise
    return work + moved * _byte_seconds(ops, node, byte, parallel)


def _byte_seconds(ops: OpSet, node: Node, byte: float, parallel: int) -> float:
    if ops.work(node) != "product":
        return byte
    return max(byte, ops.rates().product_byte / beside(parallel))


def compile_seconds(graph: Graph, rates: Rates) -> float:
    """Estimate the time to compile a graph once."""
    return rates.compiling + rates.compiling_node * len(graph.nodes)


def work_seconds(ops: OpSet, node: Node, parallel: int = 1) -> float:
    """Estimate the time of a node's flops where `parallel` of the node run concurrently."""
    if node.op == "constant":
        return 0.0
    kind, rates = ops.work(node), ops.rates()
    if kind == "pointwise":
        return ops.flops(node) * _pointwise_rate(ops, node)
    short = _is_short(node)
    if kind == "serial":
        seconds = ops.flops(node) * (rates.product_4 if short else rates.product_8)
        return seconds * rates.serial / beside(parallel)
    flops, more = ops.flops(node), 0.0
    if ops.windows(node) is not None:
        more = _patch_bytes(ops, node) * rates.patch_byte + rates.convolution
    if short and ops.rounds_factors(node.outputs[0].dtype):
        return flops * rates.product_tf32 + more
    return flops * (rates.product_4 if short else rates.product_8) + more


def _pointwise_rate(ops: OpSet, node: Node) -> float:
    return ops.rates().pointwise_4 if _is_short(node) else ops.rates().pointwise_8


def _is_short(node: Node) -> bool:
    return all(item_bytes(tensor.dtype) <= 4 for tensor in node.outputs)


def _patch_bytes(ops: OpSet, node: Node) -> int:
    """Return the bytes of the patches of an image that a convolution multiplies by filters.

    The patches are copied once, whatever the number of filters: one filter takes as long as some
    thirty. For the gradient of an image, the patches are the result of the product.
    """
    windows = ops.windows(node)
    if windows is None or windows.result == "image" or all(one.size == 1 for one in windows.axes):
        return 0
    roles = zip((*windows.operands, windows.result), (*node.inputs, *node.outputs), strict=True)
    pooled = next(tensor for role, tensor in roles if role == "pooled")
    if not pooled.is_static:
        return 0
    across = {0, *(one.axis for one in windows.axes)}
    filters = math.prod(size for axis, size in enumerate(pooled.dims) if axis not in across)
    return ops.flops(node) // max(2 * filters, 1) * item_bytes(pooled.dtype)


def graph_flops(ops: OpSet, graph: Graph) -> int:
    """Return the floating-point operations of a graph, loop bodies times their iterations."""
    total = 0
    for node in graph.nodes:
        if isinstance(node, Loop):
            total += int(node.mean_trip_count * graph_flops(ops, node.body))
            total += graph_flops(ops, node.remainder) if node.remainder else 0
        elif node.subgraphs:
            total += sum(graph_flops(ops, sub) for _, sub in node.subgraphs)
        else:
            total += ops.flops(node)
    return total
