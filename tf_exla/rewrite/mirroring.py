"""Mirroring: compute equal results of a symmetric tensor once.

If S is symmetric, `Sᵀ = S`, `Sᵀ v = S v`, and its column sums equal its row sums. Gradients often
contain such pairs: that of `x xᵀ` has `G x` and `Gᵀ x`, that of a distance the sums over both axes.
A tensor whose elements have the same value number as those of an earlier one
(`split/symmetric/element_numbering.py`) is replaced by it, reshaped.
"""

from __future__ import annotations

import itertools

import numpy as np

from tf_exla.ir.graph import Graph, Node, Tensor, const
from tf_exla.ir.op_set import OpSet
from tf_exla.ir.traverse import with_subgraphs
from tf_exla.model.settings import SETTINGS
from tf_exla.rewrite.families import SYMMETRY
from tf_exla.rewrite.rewrite import Application, Rewritten
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.symmetric.element_numbering import ElementNumbering, Form

Key = tuple[Form, tuple[int, ...], str]


def mirror(graph: Graph, ops: OpSet) -> Rewritten:
    """sᵀ = s, sᵀ v = s v, sums of columns = sums of rows, of a symmetric s

    Nodes that make or read square tensors are merged where their results have the same form.
    """
    applications: list[Application] = []
    return Rewritten(_mirror(graph, ops, applications), tuple(applications), ())


def _mirror(graph: Graph, ops: OpSet, applications: list[Application]) -> Graph:
    def inside(sub: Graph) -> Graph:
        return _mirror(sub, ops, applications)

    nodes = tuple(with_subgraphs(node, inside) for node in graph.nodes)
    if any(new is not old for new, old in zip(nodes, graph.nodes, strict=True)):
        graph = graph.replace(nodes=nodes)
    forms = ElementNumbering(DefUse(graph, ops))
    stands_for: dict[Tensor, Tensor] = {}
    known: dict[Key, Tensor] = {}
    merged: list[Node] = []
    for old in graph.nodes:
        node = old.substitute(stands_for)
        if not _is_square(old):
            merged.append(node)
            continue
        tensor = old.output
        twin = known.setdefault(_key(forms, tensor), tensor)
        if twin is tensor:
            merged.append(node)
            continue
        made = _reshaped(twin, tensor, ops)
        if made is None:
            merged.append(node)
            continue
        merged += made
        applications.append(_application(old, made, ops))
        stands_for[tensor] = made[-1].output if made else twin
    if not stands_for:
        return graph
    return graph.with_nodes(merged, stands_for)


def _application(node: Node, made: list[Node], ops: OpSet) -> Application:
    identity = (mirror.__doc__ or "").splitlines()[0]
    moved = sum(tensor.nbytes for tensor in (*node.inputs, *node.outputs))
    again = sum(tensor.nbytes for each in made for tensor in (*each.inputs, *each.outputs))
    return Application(
        SYMMETRY,
        "mirror",
        identity,
        node.name,
        node.source,
        ops.flops(node),
        0,
        moved,
        again if made and not ops.aliases(made[-1]) else 0,
    )


def _is_square(node: Node) -> bool:
    """Return whether a node makes or reads a tensor with two large axes of equal size."""
    if node.stateful or node.subgraphs or node.op == "constant" or len(node.outputs) != 1:
        return False
    if not node.output.is_static:
        return False
    return any(_has_equal_axes(tensor) for tensor in (node.output, *node.inputs))


def _has_equal_axes(tensor: Tensor) -> bool:
    if not tensor.is_static:
        return False
    large = [size for size in tensor.dims if size >= SETTINGS.mirrored]
    return len(set(large)) < len(large)


def _key(forms: ElementNumbering, tensor: Tensor) -> Key:
    """Return the form of a tensor with its axes numbered in order, except those of size one."""
    letters = itertools.count(1)
    labels = [None if size == 1 else next(letters) for size in tensor.dims]
    sizes = tuple(size for size in tensor.dims if size != 1)
    return forms.of(tensor, labels), sizes, tensor.dtype


def _reshaped(twin: Tensor, tensor: Tensor, ops: OpSet) -> list[Node] | None:
    """Return the nodes that reshape `twin` to the shape of `tensor`; None if there is no op."""
    if twin.shape == tensor.shape:
        return []
    shape = const(np.asarray(tensor.dims, np.int32), f"{tensor.name}/shape")
    made = ops.make("reshape", (twin, shape.output), {}, f"{tensor.name}/mirrored")
    return None if made is None else [shape, made]
