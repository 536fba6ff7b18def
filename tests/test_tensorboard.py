"""Summaries of a report that TensorBoard reads."""

from pathlib import Path

import pytest
import tensorflow as tf

import tf_exla


def written(folder: Path) -> dict[str, list[tuple[int, object]]]:
    found: dict[str, list[tuple[int, object]]] = {}
    for path in folder.glob("events*"):
        for raw in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(raw.numpy())
            for value in event.summary.value:
                number = tf.make_ndarray(value.tensor)
                found.setdefault(value.tag, []).append((event.step, number.item()))
    return found


def test_memory_over_the_plan(tmp_path: Path) -> None:
    def matvec(x: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.exp(-tf.square(x - tf.transpose(x))), v)

    column = tf.TensorSpec([2000, 1], tf.float64)
    report = tf_exla.explain(matvec, column, column, limit="2MB")
    tf_exla.to_tensorboard(report, tmp_path, step=7)
    runs = {folder.name: written(folder) for folder in tmp_path.iterdir()}
    assert set(runs) == {"original", "plan", "limit"}
    curve = "matvec/memory over the plan [MB]"
    for run, points, peak in (
        ("original", report.timeline_before, report.projected_peak_before),
        ("plan", report.timeline, report.projected_peak),
    ):
        steps, memory = zip(*runs[run][curve], strict=True)
        assert steps == tuple(range(len(points)))
        assert max(memory) <= peak / 1e6 * (1 + 1e-6)
        ((step, most),) = runs[run]["matvec/projected peak [MB]"]
        assert (step, most) == (7, pytest.approx(peak / 1e6))
    assert {memory for _, memory in runs["limit"][curve]} == {2.0}
    ((_, text),) = runs["plan"]["matvec/report"]
    assert b"limit 2.00 MB" in text
