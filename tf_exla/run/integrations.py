"""Packages whose eager calls are optimized as well, once a program imports them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from tf_exla.run.on_import import on_import
from tf_exla.run.session import Session

INTEGRATIONS = {"gpflow": "tf_exla.run.gpflow_eager"}
"""By package: the module of tf_exla that has `redirected(latest)` for it."""


@contextmanager
def integrations(latest: Callable[[], Session | None]) -> Iterator[None]:
    """Optimize eager calls of packages once they are imported, by the `latest` session."""
    with ExitStack() as stack:

        def begin(name: str) -> None:
            module = importlib.import_module(INTEGRATIONS[name])
            stack.enter_context(module.redirected(latest))

        for name in INTEGRATIONS:
            stack.enter_context(on_import(name, partial(begin, name)))
        yield
