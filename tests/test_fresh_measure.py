"""`measured_peak` measures in a fresh process where oneDNN's pool hides the memory of a call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, sys, warnings
import numpy as np, tensorflow as tf
import tf_exla

SIZE = 2000
held = tf.Variable(tf.ones([1000, 100], tf.float64))

def plain(x):
    return tf.reduce_sum(tf.exp(x) @ tf.transpose(x)) + tf.reduce_sum(held)

graph = tf.function(plain)
limited = tf_exla.optimize(lambda x: tf.reduce_sum(tf.exp(x @ tf.transpose(x))), "30MB")
x = tf.ones([SIZE, 100], tf.float64)

def local():
    y = x + 1.0
    return lambda one: tf.tile(one, [20, 1]) + tf.reduce_sum(y)

found = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    functions = {"plain": plain, "graph": graph, "limited": limited, "local": local()}
    plain(x)  # what follows finds its pool
    for name in sys.argv[1:]:
        peak = tf_exla.measured_peak(functions[name], x)
        found[name] = [peak.resident, peak.working_set, peak.method]
try:
    tf_exla.measured_peak(local(), x, fresh=True)
except RuntimeError as error:
    found["refused"] = str(error)
found["here"] = tf_exla.measured_peak(plain, x, fresh=False).method
found["warnings"] = [str(one.message) for one in caught if "measured" in str(one.message)]
print(json.dumps(found))
"""


BOUNDS = {"plain": (32e6, 40e6), "graph": (32e6, 40e6), "limited": (1e6, 30e6)}
"""The least and the most that a function's working set may be."""
MEASURED = [
    pytest.param(("plain", "local"), id="plain"),
    pytest.param(("graph", "limited", "local"), id="others", marks=pytest.mark.thorough),
]


@pytest.fixture(scope="module", params=MEASURED)
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    script = tmp_path_factory.mktemp("script") / "script.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parent.parent
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, str(script), *request.param],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made


def test_a_script_is_measured_afresh(found: dict[str, Any]) -> None:
    """Memory that the pool kept from the previous call is not missing."""
    for name in found.keys() & BOUNDS:
        least, most = BOUNDS[name]
        resident, working_set, method = found[name]
        assert least <= working_set <= most, (name, found[name])
        assert 1.6e6 <= resident <= 2.6e6
        assert method.endswith("in a fresh process")


def test_what_cannot_be_sent_is_said(found: dict[str, Any]) -> None:
    assert "oneDNN's pool" in found["local"][2]
    assert found["warnings"]
    assert all("only that is seen" in text for text in found["warnings"])
    assert "not measured afresh" in found["refused"]
    assert "fresh process" not in found["here"]
