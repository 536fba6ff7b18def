"""Keep tensors of int32 on a GPU.

TensorFlow's kernels for int32 that add, concatenate, reshape, update or carry a loop's variables
work on the host: it copies the operands there, waits for them, and copies the result back. Kernels
for other dtypes of four bytes work on the GPU: those for uint32 add, those for float32 update.
"""

from __future__ import annotations

import tensorflow as tf

from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.restore.emitter import Emitter


def unsigned(emitter: Emitter, tensor: tf.Tensor) -> tf.Tensor:
    """Return int32 as uint32 with the same bits, for a GPU; other tensors as they are."""
    return _viewed(emitter, tensor, "uint32")


def movable(emitter: Emitter, tensor: tf.Tensor) -> tf.Tensor:
    """Return int32 as float32 with the same bits, to copy it on a GPU; other tensors as they are.

    An update of a part has no kernel for uint32. No copy changes the bits of a float.
    """
    return _viewed(emitter, tensor, "float32")


def restored(emitter: Emitter, tensor: tf.Tensor, dtype: str) -> tf.Tensor:
    """Return the result of `unsigned` or `movable` as `dtype` again."""
    return tensor if tensor.dtype == dtype else _cast(emitter, tensor, dtype)


def _viewed(emitter: Emitter, tensor: tf.Tensor, dtype: str) -> tf.Tensor:
    if tensor.dtype != tf.int32 or emitter.compiled or device() != "GPU":
        return tensor
    return _cast(emitter, tensor, dtype)


def _cast(emitter: Emitter, tensor: tf.Tensor, dtype: str) -> tf.Tensor:
    made = tensor.op
    if made.type == "Bitcast" and made.inputs[0].dtype == dtype:
        return made.inputs[0]
    return emitter.op("Bitcast", [tensor], {"type": dtype}).outputs[0]
