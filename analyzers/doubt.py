"""A reason to trust a number less; it travels with the number into every output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Doubt:
    """What is doubtful, by how much (numbers, for people), and which action would settle it."""

    what: str
    how_much: str = ""
    fix: str = ""

    def to_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Doubt:
        """The doubt of `to_dict`; missing fields are empty, unknown ones are ignored."""
        return cls(str(data.get("what", "")), str(data.get("how_much", "")), str(data.get("fix", "")))


def from_rows(rows: Iterable[Mapping[str, Any]]) -> tuple[Doubt, ...]:
    """Doubts kept as plain rows, as in `frame.attrs["doubts"]`; each once, in order."""
    return unique(Doubt.from_dict(row) for row in rows)


def unique(doubts: Iterable[Doubt]) -> tuple[Doubt, ...]:
    """Each doubt once, in order of appearance."""
    return tuple(dict.fromkeys(doubts))
