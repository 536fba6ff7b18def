"""The command line: `python -m gp_experiments COMMAND`."""

import os

import click

from gp_experiments.bench import bench
from gp_experiments.command import commands
from gp_experiments.demo import demo
from gp_experiments.devices import devices
from gp_experiments.peers.command import peers
from gp_experiments.scale import scale

COMMANDS = (demo, bench, devices, peers, scale, *commands())


def main() -> None:
    """Run one of the commands."""
    # Set before TensorFlow is imported. With oneDNN its CPU allocator never returns freed memory,
    # and the process grows beyond its tensors. Nothing is lost, since oneDNN has no float64.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    group = click.Group(help="Gaussian processes inside a memory limit.", commands=COMMANDS)
    group(prog_name="python -m gp_experiments")


if __name__ == "__main__":
    main()
