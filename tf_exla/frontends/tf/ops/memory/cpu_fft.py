"""Bounds of the memory that the CPU kernels of Fourier transforms allocate (DUCC): see `cpu.py`."""

from __future__ import annotations

from math import ceil, prod

from tf_exla.frontends.tf.ops.memory.call import Bound, Call, itemsize, tensor_bytes

_VECTOR = 32  # bytes: as many real numbers, of different rows, are transformed at once


def complex_fft(axes: int) -> Bound:
    """Count the rows that are transformed at once, along the axis where they take the most.

    A row of n numbers with the largest prime factor p takes at most 4.05 p + n more (Bluestein's
    algorithm transforms 2 p numbers). Measured for 24 lengths, prime and not.
    """

    def bound(call: Call) -> int:
        return _rows(call.inputs[0].shape, axes, itemsize(call.inputs[0].dtype), 5, call.threads)

    return bound


def real_fft(axes: int, inverse: bool = False) -> Bound:
    """Count as `complex_fft` does, but at most 8.02 p + 1.5 n more for each row.

    Also count a copy of the operand, if the transform reads only a part of it or pads it.
    """

    def bound(call: Call) -> int:
        given, made = call.inputs[0], call.outputs[0]
        signal = list((made if inverse else given).shape)
        lengths = call.inputs[1].value
        if lengths is not None:
            signal[-axes:] = map(int, lengths.ravel())
        half = [*signal[:-1], signal[-1] // 2 + 1]
        whole = tuple(half if inverse else signal) == tuple(given.shape)
        copied = (inverse and axes > 1) or lengths is None or not whole
        size = max(itemsize(given.dtype), itemsize(made.dtype))
        rows = _rows(tuple(signal), axes, size, 9, call.threads)
        return rows + (tensor_bytes(given) if copied else 0)

    return bound


def _rows(shape: tuple[int, ...], axes: int, size: int, primes: int, threads: int) -> int:
    """Return the bytes of all rows that are transformed at once.

    `axes`: the number of transformed axes. `size`: bytes of a complex number. `primes`: the numbers
    that a row needs, in multiples of the largest prime factor of its length.
    """
    together = threads * (_VECTOR // max(1, size // 2))
    most = 0.0
    for length in shape[len(shape) - axes :]:
        rows = min(together, prod(shape) // max(1, length))
        most = max(most, rows * (primes * _largest_prime(length) + 2 * length))
    return ceil(most) * size


def _largest_prime(number: int) -> int:
    """Return the largest prime factor."""
    factor = 2
    while factor * factor <= number:
        if number % factor:
            factor += 1
        else:
            number //= factor
    return number
