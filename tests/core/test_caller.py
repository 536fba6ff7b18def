"""Which frames are the user's, and where warnings point to."""

from __future__ import annotations

import os
import warnings

import pytest

from tf_exla import caller


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/script.py", True),
        ("<ipython-input-3-abc>", True),
        ("<stdin>", True),
        ("<string>", True),
        ("<frozen importlib._bootstrap>", False),
        ("<__array_function__ internals>", False),
        (caller.HERE + "api.py", False),
        (os.__file__, False),
        ("/venv/lib/python3.11/site-packages/gpflow/base.py", False),
        ("/tmp/__autograph_generated_filejbx9lrvp.py", False),
    ],
)
def test_whose_code_it_is(path: str, expected: bool) -> None:
    assert caller.is_users(path) is expected


def test_a_warning_points_to_the_innermost_line_of_the_user() -> None:
    warned = compile("warn('said')", caller.HERE + "inside.py", "exec")
    typed = compile("\n\nexec(warned)", "<ipython-input-1-abc>", "exec")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        exec(typed, {"warned": warned, "warn": caller.warn})
    (one,) = told
    assert (one.filename, one.lineno, str(one.message)) == ("<ipython-input-1-abc>", 3, "said")
