"""JAX on a GPU: measured <= certified <= limit, for each program of `jax_programs.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from needs import JAX

pytestmark = JAX

PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")
needs_gpu = pytest.mark.skipif(
    not Path("/dev/nvidiactl").exists() or not any(map(importlib.util.find_spec, PLUGINS)),
    reason="JAX sees no GPU",
)


@needs_gpu
def test_what_is_certified_is_never_exceeded(tmp_path: Path) -> None:
    """In one test, since the programs run at once: each plans and compiles for seconds."""
    from concurrent.futures import ThreadPoolExecutor

    from gpu.jax_peaks import cases, in_fresh_processes

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda case: in_fresh_processes(*case, str(tmp_path)), cases()))
    assert any(one.measured is not None for one in found)
    assert all(one.holds for one in found), "\n".join(map(str, found))


@pytest.mark.thorough
def test_how_peaks_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, where JAX counts no bytes: the executable is saved, loaded and compared."""
    from gpu.jax_peaks import in_fresh_processes

    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    found = in_fresh_processes("GPR, value and gradients", 66_000_000, str(tmp_path))
    assert found.holds, found
    assert found.measured is None
    refused = in_fresh_processes("wide product", 300_000_000, str(tmp_path))
    assert refused.refused == 300_000_000 < refused.limit
    assert refused.holds, refused
