"""The peak of one loss and its gradients on the terrain, measured in a process of its own.

After training, the resident set of a process does not show a peak, since glibc keeps freed blocks
of less than 32 MB in its arenas for speed. Here freed blocks of a tensor's size are returned to the
system at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "16384",  # from this size on, a block is a separate mapping
    "TF_ENABLE_ONEDNN_OPTS": "0",  # else TensorFlow's CPU allocator is a pool that only grows
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def measure_in_fresh_process(parameters: Path, *, limit: int, seed: int) -> dict[str, Any]:
    """Return `bytes`, `method` for the SGPR with saved parameters, trained on the split of `seed`.

    Raises RuntimeError with the process's messages if it fails.
    """
    done = subprocess.run(
        [sys.executable, "-m", "gp_experiments.fresh_peak", str(parameters), str(limit), str(seed)],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"measuring in a fresh process failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main(parameters: Path, limit: int, seed: int) -> None:
    """Measure in this process, and print the result as JSON."""
    import numpy as np

    from gp_experiments.data import terrain
    from gp_experiments.models import build_sgpr
    from gp_experiments.train import load_parameters
    from tf_exla.gpflow import Scipy

    dataset, _ = terrain()
    with np.load(parameters) as values:
        model = build_sgpr(dataset.split(seed).train, values[".inducing_variable.Z"])
    load_parameters(model, parameters)
    optimizer = Scipy(limit)
    optimizer.eval_func(model.training_loss_closure(), model.trainable_variables, {})
    peak = optimizer.measured_peak()
    print(json.dumps({"bytes": int(peak), "method": peak.method}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
