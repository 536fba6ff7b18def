"""Measure what the kernel of every op with an axis rule allocates, on three shapes each.

    python tests/frontends/measure_kernels.py [op ...]

The shapes are those of the rules' tests, made long along one axis that may be split, as a chunk is
made short. Rows go to kernel_scratch.json, with the bound of the table: those of the named ops, or
of all. A measurement that exceeds its bound is printed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[k]) for k in (1, 2)]

DATA = Path(__file__).with_name("kernel_scratch.json")
BYTES = 4 << 20
"""What the tensors of one call take, about: several times what is lost in a measurement."""

SHAPES = 3
SLACK = 1_000_000
"""As in test_kernel_memory.py: what a call takes beside tensors, and a measurement may miss."""


def grown(op: str) -> Iterator[tuple[Any, list[Any]]]:
    """Yield nodes of an op, and their operands, each long along another axis."""
    import numpy as np
    import tensorflow as tf
    from frontends.test_op_rules import CASES, NOT_SINGLE, OPS, build, cut_shape, single

    from tf_exla.ir.axis_rule import AxisRule
    from tf_exla.ir.graph import Tensor

    cases = [case for case in CASES if case.op == op]
    if op not in NOT_SINGLE:
        cases += [single(case) for case in cases[:1]]
    for times in (1, 2, 4):
        for case in cases:
            try:
                node, values, results = build(case)
            except tf.errors.OpError:
                continue  # no kernel in single precision
            rule = OPS.rule(node)
            if not isinstance(rule, AxisRule):
                continue
            for label in rule.labels():
                size = rule.sizes[label]
                carried = [
                    None if axes is None else rule.operand_axis(k, label)
                    for k, axes in enumerate(rule.operands)
                ]
                made = [rule.result_axis(k, label) for k in range(len(results))]
                tensors = [*zip(values, carried, strict=True), *zip(results, made, strict=True)]
                each = sum(value.nbytes for value, at in tensors if at is not None)
                if not each or not size:
                    continue
                factor = times * max(2, BYTES // each)
                long = [
                    value if at is None else np.concatenate([value] * factor, axis=at[0])
                    for value, at in zip(values, carried, strict=True)
                ]
                inputs = [
                    old if new is value else Tensor(new.shape, old.dtype, old.name)
                    for old, new, value in zip(node.inputs, long, values, strict=True)
                ]
                shapes = [
                    cut_shape(rule, k, label, one.shape, size * factor)
                    for k, one in enumerate(results)
                ]
                *constants, last = OPS.resized(node, inputs, shapes)
                known = dict(zip(inputs, long, strict=True))
                known |= {one.output: one.attrs["value"] for one in constants}
                yield last, [known[tensor] for tensor in last.inputs]
    for case in whole_cases(op, cases):
        try:
            node, values, _ = build(case)
        except (tf.errors.OpError, TypeError, ValueError) as error:
            print(op, error, file=sys.stderr)
            continue
        yield node, values


def whole_cases(op: str, cases: list[Any]) -> Iterator[Any]:
    """Yield long cases of an op of which no axis can be made long as a chunk is made short."""
    import numpy as np
    from frontends.op_cases import Case

    n = BYTES // 8
    sizes = (n // 3, n, 2 * n - 1)
    for size in sizes:
        root = int(size**0.5)
        if op == "Diag":
            yield Case(op, [(root,)])
        elif op == "DiagPart":
            yield Case(op, [(root, root)])
        elif op == "InvertPermutation":
            yield Case(op, [np.arange(size, dtype=np.int32)[::-1].copy()])
        elif op == "LinSpace":
            yield Case(op, [np.asarray(0.0), np.asarray(1.0), size])
        elif op == "Range":
            yield Case(op, [0, size, 1])
        elif op in ("Rank", "Shape", "ShapeN", "Size"):
            yield Case(op, [(root, root)], attrs=cases[0].attrs)
        elif op == "SobolSample":
            yield Case(op, [3, size // 3, 0], attrs=cases[0].attrs)
        elif op == "StatelessMultinomial":
            _, _, *seed = cases[0].operands
            yield Case(op, [np.zeros((root, 9), np.float32), root, *seed], attrs=cases[0].attrs)
        elif op == "TensorStridedSliceUpdate":
            yield Case(op, [(size, 1), [1, 0], [3, 1], [1, 1], (2, 1)], attrs=cases[0].attrs)
        elif cases and isinstance(cases[0].operands[0], list):  # the shape of the result
            shape, *others = cases[0].operands
            longer = [shape[0] * max(1, size // int(np.prod(shape))), *shape[1:]]
            yield Case(op, [longer, *others], attrs=cases[0].attrs)


def measure(ops: list[str]) -> list[dict[str, Any]]:
    """Run in a fresh process: measure up to `SHAPES` calls of each op."""
    import tensorflow as tf
    from frontends.run_node import eager_op
    from frontends.test_op_rules import OPS

    from tf_exla.frontends.tf.measuring.measure import measured_peak

    rows: list[dict[str, Any]] = []
    for op in ops:
        seen: set[str] = set()
        for node, values in grown(op):
            shapes, made = (
                [f"{tensor.dtype}{list(tensor.shape or ())}" for tensor in tensors]
                for tensors in (node.inputs, node.outputs)
            )
            if len(seen) == SHAPES:
                break
            if " ".join(shapes + made) in seen:
                continue
            try:
                operands = [tf.convert_to_tensor(value) for value in values]
                working = measured_peak(
                    lambda n=node, o=operands: eager_op(n.op, o, n.attrs),
                    fresh=False,
                ).working_set
            except (tf.errors.OpError, ValueError, TypeError):
                continue  # operands that mean something else when they are repeated
            seen.add(" ".join(shapes + made))
            outputs = sum(tensor.nbytes for tensor in node.outputs)
            rows.append({
                "op": op,
                "shapes": shapes,
                "results": made,
                "scratch": max(0, working - outputs),
                "bound": OPS.scratch(node),
            })  # fmt: skip
    return rows


def covered() -> list[str]:
    """Return the ops with a rule that TensorFlow runs on tensors."""
    from frontends.test_op_rules import WITHOUT_CASE

    from tf_exla.frontends.tf.ops.table import RULED

    return sorted(set(RULED) - set(WITHOUT_CASE))


def exceeded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in rows if one["scratch"] > one["bound"] + SLACK]


def main(names: list[str]) -> None:
    from fresh_process import run_fresh

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    kept = json.loads(DATA.read_text()) if names and DATA.exists() else []
    rows = [one for one in kept if one["op"] not in names]
    ops = names or covered()
    for start in range(0, len(ops), 40):
        found = run_fresh(measure, ops[start : start + 40], timeout=590)
        rows += found
        for one in exceeded(found):
            print("exceeded:", one, flush=True)
        lines = ",\n".join(json.dumps(one) for one in sorted(rows, key=lambda one: one["op"]))
        DATA.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
