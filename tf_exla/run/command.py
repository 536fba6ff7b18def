"""Running a script or a module as `python` itself does, under a memory limit."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import io
import os
import pkgutil
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from tf_exla.run.children import inherit


# Many parameters: the options of the command `run`.
def run_program(
    program: str,
    arguments: Sequence[str],
    *,
    module: bool = False,
    limit: int | str | None = None,
    strict: bool = False,
    report: Path | None = None,
    devices: str | None = None,
    jit_compile: bool | None = None,
) -> None:
    """Run `program`, a path or with `module` a module's name, with every `tf.function` optimized.

    Ends as `python` does: an exception is printed without the frames of this package and sets the
    exit status. The limit lasts as long as the process, since threads and exit handlers run after
    the script. At the very end, a line on stderr sums up what was done, and reports are written to
    the file `report`, if given.
    """
    from tf_exla.frontends.tf.devices.choice import devices_of
    from tf_exla.run.script import optimized_functions

    sys.argv = [program, *arguments]
    if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
        sys.path[0] = os.getcwd() if module else str(Path(program).resolve().parent)
    inherit(limit, strict, jit_compile)
    stack = contextlib.ExitStack()
    found = None if devices is None else devices_of(devices)
    session = stack.enter_context(
        optimized_functions(
            limit, strict=strict, keep=bool(report), devices=found, jit_compile=jit_compile
        )
    )

    process = os.getpid()
    interrupted = False

    def finish() -> None:
        if os.getpid() != process:  # a forked child that ends here is not the program
            return
        stack.close()
        with contextlib.suppress(OSError, ValueError):  # a broken pipe, a closed file
            sys.stdout.flush()
        if report is not None:
            session.write(report)
        print(session.summary(), file=sys.stderr)
        if interrupted:  # show the shell what ended the program
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(process, signal.SIGINT)

    # Exit handlers run last in, first out, so those of the script come first.
    atexit.register(finish)
    try:
        _execute(program, module)
    except SystemExit:
        raise
    except BaseException as error:
        error = error.with_traceback(_of_the_program(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        interrupted = isinstance(error, KeyboardInterrupt)
        sys.exit(1)


class _Main(ModuleType):
    """The module `__mp_main__`, where objects of spawned children are found: the program itself.

    `multiprocessing` takes what is `__main__` when it is imported, which here is this package.
    `runpy` makes the program's module only when it runs it.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(sys.modules["__main__"], name)


def _execute(program: str, module: bool) -> None:
    sys.modules["__mp_main__"] = _Main("__mp_main__")
    if module:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        _run_file(os.path.abspath(program))


def _run_file(path: str) -> None:
    """Run a file as the module `__main__`, or a folder or archive that contains one.

    `runpy` is not used for source files, since it removes their `__main__` as soon as they end.
    """
    if path.endswith(".pyc") or pkgutil.get_importer(path) is not None:
        runpy.run_path(path, run_name="__main__")
        return
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main = ModuleType("__main__")
    vars(main).update(
        __file__=path,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", path),
        __builtins__=builtins,
        __annotations__={},
    )
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    exec(code, vars(main))


def _of_the_program(start: TracebackType | None) -> TracebackType | None:
    """Return a traceback without its leading frames of this module and of `runpy`."""
    ours = {__file__, runpy.__file__, "<frozen runpy>"}
    found = start
    while found is not None and traceback.extract_tb(found, 1)[0].filename in ours:
        found = found.tb_next
    return found
