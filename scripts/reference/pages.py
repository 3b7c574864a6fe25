"""Pages with places in them, and what stands in each place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from scripts.reference import commands, errors, items, metadata, mutations, queries, runs, servers, settings

__all__ = ["PARTS", "ROOT", "filled", "pages", "stale"]

ROOT: Final = Path(__file__).resolve().parents[2]

PARTS: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        **commands.PARTS,
        **errors.PARTS,
        **items.PARTS,
        **metadata.PARTS,
        **mutations.PARTS,
        **queries.PARTS,
        **runs.PARTS,
        **servers.PARTS,
        **settings.PARTS,
    }
)
"""The name of a place → what stands there."""

_PLACE: Final = re.compile(
    r"(?<=<!-- generated: )(?P<name>[\w-]+) -->\n.*?(?=<!-- /generated -->)", re.DOTALL
)
_HELP: Final = ROOT / "src/rye_mcp/cli/help_page.py"
_DIRECTORIES: Final = ("docs", ".ai/knowledge", ".ai/directives", "tests/attacks")


def pages() -> Iterator[Path]:
    """Every page that has a place."""
    for directory in _DIRECTORIES:
        for page in sorted((ROOT / directory).rglob("*.md")):
            if _PLACE.search(page.read_text(encoding="utf-8")):
                yield page


def filled(text: str) -> str:
    """The text of a page, with every place as it should be; KeyError for a place of an unknown name."""
    return _PLACE.sub(lambda found: f"{found['name']} -->\n{PARTS[found['name']]().strip()}\n", text)


def stale() -> dict[Path, str]:
    """The pages that are not what they should be, and what they should be."""
    wanted = {page: filled(page.read_text(encoding="utf-8")) for page in pages()}
    wanted[_HELP] = commands.help_module()
    return {page: new for page, new in wanted.items() if new != _present(page)}


def _present(page: Path) -> str | None:
    return page.read_text(encoding="utf-8") if page.exists() else None
