"""What a contender builds: a call that computes, and facts about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gp_experiments.peers.cases import Case


class Program(NamedTuple):
    """`call` returns the results when they are complete; `about`: facts for the record, later."""

    call: Callable[[], Mapping[str, Any]]
    about: Callable[[], dict[str, Any]] = dict


Build = Callable[[Case, Mapping[str, Any]], Program]
