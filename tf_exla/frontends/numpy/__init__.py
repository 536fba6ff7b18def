"""The reference backend: the semantics of every op and loop of a graph, in NumPy."""

from tf_exla.frontends.numpy.evaluate import evaluate
from tf_exla.frontends.numpy.namespace import NUMPY
from tf_exla.frontends.numpy.trace import trace

__all__ = ["NUMPY", "evaluate", "trace"]
