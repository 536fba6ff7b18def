"""What the processes of `fresh_process.py` have imported when they start.

tf_exla, and of other packages what can be forked: nothing here starts threads of TensorFlow
(GPflow does as it is imported). What was made so far is kept out of later garbage collections.
"""

import contextlib
import gc
import warnings

import scipy.linalg
import scipy.optimize  # noqa: F401
import tensorflow  # noqa: F401

import tf_exla.api
import tf_exla.frontends.tf.measure
import tf_exla.frontends.tf.optimized

with contextlib.suppress(ModuleNotFoundError):  # what GPflow needs comes with it
    import check_shapes  # noqa: F401
    import tensorflow_probability.python.distributions  # noqa: F401
    import tf_keras  # noqa: F401

gc.collect()
gc.freeze()

# As in pyproject.toml: a function that runs as it was is a failure.
warnings.filterwarnings("error", category=tf_exla.NotOptimizedWarning)
