"""Measure a call in a fresh process, whose allocator returns freed memory to the system.

The function is sent by name, as in `multiprocessing`: the process imports its module, or runs the
script up to its first measurement. Arguments are pickled.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import pickle
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHILD = "TF_EXLA_MEASURES"
"""Set in the measuring process, which must not start another one."""

_ENVIRONMENT = {
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "16384",
}
_MAIN = "__main__"


class CannotSendError(Exception):
    """The call cannot be made in another process; the message says why."""


class _ScriptEnough(BaseException):
    """The script reached its first measurement; all definitions before it exist."""


def measure_fresh(fn: Callable[..., Any], args: Any, kwargs: Any) -> tuple[int, int, str]:
    """Return resident bytes, working set and method of a call in a fresh process.

    Raises `CannotSendError` if the function or an argument cannot be sent, or if the call fails in
    that process.
    """
    sent = _sent(fn)
    call = _pickled((sent, args, kwargs))
    script = None
    if _MAIN.encode() in call:
        script = getattr(sys.modules[_MAIN], "__file__", None)
        if script is None:
            raise CannotSendError("it was defined in an interactive session")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "call")
        path.write_bytes(pickle.dumps((list(sys.path), list(sys.argv), script, call)))
        command = [
            sys.executable,
            "-c",
            f"from tf_exla.frontends.tf.measuring.measure import in_fresh; in_fresh({str(path)!r})",
        ]
        paths = os.pathsep.join(one for one in sys.path if one)
        environment = {**os.environ, **_ENVIRONMENT, CHILD: "1", "PYTHONPATH": paths}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        result = Path(folder, "result")
        if not result.exists():
            said = done.stderr.strip().splitlines()
            raise CannotSendError(f"it failed there: {said[-1] if said else done.returncode}")
        resident, working_set, method = pickle.loads(result.read_bytes())
    return resident, working_set, f"{method}, in a fresh process"


def in_child() -> bool:
    """Return whether this process was started to measure."""
    return CHILD in os.environ


def leave_script() -> None:
    """Stop a script that runs only for its definitions, at its first measurement."""
    if _loading:
        raise _ScriptEnough


_loading: list[str] = []


def _sent(fn: Callable[..., Any]) -> tuple[str, ...] | Callable[..., Any]:
    """Return where to find the function: module, file, name, mark; else the function itself.

    A module may rebind a name, so the function found must have the same mark. A function that was
    defined in a call cannot be found by name.
    """
    mark = _mark(fn)
    if "<locals>" in mark:
        return fn
    name = getattr(fn, "__module__", None) or _MAIN
    for where in dict.fromkeys((name, _MAIN)):
        module = sys.modules.get(where)
        if module is None:
            continue
        for key, value in vars(module).items():
            if value is fn:
                return where, str(getattr(module, "__file__", "")), key, mark
    return fn


def _mark(fn: Callable[..., Any]) -> str:
    """Return text that identifies a function: its type, name, line and request."""
    plain = getattr(fn, "python_function", fn)
    code = getattr(plain, "__code__", None)
    line = getattr(code, "co_firstlineno", None)
    name = getattr(plain, "__qualname__", type(plain).__qualname__)
    return f"{type(fn).__qualname__} {name} {line} {getattr(fn, '_request', None)}"


def _pickled(value: Any) -> bytes:
    out = io.BytesIO()
    try:
        pickle.Pickler(out).dump(value)
    except Exception as error:  # whatever an object's own pickling raises
        raise CannotSendError(f"it cannot be pickled ({error})") from error
    return out.getvalue()


def make_call(path: str, measure: Callable[..., Any]) -> None:
    """Measure the call in a file and write the peak to a file next to it."""
    sys.path[:], sys.argv[:], script, call = pickle.loads(Path(path).read_bytes())
    if script is not None:
        _run_script(script)
    function, args, kwargs = pickle.loads(call)
    if isinstance(function, tuple):
        function = _found(*function)
    peak = measure(function, *args, **kwargs)
    made = int(peak.resident), int(peak.working_set), peak.method
    Path(path).with_name("result").write_bytes(pickle.dumps(made))


def _run_script(path: str) -> None:
    """Run a script for its definitions, as the main module under another name."""
    module = types.ModuleType("__mp_main__")
    module.__file__ = path
    sys.modules[_MAIN] = sys.modules["__mp_main__"] = module
    _loading.append(path)
    try:
        exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    except _ScriptEnough:
        pass
    finally:
        _loading.clear()


def _found(where: str, file: str, key: str, mark: str) -> Callable[..., Any]:
    if where not in sys.modules:
        try:
            importlib.import_module(where)
        except ImportError:
            spec = importlib.util.spec_from_file_location(where, file)
            if spec is None or spec.loader is None:
                raise
            module = sys.modules[where] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(sys.modules[where], key)
    if _mark(function) != mark:
        raise RuntimeError(f"{key} was another function when the script began to measure")
    return function
