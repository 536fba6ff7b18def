"""Types of config values with their valid ranges, as pydantic checks them."""

from __future__ import annotations

from typing import Annotated, TypeVar

from annotated_types import Gt, Lt, MinLen
from pydantic import AfterValidator, PositiveInt

from tf_exla.byte_size import parse_bytes

T = TypeVar("T")


def _bytes(text: str) -> str:
    parse_bytes(text)  # raises ValueError
    return text


Size = Annotated[str, AfterValidator(_bytes)]
"""Bytes, such as "500MB"."""
Several = Annotated[tuple[T, ...], MinLen(1)]
"""One or more."""
Sizes = Several[PositiveInt]
Limits = Several[Size]
Share = Annotated[float, Gt(0), Lt(1)]
