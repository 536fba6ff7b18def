"""Compile each plan as one XLA module, as on a GPU; here XLA compiles it for the CPU."""

from __future__ import annotations

import dataclasses
from typing import Any
from unittest import mock

from tf_exla.frontends.tf.calls import request
from tf_exla.frontends.tf.planning import planner
from tf_exla.frontends.tf.restore.whole import WholeOps, compile_whole


def as_on_a_gpu() -> list[Any]:
    """Compile each plan as a whole; return the list of functions that are made."""
    # XLA has no workspace for products on a CPU.
    mock.patch.object(WholeOps, "of_product", return_value=0).start()
    made: list[Any] = []
    options = request.Request.options

    def whole(self: Any, jit_compile: bool | None = None) -> Any:
        return dataclasses.replace(options(self, jit_compile), whole=True)

    def kept(*args: Any) -> Any:
        made.append(compile_whole(*args))
        return made[-1]

    mock.patch.object(request.Request, "options", whole).start()
    mock.patch.object(planner, "compile_whole", kept).start()
    return made
