"""Records that may stand in one table: those whose configs differ only in its rows and columns."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gp_experiments.calls import LIMIT
from gp_experiments.records import Record, plain

# Front ends have tables of their own. How often a call was timed decides none of its values.
_NO_SETTING = frozenset({"frontend", "repeats"})
_ONLY_UNDER_A_LIMIT = "jit_compile"  # stock, which has no loops of ours, is run once for both


@dataclass(frozen=True)
class Setting:
    """Records of one setting; `differs` has the keys of the config that other settings change."""

    records: list[Record]
    differs: dict[str, Any]

    def words(self, *known: str) -> str:
        """Return ", KEY VALUE" of what differs, without the `known` keys; "" for none."""
        return "".join(
            f", {key.replace('_', ' ')} {_text(value)}"
            for key, value in self.differs.items()
            if key not in known
        )

    @property
    def suffix(self) -> str:
        """What a file's name has of it: "-iterations-9", or ""."""
        text = "".join(f"-{key}-{_text(value)}" for key, value in self.differs.items())
        return re.sub(r"[^A-Za-z0-9.]+", "-", text)


def settings(records: Sequence[Record], *varying: str) -> list[Setting]:
    """Group records whose configs agree in every key but the `varying` ones.

    In the order in which the settings first came. Stock, for which `jit_compile` means nothing,
    belongs to all settings that it agrees with otherwise. Of runs that differ only in `repeats`,
    the one that was timed most often is kept.
    """
    keys = dict.fromkeys(key for record in records for key in record["config"])
    fixed = [key for key in keys if key not in (*varying, *_NO_SETTING)]
    own = [_values(record, fixed) for record in records]
    distinct = list({json.dumps(one, sort_keys=True): one for one in own}.values())
    whole = [one for one in distinct if not any(one.items() < other.items() for other in distinct)]
    made = []
    for one in whole:
        chosen = [
            record
            for record, values in zip(records, own, strict=True)
            if values.items() <= one.items()
        ]
        differs = {
            key: json.loads(value)
            for key, value in one.items()
            if any(other.get(key) != value for other in whole)
        }
        made.append(Setting(_timed_most(chosen), differs))
    return made


def _values(record: Record, keys: Sequence[str]) -> dict[str, str]:
    config = record["config"]
    everywhere = config.get("arm", LIMIT) == LIMIT
    return {
        key: json.dumps(plain(config.get(key)))
        for key in keys
        if everywhere or key != _ONLY_UNDER_A_LIMIT
    }


def _timed_most(records: Sequence[Record]) -> list[Record]:
    found: dict[str, Record] = {}
    for record in records:
        config = {k: v for k, v in record["config"].items() if k not in _NO_SETTING}
        key = json.dumps(plain(config), sort_keys=True)
        before = found.get(key)
        if before is None or _repeats(record) >= _repeats(before):
            found[key] = record
    return list(found.values())


def _repeats(record: Record) -> int:
    return int(record["config"].get("repeats", 0))


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
