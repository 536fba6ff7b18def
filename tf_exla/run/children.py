"""Child processes of a program under `run` hold the same limit.

A forked child inherits the parent's patched TensorFlow. A child that `multiprocessing` or loky
(joblib) spawns receives preparation data. An object added to this data installs the limit when it
is unpickled. Other Python children, such as those of `subprocess`, hold no limit, and a line on
stderr says so.
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
    """An object that imports this package and calls `install` when it is unpickled."""

    def __init__(self, limit: int | str | None, strict: bool, jit_compile: bool | None) -> None:
        self.call = f"install({limit!r}, {strict!r}, {jit_compile!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The child does not have the parent's sys.path yet.
        root = str(Path(__file__).resolve().parent.parent)
        source = (
            "import sys\n"
            f"sys.path.append({root!r})\n"
            "try:\n"
            f"    from tf_exla.run.children import install\n"
            f"    {self.call}\n"
            "except Exception as error:\n"  # the user's script must not end because of this
            "    print(f'tf_exla: no memory limit holds in this child process: {error!r}',\n"
            "          file=sys.stderr)\n"
            "finally:\n"
            f"    sys.path.remove({root!r})\n"
        )
        return exec, (source, {})


def inherit(limit: int | str | None, strict: bool, jit_compile: bool | None = None) -> None:
    """Make the children of this process stay within the limit, as long as the process lives."""

    def add(name: str) -> None:
        spawn = sys.modules[name]
        prepared = spawn.get_preparation_data

        def get_preparation_data(*args: Any, **kwargs: Any) -> dict[str, Any]:
            return {**prepared(*args, **kwargs), "tf_exla": _Installer(limit, strict, jit_compile)}

        spawn.get_preparation_data = get_preparation_data  # type: ignore[attr-defined]

    for name in _SPAWNING:
        _installed.enter_context(on_import(name, partial(add, name)))
    sys.addaudithook(_tell_of_others())


def install(limit: int | str | None, strict: bool, jit_compile: bool | None = None) -> None:
    """Optimize every outermost `tf.function` of this process once it imports TensorFlow."""

    def patch() -> None:
        from tf_exla.run.script import optimized_functions

        _installed.enter_context(optimized_functions(limit, strict=strict, jit_compile=jit_compile))

    _installed.enter_context(on_import("tensorflow", patch))
    inherit(limit, strict, jit_compile)


def _tell_of_others() -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that reports, once, a Python child that holds no limit."""
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
