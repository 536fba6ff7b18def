"""The recipes for clusters: valid manifests, and a step that finds its tasks."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "recipes"


def manifests() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text()))


def test_kubernetes_manifests_are_valid() -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kinds = []
    for manifest in manifests():
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
        kinds.append(manifest["kind"])
    assert kinds == ["Service", "NetworkPolicy", "ConfigMap", "StatefulSet", "Job"]


@pytest.mark.parametrize(
    ("kind", "host", "task"),
    [
        ("StatefulSet", "exla-worker-1", {"type": "worker", "index": 1}),
        ("Job", "exla-driver", {"type": "chief", "index": 0}),
    ],
)
def test_containers_are_told_their_task(kind: str, host: str, task: dict[str, Any]) -> None:
    """Run the command of a container, printing TF_CONFIG instead of starting Python."""
    found = {manifest["kind"]: manifest for manifest in manifests()}
    (container,) = found[kind]["spec"]["template"]["spec"]["containers"]
    shell, option, script = container["command"]
    script = re.sub(r"exec python.*", '; printf %s "$TF_CONFIG"', script.replace("\n", " "))
    cluster = found["ConfigMap"]["data"]["cluster"]
    environment = {**os.environ, "HOSTNAME": host, "CLUSTER": cluster}
    done = subprocess.run(
        [shell, option, script], env=environment, capture_output=True, text=True, check=True
    )
    config = json.loads(done.stdout)
    assert config["task"] == task
    assert len(config["cluster"]["worker"]) == found["StatefulSet"]["spec"]["replicas"]


def test_the_script_of_slurm_is_one() -> None:
    subprocess.run(["bash", "-n", str(FOLDER / "slurm.sh")], check=True)
