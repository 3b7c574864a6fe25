"""Items and queries of words that are as unevenly common as those of a language, the same in every run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from typing import Final, Literal

from rye_mcp.catalog import Catalog
from rye_mcp.items import ItemPlace, ItemType, Space, SpaceName
from rye_mcp.spaces import Spaces

__all__ = ["Scene", "query_kinds"]

ITEMS_IN_A_DIRECTORY: Final = 200
WORDS_IN_A_DESCRIPTION: Final = 12
WORDS_IN_A_BODY: Final = 30
PARAMETERS: Final = 3

_BEGINNINGS = (
    "con",
    "tra",
    "ex",
    "im",
    "re",
    "sub",
    "inter",
    "ana",
    "syn",
    "meta",
    "bi",
    "dis",
    "pre",
    "pro",
    "un",
)
_MIDDLES = (
    "vert",
    "port",
    "form",
    "late",
    "pose",
    "duc",
    "tic",
    "graph",
    "log",
    "met",
    "scrib",
    "fer",
    "cod",
    "vid",
)
_ENDINGS = ("er", "ing", "ion", "al", "ment", "ed", "s", "ure", "ic", "able", "ant", "ous")
_WORDS: Final = tuple("".join(parts) for parts in product(_BEGINNINGS, _MIDDLES, _MIDDLES, _ENDINGS))
_SENTENCE = "please help me to {} the {} of my {} and then {} it into a {} {}"

Fuzzy = Literal[0, 1, 2]


def _shuffled() -> tuple[str, ...]:
    words = list(_WORDS)
    random.Random(1).shuffle(words)  # noqa: S311 - the same in every run
    return tuple(words)


_COMMON_FIRST: Final = _shuffled()
_CUMULATED: Final = tuple(accumulate(1 / (rank + 50) for rank in range(len(_COMMON_FIRST))))


def _some(chance: random.Random, count: int) -> list[str]:
    return chance.choices(_COMMON_FIRST, cum_weights=_CUMULATED, k=count)


@dataclass(frozen=True, slots=True)
class Scene:
    """A project with so many tools, and a place for its index."""

    root: Path
    size: int

    @classmethod
    def written(cls, root: Path, size: int) -> Scene:
        """Write all of it."""
        scene = cls(root, size)
        for number in range(size):
            scene.write(number)
        return scene

    @property
    def tools(self) -> Path:
        """Where the tools are."""
        return self.root / "project/.ai/tools"

    def catalog(self) -> Catalog:
        """The catalog of this project."""
        return Catalog.open(self._spaces, self.root / "cache")

    def place(self, item_id: str) -> ItemPlace:
        """Where a tool of the project is."""
        return ItemPlace(self.space, ItemType.TOOL, item_id, ".py")

    @property
    def space(self) -> Space:
        """The space of the project."""
        return self._spaces.space(SpaceName.PROJECT)

    @property
    def _spaces(self) -> Spaces:
        system = self.root / "system/.ai"
        return Spaces.locate(self.root / "project", user=self.root / "home", system=system)

    def write(self, number: int, remark: str = "") -> str:
        """Write one tool, with a remark in its description; its item id."""
        chance = random.Random(number)  # noqa: S311
        name = "".join(word.title() for word in _some(chance, 2))
        parameters = {
            word: {"type": "string", "description": " ".join(_some(chance, 5))}
            for word in _some(chance, PARAMETERS)
        }
        lines = [
            '__version__ = "1.0.0"',
            '__executor_id__ = "rye/core/primitives/subprocess"',
            f"__tool_name__ = {name!r}",
            f"__tool_description__ = {' '.join([*_some(chance, WORDS_IN_A_DESCRIPTION), remark]).strip()!r}",
            f"CONFIG_SCHEMA = {{'type': 'object', 'properties': {parameters!r}}}",
            "",
            "",
            "def main():",
            f"    return {' '.join(_some(chance, WORDS_IN_A_BODY))!r}",
            "",
        ]
        item_id = f"group{number // ITEMS_IN_A_DIRECTORY}/tool{number}"
        path = self.tools / f"{item_id}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
        return item_id

    def disk_mib(self) -> float:
        """How large the index is."""
        return sum(path.stat().st_size for path in (self.root / "cache").iterdir()) / (1 << 20)


def query_kinds(count: int) -> dict[str, list[tuple[str, Fuzzy]]]:
    """So many queries of each kind, as texts and how far words may be apart."""
    chance = random.Random(2)  # noqa: S311

    def words(number: int) -> list[str]:
        return _some(chance, number)

    def each(template: str, number: int, fuzzy: Fuzzy = 0) -> list[tuple[str, Fuzzy]]:
        return [(template.format(*words(number)), fuzzy) for _ in range(count)]

    return {
        "one word": each("{}", 1),
        "three words": each("{} {} {}", 3),
        "twelve words": each(" ".join(["{}"] * 12), 12),
        "sentence": each(_SENTENCE, 6),
        "three sentences": each("{} {} {} {}. {} {} {} {}. {} {} {} {}", 12),
        "all of three words": each("{} AND {} AND {}", 3),
        "one without another": each("{} NOT {}", 2),
        "phrase": each('"{} {}"', 2),
        "prefix": [(f"{word[:5]}*", 0) for word in words(count)],
        "field": each("name:{}", 1),
        "misspelt": [(f"{word[:3]}x{word[3:]}", 2) for word in words(count)],
    }
