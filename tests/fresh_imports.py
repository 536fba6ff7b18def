"""What the processes of `fresh_process.py` have imported when they start.

Packages of others, and of these what can be forked: nothing here starts threads of TensorFlow
(GPflow does as it is imported). What was made so far is kept out of later garbage collections.
"""

import gc
import warnings

import check_shapes  # noqa: F401
import scipy.linalg
import scipy.optimize  # noqa: F401
import tensorflow  # noqa: F401
import tensorflow_probability.python.distributions  # noqa: F401
import tf_keras  # noqa: F401

gc.collect()
gc.freeze()

# As in pyproject.toml: a function that runs as it was is a failure. By its words: SavedModel tests
# start processes without tf_exla.
warnings.filterwarnings("error", message=".* runs as it was, and no memory limit holds for it")
