"""Functions that the tests of `gp_experiments.arms` run in processes of their own."""

import os
import signal
import time
from typing import Any

import numpy as np

from gp_experiments.arms import Arm
from tf_exla.errors import MemoryLimitError


def add(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    arm.progress(1, 2, "half")
    arm.step(i=0, loss=np.float64(3.5))
    return {"sum": arguments["a"] + arguments["b"], "pool": os.environ["TF_ENABLE_ONEDNN_OPTS"]}


def allocate(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    """Allocate `sizes` bytes one after the other within `limit`."""
    arm.hold_to(arguments["limit"])
    arm.note(limit=arguments["limit"])
    for size in arguments["sizes"]:
        block = np.ones(size, np.uint8)
        time.sleep(0.05)  # a watcher needs the time to see it
        arm.step(size=block.nbytes)
        del block
    return {"finished": True}


def allocate_freely(arguments: dict[str, Any], arm: Arm) -> dict[str, Any]:
    arm.hold_to(50_000_000)
    with arm.free():
        np.ones(200_000_000, np.uint8)
    return allocate({"limit": 50_000_000, "sizes": [200_000_000]}, arm)


def crash(arguments: dict[str, Any], arm: Arm) -> None:
    arm.step(before=True)
    if arguments.get("capped"):
        arm.hold_to(10**9)
    os.kill(os.getpid(), signal.Signals[arguments["signal"]])
    time.sleep(30)


def sleep(arguments: dict[str, Any], arm: Arm) -> None:
    arm.step(before=True)
    time.sleep(60)


def refuse(arguments: dict[str, Any], arm: Arm) -> None:
    raise MemoryLimitError(
        "f", limit=1, resident=0, projected_peak=2, smallest_limit=2, blocker=None
    )


def mistake(arguments: dict[str, Any], arm: Arm) -> None:
    raise ValueError(f"no such thing: {arguments}")
