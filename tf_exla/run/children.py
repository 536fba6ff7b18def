"""Child processes of a program under `run` hold the same limit.

A forked child has the parent's patched TensorFlow. A child that `multiprocessing` or loky (joblib)
starts afresh is sent data to prepare itself with; what is added to that data installs the limit as
it is unpickled. Other Python children, as of `subprocess`, hold no limit, and a line says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tf_exla.run.on_import import on_import

_SPAWNING = (
    "multiprocessing.spawn",
    "joblib.externals.loky.backend.spawn",
    "loky.backend.spawn",
)
_installed = ExitStack()


class _Installer:
    """Calls `install` where it is unpickled, if this package can be imported there."""

    def __init__(self, limit: int | str | None, strict: bool) -> None:
        self.call = f"install({limit!r}, {strict!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The child has not got the parent's sys.path yet.
        root = str(Path(__file__).resolve().parent.parent)
        source = (
            "import sys\n"
            f"sys.path.append({root!r})\n"
            "try:\n"
            f"    from tf_exla.run.children import install\n"
            f"    {self.call}\n"
            "finally:\n"
            f"    sys.path.remove({root!r})\n"
        )
        return exec, (source, {})


def inherit(limit: int | str | None, strict: bool) -> None:
    """Let the children of this process hold the limit; it lasts as long as the process."""

    def add(name: str) -> None:
        spawn = sys.modules[name]
        prepared = spawn.get_preparation_data

        def get_preparation_data(*args: Any, **kwargs: Any) -> dict[str, Any]:
            return {**prepared(*args, **kwargs), "tf_exla": _Installer(limit, strict)}

        spawn.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]

    for name in _SPAWNING:
        _installed.enter_context(on_import(name, partial(add, name)))
    sys.addaudithook(_tell_of_others())


def install(limit: int | str | None, strict: bool) -> None:
    """Optimize every outermost `tf.function` of this process, from when it imports TensorFlow."""

    def patch() -> None:
        from tf_exla.run.script import optimized_functions

        _installed.enter_context(optimized_functions(limit, strict=strict))

    _installed.enter_context(on_import("tensorflow", patch))
    inherit(limit, strict)


def _tell_of_others() -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that tells once of a Python child that holds no limit."""
    told = False

    def hook(event: str, details: tuple[Any, ...]) -> None:
        nonlocal told
        if told or event != "subprocess.Popen":
            return
        command = details[1]
        words = command.split() if isinstance(command, str) else [os.fsdecode(w) for w in command]
        is_python = bool(words) and Path(words[0]).name.startswith("python")
        if is_python and not any("tf_exla" in word for word in words):
            told = True
            print(
                f"tf_exla: no memory limit holds in the child process {' '.join(words[:3])}; "
                "start it by `python -m tf_exla run`",
                file=sys.stderr,
            )

    return hook
