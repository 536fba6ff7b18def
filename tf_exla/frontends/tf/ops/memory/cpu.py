"""Bounds of the memory that TensorFlow's CPU kernels allocate beyond their outputs.

They count memory that becomes resident, for TensorFlow 2.16 to 2.21 without oneDNN's graph rewrites
(TF_ENABLE_ONEDNN_OPTS=0). Each was read from the kernel's source (TensorFlow's
core/kernels, Eigen's TensorContractionThreadPool.h, GeneralBlockPanelKernel.h,
TriangularSolverMatrix.h) and checked by measurement (tests/frontends/test_kernel_memory.py). A heap
tracer may show more: Eigen reserves packing buffers for products that it then never touches.
"""

from __future__ import annotations

from math import ceil, prod

from tf_exla.frontends.tf.ops.memory.call import (
    Bound,
    Call,
    all_bytes,
    batch_positions,
    copy_of_everything,
    itemsize,
    tensor_bytes,
)
from tf_exla.ir.lists import ITEM_BYTES
from tf_exla.model.eigen import L1, LEAST_L1
from tf_exla.model.top_k import CHUNKED, by_groups, few_groups, running_size
from tf_exla.vocabulary.random_rows import are_parts, drawn_together, numbers_of_a_counter

# Eigen evaluates broadcasts in blocks that fit a core's cache: measured 120 kB for each thread, and
# twice that for the conditional.
_BROADCAST_BLOCK = 2**18


def broadcast_blocks(call: Call) -> int:
    """Count the blocks of broadcast operands of each thread."""
    return min(call.threads * _BROADCAST_BLOCK, 2 * all_bytes(call.outputs))


# Linear algebra. Matrices of a batch are processed concurrently, at most one for each thread.


def _side_by_side(call: Call) -> int:
    return min(call.threads, prod(call.inputs[0].shape[:-2]))


def _solve_depth(size: int, cache: int = L1) -> int:
    """Return the depth of panels of Eigen's triangular solver: those of a register block fit L1."""
    return max(8, (cache - 2**9) // (40 * size))


def triangular_solve(call: Call) -> int:
    """Count panels of the matrix and of the right-hand side, for each concurrent matrix."""
    out = call.outputs[0]
    n, columns = out.shape[-2:]
    size = itemsize(out.dtype)
    panels = min(n, _solve_depth(size)) * (n + columns) * size
    # A matrix that is certainly not cut in depth is cut in columns instead.
    if n < _solve_depth(size, LEAST_L1) * 3 // 4:
        panels = min(panels, 2**20)
    return min(call.threads, prod(out.shape[:-2])) * panels + batch_positions(call)


def broadcast_batches(call: Call) -> int:
    """Count a copy of everything, and the positions of broadcast matrices."""
    return copy_of_everything(call) + batch_positions(call)


def cholesky(call: Call) -> int:
    """Count Eigen's column-major copy of the matrix, factorized in blocks of at most 128."""
    n, size = call.inputs[0].shape[-1], itemsize(call.inputs[0].dtype)
    return _side_by_side(call) * (n + 2 * min(n, max(128, _solve_depth(size)))) * n * size


def square_matrices(copies: float) -> Bound:
    """Count this many copies of a matrix, and some vectors."""

    def bound(call: Call) -> int:
        n, size = call.inputs[0].shape[-1], itemsize(call.inputs[0].dtype)
        return _side_by_side(call) * ceil((copies * n + 32) * n * size)

    return bound


def matrix_solve(call: Call) -> int:
    """Count the factors and their copies, then a copy of the right-hand side."""
    n, columns = call.outputs[0].shape[-2:]
    size = itemsize(call.outputs[0].dtype)
    panels = min(n, _solve_depth(size)) * (n + columns)
    return _side_by_side(call) * (n * (2 * n + max(n, columns) + 32) + panels) * size


def qr(call: Call) -> int:
    """Count three copies of the matrix, as measured, its factors, and blocks of 48 columns."""
    m, n = call.inputs[0].shape[-2:]
    elements = 3 * m * n + 2 * (m + n) + 48 * min(m, n) + 1024
    return _side_by_side(call) * elements * itemsize(call.inputs[0].dtype)


def svd(call: Call) -> int:
    """Count copies of the matrix and of the smaller square for divide and conquer; fitted."""
    short, long = sorted(call.inputs[0].shape[-2:])
    vectors = call.attrs.get("compute_uv", True)
    full = vectors and call.attrs.get("full_matrices", False)
    elements = (4 if vectors else 3) * short * long + (11 if vectors else 6) * short * short
    elements += long * long if full else 0
    return _side_by_side(call) * (elements + 64 * long) * itemsize(call.inputs[0].dtype)


def least_squares(call: Call) -> int:
    """Count a copy of the matrix, its decomposition, and copies of both sides."""
    (m, n), columns = call.inputs[0].shape[-2:], call.inputs[1].shape[-1]
    elements = 2 * m * n
    if call.attrs.get("fast", True):  # normal equations: the smaller square and its factor
        elements = max(elements, 3 * min(m, n) ** 2)
    elements += n * columns + 16 * (m + n)
    return _side_by_side(call) * elements * itemsize(call.inputs[0].dtype)


def tridiagonal_solve(call: Call) -> int:
    """Count three rows of the factor for each matrix, one without pivots."""
    rows = 3 if call.attrs.get("partial_pivoting", True) else 1
    n, size = call.inputs[0].shape[-1], itemsize(call.inputs[0].dtype)
    return _side_by_side(call) * rows * (n + 32) * size


# Hash tables, where absl's (integers) have slots for keys and positions, and std's have nodes.


def distinct(call: Call) -> int:
    """Count the table of Unique, which reserves room for twice the elements."""
    given = call.inputs[0]
    count, dtype = prod(given.shape), given.dtype
    if len(given.shape) != 1:  # of rows, by their position
        axis = call.inputs[1].value if len(call.inputs) > 1 else None
        count = count if axis is None or not axis.size else given.shape[int(axis.ravel()[0])]
        dtype = "int64"
    if dtype.startswith(("int", "uint", "bool")):
        slots = 1 << (2 * count + max(2 * count - 1, 0) // 7).bit_length()
        return slots * (1 + (16 if itemsize(dtype) == 8 else 8))
    return count * (16 + 16 + max(32, 2 * itemsize(dtype)))


def difference(call: Call) -> int:
    """Count the set of the second operand's elements, with room for 1.2 times as many."""
    second = call.inputs[1]
    return prod(second.shape) * (10 + max(32, 16 + 2 * itemsize(second.dtype)))


def reordered(call: Call) -> int:
    """Count a copy of a sparse tensor, and two permutations that order its entries by groups."""
    entries = prod(call.inputs[0].shape[:1])
    return copy_of_everything(call) + 2 * 8 * entries


# The rest.


def of_variable(call: Call) -> int:
    """Count a copy of everything, but at most of the variable: measured, nothing is allocated.

    The old value of a variable that is still read is counted by `lifetimes.py`.
    """
    return min(call.inputs[0].held, copy_of_everything(call))


def row_slices(call: Call) -> int:
    """Count two positions for each row, in vectors that grow."""
    return 2 * 2 * 8 * prod(call.outputs[0].shape)


def padded(call: Call) -> int:
    """Count the target position of each value, in vectors that grow, for two ragged axes.

    Also count the padding of one value.
    """
    values, result = call.inputs[1], call.outputs[0]
    places = 2 * (prod(values.shape[:1]) + prod(result.shape[:1]))
    return 2 * 8 * places + prod(values.shape[1:]) * itemsize(values.dtype)


def nth_element(call: Call) -> int:
    """Count a copy of each concurrent row."""
    *batch, length = call.inputs[0].shape
    return min(call.threads, prod(batch)) * length * itemsize(call.inputs[0].dtype)


def average_pool(call: Call) -> int:
    """Count one number for each pixel of the result: how many pixels it is the mean of."""
    return tensor_bytes(call.outputs[0]) // max(1, call.outputs[0].shape[-1])


def resized(each: int, everything: bool = False) -> Bound:
    """Count weights and positions for each row and column, and four numbers for each channel.

    `each`: bytes for a row or a column. `everything`: also count a copy of everything.
    """

    def bound(call: Call) -> int:
        shapes = call.inputs[0].shape, call.outputs[0].shape
        rows, columns, channels = (max(pair) for pair in list(zip(*shapes, strict=True))[1:])
        copied = copy_of_everything(call) if everything else 0
        return copied + each * (rows + columns) + 16 * channels

    return bound


def softmax(call: Call) -> int:
    """Count the maximum or the sum of each row."""
    out = call.outputs[0]
    return tensor_bytes(out) // max(1, out.shape[-1]) + broadcast_blocks(call)


def cross_entropy(call: Call) -> int:
    """Count the shifted logits, and their maximum or the sum of each row."""
    return all_bytes(call.outputs) + tensor_bytes(call.outputs[0])


def number_of_each_row(call: Call) -> int:
    """Count one number for each row, which has one loss: first the row's maximum, then its sum."""
    return tensor_bytes(call.outputs[0])


def histogram(call: Call) -> int:
    """Count the bin of each value, and as much to compute it, for any dtype."""
    return 8 * prod(call.inputs[0].shape) + all_bytes(call.outputs)


def channel_sums(call: Call) -> int:
    """Count sums of channels, in at least 32 bits: two, or those of each thread.

    (redux_functor.h) Threads share channels if these come last and there are many of them.
    """
    sums = prod(call.outputs[0].shape) * max(4, itemsize(call.outputs[0].dtype))
    last = not str(call.attrs.get("data_format", "NHWC")).startswith("NC")
    shared = last and prod(call.outputs[0].shape) > 16 * call.threads
    return (2 if shared else call.threads) * sums


def moments(call: Call) -> int:
    """Count four numbers of each channel where moments are computed."""
    return 4 * tensor_bytes(call.inputs[1]) if call.attrs.get("is_training", True) else 0


def rows_of_segments(call: Call) -> int:
    """Count the number of rows of each segment, in the dtype of the ids."""
    ids = call.inputs[1]
    kept = len(call.inputs[0].shape) - len(ids.shape)
    out = call.outputs[0].shape
    return itemsize(ids.dtype) * prod(out[: len(out) - kept])


def top_k(call: Call) -> int:
    """Count a heap of indices for each concurrent row; the maximum of each row for k = 1."""
    values = call.outputs[0]
    rows = min(call.threads, prod(values.shape[:-1]))
    heaps = rows * 8 * (values.shape[-1] + 1)
    if values.shape[-1] == 1:
        heaps = tensor_bytes(values)
    return heaps + (_blocked_rows(call) if CHUNKED in call.attrs else 0)


def _blocked_rows(call: Call) -> int:
    """Count what `chunk_top_k` needs in addition for rows with a NaN among the first k elements.

    That is flags and numbers of these rows, the results, and for one row at a time its elements,
    their mask, and a copy with another number for NaN.
    """
    values = call.outputs[0]
    row = call.inputs[0].shape[-1] * (2 * itemsize(values.dtype) + 1)
    found = prod(values.shape) + 16 * prod(values.shape[:-1])
    return row + found + 2 * all_bytes(call.outputs)


def running_top_k(call: Call) -> int:
    """Count the maxima of groups and their comparisons, then the larger way to merge the chunk.

    One way merges the groups that beat the k-th value, the other the top k of the whole chunk.
    """
    x, values, places = call.inputs
    *batch, n = x.shape
    rows, k, size = prod(batch), values.shape[-1], running_size(n)
    best = tensor_bytes(values) + tensor_bytes(places) + 4 * prod(values.shape)
    every = 4 * best + top_k(call) + _blocked_rows(call)
    if not size:
        return every
    groups = rows * ceil(n / size)
    padded = groups * size * itemsize(x.dtype) if n % size else 0
    looked = few_groups(rows, n, k)
    # The elements of the groups exist three times. Each group has a row, a number and a position.
    closer = 3 * looked * size * itemsize(x.dtype) + 64 * looked + 8 * best
    if by_groups(n, k):  # elements of groups twice
        closer = max(closer, 2 * size * tensor_bytes(values) + 8 * best)
    compared = groups * (itemsize(x.dtype) + 6) + 32 * rows
    return padded + compared + max(every, closer) + _RUNNING_NODES


_RUNNING_NODES = 1 << 14  # the executor's memory for a hundred nodes


def radix_counts(call: Call) -> int:
    """Count the key, three tensors like it and flags of NaN, then each thread's counts.

    Several ops are emitted (frontends/tf/restore/radix.py).
    """
    x, counts = call.inputs[0], call.outputs[0]
    counted = (call.threads + 1) * itemsize(counts.dtype) * counts.shape[1]
    return 4 * tensor_bytes(x) + prod(x.shape) + counted + tensor_bytes(counts) + _RUNNING_NODES


def radix_step(call: Call) -> int:
    """Count the sums of counts, in the dtype of keys, and which of them are below a rank."""
    counts, state = call.inputs
    return 6 * prod(counts.shape) * itemsize(state.dtype) + _RUNNING_NODES


def random_rows(call: Call) -> int:
    """Count the draw from which rows are sliced, if a row may not begin with a counter's numbers.

    Parts of several rows are drawn into a list, stacked, and cut to the number of rows.
    """
    rows, *row = call.outputs[0].shape
    each, size = prod(row), itemsize(call.outputs[0].dtype)
    group = numbers_of_a_counter(size)
    if are_parts(call.outputs[0].shape, call.attrs):
        together = drawn_together(call.outputs[0].shape, call.attrs, size)
        draws = -(-rows // together) if together else rows
        drawn = together * int(str(call.attrs["row"])) if together else each
        # Each draw is an item of the list of first numbers and of the list of results.
        lists = 2 * draws * ITEM_BYTES + 2 * all_bytes(call.outputs) if draws > 1 else 0
        return lists + 3 * (drawn + group) * size + 2**14
    return all_bytes(call.outputs) + group * size if each % group else 0


def scatter_rows(columns_at: int) -> Bound:
    """Count row numbers, broadcast and packed with the columns; an update copies its target.

    Several ops are emitted (frontends/tf/restore/scattering.py).
    """

    def bound(call: Call) -> int:
        columns = call.inputs[columns_at]
        numbers = prod(columns.shape[:-1]) * itemsize(columns.dtype)
        copied = tensor_bytes(call.outputs[0]) if columns_at else 0
        blocks = min(call.threads * _BROADCAST_BLOCK, 2 * tensor_bytes(columns))
        return 3 * tensor_bytes(columns) + numbers + blocks + copied

    return bound
