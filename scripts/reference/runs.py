"""What results and the log say of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rye_mcp.executor.warm.reasons import WHY_COLD
from scripts.reference.tables import code, table

__all__ = ["PARTS"]


def _why_cold() -> str:
    return table(("`why_cold`", "reason"), [(code(word), reason) for word, reason in WHY_COLD.items()])


PARTS: Final[Mapping[str, Callable[[], str]]] = {"why-cold": _why_cold}
