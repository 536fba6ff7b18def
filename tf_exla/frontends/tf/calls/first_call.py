"""The first call of a function that creates variables from its arguments.

Before the first call, TensorFlow runs the initializers of new variables, outside of the function.
It cannot if their values depend on arguments, as in data-dependent initialization. Then the first
call runs the traced function without a plan, and the function initializes its variables itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow.python.eager.lift_to_graph import UnliftableError as UnliftableError
from tensorflow.python.eager.polymorphic_function import tracing_compilation

from tf_exla.caller import warn
from tf_exla.errors import NotOptimizedWarning


def run_first_call(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run the trace that has created the variables of a `tf.function`; return its results.

    Later traces find them initialized, and create none.
    """
    warn(
        f"{function.__name__}: its first call creates variables from its arguments and runs as it "
        "was. Later calls stay within the limit.",
        NotOptimizedWarning,
    )
    # As in `Function._call`, whose initializers have just failed.
    config = function._variable_creation_config
    return tracing_compilation.call_function(tuple(args), dict(kwargs), config)
