"""Bounds of the memory that CPU kernels of products allocate beyond their outputs: see `cpu.py`."""

from __future__ import annotations

from math import ceil, prod

from tf_exla.frontends.tf.ops.memory.call import (
    Bound,
    Call,
    TensorLike,
    all_bytes,
    batch_positions,
    copy_of_everything,
    itemsize,
    tensor_bytes,
)
from tf_exla.model.eigen import BLOCK_DEPTH, packed_bytes

# LaunchBatchMatMul: a smaller product is not worth several threads.
_SMALL_PRODUCT = 128 * 128
# Products.


def matmul(call: Call) -> int:
    """Count what LaunchMatMul packs to multiply two matrices."""
    return _product(call, *(bool(call.attrs.get(f"transpose_{side}", False)) for side in "ab"))


def batch_matmul(call: Call) -> int:
    """Count what is packed to multiply batches of matrices, and which are multiplied."""
    adjoint = (bool(call.attrs.get(f"adj_{side}", False)) for side in "xy")
    return _product(call, *adjoint) + batch_positions(call)


def _product(call: Call, transpose_left: bool, transpose_right: bool) -> int:
    """Return the bytes that the kernel chosen by LaunchBatchMatMul packs."""
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
    """Count packed operands of all products of a batch, which XLA's code starts at once.

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


def convolution(call: Call) -> int:
    """Count a product of image patches and the filter; patches are packed, never stored whole.

    With groups of channels, the operand and the result are copied: group by group.
    """
    kernel, out = call.inputs[1], call.outputs[0]
    channels = kernel.shape[-1]
    grouped = call.inputs[0].shape[-1] > kernel.shape[-2]
    copies = copy_of_everything(call) if grouped else 0
    patches, inner = prod(out.shape) // max(1, channels), prod(kernel.shape[:-1])
    return copies + packed_bytes(patches, inner, channels, itemsize(out.dtype), call.threads)


# Both gradients store patches of as many images as fill this many bytes, at most of all images.
_PATCHES = 30 << 20


def conv2d_grad(image_at: int, filter_at: int) -> Bound:
    """Count stored patches of as many images as fit a cache, at least one, and their product.

    The gradient of the filter is added up from products that are as large.
    """

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
        summed = 0 if image_at < 0 else tensor_bytes(call.outputs[0])
        return together * pixels * patch * size + packed + summed

    return bound


# Depthwise convolutions hold the filter with channels padded to whole vectors, and a patch of the
# image of the same size for each thread (depthwise_conv_op.cc, depthwise_conv_grad_op.cc).
_VECTOR = 64


def _padded_filter(kernel: TensorLike) -> int:
    channels = prod(kernel.shape[2:]) * itemsize(kernel.dtype)
    return prod(kernel.shape[:2]) * ceil(channels / _VECTOR) * _VECTOR


def depthwise(call: Call) -> int:
    """Count the padded filter, and a patch for each thread, which computes rows of the result."""
    rows = prod(call.outputs[0].shape[:2])
    return (1 + min(call.threads, rows)) * _padded_filter(call.inputs[1])


def depthwise_input_grad(call: Call) -> int:
    """Count the padded filter, and a patch and a pixel for each thread, which computes images."""
    kernel = call.inputs[1]
    pixel = tensor_bytes(kernel) // max(1, prod(kernel.shape[:2])) + _VECTOR
    images = min(call.threads, call.outputs[0].shape[0])
    return _padded_filter(kernel) + images * (_padded_filter(kernel) + pixel)


def depthwise_filter_grad(call: Call) -> int:
    """Count a gradient for each image, and a patch for each thread."""
    images = call.inputs[0].shape[0]
    return (images + min(call.threads, images)) * _padded_filter(call.outputs[0])


def conv3d_grad(filter_at: int) -> Bound:
    """Count the patches of all images, or one product that packs them where they are too large.

    For the gradient of images, that product has a patch of `made` channels for each pixel of an
    image. With strides above one there are more pixels than windows.
    """

    def bound(call: Call) -> int:
        kernel = (call.outputs[0] if filter_at < 0 else call.inputs[filter_at]).shape
        *window, channels, made = kernel
        places, size = call.inputs[2], itemsize(call.inputs[2].dtype)
        patches = tensor_bytes(places) // max(1, made) * prod(window) * channels
        if filter_at < 0:
            product = prod(window) * channels, prod(places.shape[:-1]), made
        else:
            product = prod(call.outputs[0].shape[:-1]), prod(window) * made, channels
        packed = packed_bytes(*product, size, call.threads)
        return max(patches, packed) + copy_of_everything(call)

    return bound


def einsum(call: Call) -> int:
    """Count transposed operands, a transposed result and the product's own packing."""
    depth = 2 * BLOCK_DEPTH
    packed = sum(tensor_bytes(t) // max(1, prod(t.shape)) * depth * max(t.shape, default=1)
                 for t in call.inputs)  # fmt: skip
    copies = copy_of_everything(call) + _einsum_positions(call)
    return copies + min(packed, all_bytes(call.inputs))


def _einsum_positions(call: Call) -> int:
    """Count a position in either operand for each matrix; only leading axes are broadcast."""
    left, _, right = str(call.attrs.get("equation", "")).replace(" ", "").partition("->")
    before, dots, after = right.partition("...")
    terms, shape = left.split(","), call.outputs[0].shape
    if not dots or len(terms) < 2:
        return 0
    leading = shape[len(before) : len(shape) - len(after)]
    sizes = dict(zip(before, shape, strict=False))
    sizes.update(zip(reversed(after), reversed(shape), strict=False))
    shared = (size for name, size in sizes.items() if all(name in term for term in terms))
    return 2 * 8 * prod(leading) * prod(shared)
