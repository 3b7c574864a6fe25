"""`<name>.rye.sig.yaml` beside the directory of a skill: all its files with their hashes and sizes, signed.

    # rye:signed:2026-11-18T10:00:00Z:<sha256>:<signature>:<fingerprint>
    version: 1
    files:
      "SKILL.md": "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9 412"

The bytes of a skill stay as they are. The signature is that of any other item; what it covers is this list,
so a file that was changed, added or removed refuses the skill.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rye_mcp.errors import RyeError, printable
from rye_mcp.items import NO_FILES, ItemFile, ItemType, ListedFile, SkillFiles
from rye_mcp.trust import listing, signature

__all__ = [
    "listed_paths",
    "render_skill_listing",
    "require_as_listed",
    "require_may_be_listed",
    "unsigned_content",
]

_VALUE: Final = re.compile(r"[0-9a-f]{64} (?:0|[1-9][0-9]{0,9})")
_RESERVED: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)
_NOT_ON_WINDOWS: Final = re.compile(r'[<>:"|?*]')
_OF_GIT: Final = ".git"


def unsigned_content(file: ItemFile) -> bytes:
    """What a signature of this item covers: the listing of a skill as it is, else the rest of the file."""
    return signature.detach(file) if file.skill is None else render_skill_listing(file.skill)


def render_skill_listing(skill: SkillFiles) -> bytes:
    """The listing of these files without a signature."""
    require_may_be_listed(skill.files)
    return listing.render({path: f"{each.digest} {each.size}" for path, each in skill.files.items()}, _VALUE)


def require_may_be_listed(paths: Iterable[str]) -> None:
    """Refuse what not every machine can have as a file, and what git would take for a repository."""
    for path in paths:
        for segment in path.split("/"):
            if (
                _RESERVED.fullmatch(segment)
                or segment != segment.rstrip(". ")
                or _NOT_ON_WINDOWS.search(segment)
            ):
                raise _unlisted("names that every system can have as those of files", path)
            if segment.lower() == _OF_GIT:
                raise _unlisted(f"no {_OF_GIT} in a skill", path)


def require_as_listed(file: ItemFile) -> None:
    """Refuse a skill whose files are not exactly those that its listing has; the first other one is named.

    The listing has passed the gate; what it says of files is compared with what was read beside it.
    """
    if file.item_type is not ItemType.SKILL:
        return
    listed, found = _listed(signature.detach(file), file.path), (file.skill or NO_FILES).files
    for path in sorted(listed.keys() | found.keys()):
        if listed.get(path) != found.get(path):
            raise _changed(file, path, _how(listed.get(path), found.get(path)))


def listed_paths(file: ItemFile) -> frozenset[str]:
    """The files that a listing names, which nobody has verified yet; none without a listing."""
    return frozenset(_listed(signature.detach(file), file.path)) if file.content else frozenset()


@lru_cache(maxsize=2048)
def _listed(content: bytes, place: Path) -> Mapping[str, ListedFile]:
    hint = "sign the skill again, which writes a new one"
    values = {
        path: value.split(" ") for path, value in listing.parse(content, _VALUE, place, hint=hint).items()
    }
    return MappingProxyType({path: ListedFile(digest, int(size)) for path, (digest, size) in values.items()})


def _how(listed: ListedFile | None, found: ListedFile | None) -> str:
    if listed is None:
        return "has been added"
    return "is gone" if found is None else "has changed"


def _changed(file: ItemFile, path: str, how: str) -> RyeError:
    where = printable(file.text_path.parent / path)
    what = f"expected the files of the skill {file.item_id} as they were signed, found that {path} {how}"
    hint = f"look at what changed, then: rye sign {file.item_id}"
    return RyeError("content_changed", what, where=where, item_id=file.item_id, file=path, hint=hint)


def _unlisted(expected: str, path: str) -> RyeError:
    return RyeError("unsafe_path", f"expected {expected}, found {path[:80]!r}", file=path)
