"""The imports that processes of `fresh_process.py` have at their start.

They are tf_exla and other packages that can be forked: none starts threads of TensorFlow, as an
import of GPflow does. Objects made so far are excluded from later garbage collections.
"""

import contextlib
import gc
import warnings

import pytest  # noqa: F401
import scipy.linalg
import scipy.optimize  # noqa: F401
import tensorflow  # noqa: F401

import tf_exla.api
import tf_exla.frontends.tf.calls.optimized
import tf_exla.frontends.tf.measuring.measure

with contextlib.suppress(ModuleNotFoundError):  # GPflow's dependencies come with it
    import check_shapes  # noqa: F401
    import tensorflow_probability.python.distributions  # noqa: F401
    import tf_keras  # noqa: F401

gc.collect()
gc.freeze()

# As in pyproject.toml: a function that runs unchanged is a failure.
warnings.filterwarnings("error", category=tf_exla.NotOptimizedWarning)
