"""`for` loops over datasets inside of functions, traced as loops over iterators.

AutoGraph makes `Dataset.scan` of such a loop: its body is a function of the dataset, which no graph
contains. A loop over an iterator is a While, which can be planned if the elements have static
shapes. Other datasets are left to AutoGraph, and `planner.py` warns of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.operators import control_flow

_ERRORS = (NotImplementedError, TypeError, ValueError)
"""What a While refuses and a dataset accepts, such as a variable whose shape grows."""


def trace_as_iterators(is_tracing: Callable[[], bool]) -> None:
    """Trace loops over datasets so where `is_tracing`; call this once."""
    registered = control_flow.for_loop_registry._registry
    stock = registered[tf.data.Dataset]

    def loop(
        dataset: Any, extra_test: Any, body: Any, get_state: Any, set_state: Any, *more: Any
    ) -> None:
        if is_tracing() and _has_static_elements(dataset):
            before = get_state()
            try:
                control_flow._tf_iterator_for_stmt(
                    iter(dataset), extra_test, body, get_state, set_state, *more
                )
            except _ERRORS:
                set_state(before)
            else:
                return
        stock(dataset, extra_test, body, get_state, set_state, *more)

    registered[tf.data.Dataset] = loop


def _has_static_elements(dataset: Any) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    return all(isinstance(spec, tf.TensorSpec) and spec.shape.is_fully_defined() for spec in specs)
