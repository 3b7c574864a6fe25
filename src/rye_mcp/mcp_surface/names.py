"""Names that every client takes, for items: letters, digits, `_` and `-`, at most 64 of them.

Ids that would get the same name, or one that is taken, get a piece of their hash behind it, all of them:
which name an item has depends on what there is, and never on an order. A name that an item had before
(`kept`) is never that of another one; where even the piece of the hash is the same, nobody has the name.

    >>> names_of(["demo/hello", "a/b_c", "a_b/c"])
    {'demo_hello': 'demo/hello', 'a_b_c_ab14be': 'a/b_c', 'a_b_c_02d730': 'a_b/c'}
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["MAX_NAME", "names_of", "possible_names"]

MAX_NAME: Final = 64
"""How many characters a name may have."""

_HASH_CHARACTERS: Final = 6
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)


_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


def possible_names(item_id: str) -> tuple[str, str]:
    """The names that an item can get: the plain one, and the one with a piece of its hash."""
    plain = _plain(item_id)
    return plain, _qualified(plain, item_id)


def names_of(
    item_ids: Iterable[str], *, taken: Container[str] = (), kept: Mapping[str, str] = _NOTHING
) -> dict[str, str]:
    """Name → id, in the order of the ids. `kept` are names of before, and the ids that they stay with."""
    plain = {item_id: _plain(item_id) for item_id in item_ids}
    counts = Counter(plain.values())

    def is_free(name: str, item_id: str) -> bool:
        is_own = kept.get(name, item_id) == item_id
        return counts[name] == 1 and name not in taken and len(name) <= MAX_NAME and is_own

    names = {each: name if is_free(name, each) else _qualified(name, each) for each, name in plain.items()}
    wanted = Counter(names.values())
    return {
        name: item_id
        for item_id, name in names.items()
        if kept.get(name, item_id) == item_id and (wanted[name] == 1 or name in kept)
    }


def _plain(item_id: str) -> str:
    return _OTHER.sub("_", item_id)


def _qualified(name: str, item_id: str) -> str:
    digest = hashlib.sha256(item_id.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: MAX_NAME - _HASH_CHARACTERS - 1]}_{digest}"
