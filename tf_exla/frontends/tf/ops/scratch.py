"""Upper bounds of the bytes that the kernel of any op allocates, by its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_exla.frontends.tf.ops.memory.call import Call, TensorLike
from tf_exla.frontends.tf.ops.table import record

_BLOCK = 256  # a GPU's allocator rounds up


def scratch_bytes(
    op: str,
    inputs: Sequence[TensorLike],
    outputs: Sequence[TensorLike],
    attrs: Mapping[str, object],
    threads: int,
    compiled: bool = False,
) -> int:
    """Return an upper bound of the bytes that the CPU kernel of `op` allocates beyond its outputs.

    `attrs` are plain values named as in the NodeDef (absent ones have TensorFlow's default).
    `threads` is the number of intra-op threads. `compiled`: also bound XLA's calls for `op`.
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    known, call = record(op), Call(inputs, outputs, attrs, threads)
    calls = known.xla_calls if compiled else None
    return max(known.cpu(call), calls(call) if calls is not None else 0)


def gpu_scratch_bytes(
    op: str,
    inputs: Sequence[TensorLike],
    outputs: Sequence[TensorLike],
    attrs: Mapping[str, object],
) -> int:
    """Return an upper bound of the bytes that the GPU kernel of `op` allocates beyond its outputs.

    Kernels that TensorFlow has only for the host count as well.
    """
    known = record(op)
    return (known.gpu or known.cpu)(Call(inputs, outputs, attrs, 1)) + _BLOCK
