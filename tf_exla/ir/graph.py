"""The intermediate representation: tensors, nodes, loops and graphs, all frozen.

A front end captures its framework's graph into a `Graph`, passes map `Graph -> Graph`, and the
front end restores the result. Nodes and tensors are compared by identity: two nodes with equal
fields are two computations. The order of `Graph.nodes` is the plan: the order in which the
program will run.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tf_exla.ir.once import once
from tf_exla.ir.tensor import Array as Array
from tf_exla.ir.tensor import Shape as Shape
from tf_exla.ir.tensor import Tensor as Tensor
from tf_exla.ir.tensor import item_bytes as item_bytes

if TYPE_CHECKING:
    from typing import Self

NO_ATTRS: Mapping[str, object] = MappingProxyType({})
NO_NAMES: Mapping[Tensor, Tensor] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Node:
    """One operation.

    `op`: its name, after the Python array API standard, `jax.lax` or SciPy where these have the op;
      ops that passes do not know have the front end's name. A "constant" has attrs["value"].
    `attrs`: what the front end needs to emit it again. Values that are `Graph`s are sub-graphs
      (the branches of a `cond`, the body of a `while`).
    `stateful`: it has side effects or reads state. Passes keep it exactly once, outside of split
      loops, in order among stateful nodes.
    `source`: the user's line that made it, `file.py:12 in function`.
    """

    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: Mapping[str, object] = field(default_factory=lambda: NO_ATTRS)
    stateful: bool = False
    name: str = ""
    source: str = ""

    @property
    def output(self) -> Tensor:
        """The only output."""
        (tensor,) = self.outputs
        return tensor

    def substitute(self, instead: Mapping[Tensor, Tensor]) -> Self:
        """Return the node with operands replaced by `instead`; itself if it reads none of them."""
        if instead.keys().isdisjoint(self.inputs):
            return self
        return self.replace(inputs=tuple(instead.get(tensor, tensor) for tensor in self.inputs))

    def renamed(self, instead: Mapping[Tensor, Tensor]) -> Self:
        """Return the node with operands and results replaced by `instead`."""
        node, outputs = self.substitute(instead), self.outputs
        if instead.keys().isdisjoint(outputs):
            return node
        return node.replace(outputs=tuple(instead.get(tensor, tensor) for tensor in outputs))

    def replace(self, **changes: object) -> Self:
        """Return the node with changed fields: `dataclasses.replace` in a fifth of the time."""
        made = object.__new__(type(self))
        fields = made.__dict__
        fields.update(self.__dict__)
        for derived in _DERIVED:
            fields.pop(derived, None)
        fields.update(changes)
        return made

    @once
    def subgraphs(self) -> tuple[tuple[str, Graph], ...]:
        return tuple((key, value) for key, value in self.attrs.items() if isinstance(value, Graph))

    @once
    def is_open(self) -> bool:
        """Whether one of its tensors, or one of its sub-graphs, is open."""
        for tensor in (*self.inputs, *self.outputs):
            if tensor.is_open:
                return True
        return any(sub.is_open for _, sub in self.subgraphs)

    @once
    def notes(self) -> dict[str, tuple[object, Any]]:
        """See `notes.py`."""
        return {}

    def __str__(self) -> str:
        outs = ", ".join(map(str, self.outputs))
        ins = ", ".join(tensor.name for tensor in self.inputs)
        mark = " !" if self.stateful else ""
        return f"{outs} = {self.op}({ins}){mark}"


_DERIVED = ("subgraphs", "is_open", "notes")
"""Names of memoized properties, which a node with changed fields does not keep."""


class SplitAxis(NamedTuple):
    """Where a tensor carries a loop's axis: `axis`, in steps of `block` elements per index."""

    axis: int
    block: int = 1


Combine = Literal["concat", "add", "mul", "max", "min", "and", "or", "argmax", "argmin", "top_k"]
ARG_REDUCERS: frozenset[Combine] = frozenset({"argmax", "argmin", "top_k"})
"""Combiners of values together with their positions along the reduced axis."""
COMBINING: Mapping[Combine, str] = MappingProxyType(
    {
        "add": "add",
        "and": "logical_and",
        "max": "maximum",
        "min": "minimum",
        "mul": "multiply",
        "or": "logical_or",
    }
)
"""The ops that combine the values of two chunks."""


@dataclass(frozen=True, slots=True)
class LoopResult:
    """How the chunks' values of one body output become the loop's output.

    Results of `ARG_REDUCERS` combiners come in pairs: the values, then their positions along the
    axis, `block` positions per index of the loop. `accumulates_in_body`: the body reads the value
    after the previous chunk and combines its own part with it.
    """

    combine: Combine
    slot: SplitAxis | None = None  # of a concat
    block: int = 1
    accumulates_in_body: bool = False

    def __str__(self) -> str:
        if self.slot:
            return f"concat axis {self.slot.axis}"
        return f"running {self.combine}" if self.accumulates_in_body else self.combine


@dataclass(frozen=True, eq=False)
class Loop(Node):
    """A loop over chunks of one axis class.

    `body.inputs[i]` is a chunk of `inputs[i]` if `slots[i]` is set, else all of it.
    `body.outputs[i]` is combined over the chunks into `outputs[i]` as `results[i]` says. The last
    inputs of the body are the values of accumulated results after the previous chunk.
    The loop runs `extent // chunk` times; `remainder` is the body for the last `extent % chunk`
    indices, with its own static shapes, and runs once after the loop.
    `parallel`: iterations that may be in flight together. `min_chunk`: the smallest chunk; a full
    chunk holds as many elements as a top_k returns.
    `template`: the body for all indices at once, from which bodies for other chunks are cut.
    `split_axes`: where its tensors carry the loop's axis.
    `bitwise_group`: not None if numbers that one loop of a region completes are compared for
    equality with numbers that another loop recomputes. So these loops share one chunk, and no pass
    changes their bodies.
    `span`: the indices that run on this device, in whole chunks; other devices run the others.
    Concatenated results are not set at indices outside of it.
    `triangular`: the loop is inside of a loop of the same extent and chunk, and runs only over the
    full chunks before the current chunk of that loop. Concatenated results are zero elsewhere.
    """

    extent: int = 0
    chunk: int = 0
    body: Graph = field(default_factory=lambda: Graph((), (), ()))
    remainder: Graph | None = None
    slots: tuple[SplitAxis | None, ...] = ()
    results: tuple[LoopResult, ...] = ()
    parallel: int = 1
    min_chunk: int = 1
    triangular: bool = False
    stage: int = 0
    template: Graph = field(default_factory=lambda: Graph((), (), ()))
    split_axes: Mapping[Tensor, SplitAxis] = field(default_factory=lambda: MappingProxyType({}))
    recomputed: tuple[str, ...] = ()  # nodes that an earlier stage also computes
    recomputed_flops: int = 0  # of these nodes, over all chunks
    axis: str = ""  # the split axis, in words for the report
    bitwise_group: Tensor | None = None  # the same in all loops of the region
    span: range | None = None

    @property
    def iterations(self) -> int:
        """Number of full chunks and the remainder."""
        return -(-self.extent // self.chunk)

    @property
    def full_chunks(self) -> range:
        """The numbers of the full chunks that run here."""
        if self.span is None:
            return range(self.extent // self.chunk)
        return range(self.span.start // self.chunk, self.span.stop // self.chunk)

    @property
    def runs_remainder(self) -> bool:
        """Whether the last `extent % chunk` indices run here."""
        return self.remainder is not None and (self.span is None or self.span.stop == self.extent)

    @property
    def folds(self) -> tuple[int, ...]:
        """Positions of the accumulated results, in the order of the body's last inputs."""
        return tuple(k for k, result in enumerate(self.results) if result.accumulates_in_body)

    def holds_places(self, position: int) -> bool:
        """Return whether a result is the second of a pair of `ARG_REDUCERS`: the positions."""
        before = [result.combine in ARG_REDUCERS for result in self.results[:position]]
        return self.results[position].combine in ARG_REDUCERS and before.count(True) % 2 == 1

    def sliced(self, body: Graph) -> frozenset[Tensor]:
        """Return the inputs of a body that are chunks."""
        pairs = zip(body.inputs, self.slots, strict=False)
        return frozenset(tensor for tensor, slot in pairs if slot is not None)

    @property
    def mean_trip_count(self) -> float:
        """How often the body runs, on average; this is a fraction for a triangular loop."""
        full = self.extent // self.chunk
        return (full - 1) / 2 if self.triangular else full

    @once
    def subgraphs(self) -> tuple[tuple[str, Graph], ...]:
        rest = (("remainder", self.remainder),) if self.remainder is not None else ()
        return (("body", self.body), *rest)

    def __str__(self) -> str:
        outs = ", ".join(f"{t} ({r})" for t, r in zip(self.outputs, self.results, strict=True))
        ins = ", ".join(
            f"{t.name}/{slot.axis}" if slot else t.name
            for t, slot in zip(self.inputs, self.slots, strict=True)
        )
        return (
            f"{outs} = Loop[{self.extent} by {self.chunk}{', before' if self.triangular else ''}, "
            f"stage {self.stage}, parallel {self.parallel}]({ins})"
        )


@dataclass(frozen=True, eq=False)
class Graph:
    """Inputs, nodes in the order of execution, outputs.

    `results_first`: the outputs are allocated before the first node runs, as they are in a program
    that XLA compiles as a whole.
    """

    inputs: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Tensor, ...]
    results_first: bool = False

    def replace(self, **changes: object) -> Graph:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]

    def with_nodes(
        self, nodes: Sequence[Node], renamed: Mapping[Tensor, Tensor] = NO_NAMES
    ) -> Graph:
        """Return the graph with other nodes; this graph itself if they are the same objects.

        `renamed`: replacements of outputs.
        """
        outputs = self.outputs
        if not renamed.keys().isdisjoint(outputs):
            outputs = tuple(renamed.get(tensor, tensor) for tensor in outputs)
        elif len(nodes) == len(self.nodes) and all(map(operator.is_, nodes, self.nodes)):
            return self
        return self.replace(nodes=tuple(nodes), outputs=outputs)

    def with_instead(self, old: Node, *new: Node) -> Graph:
        """Return the graph with the node `old` replaced by nodes."""
        at = self.nodes.index(old)
        return self.with_nodes((*self.nodes[:at], *new, *self.nodes[at + 1 :]))

    @once
    def is_open(self) -> bool:
        """Whether an input or a node is open, so that sizes are known only at run time."""
        return any(t.is_open for t in self.inputs) or any(node.is_open for node in self.nodes)

    @once
    def is_stateful(self) -> bool:
        """Whether one of its nodes is stateful."""
        return any(node.stateful for node in self.nodes)

    @once
    def has_loops(self) -> bool:
        """Whether one of its own nodes is a `Loop`."""
        return any(isinstance(node, Loop) for node in self.nodes)

    @once
    def notes(self) -> dict[str, tuple[object, Any]]:
        """See `notes.py`."""
        return {}

    def __str__(self) -> str:
        return format_graph(self)


def format_graph(graph: Graph, indent: str = "") -> str:
    """Print a graph, one node a line, sub-graphs indented."""
    lines = [f"{indent}inputs: {', '.join(map(str, graph.inputs))}"]
    for node in graph.nodes:
        lines.append(indent + str(node))
        for key, sub in node.subgraphs:
            lines.append(f"{indent}  {key}:")
            lines.append(format_graph(sub, indent + "    "))
    lines.append(f"{indent}outputs: {', '.join(tensor.name for tensor in graph.outputs)}")
    return "\n".join(lines)


def const(value: npt.ArrayLike, name: str = "const", dtype: str | None = None) -> Node:
    """Make a `constant` node with a static value."""
    array = np.asarray(value)
    tensor = Tensor(array.shape, dtype or array.dtype.name, name, value=array)
    return Node("constant", (), (tensor,), {"value": array}, name=name)
