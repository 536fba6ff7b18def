"""Configs: what is in the repository loads, and what is wrong is named."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from gp_experiments.command import NAMES, experiment
from gp_experiments.configuration import ConfigError, load_config
from gp_experiments.sweep import Task

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


@dataclass(frozen=True)
class Config:
    sizes: tuple[int, ...]
    limit: str = "1GB"
    repeats: int = 3


def test_overrides_go_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text('sizes = [1, 2]\nlimit = "5MB"')
    assert load_config(Config, path) == Config((1, 2), "5MB")
    changed = load_config(Config, path, ["sizes=[7]", "limit=2GB", "repeats = 1"])
    assert changed == Config((7,), "2GB", 1)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["sizes=[1]", "sise=3"], "no key sise; known are sizes, limit, repeats"),
        ([], "sizes: Field required"),
        (["sizes=[1, 'x']"], r"sizes\.1: .*integer.*'x'"),
        (["sizes"], "--set takes key=value, got 'sizes'"),
    ],
)
def test_what_is_wrong_is_named(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(Config, None, overrides)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text("sizes = [")
    with pytest.raises(ConfigError, match=r"c\.toml"):
        load_config(Config, path)


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_has_a_full_and_a_small_config(name: str) -> None:
    assert {f"{name}.toml", f"{name}-small.toml"} <= {path.name for path in CONFIGS.glob("*.toml")}


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_configs_make_tasks(path: Path) -> None:
    module = experiment(path.stem.partition("-")[0])
    tasks: list[Task] = list(module.tasks(load_config(module.Config, path)))
    assert tasks
    assert len({task.label for task in tasks}) == len(tasks)


def planned(name: str, override: str) -> list[Task]:
    module = experiment(name)
    config = load_config(module.Config, CONFIGS / f"{name}-small.toml", [override])
    return list(module.tasks(config))


OUT_OF_RANGE = {
    "sgpr": [
        "iterations=-1", "iterations=0", "num_inducing=[0]", "num_inducing=[]", "candidates=-3",
        "candidates=100", "seeds=[-1]", "metrics_every=-1", "fold=-1", "timeout=0",
        "limits=['5XB']", "limits=['0MB']", "limits=['1MB', '2MB', '3MB']", "datasets=[]",
    ],
    "matvec": ["sizes=[0]", "rows=0", "repeats=-1", "memory='much'", "sizes=[]", "sliced=[10]"],
    "knn": ["k=0", "queries=-5", "limit='-1MB'", "vectors=[]", "peers=['abacus']"],
    "attention": ["lengths=[-1]", "heads=0", "heads=7", "batch=0", "layers=-2", "timeout=-1"],
    "cg": ["rank=0", "noise=0", "lengthscale=-1", "tolerance=0", "tolerance=1", "iterations=0"],
    "graphs": ["size=0", "num_inducing=-1", "programs=[]", "limit='1'"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "override"), [(name, one) for name, many in OUT_OF_RANGE.items() for one in many]
)
def test_values_out_of_range_are_refused(name: str, override: str) -> None:
    with pytest.raises(ConfigError, match=override.partition("=")[0]) as error:
        planned(name, override)
    assert "Tuple should have" not in str(error.value) or override.endswith("[]")
