"""Packages whose eager calls `run` optimizes as well, once a script imports them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from tf_exla.run.on_import import on_import

INTEGRATIONS = {"gpflow": "tf_exla.run.gpflow_eager"}
"""The module of ours that has `during_run(optimize, limit)`, by the package that it is for."""


@contextmanager
def integrations(optimize: Callable[[Any], Any], limit: Callable[[], int]) -> Iterator[None]:
    """Optimize eager calls of packages that are imported meanwhile.

    `optimize`: makes an optimized function; `limit`: returns bytes.
    """
    with ExitStack() as stack:

        def begin(name: str) -> None:
            module = importlib.import_module(INTEGRATIONS[name])
            stack.enter_context(module.during_run(optimize, limit))

        for name in INTEGRATIONS:
            stack.enter_context(on_import(name, partial(begin, name)))
        yield
