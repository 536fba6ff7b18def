"""The Python state of a user's object: what a trace of its method stored there, and how to undo it.

A method that keeps a tensor for later (`self.cholesky = ...`) works eagerly. If it is traced, it
keeps a symbolic tensor, which no later call can read.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

# Not searched: they hold no state of a user, or none that a trace could leave there. Libraries of
# TensorFlow clean up their own caches of symbolic tensors.
_LEAVES = (
    *(bool, int, float, complex, str, bytes, type(None)),
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
    *(np.ndarray, np.generic, tf.Tensor, tf.Variable, tf.DType, tf.TensorShape),
)
_LIBRARIES = ("tensorflow.", "tensorflow_probability.", "keras.")


class PythonState:
    """The attributes and containers below an object, as they are when this is made."""

    def __init__(self, root: Any) -> None:
        self._root = root
        reached = list(_reached(root))
        self._before = [(box, _copy(box)) for box in _boxes(reached)]
        self._symbolic = set(map(id, _symbolic(reached)))

    def has_new_symbolic_tensors(self) -> bool:
        """Return whether a symbolic tensor is there that was not there before."""
        return any(id(tensor) not in self._symbolic for tensor in _symbolic(_reached(self._root)))

    def restore(self) -> None:
        """Undo all changes of attributes, dicts and lists."""
        for box, before in self._before:
            if isinstance(box, dict):
                if not _same(list(box.items()), list(before.items())):
                    box.clear()
                    box.update(before)
            elif not _same(list(enumerate(box)), list(enumerate(before))):
                box[:] = before


def _copy(box: Any) -> Any:
    return dict(box) if isinstance(box, dict) else list(box)


def _same(one: list[tuple[Any, Any]], two: list[tuple[Any, Any]]) -> bool:
    """Return whether two lists hold the same objects at the same keys."""
    return len(one) == len(two) and all(
        a[0] == b[0] and a[1] is b[1] for a, b in zip(one, two, strict=True)
    )


def _boxes(reached: Iterable[Any]) -> Iterator[Any]:
    """Yield the dicts and lists that can be restored, attributes of objects among them."""
    for value in reached:
        if isinstance(value, dict | list):
            yield value
        if _has_attributes(value):
            yield vars(value)


def _symbolic(reached: Iterable[Any]) -> Iterator[Any]:
    return (one for one in reached if isinstance(one, tf.Tensor) and tf.is_symbolic_tensor(one))


def _reached(root: Any) -> Iterator[Any]:
    """Yield each object that attributes and containers lead to, once."""
    seen: dict[int, Any] = {}  # the objects as well, so that no identity is used again
    todo = [root]
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if isinstance(value, _LEAVES):
            continue
        if isinstance(value, dict):
            todo.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            todo.extend(value)
        if _has_attributes(value):
            todo.extend(vars(value).values())


def _has_attributes(value: Any) -> bool:
    if isinstance(value, _LEAVES) or not isinstance(getattr(value, "__dict__", None), dict):
        return False
    return not type(value).__module__.startswith(_LIBRARIES)
