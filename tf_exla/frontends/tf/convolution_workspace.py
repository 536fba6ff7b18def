"""Limit the scratch memory of convolutions on a GPU.

cuDNN's fastest algorithms may take much: on an H100, the gradient of a filter took 300 MB for an
image of 100 kB. TensorFlow allows gigabytes, or what an environment variable says. Its kernels read
that once, in their first call of a process. Unless the user has set the variable, it is set before
the first plan with convolutions. What it allows is counted for each of them.
"""

from __future__ import annotations

import os

from tf_exla.frontends.tf.device import device
from tf_exla.frontends.tf.ops.memory import gpu
from tf_exla.frontends.tf.ops.table import OPS
from tf_exla.ir.graph import Graph
from tf_exla.ir.traverse import walk

_ALLOWED = gpu.WORKSPACE
"""That of cuBLASLt. For the images of the tests, 16 MB sufficed for the algorithms of no limit,
except for the one above."""


def limit_workspace(graph: Graph) -> None:
    """Limit the workspace of convolutions in this process, if a graph has any."""
    if device() != "GPU" or gpu.workspace() is not None:
        return
    if any(_convolves(node.op) for node in walk(graph)):
        os.environ[gpu.WORKSPACE_VARIABLE] = str(_ALLOWED // gpu.WORKSPACE_UNIT)


def _convolves(op: str) -> bool:
    return op in OPS and OPS[op].gpu is gpu.convolution
