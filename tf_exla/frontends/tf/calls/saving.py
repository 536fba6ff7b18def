"""Saving of optimized functions in modules by `tf.saved_model.save`.

TensorFlow saves the concrete functions of `tf.function`s. So an optimized function offers a
`tf.function` that calls it. The restored plan becomes a function of the SavedModel, which runs
without tf_exla. The same `tf.function` serves as a signature
(`tf.saved_model.save(..., signatures=optimized)`).

The gradient is Python code and is not saved. If gradients are needed, save a function that returns
them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.saved_model import signature_serialization
from tensorflow.python.trackable.autotrackable import AutoTrackable
from tensorflow.python.trackable.base import Trackable


class Saveable(Trackable):  # type: ignore[misc]
    """A callable that TensorFlow tracks; as an attribute it is callable again after loading."""

    _function: Any

    def _trackable_children(
        self, save_type: str = "checkpoint", **kwargs: Any
    ) -> Mapping[str, Any]:
        children: dict[str, Any] = super()._trackable_children(save_type, **kwargs)
        if save_type != "savedmodel":
            return children
        for concrete in self._function._list_all_concrete_functions_for_serialization():
            self._export(concrete)
        return {**children, "__call__": self._exported()}

    def _export(self, concrete: Any) -> Any:
        """Return a concrete function of TensorFlow that calls this one, for the same signature."""
        args, kwargs = concrete.structured_input_signature
        return self._exported().get_concrete_function(*args, **kwargs)

    def _exported(self) -> Any:
        """Return a `tf.function` that calls this one."""
        exported = self.__dict__.get("_saved_as")
        if exported is None:

            def call(*args: Any, **kwargs: Any) -> Any:
                return self(*args, **kwargs)

            plain = self._function.python_function
            call.__name__ = getattr(plain, "__name__", "call")
            # The signature determines the names of the arguments.
            call.__signature__ = inspect.signature(plain)  # type: ignore[attr-defined]
            exported = self.__dict__["_saved_as"] = tf.function(call, autograph=False)
        return exported


class SaveableConcrete:
    """An optimized function for one signature, as a signature of a SavedModel."""

    _function: Saveable
    _concrete: Any


_signature = signature_serialization._get_signature


def _signature_or_export(function: Any) -> Any:
    """Return the concrete function to save for a signature, or None.

    TensorFlow tests for its own classes by `isinstance`, and would not accept these classes.
    """
    if isinstance(function, SaveableConcrete):
        return function._function._export(function._concrete)
    if isinstance(function, Saveable):
        concrete = _signature(function._function)
        return None if concrete is None else function._export(concrete)
    return _signature(function)


signature_serialization._get_signature = _signature_or_export

_children = AutoTrackable._trackable_children


def _children_and_methods(
    module: Any, save_type: str = "checkpoint", **kwargs: Any
) -> Mapping[str, Any]:
    """Return the children of a module, which are saved, with the optimized methods of its class.

    TensorFlow finds methods by `isinstance` with its own classes.
    """
    methods: dict[str, Any] = {}
    if save_type == "savedmodel":
        cls = type(module)
        optimized = (n for n in dir(cls) if isinstance(inspect.getattr_static(cls, n), Saveable))
        methods = {name: getattr(module, name) for name in optimized}
        for method in methods.values():  # a trace may create variables, which are children
            method._function._list_all_concrete_functions_for_serialization()
    return {**_children(module, save_type, **kwargs), **methods}


AutoTrackable._trackable_children = _children_and_methods
