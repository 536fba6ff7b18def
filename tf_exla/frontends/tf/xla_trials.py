"""Keep XLA from trying kernels on a GPU while it compiles.

To choose a kernel for a product, XLA runs several on arrays of the operands' sizes. That memory is
not counted: on an H100, neighbours with 784 columns took 0.81 GB while a plan of 0.59 GB was
compiled, and 0.27 GB without trials. In 13 plans, compiling took 0.5 of the time without (median),
and calls 1.1 (0.9 to 1.5). Tiles of Triton's products are chosen by trials (attention took 24
instead of 6.1 ms with tiles that were not), so cuBLAS computes products then.

XLA reads its flags once, when a process first compiles.
"""

from __future__ import annotations

import os

from tf_exla.frontends.tf.device import device

VARIABLE = "XLA_FLAGS"
_LEVEL = "--xla_gpu_autotune_level"
_FLAGS = f"{_LEVEL}=0 --xla_gpu_enable_triton_gemm=false"


def without_trials() -> None:
    """Switch trials of kernels off in this process, unless the user has set their level."""
    flags = os.environ.get(VARIABLE, "")
    if device() == "GPU" and _LEVEL not in flags:
        os.environ[VARIABLE] = f"{flags} {_FLAGS}".strip()
