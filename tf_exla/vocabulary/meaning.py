"""The meaning of an op: all that passes need to know about it, whatever computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tf_exla.ir.graph import NO_ATTRS, Node, Tensor
from tf_exla.ir.op_set import Work
from tf_exla.ir.windows import Windows
from tf_exla.vocabulary.lookups import Lookups
from tf_exla.vocabulary.rebuild import Rebuild
from tf_exla.vocabulary.rules.builders import Rule

ResultShape = Callable[[Sequence[Tensor], Mapping[str, object]], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Meaning:
    """The meaning of an op of the vocabulary.

    `rule`: how axes of operands become axes of results, in the notation of `ir/axis_rule.py`; an op
    without a rule is never split. `reason`: why it has none. `flops`: those of a call, or the
    number per element of its largest result. `compiled`: the number for XLA's code on one core, if
    that is not twice `flops`. `work`: the kind of these operations. `lookups`: rows that it finds
    by their index. `chooses`: its results are some of the numbers of an operand, though its rule
    has no combiner. `writes`: its result is the first operand with the second written into it.
    `rebuild`: what changes besides shapes when the op is made for a chunk. `windows`: the windows
    it reads.

    Rewrites can make an op with a `shape`: the shape of its result, from operands and attributes.
    `attrs`: default attributes. `dtype_of`: the operand whose dtype the result has, or the dtype.
    """

    rule: Rule | None = None
    reason: str = ""
    flops: int | Callable[[Node], int] = 1
    compiled: int | None = None
    work: Work = "pointwise"
    lookups: Lookups | None = None
    chooses: bool = False
    writes: bool = False
    rebuild: Rebuild | None = None
    windows: Callable[[Node], Windows | None] | None = None
    shape: ResultShape | None = None
    attrs: Mapping[str, object] = field(default_factory=lambda: NO_ATTRS)
    dtype_of: int | str = 0
