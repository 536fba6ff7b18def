"""Environment variables that keep libraries on a GPU from taking memory that is not counted.

Libraries read them once in a process, so they are set before the first plan that they matter to,
unless the user has set them.

*Convolutions.* cuDNN's fastest algorithms may take much: on an H100, the gradient of a filter took
300 MB for an image of 100 kB. TensorFlow allows gigabytes, unless an environment variable limits
the workspace. The allowed workspace is counted for each convolution.

*Trials.* To choose a kernel for a product, XLA runs several on arrays of the operands' sizes while
it compiles: on an H100, neighbours with 784 columns took 0.81 GB while a plan of 0.59 GB was
compiled, and 0.27 GB without trials. Without trials, 13 plans compiled in half of the time
(median), and their calls took 1.1 times as long (0.9 to 1.5). Triton's products need trials to
choose their tiles: with other tiles, attention took 24 ms instead of 6.1 ms. So without trials,
cuBLAS computes the products.
"""

from __future__ import annotations

import os

from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.ops.memory import gpu
from tf_exla.frontends.tf.ops.table import OPS
from tf_exla.ir.graph import Graph
from tf_exla.ir.traverse import walk

_ALLOWED = gpu.WORKSPACE
"""The workspace of a convolution, in bytes: the same as for cuBLASLt. For the images of the tests,
16 MB sufficed for the algorithms that are chosen without a limit, except for the one above."""
VARIABLE = "XLA_FLAGS"
_LEVEL = "--xla_gpu_autotune_level"
_FLAGS = f"{_LEVEL}=0 --xla_gpu_enable_triton_gemm=false"


def limit_workspace(graph: Graph) -> None:
    """Limit the workspace of convolutions in this process, if a graph has any."""
    if device() != "GPU" or gpu.workspace() is not None:
        return
    if any(_convolves(node.op) for node in walk(graph)):
        os.environ[gpu.WORKSPACE_VARIABLE] = str(_ALLOWED // gpu.WORKSPACE_UNIT)


def _convolves(op: str) -> bool:
    return op in OPS and OPS[op].gpu is gpu.convolution


def without_trials() -> None:
    """Switch trials of kernels off in this process, unless the user has set their level."""
    flags = os.environ.get(VARIABLE, "")
    if device() == "GPU" and _LEVEL not in flags:
        os.environ[VARIABLE] = f"{flags} {_FLAGS}".strip()
