"""Splits of single kernels with much scratch memory: the kernel runs on parts of its operands.

Its operands and results stay whole. A region would grow to the neighbours of the kernel, and
compute them again in each of its loops.
"""

from __future__ import annotations

from collections.abc import Iterator

from tf_exla.ir.graph import Graph, Node
from tf_exla.ir.refusal import Refusal
from tf_exla.model.lifetimes import CHAIN_BYTES
from tf_exla.model.projection import Projector
from tf_exla.split.candidate import Candidate, lowest_of_its_own
from tf_exla.split.candidates import evaluate
from tf_exla.split.context import SearchContext
from tf_exla.split.loops.repeating import unrepeatable
from tf_exla.split.loops.stages import arrange
from tf_exla.split.progress import peak_of
from tf_exla.split.regions.def_use import DefUse
from tf_exla.split.regions.growth import grow
from tf_exla.split.regions.large import Large
from tf_exla.split.regions.region import Region


def split_kernels(context: SearchContext, graph: Graph) -> Graph:
    """Split kernels at the peaks of a graph until it is within the budget, as far as possible."""
    while not context.holds(graph):
        high = peak_of(context.projector, graph)
        found = [one for one in _candidates(context, graph) if one.high < high]
        if not found:
            break
        graph = context.fitted(lowest_of_its_own(found, context.budget).graph)
    return graph


def _candidates(context: SearchContext, graph: Graph) -> Iterator[Candidate]:
    context.projector.effort.tick()
    index = context.index(graph)
    for is_large, region in kernel_regions(context, index):
        stages = arrange(index, region, is_large)
        if unrepeatable(index, stages) is None:
            yield evaluate(context, index, stages, is_large)


def kernel_regions(context: SearchContext, index: DefUse) -> Iterator[tuple[Large, Region]]:
    """Yield regions that contain only the node at the peak, if its kernel has much scratch memory.

    There is one for each axis along which its large operands and results can be split.
    """
    projection = context.projector.project(index.graph)
    node = projection.peak_node
    if node is None or not _has_much(node, projection.temporary[projection.peak_step]):
        return
    seen = set()
    for seed in (*node.inputs, *node.outputs):
        is_large = Large(CHAIN_BYTES, seed)
        for axis, size in enumerate(seed.dims if seed.is_static else ()):
            if size > 1 and is_large(seed):
                region = grow(index, seed, axis, is_large, admits=lambda one, _: one is node)
                if region is not None and (key := (region.key, region.extent)) not in seen:
                    seen.add(key)
                    yield is_large, region


def _has_much(node: Node, scratch: int) -> bool:
    """Return whether scratch memory exceeds the tensors that a kernel reads and makes."""
    return not node.subgraphs and scratch > _tensor_bytes(node)


def _tensor_bytes(node: Node) -> int:
    """Return the bytes that a node reads and makes."""
    return sum(one.nbytes for one in (*node.inputs, *node.outputs) if one.is_static)


class KernelsInParts(Projector):
    """A projector that assumes that kernels with much scratch memory run on one index at a time."""

    def reduces(self, node: Node) -> bool:
        """Return whether a kernel is projected with less scratch memory than it has unsplit."""
        return self.temporary(node) < super()._temporary_of(node)

    def _temporary_of(self, node: Node) -> int:
        scratch = super()._temporary_of(node)
        if not _has_much(node, scratch):
            return scratch
        rule = self.ops.rule(node)
        if isinstance(rule, Refusal):
            return scratch
        extent = max((rule.sizes[label] for label in rule.labels()), default=1)
        return min(scratch, (scratch + _tensor_bytes(node)) // max(extent, 1))
