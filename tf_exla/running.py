"""Running a script or a module as `python` itself does, under a memory limit."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tf_exla.children import inherit


def run_program(
    program: str,
    arguments: Sequence[str],
    *,
    module: bool = False,
    limit: str | None = None,
    strict: bool = False,
    report: Path | None = None,
) -> None:
    """Run `program`, a path or with `module` a module's name, every `tf.function` optimized.

    Ends as `python` does: an exception is printed, without the frames of this package, and becomes
    the exit status. What was done is one line on stderr, and a file where `report` names one.
    """
    from tf_exla.frontends.tf.script import optimized_functions

    sys.argv = [program, *arguments]
    sys.path[0] = os.getcwd() if module else str(Path(program).resolve().parent)
    process = os.getpid()
    inherit(limit, strict)
    with optimized_functions(limit, strict=strict, keep=report is not None) as session:
        try:
            if module:
                runpy.run_module(program, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(program, run_name="__main__")
        except SystemExit:
            raise
        except BaseException as error:
            sys.exit(_report_error(error))
        finally:
            if os.getpid() == process:  # a forked child that returns here is not the program
                if report is not None:
                    session.write(report)
                sys.stdout.flush()
                print(session.summary(), file=sys.stderr)


def _report_error(error: BaseException) -> int:
    """Print an exception as the interpreter does; return the exit status."""
    error = error.with_traceback(_of_the_program(error.__traceback__))
    sys.excepthook(type(error), error, error.__traceback__)
    return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1


def _of_the_program(start: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback after the frames of this module and of `runpy`."""
    ours = {__file__, runpy.__file__, "<frozen runpy>"}
    found = start
    while found is not None and traceback.extract_tb(found, 1)[0].filename in ours:
        found = found.tb_next
    return start if found is None else found
