"""The record of an op: all that is known of one op of TensorFlow, in one place.

To add an op, add a record to the file of its kind. CONTRIBUTING.md says how it is tested, whole and
in parts. `python -m tf_exla ops` prints the records. For an op of the vocabulary,
`tf_exla/vocabulary/table.py` has the rule, the flops and how it is rebuilt for a chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tf_exla.frontends.tf.ops.bounds.values import of_operand
from tf_exla.frontends.tf.ops.memory import cpu, gpu
from tf_exla.frontends.tf.ops.memory.call import (
    Bound,
    copy_of_everything,
    nothing,
    transposed_reduction,
)
from tf_exla.ir.bounds import Most
from tf_exla.ir.graph import Node, Shape
from tf_exla.ir.lists import ListEffect
from tf_exla.ir.op_set import Compiles
from tf_exla.vocabulary import flops
from tf_exla.vocabulary.meaning import Meaning
from tf_exla.vocabulary.rules.builders import Rule, words

if TYPE_CHECKING:
    from tf_exla.frontends.tf.ops.xla_forms import Form

SizeRule = Callable[[Node, Sequence[Most]], Sequence[Most]]
ValueRule = Callable[[Node, Sequence[Most]], Sequence[Shape | None]]

View = Literal["", "always", "part", "same"]
Size = Literal["", "broadcast", "equal", "not larger", "not smaller"]


@dataclass(frozen=True, slots=True)
class Op(Meaning):
    """The record of an op of TensorFlow. The defaults are safe: they promise nothing.

    `unordered`: on a GPU it adds in the order in which threads arrive.

    *Memory.* `cpu`, `gpu`: upper bounds of the bytes that its kernels allocate beyond the results;
    `gpu` is by default the bound of one thread on a CPU. `xla_calls`: the bound of what XLA's code
    calls for it. `view`: whether the first result aliases the first operand: "always", as a "part"
    of it, or if the result has the "same" elements. If this is not certain, a projection counts
    both the view and a new buffer. `reuses`: operands whose buffer the kernel certainly reuses for
    its result if they have the result's size and dtype and no other holder. `stores`: the operand
    that a variable or a list keeps.

    *XLA.* `xla`: how well XLA compiles it to the same numbers, for real numbers of at least 32
    bits (`xla.py`). `form`: other ops that replace it in a cluster.

    *Sizes known only at run time.* `size`: the result's size compared with the first operand's;
    "broadcast": with the largest operand's. `bounds`: bounds of the results' sizes, if TensorFlow's
    shape inference on the largest operands does not give them. `shape_operand`: the operand whose
    larger integers make larger results. `values`: bounds of the integers in the results.

    `list_effect`: its effect on a list of tensors.
    """

    cpu: Bound = copy_of_everything
    gpu: Bound | None = None
    xla_calls: Bound | None = None
    view: View = ""
    reuses: tuple[int, ...] = ()
    stores: int | None = None
    xla: Compiles | Callable[[Node], Compiles] = ""
    form: Form | None = None
    size: Size = ""
    bounds: SizeRule | None = None
    values: ValueRule | None = None
    shape_operand: int | None = None
    list_effect: ListEffect | Callable[[Node], ListEffect] | None = None
    unordered: bool = False


def many(record: Op, names: str) -> Mapping[str, Op]:
    """Give several ops the same record."""
    return dict.fromkeys(words(names), record)


# Kinds of ops; arguments replace fields of the kind.

_WITHOUT_SCRATCH = Op(cpu=nothing, gpu=gpu.moved)
_MOVED = replace(_WITHOUT_SCRATCH, flops=0)
_VIEW = replace(_MOVED, rule="... -> ...", view="always", size="equal",
                values=of_operand)  # fmt: skip
_UNARY = Op("... -> ...", cpu=nothing, gpu=nothing, reuses=(0,), size="broadcast")
_PAIRWISE = replace(_UNARY, rule="..., ... -> ...", reuses=(0, 1))
_BINARY = replace(_PAIRWISE, cpu=cpu.broadcast_blocks)
_COMPARISON = replace(_BINARY, reuses=(), xla="well")
_UNFORWARDED = replace(_WITHOUT_SCRATCH, rule="... -> ...", size="broadcast")
_PRODUCT = Op(work="product")
_REDUCER = Op(
    flops=flops.per_operand, cpu=transposed_reduction, gpu=gpu.reduction, view="same",
    size="not larger",
)  # fmt: skip


def without_scratch(rule: Rule | None = None, **changes: Any) -> Op:
    """Return an op whose kernel allocates only its results."""
    return replace(_WITHOUT_SCRATCH, rule=rule, **changes)


def moved(rule: Rule | None = None, **changes: Any) -> Op:
    """Return an op without scratch memory that computes nothing."""
    return replace(_MOVED, rule=rule, **changes)


def view(rule: Rule = "... -> ...", **changes: Any) -> Op:
    """Return an op whose result is the buffer of its first operand."""
    return replace(_VIEW, rule=rule, **changes)


def unary(**changes: Any) -> Op:
    """Return a pointwise op that reuses its operand's buffer for its result."""
    return replace(_UNARY, **changes)


def pairwise(**changes: Any) -> Op:
    """Return a pointwise op of two operands of the same shape, never broadcast."""
    return replace(_PAIRWISE, **changes)


def binary(**changes: Any) -> Op:
    """Return a pointwise op of two operands that are broadcast."""
    return replace(_BINARY, **changes)


def comparison(**changes: Any) -> Op:
    """Return a pointwise op of two operands whose result has another dtype."""
    return replace(_COMPARISON, **changes)


def unforwarded(**changes: Any) -> Op:
    """Return a pointwise op that always allocates its result."""
    return replace(_UNFORWARDED, **changes)


def unmeasured(operands: int, **changes: Any) -> Op:
    """Return a pointwise op whose kernel is assumed to copy everything."""
    rule = ", ".join(["..."] * operands) + " -> ..."
    return Op(rule, size="broadcast", **changes)


def product(rule: Rule, **changes: Any) -> Op:
    """Return an op that uses all cores as products of matrices do."""
    return replace(_PRODUCT, rule=rule, **changes)


def reducer(rule: Rule | None = None, **changes: Any) -> Op:
    """Return a reduction of the axes that operand 1 holds."""
    return replace(_REDUCER, rule=rule, **changes)
