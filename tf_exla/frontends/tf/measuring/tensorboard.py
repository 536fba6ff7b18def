"""A report as summaries for TensorBoard: memory over the plan, peaks, and the report's text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from tf_exla.report.data import TimelinePoint
from tf_exla.report.report import MemoryReport

MEGABYTE = 1e6


def to_tensorboard(report: MemoryReport, logdir: str | Path, step: int = 0) -> None:
    """Write a report into `logdir`, as three runs that TensorBoard draws over each other.

    The runs `original`, `plan` and `limit` have the scalar `FUNCTION/memory over the plan [MB]`.
    Its steps are positions in the plan, whose number differs between the original and the plan.
    The first two have `FUNCTION/projected peak [MB]` at `step`, so that several reports form a
    curve. `plan` has the report's details as text. Memory is resident plus working set, in 10**6
    bytes.
    """
    longest = max(len(report.timeline_before), len(report.timeline))
    runs: dict[str, tuple[int, Sequence[float]]] = {
        "original": (report.projected_peak_before, _memory(report.timeline_before, report)),
        "plan": (report.projected_peak, _memory(report.timeline, report)),
        "limit": (report.limit, [float(report.limit)] * longest),
    }
    # Names of functions may be "SGPR.training_loss", or "<lambda>".
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in report.function)
    for run, (peak, memory) in runs.items():
        writer = tf.summary.create_file_writer(str(Path(logdir) / run))
        with writer.as_default():
            for position, size in enumerate(memory):
                _write(f"{name}/memory over the plan [MB]", size / MEGABYTE, position)
            if run != "limit":
                _write(f"{name}/projected peak [MB]", peak / MEGABYTE, step)
            if run == "plan":
                # TensorBoard reads text as Markdown: four spaces keep its columns.
                text = "\n".join(f"    {line}" for line in report.details().splitlines())
                _write(f"{name}/report", text, step)
        writer.close()


def _write(tag: str, value: float | str, step: int) -> None:
    # Write what `tf.summary.scalar` and `text` write. They need the package tensorboard, which is
    # not always installed with TensorFlow.
    metadata = tf.compat.v1.SummaryMetadata()
    text = isinstance(value, str)
    metadata.plugin_data.plugin_name = "text" if text else "scalars"
    metadata.data_class = 2 if text else 1  # DATA_CLASS_TENSOR, DATA_CLASS_SCALAR
    tf.summary.write(tag, tf.constant(value), step=step, metadata=metadata)


def _memory(timeline: Sequence[TimelinePoint], report: MemoryReport) -> list[float]:
    return [float(point.bytes + report.resident) for point in timeline]
