"""The numbers, other than times, that decide a plan: thresholds, margins, sizes of loops, trials.

Times are in `rates.py`. Bytes that the runtime takes, which a projection must not miss, are in
`projection.py`. Each number states its origin: a measurement, or the reason for its order of
magnitude. "n tried" numbers only bound the time of planning.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """Settings of the search, its moves, the rewrites and the late passes; sizes in bytes."""

    # Margins of time.

    margin: float = 0.95
    """A step that is taken only for speed must reduce the estimated time to this part of it. For
    two split plans of one program, ratios of estimated and of measured times differ by 1.27 in the
    median (60 pairs), so no margin makes a single step certain; this one avoids useless steps.
    With 0.9 one of 20 programs is estimated 5 % slower, with 0.7 another one 39 %."""
    margin_whole: float = 0.75
    """The same if a program that fits the limit would be split for speed alone. Estimates of
    whole tensors and of chunks differ by more, 1.46 in the median (40 pairs)."""
    rewrite_gain: float = 1e-3
    """The part of the time of the removed nodes that a rewrite must save. Both sides are sums over
    the same rates, so a gain only has to exceed rounding."""
    slow: float = 3.0
    """A plan is slow if it is estimated to take this many times as long as the program unsplit.
    Then further forms are tried, and `MemoryLimitError` names a faster limit. It is the cube of the
    1.46 above, so estimation errors alone hardly explain it. If another plan is known, the search
    ends at a step that takes this many times as long, without trials of which tensors to save:
    these take most of a search."""
    calls: int = 60
    """Calls of a program after which the one-time costs of compiling and searching must have paid
    off: an optimizer makes some hundred calls. With 20, the gradient of GPflow's GPRFITC is not
    compiled, and takes 1.4 times as long."""
    walks_of_node: int = 200
    """Walks over each node of a program that planning may spend on speed alone, once a plan within
    the limit is known. Planning takes 19 to 23 µs for each node that is walked (four programs), so
    this is about 4 ms a node ..."""
    walks_for_speed: int = 100_000
    """... and two seconds for a program of any size. Of 570 plans of 285 programs none is changed.
    With less, a plan is found too early: with 70 and 50,000 the step of a small GPT (650 nodes) is
    estimated 10 times as slow as unsplit, instead of 3 times."""
    more_flops: float = 1.5
    """An order of a chain of products whose results all fit the limit may have this many times the
    flops of the best order. The best order would need a chunked loop, which reads the operands
    again for each chunk; for thin matrices that costs about as much."""

    # Thresholds of small tensors.

    small_parts: tuple[int, ...] = (50, 2000)
    """Tensors below these fractions of the budget are sliced or saved rather than recomputed. The
    first lets ten such tensors take a fifth of the budget; the second is for programs with
    hundreds of them."""
    small_beside: int = 32
    """A tensor that is this many times smaller than the split tensor is small however tight the
    limit is: a chunk of the split tensor is as large if there are 32 chunks."""
    small_last: int = 4
    """The same, tried if no split is progress with the number above. To recompute a tensor, its
    operands must be kept, and these may be larger than the tensor itself: for example, the old
    values of assigned variables."""
    small_operand: int = 4
    """An operand is small relative to a result that is this many times larger: copying or
    preprocessing it costs at most a quarter of what is saved."""
    negligible: int = 16
    """A tensor this many times smaller than another is negligible: 6 % of its bytes."""
    worth_passes: int = 50
    """Tensors above 1/this of the working set are worth more passes: fifty smaller ones would have
    to be split to save as many bytes."""
    worth_bytes: int = 1 << 16
    """The same in bytes: for smaller tensors, the nodes and chunks of a loop need as many bytes as
    it saves. If a graph exceeds the budget by at most this, chunks are fitted again."""
    fixed_of_budget: int = 4
    """A result that a loop concatenates is not split again. Above this part of the budget ..."""
    fixed_of_program: int = 16
    """... and of the working set it is chosen last: several such results leave chunks no room."""
    cheap_flops: int = 4
    """Operations per element that cost as much as writing and reading the element: 8 bytes in a
    cache that two cores share."""
    light_work: float = 1 / 100
    """The flops on small tensors that may be sunk into a loop along with those on large ones, as a
    part of the latter: less than the error of the estimate."""

    followed: int = 100
    """Iterations of a loop that are followed one by one if each may enlarge a variable. A node
    takes about a millisecond: a hundred iterations of ten nodes take as long as usual planning."""

    xla_margin: int = 2
    """XLA orders and fuses a whole program itself if it compiles it without a plan, or compiles a
    plan as a part of a program. Then it must have this many times the projected bytes. It runs
    independent nodes concurrently, so that the buffers of both exist: up to 1.84 times the
    projection, in eleven programs at 15 limits."""

    # Results that XLA keeps in registers; projections rely on these.

    register_flops: int = 3
    """Operations per element up to which a result is computed in each loop that reads it."""
    most_copies: int = 8
    """The most loops in which XLA computes the same result again: it limits the length of code."""
    broadcast: int = 16
    """A result this many times larger than its operands is filled, as by broadcast, tile or pad."""

    # Chunks and loops.

    parallel: int = 4
    """Iterations in flight if their ops use all cores: threads that wait in one iteration work in
    another. If an op runs on one core, one iteration per core, at most as many."""
    parallel_bytes: int = 1 << 18
    """Bytes of the chunks of concurrent iterations: with less, launching dominates."""
    least_fraction: int = 4
    """To keep a body in cache, its chunk shrinks by at most this factor. It shrinks further ..."""
    least_indices: int = 720
    """... if it then stays in cache and has at least this many indices: products of fewer rows are
    slower."""
    most_float32_terms: int = 1024
    """The most partial sums of which a large sum of float32 consists (`float32_sums.py`)."""
    least_remainder: int = 8
    """The least indices of the last chunk in loops of a bitwise group. Products of three rows
    had other bits than the same rows among more (float32, AVX-512), so that equal points were not
    tied in the last chunk. Eigen's kernels work on up to eight columns at a time."""
    near: float = 0.97
    """The search for the largest chunk ends with one that needs at least this part of the room."""
    aligned: int = 64
    """Chunks are multiples of this many bytes. On other rows XLA's code takes up to half as long
    again, measured for exp(a bᵀ) with 1,000 columns. Slices that begin at a multiple are views."""

    # The search.

    tries: int = 5
    """Chunk sizes that are tried. A chunk of another size may need a node more or less, and late
    passes need other bytes than the nodes that they replace."""
    seeds: int = 3
    """Tensors of different shapes, and as many lists, that one step tries to split."""
    saves_tried: int = 10
    """Tensors for each of which saving it alone is tried, the most expensive to compute first."""
    levels: int = 2
    """Depth of nested loops that one region becomes, without loops over the matrices of a batch.
    With three, the smallest limits of seven of 20 programs were 0.95 to 1.02 of those with two; no
    other plan changed."""
    sunk_part: int = 8
    """A loop-invariant tensor is computed in loops if it takes 1/this of the working set: else the
    peak hardly falls. Intermediate tensors smaller than 1/this of it are read by the loops, not
    computed in them. All tensors read in its place may take at most half of its bytes."""
    sunk_levels: int = 2
    """Depth of loops that compute what they read whole: two for products of products."""
    fewer_rows: int = 4
    """The factor between the numbers of rows that are tried for a loop whose body computes a
    loop-invariant tensor: a range of 16 takes two more trials, each of which splits a body."""
    few_rows: int = 32
    """Rows below which launches dominate: tiles are tried for smaller chunks, and tiles have at
    least as many rows."""
    much_read: int = 2
    """Tiles are also tried if an iteration reads whole more than 1/this of its largest result."""
    batch: int = 256
    """An axis of at most this many indices is a batch: its matrices are processed one by one."""
    sample_rows: int = 64
    """Rows of a tile in a long loop until the best number is known, and of the tile by which
    symmetric tiles are judged."""
    tile_rows: tuple[int, ...] = (128, 256, 512, 1024)
    """Rows of a tile to try."""
    tiled_nodes: int = 64
    """A body of more nodes is a program of its own: a little speed is not worth searching all of
    it."""

    # Symmetric tiles.

    tile_chunks: int = 4
    """The least chunks along one axis: with c of them, 1/2 + 1/2c of the tiles are computed."""
    tile_part: float = 1 / 2
    """Bytes of a tile relative to the fastest chunk: it is read twice, once transposed."""
    tile_parallel: int = 2
    """Iterations in flight in either loop: while one waits, also at the end of the inner loop,
    another runs. Their tiles share the room of one tile. On two cores float32 takes 0.76 of the
    time, float64 0.84."""
    tile_room: float = 1 / 4
    """The part of the working set that is left free for compiling."""
    expression_depth: int = 100
    """Nodes on one path that the proof of symmetry looks through; deeper nodes are leaves."""
    expressions: int = 20
    """Expressions that the proof numbers per node of the graph; further ones are leaves."""

    # Moves.

    copied_work: int = 4
    """The most flops of a program with copies of nodes, for example for transposed readers, as a
    multiple of the flops without copies. Copies of tensors that are transposed again and again do
    not pay off."""
    column_numbers: int = 2
    """A random tensor can be drawn by columns if the indices of its columns take at most 1/this of
    its bytes. Tensors of one shape share them."""
    counter: int = 8
    """The most elements of a counter: the begin of a slice has one per axis."""
    runs: int = 16
    """The most runs of evenly spaced places along an axis in which a moved tensor is written."""
    written_iterations: int = 64
    """Iterations up to which a While is written out, as are the indices of a short axis ..."""
    written_nodes: int = 1500
    """... if it becomes at most this many nodes: a plan of them takes some twenty seconds."""
    chunks_of_rewrites: int = 7
    """Chunks in which a rewrite expects its nodes to run, where it does not know the split yet.
    With one chunk, the gradient of SVGP with a Bernoulli likelihood took 1.4 times as long."""
    written_first: int = 450
    """Nodes that writing out may add before other forms of loops are tried first. So many take five
    seconds to plan. Written out, calls take the same time, or half for conjugate gradients."""
    kept_part: int = 8
    """A list keeps the operands of its tensors instead of these if they take at most 1/this of the
    bytes. Larger operands save too little to pay for computing the tensors twice."""
    sunk_choices: int = 4
    """Operands up to which every subset to sink is tried, 2**4 programs; of more, all or one."""

    # Rewrites.

    short_axis: int = 64
    """The most indices of an axis that is written out if it makes no contraction."""
    unrolled: int = 32
    """The most indices that are written out at once. More take too long to compile to pay off soon:
    neighbours by L1 among 8,497 points of 50 dimensions 0.31 s, in blocks 0.06 s."""
    unrolled_nodes: int = 600
    """The most nodes that writing out may make: nine for each of 64 indices."""
    terms: int = 64
    """The most terms of a sum, or factors of a chain, that a rewrite considers: the time to find
    the best order grows with their third power."""
    replaced: int = 4
    """The most replacements in one graph, per node. Decreasing costs end the rewriting anyway; this
    also bounds it."""
    summed_row: int = 1 << 16
    """The most elements of a row whose sum may become a product with ones in float32. Kernels sum
    rows in a tree, products sequentially: this shows from some 100,000 numbers of one sign on."""
    fewer_columns: int = 2
    """A rewrite must leave this many times fewer columns to solve for."""
    mirrored: int = 64
    """The least rows of a square tensor whose symmetry is worth a proof."""
    triangle_rows: int = 192
    """The least rows of a symmetric product that is computed in blocks of rows ..."""
    triangle_block: int = 125
    """... of about this many rows: 500 rows took 0.75, 1,000 rows 0.69 and 2,000 rows 0.60 of the
    time of the whole product (2 cores) ..."""
    triangle_blocks: int = 8
    """... in at most this many blocks ..."""
    triangle_long: int = 2
    """... if the summed axis is at least this many times as long as the rows."""

    selected: int = 8
    """The most elements of a sorted tensor that are selected: eight take as long as sorting. Five
    percentiles of 2.25 million numbers took 0.38 s, sorting 0.51 s."""
    selected_part: int = 16
    """A top-k of less than this part of the elements is faster than the six passes of a selection:
    74 ns per element for a sixteenth, 38 for half of that (2.25 million, float64)."""

    # Late passes.

    closer: float = 0.99
    """If a finished plan exceeds the budget, the target for its chunks is scaled by budget / needed
    bytes, and by this factor, since a part of the bytes does not depend on chunks. With 0.97 a
    program took 1 % longer and 7 % more bytes."""
    compiled_alone: int = 3 << 20
    """Loops of XLA's code whose results have fewer bytes run on one core of a CPU. An element of
    one expression took 10 ns at 2 MB and 5.8 ns at 4 MB on two cores. With twice the operations of
    the executor below this size, and measured ones for 12 ops, GPflow's Periodic kernel takes 0.77
    instead of 1.36 times stock's time, Cosine 0.67 instead of 1.5."""
    fused_vector: int = 16 * 1024
    """The most bytes of a vector for which XLA fuses its product with the matrix's producer."""

    # Top-k by groups.

    group_least: int = 8
    group_most: int = 32
    """Least and most elements of a group whose maximum is compared with the k-th so far."""
    group_sparse: int = 8
    """Groups that beat the k-th are searched together if they are at most one in this many."""
    group_many: int = 50
    """From this many elements per k on, the kernel spends its time on reading elements."""


SETTINGS = SearchSettings()
"""The settings of this process."""
