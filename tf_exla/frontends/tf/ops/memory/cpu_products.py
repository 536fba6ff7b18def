"""What TensorFlow's CPU kernels of products allocate beyond their outputs: see `cpu.py`."""

from __future__ import annotations

from math import ceil, isqrt, prod
from pathlib import Path

from tf_exla.frontends.tf.ops.memory.call import (
    Bound,
    Call,
    all_bytes,
    copy_of_everything,
    itemsize,
    tensor_bytes,
)

# Caches decide Eigen's block sizes. Where the system does not tell, assume large ones.


def _cache_bytes(level: int, default: int) -> int:
    """Size of a core's data cache as Linux tells it."""
    for cache in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if int((cache / "level").read_text()) != level:
                continue
            if (cache / "type").read_text().strip() != "Instruction":
                return int((cache / "size").read_text().strip().removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
    return default


LEAST_L1 = 2**15
L1 = max(LEAST_L1, _cache_bytes(1, 2**17))
L2 = max(2**18, _cache_bytes(2, 2**22))
# Virtual machines report a part of it where Eigen reads the whole.
L3 = 2**29

# Eigen: the depth of a packed block in a threaded product, two of which are in use at once.
_BLOCK_DEPTH = 320
# Coefficients times depth of the largest task that Eigen makes by merging blocks: two units of
# 40,000 cycles at an eighth of a cycle, and as much again for safety.
_TASK_WORK = 1_280_000
# LaunchBatchMatMul: a smaller product is not worth several threads.
_SMALL_PRODUCT = 128 * 128
# Products.


def matmul(call: Call) -> int:
    """Multiply two matrices: what LaunchMatMul packs."""
    return _product(call, *(bool(call.attrs.get(f"transpose_{side}", False)) for side in "ab"))


def batch_matmul(call: Call) -> int:
    """Multiply batches of matrices."""
    return _product(call, *(bool(call.attrs.get(f"adj_{side}", False)) for side in "xy"))


def _product(call: Call, transpose_left: bool, transpose_right: bool) -> int:
    """Follow LaunchBatchMatMul's choice of kernel."""
    left, _, out = call.inputs[0], call.inputs[1], call.outputs[0]
    size, batch = itemsize(out.dtype), prod(out.shape[:-2])
    rows, cols = out.shape[-2:]
    inner = left.shape[-2] if transpose_left else left.shape[-1]
    work = rows * inner * cols
    # Half precision is multiplied in float32.
    widened = 2 * copy_of_everything(call) if size == 2 else 0
    size = max(size, 4)
    if min(rows, inner, cols) > 1 and (batch == 1 or work > _SMALL_PRODUCT):
        return widened + packed_bytes(rows, inner, cols, size, call.threads)
    vectors = call.threads * 2 * (rows + inner + cols) * size
    if batch > 1:
        small = call.threads * inner * (rows + cols) * size
        return widened + (vectors if min(rows, inner, cols) <= 1 else small)
    # A single product without transposes is evaluated into temporary blocks, then copied.
    temporary = 0 if transpose_left or transpose_right else tensor_bytes(out)
    return widened + vectors + temporary


def compiled_products(call: Call) -> int:
    """XLA's code begins the products of a batch all at once, each with its packed operands.

    (xla/backends/cpu/runtime/dot_thunk.cc.) It repeats an operand that has no batch.
    """
    *batch, rows, cols = call.outputs[0].shape
    count = prod(batch)
    inner = call.inputs[0].shape[-2 if call.attrs.get("adj_x", False) else -1]
    size = max(4, itemsize(call.outputs[0].dtype))
    repeated = (
        count * tensor_bytes(one) // max(1, prod(one.shape[:-2]))
        for one in call.inputs
        if prod(one.shape[:-2]) < count
    )
    return count * packed_bytes(rows, inner, cols, size, call.threads) + sum(repeated)


def packed_bytes(rows: int, inner: int, cols: int, size: int, threads: int) -> int:
    """Bound the packed operands of Eigen's TensorContraction on a thread pool.

    Eigen packs slices of both operands, 320 deep, two at a time. The axis along which it shards is
    packed for each task in a small buffer of the thread where there are enough tasks; only tasks
    that a thread could not finish before the next slice began go to the large buffer.
    """
    if threads == 1:
        # The sequential product packs the columns whole, as deep as the L1 cache allows.
        depth = min(inner, L1 // (12 * size))
        return depth * cols * size + min(depth * rows * size, 2**20)
    depth = min(inner, 2 * _BLOCK_DEPTH)
    packed = max(
        _sharded_axis(sharded, other, is_m, inner, size, threads) + depth * other * size
        for sharded, other, is_m in _shardings(rows, cols, threads)
    )
    return max(packed, _sharded_by_inner(rows, inner, cols, size, threads))


def _shardings(rows: int, cols: int, threads: int) -> set[tuple[int, int, bool]]:
    """(sharded axis, other axis, whether m is sharded), for each size of Eigen's registers.

    As its shardByCol chooses. Eigen sees the row-major product transposed: its m are our columns,
    its n our rows.
    """
    m, n = cols, rows
    found = set()
    for nr in (4, 8):
        few_columns = n // threads < nr or (
            n // threads < 4 * nr
            and n % (threads * nr) != 0
            and (m % (threads * nr) == 0 or m // n >= 6)
        )
        by_row = m // threads >= nr and few_columns
        by_row = by_row or (n // threads < 16 * nr and m > n * 32)
        found.add((m, n, True) if by_row else (n, m, False))
    return found


def _sharded_axis(sharded: int, other: int, is_m: bool, inner: int, size: int, threads: int) -> int:
    depth = min(inner, _BLOCK_DEPTH)
    whole = min(inner, 2 * _BLOCK_DEPTH) * sharded * size
    block = L2 // (4 * size * depth)
    if size == 4:  # goes to oneDNN's kernel, with blocks half as long again along m, rounded up
        block = block * 3 // 2 + 48 if is_m else block + 24
    task = max(block, _TASK_WORK // (max(1, other // threads) * depth))
    tasks = ceil(sharded / task)
    # Eigen's oversharding factor: from how many tasks on it shards along this axis only.
    bounds = ((4, 8.0), (8, 4.0), (16, 2.0), (32, 1.0), (64, 0.8))
    factor = next((factor for bound, factor in bounds if threads <= bound), 0.6)
    if tasks < factor * threads:
        return whole
    late = min(1.0, (ceil(inner / depth) - 1) * threads / tasks)
    return min(whole, ceil(late * whole) + threads * task * depth * size)


def _sharded_by_inner(rows: int, inner: int, cols: int, size: int, threads: int) -> int:
    """Each worker sums its share of the inner axis into a buffer of the size of the output.

    Only where the output is thin or too small to occupy all threads, and where all buffers fit in
    the L3 cache; the best number of workers is about the square root of the inner extent.
    """
    workers = min(threads, inner // 8, 2 * isqrt(inner) + 2)
    thin = min(rows, cols) < 16 or max(rows, cols) < 8 * threads
    # 100,000 cycles for each thread; an eighth of a cycle for each coefficient and step in depth.
    busy = rows * cols * min(inner, _BLOCK_DEPTH) > 1_000_000 * threads
    if workers < 2 or (busy and not thin) or 2 * rows * cols * size > L3:
        return 0
    depth = min(ceil(inner / workers), L1 // (12 * size))
    return min(workers * rows * cols * size, L3) + workers * depth * (rows + cols) * size


def convolution(call: Call) -> int:
    """A product of image patches with the filter; the patches are packed, never stored whole."""
    kernel, out = call.inputs[1], call.outputs[0]
    channels = kernel.shape[-1]
    patches, inner = prod(out.shape) // max(1, channels), prod(kernel.shape[:-1])
    return packed_bytes(patches, inner, channels, itemsize(out.dtype), call.threads)


# Both gradients lay out the patches of so many images, and no more than there are.
_PATCHES = 30 << 20


def conv2d_grad(image_at: int, filter_at: int) -> Bound:
    """Store the patches of as many images as fit a cache (of one at least), and multiply them."""

    def bound(call: Call) -> int:
        tensors = {k: tensor.shape for k, tensor in enumerate(call.inputs)}
        tensors[image_at if image_at < 0 else filter_at] = call.outputs[0].shape
        (images, *_), kernel, made = tensors[image_at], tensors[filter_at], call.inputs[2].shape
        patch, channels = prod(kernel[:-1]), kernel[-1]
        pixels = prod(made[1:]) // max(1, channels)
        size = itemsize(call.outputs[0].dtype)
        each = (pixels * (patch + channels) + patch * channels) * size
        together = min(images, ceil(_PATCHES / max(1, each)))
        product = (patch, together * pixels, channels)  # for the filter; for images:
        if image_at < 0:
            product = (together * pixels, channels, patch)
        packed = packed_bytes(*product, size, call.threads)
        return together * pixels * patch * size + packed

    return bound


def conv3d_grad(filter_at: int) -> Bound:
    """Pack the patches of all images, where it is not done in slices."""

    def bound(call: Call) -> int:
        kernel = (call.outputs[0] if filter_at < 0 else call.inputs[filter_at]).shape
        patches = tensor_bytes(call.inputs[2]) // max(1, kernel[-1]) * prod(kernel[:-1])
        return patches + copy_of_everything(call)

    return bound


def einsum(call: Call) -> int:
    """Transposed operands and a transposed result beside the product's own packing."""
    depth = 2 * _BLOCK_DEPTH
    packed = sum(tensor_bytes(t) // max(1, prod(t.shape)) * depth * max(t.shape, default=1)
                 for t in call.inputs)  # fmt: skip
    return copy_of_everything(call) + min(packed, all_bytes(call.inputs))
