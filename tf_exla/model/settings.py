"""The numbers that decide a plan and are no times: thresholds, margins, sizes of loops and trials.

Seconds of one thing each are in `rates.py`; bytes that the runtime takes, which a projection must
not miss, stand with the projection. Each number says where it comes from: what was measured, or
the reason for its order of magnitude. "n tried" numbers only bound the time of planning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search, its moves, the rewrites and the late passes; sizes in bytes."""

    # Faster by enough.

    margin: float = 0.95
    """Of the estimated time: what a step must come to that is there for speed only. For two split
    plans of one program, ratios of estimated and of measured times differ by 1.27 in the median (60
    pairs), so no margin makes a single step certain; this one keeps steps from being taken for
    nothing. With 0.9 one of 20 programs is estimated 5 % slower, with 0.7 another one 39 %."""
    margin_whole: float = 0.75
    """The same where a program that fits the limit would be split for speed alone. Estimates of
    whole tensors and of chunks differ by more, 1.46 in the median (40 pairs)."""
    rewrite_gain: float = 1e-3
    """The part of the time of the removed nodes that a rewrite must save. Both sides are sums over
    the same rates, so only rounding is to be told from a gain."""
    calls: int = 20
    """Calls of a program by which what is spent on it once must have paid: a training step or a
    prediction is called more often."""
    more_flops: float = 1.5
    """Times the least flops that an order of a chain may have whose results all hold the limit. A
    chunked loop reads the operands again for each chunk, at about that price for thin matrices."""

    # Small beside something.

    small_parts: tuple[int, ...] = (50, 2000)
    """Tensors below these fractions of the budget are sliced or saved rather than recomputed. The
    first lets ten such tensors take a fifth of the budget; the second is for programs with
    hundreds of them."""
    small_beside: int = 32
    """What is so many times smaller than the split tensor is small however tight the limit is:
    split into 32 chunks, the tensor needs no more."""
    small_operand: int = 4
    """An operand is small beside a result that is so many times larger: copying it, or working on
    it first, costs at most a quarter of what is saved."""
    negligible: int = 16
    """A tensor so many times smaller than another costs nothing beside it: 6 % of its bytes."""
    worth_passes: int = 50
    """Tensors above this fraction of the working set are worth more passes: fifty smaller ones
    would have to be split to save a program as many bytes."""
    worth_bytes: int = 1 << 16
    """The same in bytes: below, nodes and chunks in flight take as much as is saved, and no chunk
    is fitted again."""
    fixed_of_budget: int = 4
    """What a loop concatenates is not split again. More than this part of the budget ..."""
    fixed_of_program: int = 16
    """... and of the working set is chosen last: several such results leave no room for chunks."""
    cheap_flops: int = 4
    """Operations for an element that cost what writing and reading it does, 8 bytes in a cache
    that two cores share."""
    light_work: float = 1 / 100
    """The part of the work on large tensors that small ones may add to each iteration of a loop
    that they are sunk into: lost in the error of the estimate."""

    followed: int = 100
    """Iterations of a loop that are followed one by one where each may enlarge a variable. A node
    takes about a millisecond: a hundred iterations of ten nodes are as long as a usual planning."""

    # What XLA keeps in registers: projections rely on it.

    register_flops: int = 3
    """Operations for an element up to which a result is computed in each loop that reads it."""
    most_copies: int = 8
    """Loops that make one result each for itself, at most: XLA minds the length of its code."""
    broadcast: int = 16
    """A result so many times larger than its operands is filled, as a broadcast, a tile or a pad
    is."""

    # Chunks and loops.

    parallel: int = 4
    """Iterations in flight: where their ops use all cores, so that what threads wait for in one,
    they find in another; at most, where an op runs on one core, one iteration for each."""
    parallel_bytes: int = 1 << 18
    """Bytes of the chunks of iterations that run side by side: with less, launching dominates."""
    least_fraction: int = 4
    """To keep a body in cache, its chunk becomes smaller by this at most; by more, ..."""
    least_indices: int = 720
    """... where it stays in cache then and has so many indices: products of fewer rows are
    slower."""
    least_remainder: int = 8
    """Indices that the last chunk of loops with equal bits has at least. Products of three rows
    had other bits than the same rows among more (float32, AVX-512), so that equal points were not
    tied in the last chunk. Eigen's kernels work on up to eight columns at a time."""
    near: float = 0.97
    """Of the room: a chunk that needs as much is not worth looking for a larger one."""
    aligned: int = 64
    """Of rows that are no multiple of so many bytes XLA's code takes up to half as long again,
    measured for exp(a bᵀ) with 1,000 columns; slices that begin at a multiple are views."""

    # The search.

    tries: int = 5
    """Chunk sizes that are tried: a chunk of another size may need a node more or less, and late
    passes need other bytes than what they replace."""
    seeds: int = 3
    """Tensors of different shapes, and as many lists, that one step tries to split."""
    saves_tried: int = 10
    """Tensors of which saving each alone is tried, what takes longest to compute first."""
    max_depth: int = 2
    """Loops in each other that one region becomes. With three, the smallest limits of seven of 20
    programs were 0.95 to 1.02 of what they are; no other plan changed."""
    few_rows: int = 32
    """Rows below which launching decides: a chunk of fewer is worth a trial of tiles, and tiles
    have at least as many."""
    much_read: int = 2
    """So is one whose iterations read this part of what they make, whole, again and again."""
    batch: int = 256
    """An axis of so few indices is one of a batch: its matrices are worked on one by one."""
    sample_rows: int = 64
    """Rows of a tile in a long loop, as long as it is not known what is best, and of the one by
    which symmetric tiles are judged."""
    tile_rows: tuple[int, ...] = (128, 256, 512, 1024)
    """Rows of a tile to try."""
    tiled_nodes: int = 64
    """A body of more nodes is a program of its own: searching all of it is not worth a little
    speed."""

    # Symmetric tiles.

    tile_chunks: int = 4
    """Chunks along one axis: with c of them, 1/2 + 1/2c of the tiles are computed."""
    tile_part: float = 1 / 2
    """Bytes of a tile, of those of the fastest chunk: it is read twice, once transposed."""
    tile_parallel: int = 2
    """Iterations of either loop in flight: what one waits for, the end of the inner loop too,
    another fills. Their tiles share the room of one: float32 0.76 of the time on two cores,
    float64 0.84."""
    tile_room: float = 1 / 4
    """The part of the working set that is left free for compiling."""
    expression_depth: int = 100
    """Nodes on one path that the proof of symmetry looks through; what is behind is a leaf."""
    expressions: int = 20
    """Expressions that it numbers, for each node of the graph; what is more is a leaf."""

    # Moves.

    copied_work: int = 4
    """Times the flops of the program that copies for transposed readers may come to: copies of
    what is transposed again and again are no way."""
    counter: int = 8
    """Elements of what counts as a counter: the begin of a slice has as many as there are axes."""
    runs: int = 16
    """Runs of evenly spaced places along an axis that a moved tensor is written out in."""
    written_iterations: int = 64
    """Iterations up to which a While is written out, as the indices of a short axis ..."""
    written_nodes: int = 1500
    """... and nodes that it may become: a plan of them takes some five seconds."""
    sunk_choices: int = 4
    """Operands up to which every choice of those to sink is tried, 2**4 programs: else all, or
    one."""

    # Rewrites.

    short_axis: int = 64
    """Indices of an axis that is written out where it makes no contraction."""
    unrolled: int = 32
    """Indices that are written out at once. More take too long to compile to pay off soon:
    neighbours by L1 among 8,497 points of 50 dimensions 0.31 s, in blocks 0.06 s."""
    unrolled_nodes: int = 600
    """Nodes that writing out may make: nine for each of 64 indices."""
    terms: int = 64
    """Terms of a sum, and factors of a chain, that a rewrite looks at: the time to find the best
    order grows with their third power."""
    replaced: int = 4
    """Replacements in one graph, for each of its nodes: what is finite by its costs is bounded
    too."""
    summed_row: int = 1 << 16
    """Elements of a row whose sum may become a product with ones in float32. Kernels add rows up in
    a tree, products one after the other: that is felt from some 100,000 numbers of one sign."""
    fewer_columns: int = 2
    """So many times fewer columns must a rewrite leave to solve for."""
    mirrored: int = 64
    """Rows of a square tensor whose symmetry is worth a proof."""
    triangle_rows: int = 192
    """Rows of a symmetric product that is computed in blocks of rows ..."""
    triangle_block: int = 125
    """... of about so many: 500 rows took 0.75, 1,000 rows 0.69 and 2,000 rows 0.60 of the time of
    the whole product (2 cores) ..."""
    triangle_blocks: int = 8
    """... in up to so many blocks ..."""
    triangle_long: int = 2
    """... where the summed axis is so many times as long as the rows."""

    # Late passes.

    closer: float = 0.99
    """Of the target in proportion to what is needed: a part of the bytes does not depend on chunks.
    With 0.97 a program took 1 % longer and 7 % more bytes."""
    fused_vector: int = 16 * 1024
    """Bytes of the longest vector with whose product XLA fuses what makes the matrix."""

    # Top-k by groups.

    group_least: int = 8
    group_most: int = 32
    """Elements of a group whose maximum is compared with the k-th so far."""
    group_sparse: int = 8
    """One group of so many, at most, is looked at together with others that beat the k-th."""
    group_many: int = 50
    """Elements for each of the k, from which on looking at them is what takes the kernel's time."""


SETTINGS = SearchSettings()
"""The settings of this process."""
