"""Refusing two items whose ids differ only in case.

On a file system that does not tell cases apart, one of them would be the other one: whoever signs there and
runs here may not run what they signed. So both are refused, everywhere.

An item is found by probing, which does not see its twin; the directories on its way have to be listed. What
is kept of a listing is the few names that are there in more than one case, none as a rule, and it is kept
only when the directory has been left alone for a while: a directory's time cannot tell two changes of one
instant apart.
"""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import Final

from rye_mcp.items import EXTENSIONS, ItemPlace
from rye_mcp.spaces._files import descended
from rye_mcp.spaces._walk import ambiguous, look

__all__ = ["refuse_twins"]

_SETTLED_AFTER_NS: Final = 2_000_000_000
"""How long ago a directory must have changed for its listing to be kept; some file systems count by 2 s."""

_MAX_KEPT = 4096
_NO_NAMES: Final[frozenset[str]] = frozenset()
_SUFFIXES: Final = tuple(sorted({each for extensions in EXTENSIONS.values() for each in extensions if each}))

_Stamp = tuple[int, int, int]
_kept: dict[tuple[int, int], tuple[_Stamp, frozenset[str]]] = {}


def refuse_twins(place: ItemPlace) -> None:
    """RyeError `ambiguous_item` when the space has another item whose id differs only in case."""
    if not _may_have_a_twin(place):
        return
    # A directory or a file of another kind may be the reason; only a second item counts.
    folded = place.item_id.lower()
    same = [other for other in look(place.space, place.item_type).places if other.item_id.lower() == folded]
    if len({other.item_id for other in same}) > 1:
        raise ambiguous(same)


def _may_have_a_twin(place: ItemPlace) -> bool:
    """Whether a segment of the id stands in its directory in more than one case."""
    segments = place.item_id.split("/")
    *above, _ = (place.item_type.directory, *segments)
    try:
        with closing(descended(place.space.root, above)) as directories:
            for segment, directory in zip(segments, directories, strict=True):
                if segment.lower() in _names_in_several_cases(directory):
                    return True
    except FileNotFoundError:
        pass  # it was there a moment ago; who reads it will say so
    return False


def _names_in_several_cases(directory: int) -> frozenset[str]:
    """The names of a directory, with and without extension, that are there in more than one case; lower."""
    status = os.fstat(directory)
    key = (status.st_dev, status.st_ino)
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_nlink)
    kept = _kept.get(key)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    names = _in_several_cases(os.listdir(directory))
    if time.time_ns() - max(stamp[:2]) > _SETTLED_AFTER_NS:
        if len(_kept) >= _MAX_KEPT:
            _kept.clear()
        _kept[key] = (stamp, names)
    return names


def _in_several_cases(names: list[str]) -> frozenset[str]:
    stems = {name.rpartition(".")[0] for name in names if name.endswith(_SUFFIXES)}
    seen: set[str] = set()
    twice: set[str] = set()
    for name in stems.union(names):
        folded = name.lower()
        (twice if folded in seen else seen).add(folded)
    return frozenset(twice) if twice else _NO_NAMES
