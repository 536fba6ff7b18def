"""Chunk sizes: the memory limit bounds them, and below it the fastest size is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tf_exla.ir.graph import Graph, Loop, Node, Tensor, item_bytes
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.model.cost import node_seconds
from tf_exla.model.options import Options
from tf_exla.model.projection import Kind, Projector, accumulator_copy, carried_bytes
from tf_exla.model.settings import SETTINGS
from tf_exla.split.loops.resize import body_of, resize_loop


def fit_loops(projector: Projector, graph: Graph, budget: int, options: Options) -> Graph:
    """Return the graph with the best chunk for each loop, within a working set of `budget` bytes.

    A loop for which every chunk exceeds the budget gets the smallest one.
    """
    target = budget
    for _ in range(SETTINGS.tries):
        fitted = _fit_once(projector, graph, target, options)
        over = projector.working_set(fitted) - budget
        if over <= 0 or over > SETTINGS.worth_bytes:
            break
        target -= over  # a body cut for another chunk may have a node more or less
    return fitted


def _fit_once(projector: Projector, graph: Graph, budget: int, options: Options) -> Graph:
    held = projector.lifetimes(graph).held
    overhead = projector.overhead(graph)
    fitted = list(graph.nodes)
    changed = False
    for position, node in enumerate(graph.nodes):
        if not node.subgraphs:
            continue
        room = budget - overhead - held[position]
        if not isinstance(node, Loop):
            room -= carried_bytes(node, projector.sizes)
            new = _fit_subgraphs(projector, node, room, options)
        elif has_loops(node):
            new = _fit_tiles(projector, node, room, options)
        else:
            new = _fit(projector, node, room, options)
        changed |= new is not node
        fitted[position] = new
    if not changed:
        return graph
    return projector.rechunked(graph, _same_chunks(projector.ops, fitted))


def _same_chunks(ops: OpSet, nodes: list[Node]) -> list[Node]:
    """Give all loops of a bitwise group the same chunk: the smallest that any of them has."""
    chunks: dict[Tensor, list[tuple[int, int]]] = {}
    for node in nodes:
        if isinstance(node, Loop) and node.bitwise_group is not None:
            chunks.setdefault(node.bitwise_group, []).append((node.chunk, node.min_chunk))
    if not chunks:
        return nodes

    def common(node: Node) -> Node:
        if not isinstance(node, Loop) or node.bitwise_group is None:
            return node
        sizes, leasts = zip(*chunks[node.bitwise_group], strict=True)
        least = max(leasts)
        chunk = max(min(sizes), least)
        while chunk > least and 0 < node.extent % chunk < SETTINGS.least_remainder:
            chunk -= 1
        return resize_loop(ops, node, chunk, node.parallel)

    return list(map(common, nodes))


def _fit_tiles(projector: Projector, loop: Loop, room: int, options: Options) -> Loop:
    """Fit the loops nested in a loop if it then is faster within `room`, or exceeds `room` less.

    Loops over pairs of chunks (`symmetric/`) stay as they are, since both must have the same chunk.
    """
    if any(isinstance(node, Loop) and node.triangular for node in loop.body.nodes):
        return loop

    def fitted(body: Graph) -> Graph:
        times = loop.parallel if body is loop.body else 1
        own = (room - accumulator_copy(loop)) // times
        own -= sum(tensor.nbytes for tensor in loop.sliced(body))
        return fit_loops(projector, body, own + projector.overhead(body), options)

    made = with_subgraphs(loop, fitted)
    assert isinstance(made, Loop)
    before, after = projector.temporary(loop), projector.temporary(made)
    faster = node_seconds(projector.ops, made) < node_seconds(projector.ops, loop)
    return made if (after <= room and faster) or room < before > after else loop


def _fit_subgraphs(projector: Projector, node: Node, room: int, options: Options) -> Node:
    """Fit the loops in the bodies of a While, an If or a Case."""

    def fitted(sub: Graph) -> Graph:
        return fit_loops(projector, sub, room + projector.overhead(sub), options)

    return with_subgraphs(node, fitted)


def has_loops(loop: Loop) -> bool:
    """Return whether a loop's body contains loops; the chunk of such a loop is not changed."""
    return loop.body.has_loops


def _fit(projector: Projector, loop: Loop, room: int, options: Options) -> Loop:
    """Return a loop with the best chunk within `room` bytes.

    The chunk is memoized for all loops of equal structure (`Kind`), and the loop for this loop:
    candidates have most of their loops in common, and often loops of equal structure.
    """
    kind, known = projector.kind(loop), projector.fits.setdefault(loop, {})
    asked = room, options.body_bytes, options.largest_chunk, options.cores
    chosen = kind.chosen.get(asked)
    if chosen is None:
        made = _fitted(projector, loop, kind, room, options)
        chosen = kind.chosen[asked] = made.chunk, made.parallel
        kind.drop_tried(loop.extent)
        known.setdefault(chosen, made if made is not loop else None)
    if chosen not in known:
        fitted = resize_loop(projector.ops, loop, *chosen, kind.bodies)
        known[chosen] = fitted if fitted is not loop else None
    return known[chosen] or loop


def _fitted(projector: Projector, loop: Loop, kind: Kind, room: int, options: Options) -> Loop:
    ops, bodies, sizes = projector.ops, kind.bodies, kind.sizes

    def resized(chunk: int, parallel: int) -> Loop:
        return resize_loop(ops, loop, chunk, parallel, bodies)

    if room < 0:
        return resized(1, 1)
    beside = accumulator_copy(loop)

    def needed(chunk: int, parallel: int) -> int:
        """Return the bytes of full chunks in flight; the smaller remainder runs after them."""
        chunk = min(max(chunk, loop.min_chunk), loop.extent)
        if chunk not in sizes:
            sizes[chunk] = projector.body_bytes(loop, body_of(ops, loop, chunk, bodies))
        return min(parallel, loop.extent // chunk) * sizes[chunk] + beside

    largest = _largest_carried(loop)
    per_index = _bytes_per_index(loop, largest)
    fastest = _fastest(loop, per_index, options)
    most = even_chunk(loop.extent, fastest, largest)

    def fitted(parallel: int) -> Loop | None:
        needs = partial(needed, parallel=parallel)
        fits = _largest(needs, most, room, sizes)
        if fits is None:
            return None
        chunk = fits
        least = max(1, fastest // SETTINGS.least_fraction)
        if chunk > min(least, SETTINGS.least_indices) and options.body_bytes < room:
            cached = _largest(needs, chunk, options.body_bytes, sizes) or 0
            chunk = cached if cached >= SETTINGS.least_indices else min(chunk, max(cached, least))
            if needed(chunk, 1) > room:  # Eigen may pack the operands of a smaller chunk only
                chunk = fits
            elif needs(chunk) > room:  # with a smaller chunk, more iterations are in flight
                parallel = (room - beside) // (needed(chunk, 1) - beside)
        if parallel > 1 and chunk * per_index < SETTINGS.parallel_bytes:
            return None
        return resized(chunk, parallel)

    if options.cores > 1 and not _single_core(ops, loop):
        filled = fitted(SETTINGS.parallel)
        if filled is not None and filled.chunk == most:
            return filled
        ways = [made for made in (filled, fitted(1)) if made is not None]
        return min(ways, key=partial(node_seconds, ops)) if ways else resized(1, 1)
    side_by_side = min(options.cores, SETTINGS.parallel)
    for parallel in sorted({side_by_side, min(2, side_by_side), 1}, reverse=True):
        made = fitted(parallel)
        if made is not None:
            return made
    return resized(1, 1)


def _largest(
    needed: Callable[[int], int], most: int, room: int, sizes: Iterable[int]
) -> int | None:
    """Return about the largest chunk up to `most` that needs at most `room` bytes.

    None if even one index needs more. `needed(chunk)` returns the bytes of a chunk. They are nearly
    linear in its size, so interpolation between a chunk that fits and one that does not takes a
    few steps. `sizes`: chunks whose bytes are known already; the search starts between two of them.
    """
    high, high_bytes = most, needed(most)
    if high_bytes <= room:
        return most
    low = low_bytes = 0
    for size in sorted((size for size in sizes if size < most), reverse=True):
        size_bytes = needed(size)
        if size_bytes <= room:
            low, low_bytes = size, size_bytes
            break
        high, high_bytes = size, size_bytes
    if (
        low > 1 and low_bytes > SETTINGS.near * room
    ):  # kernels may need more for one index than for two
        return low
    if not low:
        low, low_bytes = 1, needed(1)
        if low_bytes > room:
            return None
    while high - low > max(1, low // 32):
        slope = (high_bytes - low_bytes) / (high - low)
        guess = low + int((room - low_bytes) / slope * 0.995) if slope > 0 else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        if guess > 64:
            guess = max(guess - guess % 8, low + 1)
        guess_bytes = needed(guess)
        if guess_bytes > room:
            high, high_bytes = guess, guess_bytes
            continue
        if guess_bytes > SETTINGS.near * room:
            return guess
        if guess == low + 1:  # interpolation fails: kernels allocate in steps
            guess = (low + high) // 2
            guess_bytes = needed(guess)
            if guess_bytes > room:
                high, high_bytes = guess, guess_bytes
                continue
        low, low_bytes = guess, guess_bytes
    return low


def fastest_chunk(loop: Loop, options: Options) -> int:
    """Return the chunk whose largest tensor has the size that is fastest on this device."""
    return _fastest(loop, _bytes_per_index(loop, _largest_carried(loop)), options)


def _fastest(loop: Loop, per_index: int, options: Options) -> int:
    return max(1, min(loop.extent, options.largest_chunk // max(1, per_index)))


def _bytes_per_index(loop: Loop, largest: Tensor | None) -> int:
    """Return the bytes of one index in the largest tensor that carries the loop's axis."""
    return 1 if largest is None else largest.nbytes // loop.extent


def _largest_carried(loop: Loop) -> Tensor | None:
    static = (tensor for tensor in loop.split_axes if tensor.is_static)
    return max(static, key=lambda tensor: tensor.nbytes, default=None)


def even_chunk(extent: int, most: int, largest: Tensor | None) -> int:
    """Return a chunk of up to `most` indices that divides `extent` about evenly.

    If `most` is large enough, it is rounded up to a multiple of `SETTINGS.aligned` bytes, in
    elements of `largest`; the remainder is then smaller.
    """
    if most >= extent:
        return extent
    aligned = SETTINGS.aligned // max(1, item_bytes(largest.dtype)) if largest is not None else 1
    if most < 4 * aligned:
        aligned = 1
    most -= most % aligned
    even = -(-extent // -(-extent // most))
    return -(-even // aligned) * aligned


def _single_core(ops: OpSet, loop: Loop) -> bool:
    """Return whether an op of the body runs on one core: then concurrent iterations save time."""
    return any(ops.work(node) == "serial" for node in loop.body.nodes)
