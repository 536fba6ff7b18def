"""The errors and warnings that users see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tf_exla.byte_size import format_bytes

LIST = "variant"
"""The dtype of lists of tensors."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """The tensor at which the limit fails, and what keeps it from being split.

    `axis` and `op`: the axis that could not be split, and the op that refused it. Both are None
    where `reason` is not a refusal. `shape`: of a list, that of each of its tensors.
    """

    tensor: str
    shape: tuple[int | None, ...]
    dtype: str
    bytes: int
    axis: int | None
    op: str | None
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class PeakPart:
    """A part of a peak: its description and its bytes."""

    what: str
    bytes: int


def named_tensor(name: str, dtype: str, shape: tuple[int | None, ...] | None) -> str:
    """Describe a tensor, or a list with the shape of each of its tensors."""
    sizes = "..." if shape is None else ", ".join("?" if s is None else str(s) for s in shape)
    return f"{name} (a list of tensors [{sizes}])" if dtype == LIST else f"{name} {dtype}[{sizes}]"


class _Reported(RuntimeError):
    """An error that keeps its attributes when copied or pickled, as a pool's worker does."""

    # AutoGraph replaces errors that pass through a function that it converts, but not these.
    ag_pass_through = True

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(
    kind: type[_Reported], args: tuple[Any, ...], attributes: Mapping[str, Any]
) -> _Reported:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class NotOptimizedWarning(UserWarning):
    """A function runs unchanged and without a limit, because tf_exla could not rewrite it."""


class MemoryLimitError(_Reported):
    """No plan is within the limit. Raised at tracing, before anything large is allocated.

    `limit`, `resident`, `projected_peak` (of the unsplit program) and `smallest_limit` are bytes.
    The program runs with `smallest_limit`. The other attributes describe the plan for that limit.
    `blocker`: the largest tensor alive at its peak. `residents`: the largest tensors that exist
    before the call. `parts`: the parts of its peak in addition to resident tensors. `slowdown`: the
    estimated time of a call relative to that of the unsplit program. `faster_limit`: a larger limit
    at which it is less than three, at most that of the unsplit program; None if `slowdown` is.
    `smallest_in_parts`: a smaller limit that may work as well, if sizes are computed from data: the
    call then runs up to these sizes first. None if there is none.
    """

    smallest_in_parts: int | None = None

    # Many parameters: the facts that a handler of the error reads, each by its name.
    def __init__(
        self,
        function: str,
        *,
        limit: int,
        resident: int,
        projected_peak: int,
        smallest_limit: int,
        blocker: Blocker | None,
        residents: tuple[PeakPart, ...] = (),
        parts: tuple[PeakPart, ...] = (),
        slowdown: float = 1.0,
        faster_limit: int | None = None,
    ) -> None:
        self.function = function
        self.limit = limit
        self.resident = resident
        self.projected_peak = projected_peak
        self.smallest_limit = smallest_limit
        self.blocker = blocker
        self.residents = residents
        self.parts = parts
        self.slowdown = slowdown
        self.faster_limit = faster_limit
        super().__init__(self._message())

    def may_work_in_parts(self, limit: int) -> None:
        """Set `smallest_in_parts`, which the message names then."""
        self.smallest_in_parts = limit
        self.args = (self._message(),)

    def _message(self) -> str:
        def both(count: int) -> str:
            return f"{format_bytes(count)} ({count} bytes)"

        lines = [
            f"{self.function}: projected peak {both(self.smallest_limit)} exceeds the limit "
            f"{both(self.limit)}"
        ]
        if self.projected_peak > self.smallest_limit:
            lines[0] += f", however it is split; unsplit it is {both(self.projected_peak)}"
        lines[0] += "."
        residents = _worth_naming(self.residents, self.resident)
        named = ", ".join(f"{one.what} {format_bytes(one.bytes)}" for one in residents)
        if self.resident >= self.limit:
            largest = f" (largest: {named})" if named else ""
            lines.append(
                f"Arguments, variables and captured tensors alone take {both(self.resident)}"
                f"{largest}."
            )
        if self.blocker is not None:
            lines.append(self._blocker_line(self.blocker))
        smallest = f"Smallest limit that works: {both(self.smallest_limit)}"
        if self.parts:
            there = f"{format_bytes(self.resident)} before the call"
            if named and self.resident < self.limit:
                there += f" (largest: {named})"
            parts = (f"{format_bytes(one.bytes)} {one.what}" for one in _worth_naming(self.parts))
            smallest += f", of which {'; '.join((there, *parts))}"
        lines.append(f"{smallest}.")
        if self.slowdown >= _SLOW:
            times = float(f"{self.slowdown:.1g}")
            lines.append(
                f"A call within it takes an estimated {times:,.0f} times as long as unsplit."
            )
            if self.faster_limit is not None:
                lines.append(f"Within {both(self.faster_limit)} it is less than three times.")
            lines.append("explain(..., limit=...).curve() has the trade-off.")
        if self.smallest_in_parts is not None:
            lines.append(
                f"{both(self.smallest_in_parts)} may work too: the call then runs up to the sizes "
                "that are computed from its data, and these decide what the rest needs."
            )
        return " ".join(lines)

    @staticmethod
    def _blocker_line(blocker: Blocker) -> str:
        size = f"{format_bytes(blocker.bytes)} ({blocker.bytes} bytes)"
        named = named_tensor(blocker.tensor, blocker.dtype, blocker.shape)
        what = f"Largest at that peak: {named}, {size}"
        if blocker.source:
            what += f", from {blocker.source}"
        if blocker.op is not None and blocker.axis is not None:
            return f"{what}; axis {blocker.axis} reaches {blocker.op}: {blocker.reason}."
        return f"{what}; {blocker.reason}."


_SLOW = 10
"""From how many times the time on a message says so: more than an estimate may be off."""


def _worth_naming(parts: tuple[PeakPart, ...], whole: int = 0) -> list[PeakPart]:
    """Return the parts that make up at least a hundredth of the whole."""
    whole = whole or sum(one.bytes for one in parts)
    return [one for one in parts if one.bytes * 100 >= whole]


class DeviceError(_Reported):
    """No device is left to run the rest of a sharded call. Nothing was assigned.

    `reasons`: why each device was lost, by its name. `left`: the number of shards not computed.
    """

    def __init__(self, reasons: Mapping[str, str], left: int) -> None:
        self.reasons = dict(reasons)
        self.left = left
        told = "; ".join(f"{name}: {reason}" for name, reason in self.reasons.items())
        rest = f", {left} shards are left" if left else ""
        super().__init__(f"no device can go on{rest}. {told}")


class UnboundedMemoryError(_Reported):
    """No limit can be held, since nothing bounds the memory that a node of the program allocates.

    Either a loop keeps memory of each iteration and may run any number of times, or the size of a
    result depends on data and the sizes of the operands do not bound it. `node`, `op`, `source`:
    the node, its op, and the line that made it. `bytes`: memory that a loop keeps of one iteration,
    else None.
    """

    def __init__(
        self, function: str, *, node: str, op: str, source: str, bytes: int | None = None
    ) -> None:
        self.function = function
        self.node = node
        self.op = op
        self.source = source
        self.bytes = bytes
        where = f" ({source})" if source else ""
        if bytes is not None:
            text = (
                f"{function}: the loop {node}{where} keeps {format_bytes(bytes)} of each iteration,"
                " for gradients or in an array, and how often it runs is not known before. Bound "
                "it: maximum_iterations of tf.while_loop, or a counter in its condition; "
            )
        else:
            text = (
                f"{function}: {node}, a result of {op}{where}, has a size that only the run tells,"
                " and nothing bounds it. Bound it: tf.minimum of a number and the most that it can"
                " be, set_shape of what has a fixed shape; "
            )
        super().__init__(text + _UNBOUNDED)


_UNBOUNDED = 'or let it run without being counted: optimize(..., unbounded="warn").'


class UnboundedMemoryWarning(UserWarning):
    """A node runs without being counted, since nothing bounds its memory."""
