"""Notices about a call that succeeded: a code for programs, and a sentence for people."""

from __future__ import annotations

from typing import Any

from lilux._dataclasses import dataclass

__all__ = ["Notice"]


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to know. The codes are words of their own, besides those of `rye_mcp.errors`."""

    code: str
    message: str

    def as_dict(self) -> dict[str, Any]:
        """Return the notice as data."""
        return {"code": self.code, "message": self.message}
