"""Configs of experiments: TOML data, checked against a dataclass."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")


class ConfigError(ValueError):
    """A config that does not fit its experiment."""


def load_config(cls: type[T], path: Path | None, overrides: Sequence[str] = ()) -> T:
    """Return the config of a TOML file (none: the defaults) with "key=value" set on top.

    Values of overrides are TOML; what is none is taken as a string. Raises ConfigError with all
    that is wrong: unknown keys, missing ones, wrong types.
    """
    values: dict[str, Any] = {}
    where = "--set"
    if path is not None:
        where = str(path)
        try:
            values = tomllib.loads(path.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from error
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set takes key=value, got {text!r}")
        values[key.strip()] = _parse(value.strip())
    known = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
    if unknown := sorted(values.keys() - set(known)):
        raise ConfigError(f"{where}: no key {', '.join(unknown)}; known are {', '.join(known)}")
    try:
        return TypeAdapter(cls).validate_python(values)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, one['loc'])) or 'config'}: {one['msg']}, got {one['input']!r}"
            for one in error.errors()
        ]
        raise ConfigError(f"{where}: {'; '.join(problems)}") from error


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
