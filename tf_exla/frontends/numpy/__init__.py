"""The reference backend: what every op and loop of a graph means, in NumPy."""

from tf_exla.frontends.numpy.evaluate import evaluate

__all__ = ["evaluate"]
