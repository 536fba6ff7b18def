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
