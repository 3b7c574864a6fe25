"""Parts of answers: notices about a call that succeeded, and members that are left out when empty."""

from __future__ import annotations

from typing import Any, Protocol

from lilux._dataclasses import dataclass

__all__ = ["Notice", "data_of", "present"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to know. The codes are words of their own, besides those of `rye_mcp.errors`."""

    code: str
    message: str

    def as_dict(self) -> dict[str, Any]:
        """Return the notice as data."""
        return {"code": self.code, "message": self.message}


class _Data(Protocol):
    def as_dict(self) -> dict[str, Any]: ...


def data_of(value: _Data | None) -> dict[str, Any] | None:
    """A value as data, or None for None."""
    return None if value is None else value.as_dict()


def present(**members: Any) -> dict[str, Any]:
    """The members that say something: None, and a text or list or object without content, are left out."""
    return {name: value for name, value in members.items() if value or value is False or value == 0}
