"""What a trace leaves in a user's object, and how it is undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tf_exla.run.python_state import PythonState


@dataclass
class Part:
    kept: list[Any] = field(default_factory=list)
    parent: Any = None


class Model(tf.Module):  # type: ignore[misc]
    """It has what modules wrap: dicts and lists of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {"old": tf.ones(2)}
        self.parts = [Part(), Part()]
        self.parts[0].parent = self  # a cycle
        self.count = 0


def symbolic() -> Any:
    made = []

    @tf.function
    def traced() -> Any:
        made.append(tf.zeros(3) + 1.0)
        return made[0]

    traced.get_concrete_function()
    return made[0]


def test_nothing_new() -> None:
    model = Model()
    state = PythonState(model)
    model.count += 1
    model.cache["eager"] = tf.ones(1)
    assert not state.has_new_symbolic_tensors()


def test_symbolic_tensors_are_found_wherever_they_are_and_removed() -> None:
    def attribute(model: Model, tensor: Any) -> None:
        model.made = tensor

    def entry(model: Model, tensor: Any) -> None:
        model.cache["new"] = (1, {"inner": tensor})
        del model.cache["old"]

    def item(model: Model, tensor: Any) -> None:
        model.parts[1].kept.append(tensor)

    for store in (attribute, entry, item):
        model = Model()
        old = model.cache["old"]
        names = set(vars(model))
        state = PythonState(model)
        store(model, symbolic())
        model.count = 5
        assert state.has_new_symbolic_tensors(), store
        state.restore()
        assert not state.has_new_symbolic_tensors()
        assert set(vars(model)) == names
        assert model.count == 0
        assert dict(model.cache) == {"old": old}
        assert model.parts[1].kept == []


def test_those_that_were_there_before_do_not_count() -> None:
    model = Model()
    model.cache["old"] = symbolic()
    assert not PythonState(model).has_new_symbolic_tensors()
