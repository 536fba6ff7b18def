"""The memory of a call of a certified program, measured in a fresh process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def warm(size: int = 600) -> None:
    """Let Eigen and OpenBLAS allocate the buffers that they keep for the life of the process."""
    import jax
    import jax.numpy as jnp

    from tf_exla.frontends.jax.compat import compiler_options

    def kernels(a: Any) -> Any:
        root = jnp.linalg.cholesky(a @ a.T + a)
        wide = jnp.tile(a, (1, 16))  # the wider its operands, the more buffers OpenBLAS uses
        return jax.scipy.linalg.solve_triangular(root, wide, lower=True), jnp.exp(a).sum()

    for dtype in ("float32", "float64") if jax.config.jax_enable_x64 else ("float32",):
        a = jnp.eye(size, dtype=dtype)
        compiled = jax.jit(kernels).lower(a).compile(compiler_options=compiler_options())
        jax.block_until_ready(compiled(a))


def growth(call: Callable[[], Any]) -> int:
    """Return the largest growth of the resident set during a call."""
    import jax

    gc.collect()
    time.sleep(0.2)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
    kept = jax.block_until_ready(call())
    grown = status("VmHWM") - before
    del kept
    return grown


def measured(
    function: Callable[..., Any], arguments: Any, limit: float, least: float = 0
) -> dict[str, float]:
    """Run a function within a limit in MB; return the certified and measured peak, in bytes.

    `stock`: bytes of XLA's buffers without a limit. `error`: the largest difference from stock,
    relative to the largest number of the array, or to `least` times that of all arrays.
    """
    import jax
    import numpy as np

    import tf_exla.jax

    call = tf_exla.jax.jit(function, int(limit * 1e6)).call(*arguments)
    made = call.program.certified()
    warm()
    held = sum(one.size * one.dtype.itemsize for one in map(jax.typeof, call.operands))
    grown = growth(lambda: made.run(*call.operands))
    stock = jax.jit(function).lower(*arguments).compile()
    expected = [_numbers(one) for one in jax.tree.leaves(stock(*arguments))]
    sizes = [float(np.abs(one).max(initial=0)) for one in expected]
    error = 0.0
    for one, other, size in zip(made.run(*call.operands), expected, sizes, strict=True):
        scale = max(size, least * max(sizes)) or 1.0
        error = max(error, float(np.abs(_numbers(one) - other).max(initial=0)) / scale)
    known = stock.memory_analysis()
    parts = ("argument", "output", "temp")
    return {
        "limit": limit * 1e6,
        "certified": made.certificate.peak,
        "measured": held + grown,
        "stock": sum(getattr(known, f"{part}_size_in_bytes") for part in parts),
        "error": error,
    }


def _numbers(array: Any) -> Any:
    import jax
    import numpy as np

    key = jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if key else array).astype(np.float64)
