"""Pictures of a fitted surface, and of the memory that training takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gp_experiments.data import Array
from tf_exla.byte_size import format_bytes
from tf_exla.report.report import MemoryReport


def plot_surface(
    path: Path,
    X: Array,
    y: Array,
    mean: Array,
    std: Array,
    Z: Array,
    *,
    shape: tuple[int, int],
    title: str,
) -> None:
    """Draw data, posterior mean with inducing points, error and uncertainty of a surface.

    X [N, 2] is latitude and longitude in degrees on a grid of `shape`; y, mean and std [N, 1] are
    in metres; Z [M, 2] in degrees.
    """
    figure = Figure(figsize=(11, 9), layout="constrained")
    (data_axes, mean_axes), (error_axes, std_axes) = figure.subplots(2, 2, sharex=True, sharey=True)
    latitude, longitude = X[:, 0].reshape(shape)[:, 0], X[:, 1].reshape(shape)[0]
    low, high = np.percentile(y, [0.5, 99.5])
    error = mean - y
    worst = np.percentile(np.abs(error), 99)

    def draw(axes: Axes, name: str, values: Array, label: str, **style: Any) -> None:
        mesh = axes.pcolormesh(
            longitude, latitude, values.reshape(shape), shading="nearest", rasterized=True, **style
        )
        figure.colorbar(mesh, ax=axes, label=label, extend="both", shrink=0.85)
        axes.set_title(name)
        axes.set_aspect(1 / np.cos(np.radians(latitude.mean())))  # equal in metres

    draw(data_axes, "data", y, "elevation [m]", cmap="terrain", vmin=low, vmax=high)
    draw(
        mean_axes,
        f"posterior mean, {len(Z)} inducing points",
        mean,
        "elevation [m]",
        cmap="terrain",
        vmin=low,
        vmax=high,
    )
    mean_axes.plot(Z[:, 1], Z[:, 0], "k.", markersize=2.5)
    draw(
        error_axes,
        "error: posterior mean - data",
        error,
        "error [m]",
        cmap="RdBu_r",
        vmin=-worst,
        vmax=worst,
    )
    draw(
        std_axes,
        "uncertainty",
        std,
        "predictive standard deviation [m]",
        cmap="viridis",
        vmin=np.percentile(std, 0.5),
        vmax=np.percentile(std, 99.5),
    )
    mean_axes.set(xlim=(longitude.min(), longitude.max()), ylim=(latitude.min(), latitude.max()))
    figure.supxlabel("longitude [degrees east]")
    figure.supylabel("latitude [degrees north]")
    figure.suptitle(title)
    figure.savefig(path, dpi=130)


def plot_memory(path: Path, report: MemoryReport) -> None:
    """Draw the projected memory of a loss and its gradients, stock TensorFlow against optimized."""
    figure: Any = report.plot()
    before, after = map(format_bytes, (report.projected_peak_before, report.projected_peak))
    figure.axes[0].set_title(
        f"one loss and its gradients: peak {before} with stock TensorFlow, {after} optimized"
    )
    figure.savefig(path, dpi=130)
