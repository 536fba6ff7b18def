"""`model.fit` under a limit: the example of docs/keras.md, against Keras alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fresh_process import run_fresh

DOCS = Path(__file__).resolve().parent.parent / "docs" / "keras.md"


def example() -> str:
    """The last block of code of the document."""
    return re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[-1]


def fit(code: str) -> list[Any]:
    """Run the example with and without its limit; return losses, and the peaks of another fit."""
    from tf_exla.frontends.tf.measure import measured_peak

    found: list[Any] = []
    for source in (code, re.sub(r"model\.train_step = .*|print\(.*", "", code)):
        names: dict[str, Any] = {}
        exec(source, names)
        model, tokens = names["model"], names["tokens"]
        losses = names["history"].history["loss"]
        x, y = tokens[:, :-1], tokens[:, 1:]
        peak = measured_peak(lambda m=model, x=x, y=y: m.fit(x, y, batch_size=8, verbose=0))
        weights = float(sum(abs(weight).sum() for weight in model.get_weights()))
        found += [losses, int(peak), weights]
    return [*found, names["keras"].__version__]


def test_the_example() -> None:
    assert "20MB" in example()
    losses, peak, weights, stock_losses, stock_peak, stock_weights, _ = run_fresh(fit, example())
    # float32, and Adam divides by gradients that are nearly zero.
    for loss, stock in zip(losses, stock_losses, strict=True):
        assert abs(loss - stock) <= 1e-4 * abs(stock)
    assert abs(weights - stock_weights) <= 1e-4 * stock_weights
    assert peak < 21_000_000  # the step's 20 MB, and what fit itself allocates
    assert stock_peak > 2 * peak
