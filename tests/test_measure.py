from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fresh_process import run_fresh

from tf_exla.frontends.tf import free_memory

MB = 10**6


def _measured() -> dict[str, Any]:
    """Measure calls whose memory is known; run in a fresh process."""
    import numpy as np
    import tensorflow as tf

    from tf_exla.frontends.tf.measuring.measure import measured_peak

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    x = tf.random.uniform((1000, 1000), dtype=tf.float64)  # 8 MB
    variable = tf.Variable(x[:500])  # 4 MB
    constant = np.random.rand(250, 1000)  # 2 MB

    @tf.function(autograph=False)
    def inner(v: tf.Tensor) -> tf.Tensor:
        return v[:250] * constant

    @tf.function(autograph=False)
    def fn(v: tf.Tensor, same: tf.Tensor, scale: float = 1.0) -> tf.Tensor:
        wide = tf.tile(v, [1, 3])  # 24 MB
        tall = tf.transpose(wide)  # 24 MB
        small = tf.reduce_sum(variable) + tf.reduce_sum(x) + tf.reduce_sum(inner(v))
        with tf.control_dependencies([small]):
            return tf.reduce_sum(tall) * scale

    class Knows:
        def __call__(self) -> tf.Tensor:
            return tf.tile(x, [5, 1])  # 40 MB

        def resident_bytes(self) -> int:
            return 123

    peak = measured_peak(fn, x, x)
    again = measured_peak(fn, x, x, scale=2.0)
    plain = measured_peak(lambda v: np.tile(v, 3), np.ones(MB))
    knows = measured_peak(Knows())
    return {
        name: [int(p), p.resident, p.working_set, p.method, repr(p)]
        for name, p in {"fn": peak, "again": again, "plain": plain,
                        "knows": knows}.items()
    }  # fmt: skip


def test_known_peaks() -> None:
    found = run_fresh(_measured)
    for name in ("fn", "again"):
        peak, resident, working_set, method, text = found[name]
        assert peak == resident + working_set
        # x counts once, though it is both arguments and captured. Scalars take some bytes.
        assert 14 * MB <= resident <= 14 * MB + 200
        assert working_set == pytest.approx(50 * MB, abs=4 * MB)
        assert method == "high-water mark of the resident set"
        assert str(resident) in text
        assert method in text
    assert found["plain"][1] == 8 * MB
    assert found["plain"][2] == pytest.approx(24 * MB, abs=MB)
    assert found["knows"][1] == 123
    assert found["knows"][2] == pytest.approx(40 * MB, abs=MB)


def test_pool_is_named() -> None:
    code = """
        import tensorflow as tf
        from tf_exla.frontends.tf.measuring.measure import _onednn_pool, measured_peak
        send([_onednn_pool(), measured_peak(lambda: tf.zeros([10])).method])
    """
    for enabled, env in ((False, None), (True, {"TF_ENABLE_ONEDNN_OPTS": "1"})):
        pool, method = run_fresh(code, env=env)
        assert pool == enabled
        assert ("oneDNN" in method) == pool


def test_without_clear_refs() -> None:
    code = """
        import tensorflow as tf
        from tf_exla.frontends.tf.measuring import measure
        measure._reset_high_water_mark = lambda: False
        def fn(): return tf.reduce_sum(tf.linalg.matmul(x, x))
        x = tf.random.uniform((2000, 2000))
        first = measure.measured_peak(fn)
        send([first.working_set, first.method])
    """
    working_set, method = run_fresh(code)
    assert working_set > 15 * MB
    assert "lower bound" in method or "lifetime" in method


@pytest.mark.parametrize("version", [1, 2])
def test_control_groups(tmp_path: Path, version: int) -> None:
    if version == 2:
        mount, names = tmp_path, ("memory.max", "memory.current", "inactive_file")
        line = "0::/outer/inner\n"
    else:
        mount = tmp_path / "memory"
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        line = "5:cpu,cpuacct:/other\n4:memory:/outer/inner\n"
    inner = mount / "outer" / "inner"
    inner.mkdir(parents=True)
    for group, limit, usage, cache in ((inner, "max", 5, 1), (inner.parent, "1000", 400, 100)):
        (group / names[0]).write_text(f"{limit}\n")
        (group / names[1]).write_text(f"{usage}\n")
        (group / "memory.stat").write_text(f"anon 7\n{names[2]} {cache}\n")
    own = tmp_path / "cgroup"
    own.write_text(line)
    assert free_memory._cgroup_available(tmp_path, own) == [700]


def test_no_control_groups(tmp_path: Path) -> None:
    assert free_memory._cgroup_available(tmp_path, tmp_path / "absent") == []


def test_automatic_limit_is_a_share_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 10 * MB < free_memory.available_memory() < 10**14
    monkeypatch.setattr(free_memory, "available_memory", lambda: 1000)
    assert free_memory.auto_limit() == 900


def test_says_what_to_do_where_nobody_tells_the_size_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="give a limit"):
        free_memory._gpu_bytes()
