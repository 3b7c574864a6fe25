"""The pins of a chain in a lockfile, and how they differ from the chain that is about to run.

`differences` is the only comparison. Nobody signs a lockfile, so errors quote only what has the form of a
hash, an id or a version. Nothing is read or written here. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from lilux._dataclasses import dataclass
from lilux.primitives.lockfile import LOCKFILE_VERSION, Lockfile, LockfileRoot
from rye_mcp.errors import RyeError
from rye_mcp.executor.chain.anchor import library_of
from rye_mcp.executor.chain.builder import ChainElement
from rye_mcp.executor.chain.files import LIBRARY_DIRECTORY
from rye_mcp.executor.chain.validator import ValidChain
from rye_mcp.items import SpaceName, is_item_id, printable
from rye_mcp.metadata import TOOL_TYPES
from rye_mcp.permissions import UNCONFINED, Permissions, difference, read_permissions
from rye_mcp.trust.scope import Evidence

__all__ = [
    "PACKAGE",
    "Difference",
    "Pins",
    "differences",
    "differences_of_root",
    "is_version",
    "is_written_alike",
    "issues_in",
    "mismatch",
    "only_own_parts_differ",
    "only_the_package_differs",
    "only_the_root_differs",
    "pins_of_root",
    "render",
    "rendered",
]

PACKAGE: Final = "rye-mcp"
"""The package whose version stands in a lockfile."""

_TEXT_FIELDS: Final = ("item_id", "space", "version", "tool_type", "executor_id", "integrity", "signer")
_PERMISSIONS: Final = "permissions"
_ELEMENT_FIELDS: Final = (*_TEXT_FIELDS, _PERMISSIONS)
_REQUIRED: Final = frozenset({"item_id", "space", "integrity"})
_MAY_BE_NULL: Final = frozenset({"tool_type", "executor_id", "signer"})
_ROOT_FIELDS: Final = ("tool_id", "version", "integrity")

_HASH: Final = re.compile(r"[0-9a-f]{8,128}")
_VERSION: Final = re.compile(r"[A-Za-z0-9.!+_-]{1,64}", re.ASCII)
_PATH: Final = re.compile(r"[A-Za-z0-9_./@+-]{1,255}", re.ASCII)
_UNFIT: Final = "an invalid value"
_NO_SIGNATURE: Final = "1970-01-01T00:00:00+00:00"
"""The time in a lockfile of a chain that nobody signed: all of it comes with the package."""
_SHOWN: Final = 20
"""How many differences a message names; all of them are in its details."""

Element = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was locked. None on one side: it is not there, or has no such thing.

    Permissions are in the form of metadata, as JSON.
    """

    element: str
    field: str
    locked: str | None
    found: str | None

    @property
    def added(self) -> tuple[str, ...]:
        """The permissions beyond the locked ones, in words."""
        if self.field != _PERMISSIONS or self.locked == _UNFIT:
            return ()
        return difference(_permissions_of(self.locked), _permissions_of(self.found))

    def __str__(self) -> str:
        if self.field == _PERMISSIONS and self.locked != _UNFIT:
            more = f"more than locked: {'; '.join(self.added)}" if self.added else "less than locked"
            return f"{self.element}: permissions: {more}"
        return f"{self.element}: {self.field}: locked {self.locked or 'none'}, found {self.found or 'none'}"

    def as_dict(self) -> dict[str, Any]:
        """Return the difference as data."""
        known = {"element": self.element, "field": self.field, "locked": self.locked, "found": self.found}
        return known | ({"added": list(self.added)} if self.field == _PERMISSIONS else {})


@dataclass(frozen=True, slots=True)
class Pins:
    """Everything that is pinned. `dependencies` is None where a lockfile says nothing about them.

    `before` has, for the signers of a chain, the keys that each of them had before.
    """

    root: Element
    elements: tuple[Element, ...]
    dependencies: Mapping[str, str] | None
    before: Mapping[str | None, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def of_chain(cls, valid: ValidChain) -> Pins:
        """The pins of a chain that is about to run."""
        verified = valid.verified
        root = verified.chain.root
        elements = tuple(
            {
                "item_id": element.item_id,
                "space": element.space.value,
                "version": element.version,
                "tool_type": element.metadata.tool_type,
                "executor_id": element.executor_id,
                "integrity": item.digest,
                "signer": item.signer.key_id,
                _PERMISSIONS: _permissions_in(element),
            }
            for element, item in verified.pairs
        )
        return cls(
            pins_of_root(root.item_id, root.version, verified.root.digest),
            elements,
            verified.carried.digests,
            {item.signer.key_id: item.signer.before for item in verified.items},
        )

    @classmethod
    def of_lockfile(cls, lockfile: Lockfile) -> Pins:
        """The pins in a lockfile, of which `issues_in` has found nothing wrong."""
        root = lockfile.root
        elements = tuple(
            {
                **{name: entry[name] for name in _TEXT_FIELDS if name in entry},
                **({_PERMISSIONS: _as_text(entry[_PERMISSIONS])} if _PERMISSIONS in entry else {}),
            }
            for entry in lockfile.resolved_chain
        )
        return cls(pins_of_root(root.tool_id, root.version, root.integrity), elements, lockfile.verified_deps)


def pins_of_root(item_id: str, version: str, integrity: str) -> Element:
    """Return the pins of the root besides its element of the chain."""
    return {"tool_id": item_id, "version": version, "integrity": integrity}


def differences(locked: Pins, found: Pins) -> tuple[Difference, ...]:
    """Everything in which a chain is not what was locked; nothing when it is."""
    if locked == found:
        return ()
    return tuple(_all_differences(locked, found))


def is_written_alike(locked: Pins, found: Pins) -> bool:
    """Whether a lockfile says of a chain what a new one would, also of a signer who has a new key."""
    return not differences(locked, replace(found, before={}))


def render(valid: ValidChain, *, package_version: str) -> Lockfile:
    """A lockfile that pins this very chain."""
    pins = Pins.of_chain(valid)
    root = valid.verified.chain.root
    return Lockfile(
        LOCKFILE_VERSION,
        _newest_signature(valid),
        LockfileRoot(root.item_id, root.version, valid.verified.root.digest),
        resolved_chain=[_as_entry(element) for element in pins.elements],
        registry={"package": PACKAGE, "version": package_version},
        verified_deps=dict(sorted((pins.dependencies or {}).items())),
    )


def rendered(valid: ValidChain, *, package_version: str) -> bytes:
    """The bytes of that lockfile, made once for a chain and those who signed it."""
    made = valid.verified.chain.made
    basis = (Pins.of_chain(valid), _newest_signature(valid), package_version)
    kept = made.get(rendered)
    if kept is None or kept[0] != basis:
        kept = made[rendered] = (basis, render(valid, package_version=package_version).to_bytes())
    data: bytes = kept[1]
    return data


def _as_entry(element: Element) -> dict[str, Any]:
    """An element as it is written: without permissions where it declares none."""
    declared = element[_PERMISSIONS]
    permissions = {} if declared is None else {_PERMISSIONS: json.loads(declared)}
    return {name: element[name] for name in _TEXT_FIELDS} | permissions


def _permissions_in(element: ChainElement) -> str | None:
    """Return an element's declared permissions as text; None without any, and for the package's own."""
    permissions = None if element.space is SpaceName.SYSTEM else element.metadata.permissions
    return None if permissions is None else _as_text(permissions.canonical())


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _permissions_of(text: str | None) -> Permissions:
    """Return the permissions of a text; without one, a tool is not confined."""
    return UNCONFINED if text is None else read_permissions(json.loads(text))[0]


def _are_permissions(text: str) -> bool:
    return not read_permissions(json.loads(text))[1]


def _newest_signature(valid: ValidChain) -> str:
    signed = (item.timestamp for item in valid.verified.items if item.timestamp is not None)
    newest = max(signed, default=None)
    return _NO_SIGNATURE if newest is None else newest.replace("Z", "+00:00")


def only_the_package_differs(locked: Pins, valid: ValidChain) -> bool:
    """Whether all else is as it was locked, once everything of the system space is left out.

    That is authenticated by the manifest of the package that is installed now.
    """
    chain = valid.verified.chain
    by_manifest = all(
        item.evidence is Evidence.MANIFEST
        for element, item in valid.verified.pairs
        if element.space is SpaceName.SYSTEM
    )
    library = library_of(chain)
    if library is None or library.runtime.space is SpaceName.SYSTEM:
        packaged: tuple[str, ...] = (f"{LIBRARY_DIRECTORY}/",)
    else:
        packaged = ()
    if chain.root.space is SpaceName.SYSTEM:
        packaged = ("",)
    was, now = (_without_the_package(pins, packaged) for pins in (locked, Pins.of_chain(valid)))
    return by_manifest and not differences(was, now)


def _without_the_package(pins: Pins, packaged: tuple[str, ...]) -> Pins:
    """The pins of what does not come with the package; `packaged` is how the paths of its files begin."""
    own = tuple(element for element in pins.elements if element["space"] != SpaceName.SYSTEM)
    root_is_own = pins.elements[0]["space"] != SpaceName.SYSTEM
    root = pins.root if root_is_own else {**pins.root, "integrity": None}
    dependencies = {
        path: digest for path, digest in (pins.dependencies or {}).items() if not path.startswith(packaged)
    }
    return Pins(root, own, None if pins.dependencies is None else dependencies)


def only_the_root_differs(locked: Pins, found: Pins) -> bool:
    """Whether everything is as it was locked, but for what the root itself says: its hash and its version,
    and that it may do less.
    """
    first, now = locked.elements[0], found.elements[0]
    may_change = ["integrity", "version"]
    if not Difference("", _PERMISSIONS, first.get(_PERMISSIONS), now[_PERMISSIONS]).added:
        may_change.append(_PERMISSIONS)
    changed = {name: now[name] for name in may_change if name in first}
    root = {**found.root, "tool_id": locked.root["tool_id"]}
    as_now = Pins(root, ({**first, **changed}, *locked.elements[1:]), locked.dependencies)
    return not differences(as_now, found)


def only_own_parts_differ(stored: Lockfile, valid: ValidChain, own: frozenset[str], path: str | None) -> bool:
    """Whether everything that differs was signed with one of the keys `own`.

    She has signed the file `path` just now, or the root (None), with all that it brings along. Besides, each
    element counts that she has signed since the lockfile was written, with the library of such a runtime,
    and with an executor of the package that it names and that was not there before. What she signed earlier
    counts for nothing: anybody can put back an old file.
    """
    locked, found = Pins.of_lockfile(stored), Pins.of_chain(valid)
    if locked.elements[0].get("signer") not in own:
        return False
    hers = {
        element.item_id
        for element, item in valid.verified.pairs
        if item.signer.key_id in own and _is_since(stored.generated_at, item.timestamp)
    }
    if path is None:
        hers.add(valid.verified.chain.root.item_id)
    return _elements_follow(locked, found, hers) and _dependencies_follow(locked, found, hers, valid, path)


def _dependencies_follow(
    locked: Pins, found: Pins, hers: Collection[str], valid: ValidChain, path: str | None
) -> bool:
    """Whether each file that differs is in the library of a runtime of hers, or is the one she has signed."""
    if locked.dependencies is None:
        return True
    library = library_of(valid.verified.chain)
    is_of_her = library is not None and library.runtime.item_id in hers
    return all(
        is_of_her if each.element.startswith(f"{LIBRARY_DIRECTORY}/") else path in (None, each.element)
        for each in _between_dependencies(locked.dependencies, found.dependencies or {})
    )


def _elements_follow(locked: Pins, found: Pins, hers: Collection[str]) -> bool:
    """Whether each element is hers, is as it was, or was not in the chain before and is of the package."""
    was = {element["item_id"]: element for element in locked.elements}
    for now in found.elements:
        before = was.get(now["item_id"])
        is_new = before is None and now["signer"] is None
        if not (is_new or now["item_id"] in hers or _is_alike(before, now, found)):
            return False
    return True


def _is_alike(was: Element | None, now: Element, found: Pins) -> bool:
    return was is not None and not any(_between("", was, now, _ELEMENT_FIELDS, found=found))


def _is_since(locked: str, signed: str | None) -> bool:
    """Whether a signature is not older than a lockfile; False where either has no time."""
    try:
        return signed is not None and datetime.fromisoformat(signed) >= datetime.fromisoformat(locked)
    except (ValueError, TypeError):
        return False


def differences_of_root(locked: Pins, found: Element, root: ChainElement) -> tuple[Difference, ...]:
    """The same for the root alone, of which nothing else is known yet."""
    now = {_PERMISSIONS: _permissions_in(root)}
    return (
        *_between(root.item_id, locked.root, found, _ROOT_FIELDS),
        *_between(root.item_id, locked.elements[0], now, (_PERMISSIONS,)),
    )


def _all_differences(locked: Pins, found: Pins) -> Iterator[Difference]:
    name = found.root["tool_id"] or ""
    yield from _between(name, locked.root, found.root, _ROOT_FIELDS, place="root ")
    for was, now in zip_longest(locked.elements, found.elements):
        if was is None or now is None or was["item_id"] != now["item_id"]:
            before, after = _id_of(was), _id_of(now)
            yield Difference(after or before or "", "item_id", before, after)
        else:
            yield from _between(now["item_id"] or "", was, now, _ELEMENT_FIELDS, found=found)
    if locked.dependencies is not None:
        yield from _between_dependencies(locked.dependencies, found.dependencies or {})


def _between_dependencies(locked: Mapping[str, str], carried: Mapping[str, str]) -> Iterator[Difference]:
    for path in sorted(locked.keys() | carried.keys()):
        if locked.get(path) != carried.get(path):
            shown = path if path in carried else _fit("path", path) or ""
            yield Difference(shown, "integrity", _fit("integrity", locked.get(path)), carried.get(path))


def _between(
    name: str,
    was: Element,
    now: Element,
    fields: Sequence[str],
    *,
    place: str = "",
    found: Pins | None = None,
) -> Iterator[Difference]:
    for each in fields:
        if each in was and was[each] != now[each]:
            before = () if found is None else found.before.get(now[each], ())
            if each != "signer" or was[each] not in before:
                yield Difference(name, place + each, _fit(each, was[each]), now[each])


def _id_of(element: Element | None) -> str | None:
    return None if element is None else _fit("item_id", element["item_id"])


def mismatch(found: Sequence[Difference], item_id: str, path: Path) -> RyeError:
    """The refusal of a chain that is not the locked one."""
    shown_path = printable(path)
    shown = "; ".join(str(each) for each in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return RyeError(
        "lock_mismatch",
        f"expected {item_id} as it is locked in {shown_path}, found differences: {shown}{more}",
        where=shown_path,
        item_id=item_id,
        differences=[each.as_dict() for each in found],
    )


# --- what a lockfile says ---


def is_version(text: str) -> bool:
    """Whether this is a version that can stand in the name of a lockfile."""
    return _VERSION.fullmatch(text) is not None


def issues_in(lockfile: Lockfile) -> list[str]:
    """Everything that keeps a lockfile from pinning a chain."""
    issues = [
        f"root.{name}: expected text, found only blanks"
        for name in _ROOT_FIELDS
        if not getattr(lockfile.root, name).strip()
    ]
    if not lockfile.resolved_chain:
        issues.append("resolved_chain: expected at least one element, found none")
    for number, entry in enumerate(lockfile.resolved_chain):
        issues += _entry_issues(f"resolved_chain[{number}]", entry)
    wrong = sum(not _is_text(digest) for digest in (lockfile.verified_deps or {}).values())
    if wrong:
        issues.append(f"verified_deps: expected a SHA256 for each path, found {wrong} without one")
    return issues


def _entry_issues(place: str, entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict):
        yield f"{place}: expected an object, found none"
        return
    for name in _TEXT_FIELDS:
        if name not in entry:
            if name in _REQUIRED:
                yield f"{place}.{name}: expected text, found nothing"
        elif not _is_text(entry[name]) and not (entry[name] is None and name in _MAY_BE_NULL):
            yield f"{place}.{name}: expected text, found none"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _fit(field: str, value: str | None) -> str | None:
    """Return a lockfile's value if it is well-formed: anybody may have written it."""
    if value is None or _FORMS[field](value):
        return value
    return _UNFIT


_FORMS: Final[Mapping[str, Callable[[str], bool]]] = {
    "item_id": is_item_id,
    "tool_id": is_item_id,
    "executor_id": is_item_id,
    "space": lambda value: value in set(SpaceName),
    "version": is_version,
    "tool_type": lambda value: value in TOOL_TYPES,
    "integrity": lambda value: _HASH.fullmatch(value) is not None,
    "signer": lambda value: _HASH.fullmatch(value) is not None,
    "permissions": _are_permissions,
    "path": lambda value: _PATH.fullmatch(value) is not None,
}
