"""A failing program as a separate test file that does not need the fuzzer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tf_exla.fuzz.programs import with_helpers

_TEMPLATE = '''"""Found by `python -m tf_exla fuzz --programs 1 --seed {seed}`: {failure}.

{details}
"""

import os

os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # its pool hides what is allocated

{functions}

{source}

INPUTS = {inputs!r}
LIMIT = {limit!r}


def test_seed_{seed}():
    inputs = draw_inputs(INPUTS)
    state, flag = tf.Variable(0.75, dtype=tf.float64), tf.Variable(True)

    def plain(*inputs):
        return program(state, flag, *inputs)

    stock = tf.function({inner}, autograph=False{signature})
    limit = LIMIT
    if limit is None:
        try:
            tf_exla.optimize(stock, 1).report(*inputs)
        except tf_exla.MemoryLimitError as error:
            limit = error.smallest_limit
    optimized = tf_exla.optimize(stock, limit, strict=True)
    with as_written():
        want, state_after = {stock}(*inputs), state.numpy()
    state.assign(0.75)
    got = {optimized}(*inputs)
    assert state.numpy() == state_after
    for one, two, allowed in zip(want, got, {allowed!r}):
        one, two = (np.asarray(x.numpy(), np.complex128) for x in (one, two))
        assert np.array_equal(np.isfinite(one), np.isfinite(two))
        assert np.max(np.abs(two - one), initial=0.0, where=np.isfinite(one)) <= allowed
'''

_MEASURED = """    projected = optimized.report(*inputs).projected_peak
    assert tf_exla.measured_peak(optimized, *inputs, fresh=False) <= projected <= limit
"""


def write_test(verdict: dict[str, Any], folder: Path) -> Path:
    """Write the test of a failure that `worker.run_seed` returned, and return its path."""
    path = folder / f"test_fuzz_{verdict['seed']}.py"
    path.write_text(_text({"source": "", "inputs": (), "kind": "", "details": "", **verdict}))
    return path


def _text(verdict: dict[str, Any]) -> str:
    kind = verdict["kind"]
    inputs = tuple((tuple(shape), dtype) for shape, dtype in verdict["inputs"])
    specs = [f"tf.TensorSpec({[None] * len(shape)}, '{dtype}')" for shape, dtype in inputs]
    outer = "differentiated({})" if kind == "outer gradient" else "{}"
    text = _TEMPLATE.format(
        seed=verdict["seed"],
        failure=verdict["failure"],
        details=verdict["details"].replace("\\", "/").replace('"""', "'''"),
        functions=_functions(),
        source=with_helpers(verdict["source"]),
        inputs=inputs,
        limit=verdict.get("limit"),
        inner="differentiated(plain)" if kind == "inner gradient" else "plain",
        signature=f",\n        input_signature=[{', '.join(specs)}]" * (kind == "unknown sizes"),
        stock=outer.format("stock"),
        optimized=outer.format("optimized"),
        allowed=verdict.get("allowed", []),
    )
    return text + (_MEASURED if verdict["failure"] == "broken limit" else "")


def _functions() -> str:
    """Return the text of `plain.py` from its imports on, with an import of tf_exla."""
    text = Path(__file__).with_name("plain.py").read_text()
    imports, rest = text.split("import tensorflow as tf\n", 1)
    imports = imports.split("from __future__ import annotations\n\n", 1)[1]
    return f"{imports}import tensorflow as tf\n\nimport tf_exla\n{rest}".strip()
