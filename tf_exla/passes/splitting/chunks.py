"""Chunk sizes: the limit is the upper bound, speed decides below it."""

from __future__ import annotations

from collections.abc import Callable

from tf_exla.graph import Graph, Loop, Node, item_bytes
from tf_exla.memory import Projector
from tf_exla.options import Options
from tf_exla.passes.splitting.resize import resize_loop

SMALLEST_PARALLEL_CHUNK = 1 << 18
"""Iterations run side by side only with chunks of at least so many bytes: else launching dominates."""


def fit_loops(projector: Projector, graph: Graph, budget: int, options: Options) -> Graph:
    """Give every loop of a graph the best chunk for which the working set holds `budget`.

    A loop for which no chunk does gets the smallest one.
    """
    steps = projector.project(graph).steps
    overhead = projector.working_set(graph) - projector.project(graph).working_set
    fitted: list[Node] = []
    changed = False
    for node, step in zip(graph.nodes, steps, strict=True):
        if isinstance(node, Loop) and not has_loops(node):
            room = budget - overhead - (step.bytes - step.temporary)
            new = _fit(projector, node, room, options)
            changed |= new is not node
            fitted.append(new)
        else:
            fitted.append(node)
    return graph.replace(nodes=tuple(fitted)) if changed else graph


def has_loops(loop: Loop) -> bool:
    """Return whether a loop's body is split itself: its chunk is fixed then."""
    return any(isinstance(node, Loop) for node in loop.body.nodes)


def _fit(projector: Projector, loop: Loop, room: int, options: Options) -> Loop:
    ops = projector.ops
    fastest = fastest_chunk(loop, options)

    def fits(chunk: int, parallel: int) -> bool:
        return projector.temporary(resize_loop(ops, loop, chunk, parallel)) <= room

    side_by_side = min(options.cores, 4) if _single_core(loop) else 1
    for parallel in sorted({side_by_side, min(2, side_by_side), 1}, reverse=True):
        chunk = _largest(lambda size, p=parallel: fits(size, p), _even(loop.extent, fastest))  # type: ignore[misc]
        if chunk is None:
            continue
        small = chunk * _bytes_per_index(loop) < SMALLEST_PARALLEL_CHUNK
        if parallel == 1 or not small:
            return resize_loop(ops, loop, chunk, parallel)
    return resize_loop(ops, loop, 1, 1)


def _largest(fits: Callable[[int], bool], most: int) -> int | None:
    """Return the largest chunk up to `most` that fits; None where not even one index does."""
    if fits(most):
        return most
    low, high = 0, most
    while high - low > max(1, low // 32):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low > 64 and fits(low - low % 8):
        low -= low % 8
    return low or None


def fastest_chunk(loop: Loop, options: Options) -> int:
    """Return the chunk whose largest tensor has the size that is fastest on this device."""
    return max(1, min(loop.extent, options.largest_chunk // max(1, _bytes_per_index(loop))))


def _bytes_per_index(loop: Loop) -> int:
    """Bytes of one index in the largest tensor that carries the loop's axis."""
    return max(
        (
            tensor.size * item_bytes(tensor.dtype) // loop.chunk
            for tensor in loop.carried
            if tensor.is_static
        ),
        default=1,
    )


def _even(extent: int, chunk: int) -> int:
    """Return a chunk of about this size that leaves a small remainder or a nearly full one."""
    iterations = -(-extent // chunk)
    even = -(-extent // iterations)
    rounded = -(-even // 8) * 8
    return min(extent, rounded if even > 64 and rounded <= chunk else even)


def _single_core(loop: Loop) -> bool:
    """Whether an op of the body runs on one core, so that iterations gain from running together."""
    return any(node.op in _SINGLE_CORE for node in loop.body.nodes)


_SINGLE_CORE = frozenset({"MatrixTriangularSolve", "TopKV2", "Cumsum", "Cumprod"})
