"""What `tf.saved_model.save` finds where a module holds an optimized function.

TensorFlow saves the concrete functions of `tf.function`s. So an optimized function offers one that
calls it: the restored plan becomes a function of the SavedModel, which needs no tf_exla to run.

The gradient is Python and is not saved: save a function that returns gradients where they are
needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.trackable.base import Trackable


class Saveable(Trackable):  # type: ignore[misc]
    """A callable that TensorFlow tracks; after loading, the attribute is callable again."""

    _function: Any

    def _trackable_children(
        self, save_type: str = "checkpoint", **kwargs: Any
    ) -> Mapping[str, Any]:
        children: dict[str, Any] = super()._trackable_children(save_type, **kwargs)
        if save_type != "savedmodel":
            return children
        signatures = self._function._list_all_concrete_functions_for_serialization()
        exported = self.__dict__.get("_exported")
        if exported is None:
            exported = tf.function(
                lambda *args, **kwargs: self(*args, **kwargs),
                autograph=False,
            )
            self.__dict__["_exported"] = exported
        for concrete in signatures:
            args, kwargs = concrete.structured_input_signature
            exported.get_concrete_function(*args, **kwargs)
        return {**children, "__call__": exported}
