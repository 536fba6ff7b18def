"""Plans and certificates as for a GPU, pretended on a CPU.

All modules ask `device.first_device` for the device, so the tests replace only that.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax_programs import matvec, matvec_gradient, product, rbf
from jax_x64 import enable_x64

import tf_exla.jax
from tf_exla.errors import MemoryLimitError
from tf_exla.frontends.jax import certify, device, op_set
from tf_exla.frontends.jax.certify import BLOCKS, PACKED, Certificate, Certified
from tf_exla.frontends.jax.compat import compiler_options
from tf_exla.frontends.jax.planning import op_set as chosen_ops
from tf_exla.ir.graph import Loop
from tf_exla.ir.traverse import walk
from tf_exla.model.gpu_rates import H100, in_module
from tf_exla.pipeline.plan import Plan

X = Any
EXACT = "XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async"
SHAPES = jax.ShapeDtypeStruct((10_000, 3), "float64"), jax.ShapeDtypeStruct((10_000,), "float64")


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fake = SimpleNamespace(platform="gpu", device_kind="NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(device, "first_device", lambda: fake)
    monkeypatch.delenv(EXACT[0], raising=False)
    op_set._gpu_rates.cache_clear()
    with enable_x64():
        yield
    op_set._gpu_rates.cache_clear()


def certified(function: Any, limit: str | int, arguments: Any = SHAPES) -> Certified:
    return tf_exla.jax.jit(function, limit).call(*arguments).program.certified()


def distances(x: X, v: X) -> X:
    return jnp.abs(x[:, None] - x[None]).sum(-1).sum(1)


def chunks(plan: Plan) -> list[int]:
    return [node.chunk for node in walk(plan.graph) if isinstance(node, Loop)]


def test_rates_are_those_of_the_gpu() -> None:
    assert chosen_ops().rates() == in_module(H100)


def test_chunks_are_as_large_as_the_limit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU they stay in cache, whatever the limit."""
    function, arguments = matvec_gradient()
    monkeypatch.setenv(*EXACT)
    found = []
    for limit in ("60MB", "600MB"):
        call = tf_exla.jax.jit(function, limit).call(*arguments)
        found.append(call.program.plan_within(call.program.settings.limit))
    small, large = (max(chunks(plan)) for plan in found)
    assert large > 5 * small, (small, large)
    assert all(plan.options is not None and not plan.options.cached for plan in found)


def test_the_original_is_not_compiled_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA's autotuner would allocate its products, 800 MB."""
    compiled: list[Plan | None] = []
    usual = certify._Search._compiled

    def spied(self: X, function: X, constants: X, plan: Plan | None, *order: bool) -> Certified:
        compiled.append(plan)
        return usual(self, function, constants, plan, *order)

    monkeypatch.setattr(certify._Search, "_compiled", spied)
    function, arguments = matvec()
    assert certified(function, "300MB", arguments).plan is not None
    assert compiled
    with pytest.raises(MemoryLimitError):
        certified(lambda x, v: jnp.linalg.cholesky(rbf(x, x)) @ v, "300MB", arguments)
    assert None not in compiled
    with contextlib.suppress(MemoryLimitError):  # XLA's CPU compiler may not fuse the differences
        certified(distances, "300MB", arguments)
    assert None not in compiled
    certified(function, "2GB", arguments)
    assert None in compiled


def test_maps_by_hand_run_as_they_are() -> None:
    """They are captured as their bodies on all rows, 800 MB."""

    def by_hand(x: X, v: X) -> X:
        return jax.lax.map(lambda row: rbf(row[None], x)[0] @ v, x, batch_size=100)

    assert certified(by_hand, "60MB").plan is None


def test_errors_name_a_limit_that_works() -> None:
    function = jax.jit(lambda x, v: jnp.linalg.cholesky(rbf(x, x)) @ v)
    shapes = [jax.ShapeDtypeStruct((500, *one.shape[1:]), one.dtype) for one in SHAPES]
    with pytest.raises(MemoryLimitError) as error:
        certified(function, "1MB", shapes)
    smallest = error.value.smallest_limit
    assert error.value.projected_peak >= smallest
    assert any(one.what == BLOCKS and one.bytes for one in error.value.parts)
    assert certified(function, smallest, shapes).certificate.peak <= smallest


def test_blocks_of_the_allocator_are_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = product()
    found = certified(function, "660MB", arguments).certificate
    assert found.results == 200_000_000
    assert found.outside == 128 << 20  # one block is not split if less than that is left
    assert found.kind == BLOCKS
    with pytest.raises(MemoryLimitError):  # two blocks that are not split
        certified(lambda a, b: (a @ b, a @ (b + 1)), "760MB", arguments)
    monkeypatch.setenv(*EXACT)
    assert certified(function, "660MB", arguments).certificate.outside == 0


def test_small_results_take_at_most_twice_their_bytes() -> None:
    made: Certificate = certified(lambda x, v: (x + 1, v + 1), "10MB").certificate
    assert made.results <= made.outside + 64  # the table of results, which is no array
    assert made.outside <= made.results + made.temporary


def test_results_in_donated_buffers_take_no_blocks() -> None:
    x = jax.ShapeDtypeStruct((1_000, 1_000), "float64")
    within = tf_exla.jax.jit(lambda x: x + 1, "10MB", donate_argnums=0)
    found = within.lower(x).compile().certificate
    assert (found.results, found.outside) == (0, 0)


def test_nothing_of_a_cpu_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what Eigen packs, nor a warning of libraries; no options of XLA's CPU compiler."""
    fused = 'backend_config={"fusion_config":{"kind":"__ynn_fusion"}}'
    monkeypatch.setattr(jax.stages.Compiled, "as_text", lambda self: fused)
    function, arguments = product()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certified(function, "660MB", arguments)
    assert compiler_options() == {}


def test_explain() -> None:
    report = tf_exla.jax.explain(lambda x, v: rbf(x, x) @ v, *SHAPES, limit="100MB")
    assert report.projected_peak < 100e6 < report.projected_peak_before
    assert report.device == "GPU"
    assert BLOCKS in report.details()
    assert PACKED not in report.details()
