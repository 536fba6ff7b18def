"""Scheduling of shards on devices, one at a time on each, and handling of failed devices.

TensorFlow places, sends and runs shards. It does not give a shard that hangs to another device: a
call to a stopped process never ends, and its thread cannot be interrupted. So each device has a
thread, and a thread that hangs gets no shards until its call ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context, executor

from tf_exla.errors import DeviceError
from tf_exla.frontends.tf.devices.pieces import Pieces

Job = Callable[[str], Any]
"""Runs one shard on the device of that name."""

FIRST = 120.0
"""Seconds that the first shards of a loop may always take: functions are instantiated, XLA
compiles, rows are read."""
ESTIMATES = 100.0
"""The same in multiples of a shard's estimated time, which may be wrong by a factor of ten."""
SLOWER = 10.0
"""Multiples of the slowest shard's time after which a device counts as hanging. Shards have one
size, and a busy machine slows them by far less than ten."""
LEAST = 5.0
"""Seconds that a later shard may always take. Pauses of the network and the machine are shorter."""


@dataclass(eq=False)
class Device:
    """A device and its thread. `busy`: its thread has not returned from a call."""

    name: str
    queue: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    busy: bool = False
    lost: bool = False
    reason: str = ""


class Pool:
    """The devices that shards run on; one call at a time.

    `recover`: makes a lost device usable again, and returns whether that worked. None: the devices
    belong to this process, and their errors are errors of the program.
    """

    def __init__(self, names: Sequence[str], recover: Callable[[str], bool] | None = None) -> None:
        self.devices = [Device(name) for name in names]
        self.recover = recover
        self.pieces = Pieces()
        self._calls = threading.RLock()
        self._threads: dict[Device, threading.Thread] = {}

    def run(
        self, jobs: Sequence[Job], done: Callable[[int, Any], None], patience: Patience
    ) -> None:
        """Run all jobs; call `done` with the number and the result of each, in any order.

        Job k runs on device k modulo their number, unless that is slow or lost. Raises
        `DeviceError` if no device is left, and re-raises errors of jobs.
        """
        with self._calls:
            patience.begin()
            self._wait(patience.seconds())
            self._bring_back()
            _Run(self, jobs, done, patience).run()

    def home(self, number: int) -> str:
        """Return the device that runs shard `number` unless it is slow or lost."""
        return self.devices[number % len(self.devices)].name

    def start(self, device: Device, tell: SimpleQueue[Any], number: int, job: Job) -> None:
        """Give a job to the thread of a device."""
        if device not in self._threads:
            thread = threading.Thread(target=_work, args=(device,), daemon=True, name=device.name)
            self._threads[device] = thread
            thread.start()
        device.busy = True
        device.queue.put((tell, number, job))

    def lose(self, device: Device, reason: str) -> None:
        """Take a device out of use."""
        device.lost, device.reason = True, reason
        tf.get_logger().warning("tf_exla: %s is lost: %s", device.name, reason)

    def _wait(self, seconds: float) -> None:
        """Wait for jobs that are still running from a call that ended in an error."""
        end = time.monotonic() + seconds
        for device in self.devices:
            while device.busy and not device.lost:
                if self.recover is not None and time.monotonic() > end:
                    self.lose(device, f"no answer within {seconds:.1f} s")
                time.sleep(_POLL)

    def _bring_back(self) -> None:
        for device in self.devices:
            # While a call hangs in its thread, the state of a device is unknown.
            if device.lost and not device.busy and self.recover and self.recover(device.name):
                device.lost = False
                tf.get_logger().warning("tf_exla: %s is back", device.name)


_POLL = 1e-3


@dataclass
class Patience:
    """The time that shards of one loop may take, from their measured or estimated times.

    Times of the first call are not counted in later calls: functions were instantiated in it.
    """

    estimate: float
    slowest: float = 0.0
    calls: int = 0

    def begin(self) -> None:
        """Record that a call begins."""
        self.calls += 1
        if self.calls == 2:
            self.slowest = 0.0

    def seconds(self) -> float:
        """Return the seconds after which a shard counts as hanging."""
        if not self.slowest:
            return max(FIRST, ESTIMATES * self.estimate)
        return max(LEAST, SLOWER * self.slowest)

    def took(self, seconds: float) -> None:
        """Record the time that a shard took."""
        self.slowest = max(self.slowest, seconds)


class _Run:
    """One call of `Pool.run`."""

    def __init__(
        self,
        pool: Pool,
        jobs: Sequence[Job],
        done: Callable[[int, Any], None],
        patience: Patience,
    ) -> None:
        self.pool = pool
        self.jobs = jobs
        self.done = done
        self.patience = patience
        self.waiting = list(range(len(jobs)))
        self.told: SimpleQueue[Any] = SimpleQueue()
        self.running: dict[Device, tuple[int, float]] = {}

    def run(self) -> None:
        left = set(self.waiting)
        allowed = self.patience.seconds()
        while left:
            self._start_all()
            if not self.running:
                reasons = {one.name: one.reason for one in self.pool.devices}
                raise DeviceError(reasons, len(left))
            for device, number, result, error in self._told(allowed):
                if error is not None:
                    self._failed(device, number, error)
                elif number in left:
                    left.discard(number)
                    self.done(number, result)

    def _start_all(self) -> None:
        for k, device in enumerate(self.pool.devices):
            if device.lost or device.busy or device in self.running or not self.waiting:
                continue
            count = len(self.pool.devices)
            number = next((n for n in self.waiting if n % count == k), self.waiting[0])
            self.waiting.remove(number)
            self.running[device] = number, time.monotonic()
            self.pool.start(device, self.told, number, self.jobs[number])

    def _told(self, allowed: float) -> list[tuple[Device, int, Any, Exception | None]]:
        """Wait for the next result; give up on devices that take longer than `allowed` seconds."""
        limited = self.pool.recover is not None
        oldest = min(begun for _, begun in self.running.values())
        try:
            timeout = max(oldest + allowed - time.monotonic(), 0.0) if limited else None
            device, number, result, error = self.told.get(timeout=timeout)
        except Empty:
            now = time.monotonic()
            for device, (number, begun) in list(self.running.items()):
                if now >= begun + allowed:
                    del self.running[device]
                    self.pool.lose(device, f"no answer within {allowed:.1f} s")
                    self.waiting.append(number)
            return []
        at = self.running.pop(device, None)
        if at is None:  # it hung, and was given up
            return []
        self.patience.took(time.monotonic() - at[1])
        return [(device, number, result, error)]

    def _failed(self, device: Device, number: int, error: Exception) -> None:
        if self.pool.recover is None or not is_device_failure(error):
            raise error
        self.pool.lose(device, f"{type(error).__name__}: {str(error).splitlines()[0]}")
        # Parts on a hanging device stay: it may come back, and dropping tensors would wait for it.
        self.pool.pieces.forget(device.name)
        self.waiting.append(number)


def is_device_failure(error: Exception) -> bool:
    """Return whether an error comes from a lost or dead process, not from the program."""
    if isinstance(error, (tf.errors.UnavailableError, tf.errors.AbortedError)):
        return True
    if isinstance(error, (tf.errors.CancelledError, tf.errors.DeadlineExceededError)):
        return True
    # TensorFlow's messages for a connection that broke earlier, and for a restarted server.
    words = ("poisoned", "context_id", "Unable to find", "unavailable", "failed to connect")
    return isinstance(error, tf.errors.OpError) and any(word in str(error) for word in words)


def _work(device: Device) -> None:
    # With a shared executor, an error of one device would reach every thread. The shared executor
    # is never restored: that would wait for all pending work on it.
    own = executor.new_executor(enable_async=False)
    context.context().executor = own
    while True:
        tell, number, job = device.queue.get()
        result: Any = None
        failure: Exception | None = None
        try:
            result = job(device.name)
        except Exception as error:
            failure = error
            own.clear_error()
        device.busy = False
        tell.put((device, number, result, failure))
        del tell, job, result, failure
