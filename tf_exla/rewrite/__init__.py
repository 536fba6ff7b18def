"""Rewrites: the same numbers from fewer bytes and fewer operations.

Each rewrite is a pattern, a condition that may refuse it with a reason, and a replacement. The
first line of its docstring is the identity, which reports show. A proposal is accepted if the nodes
that it adds cost less than those that become dead. So shared intermediates are computed twice only
if that is cheaper.
"""

from tf_exla.ir.refusal import Refusal
from tf_exla.rewrite.driver import rewrite_graph
from tf_exla.rewrite.families import DEFAULTS, FAMILIES, chosen
from tf_exla.rewrite.rewrite import Application, GraphRewrite, RefusedRewrite, Rewrite, Rewritten

__all__ = [
    "DEFAULTS",
    "FAMILIES",
    "Application",
    "GraphRewrite",
    "Refusal",
    "RefusedRewrite",
    "Rewrite",
    "Rewritten",
    "chosen",
    "rewrite_graph",
]
