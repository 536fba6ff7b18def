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
    """Return the config of a TOML file (None: the defaults) with "key=value" overrides on top.

    Values of overrides are TOML; other text is taken as a string. Raises ConfigError for unknown
    keys, else with everything else that is wrong: missing keys, wrong types, values out of range.
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
        raise ConfigError(f"{where}: {'; '.join(_problems(error))}") from error


def _problems(error: ValidationError) -> list[str]:
    """Return a sentence for each wrong value; errors of a list with wrong items are left out."""
    found = error.errors()
    places = [one["loc"] for one in found]
    return [
        f"{'.'.join(map(str, one['loc'])) or 'config'}: "
        f"{one['msg'].removeprefix('Value error, ')}, got {one['input']!r}"
        for one in found
        if not any(len(place) > len(one["loc"]) and place[0] == one["loc"][0] for place in places)
    ]


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
