"""GPflow's Scipy optimizer inside a memory limit; the only module that knows GPflow."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gpflow
import numpy as np
import tensorflow as tf

from tf_exla.api import Devices, OptimizedFunction, optimize
from tf_exla.frontends.tf.calls.request import Limit
from tf_exla.frontends.tf.measuring.measure import MeasuredPeak, measured_peak
from tf_exla.report.report import MemoryReport

__all__ = ["Scipy"]


class _OptimizedCache(OrderedDict[Any, Any]):
    """GPflow's cache of value-and-gradient functions, each optimized when it is inserted."""

    def __init__(self, rewrite: Callable[[Any], OptimizedFunction]) -> None:
        super().__init__()
        self.rewrite = rewrite
        self.latest: OptimizedFunction | None = None

    def __setitem__(self, key: Any, function: Any) -> None:
        super().__setitem__(key, self.rewrite(function))

    def __getitem__(self, key: Any) -> OptimizedFunction:
        self.latest = super().__getitem__(key)
        return self.latest


class Scipy(gpflow.optimizers.Scipy):
    """Minimize as `gpflow.optimizers.Scipy` does, with the peak of each evaluation below `limit`.

    GPflow evaluates the loss and its gradients in one graph, which is optimized as a whole.
    Everything but the limit is as in GPflow, results included.

    Args:
        limit: As for `tf_exla.optimize`, like the next four arguments.
        jit_compile: Whether XLA compiles the bodies of loops.
        rewrites: Families of rewrites to switch on or off.
        strict: Whether a failure of tf_exla itself is raised.
        devices: Devices among which loops are divided, each within the limit.
        compile_cache_size: As in GPflow, but at least 1.

    Raises:
        MemoryLimitError: By `minimize`, before anything large is allocated.
        ValueError: At once, if an argument has an invalid value.
        TypeError: At once, if an argument has an invalid type.
    """

    def __init__(
        self,
        limit: Limit = "auto",
        *,
        jit_compile: bool | None = None,
        rewrites: Mapping[str, bool] | bool | None = None,
        strict: bool = False,
        devices: Devices = None,
        compile_cache_size: int = 2,
    ) -> None:
        if compile_cache_size == 0:
            raise ValueError(
                "compile_cache_size=0 is not supported: "
                "GPflow's cache holds the optimized functions; use 1 or more"
            )
        super().__init__(compile_cache_size)
        self.limit = limit
        self.jit_compile = jit_compile
        self.rewrites = rewrites
        self.strict = strict
        self.devices = devices
        self._optimize(lambda: None)  # raises if an argument is invalid
        self.compile_cache: _OptimizedCache = _OptimizedCache(self._optimize)
        self._variables: tuple[tf.Variable, ...] = ()

    def eval_func(
        self,
        closure: Callable[[], tf.Tensor],
        variables: Sequence[tf.Variable],
        tf_fun_args: Mapping[str, Any],
        compile: bool = True,
        allow_unused_variables: bool = False,
    ) -> Callable[[np.ndarray[Any, Any]], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Return GPflow's `x [P] -> (loss [], gradient [P])`, optimized."""
        if not compile:
            raise ValueError(
                f"a limit (here {self.limit!r}) is held by rewriting the graph, and compile=False "
                "makes none; use compile=True or gpflow.optimizers.Scipy"
            )
        self._variables = tuple(variables)
        return super().eval_func(closure, variables, tf_fun_args, True, allow_unused_variables)

    @property
    def report(self) -> MemoryReport:
        """The report of the function that `minimize` evaluated last."""
        return self._latest().report(self._parameters())

    def measured_peak(self) -> MeasuredPeak:
        """Return the measured peak in bytes of an evaluation at the current parameters.

        Runs the function that `minimize` evaluated last, as `tf_exla.measured_peak` does.
        """
        return measured_peak(self._latest(), self._parameters())

    def _latest(self) -> OptimizedFunction:
        latest: OptimizedFunction | None = self.compile_cache.latest
        if latest is None:
            raise ValueError("no function has been optimized yet: call minimize first")
        return latest

    def _parameters(self) -> tf.Tensor:
        # SciPy passes float64, whatever the dtypes of the variables.
        return tf.cast(self.initial_parameters(self._variables), tf.float64)  # [P]

    def _optimize(self, function: Any) -> OptimizedFunction:
        made: OptimizedFunction = optimize(
            function,
            self.limit,
            jit_compile=self.jit_compile,
            rewrites=self.rewrites,
            strict=self.strict,
            devices=self.devices,
        )
        return made

    def __getstate__(self) -> dict[str, Any]:
        # As in GPflow, functions are not pickled.
        return {**super().__getstate__(), "compile_cache": None, "_variables": ()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.compile_cache = _OptimizedCache(self._optimize)
