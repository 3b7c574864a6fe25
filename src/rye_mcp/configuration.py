"""The configuration of a space in `config/rye.yaml`, which has no signature.

A project's file counts once a person has approved the project. `confirm` (what a person has to agree to),
`shared` and `handle_over` are read from the user space alone. `isolation`, `rules`, `code` and `warm` are the
user's, and a project only tightens them. Whatever restricts is a refusal where it is invalid, or where others
can write the user's file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, cast

from lilux._stamps import KeptFile
from rye_mcp.errors import RyeError
from rye_mcp.files import OTHERS_WRITE, Tree
from rye_mcp.metadata import SHARED_NAME, parse_configuration
from rye_mcp.permissions import Isolation, Rule, read_isolation, read_rules
from rye_mcp.spaces import Spaces
from rye_mcp.trust.verify import Trust

__all__ = [
    "ACTIONS",
    "CONFIGURATION",
    "DEFAULT_HANDLE_OVER",
    "Action",
    "CodePolicy",
    "Place",
    "allows_warm",
    "approved_root",
    "asks_for_locks",
    "code_policy",
    "handle_over",
    "isolation_of",
    "list_of_texts",
    "rules_about",
    "shared_directories",
    "to_be_confirmed",
]

CONFIGURATION: Final = "config/rye.yaml"
"""Where a space has its configuration."""

DEFAULT_HANDLE_OVER: Final = 64 << 10
"""From how many bytes on an agent gets the handle of a result, unless its user says otherwise."""

MIN_HANDLE_OVER: Final = 1 << 10
MAX_HANDLE_OVER: Final = 1 << 20

_LOCKING: Final = ("manual", "auto")
_MAX_BYTES: Final = 1 << 16
_MAX_KEPT: Final = 64


class Place(Protocol):
    """Knows the spaces of a user, and whom this user trusts."""

    @property
    def spaces(self) -> Spaces:
        """Where items are, and the configuration of each space."""
        ...

    @property
    def trust(self) -> Trust:
        """Whether the project is approved."""
        ...


def list_of_texts(root: Path, name: str, *, such_as: str, forbidden: int = 0) -> tuple[str, ...]:
    """Return the list under a name; empty without a configuration, or without such a name.

    RyeError for what cannot be read, and for what is no list of texts. `forbidden` are the bits of a mode
    that others could change the file by.
    """
    values = _file(root, forbidden).value().get(name, [])
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        what = f"expected a list of texts as {name}, found {type(values).__name__}"
        raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint=f"such as {name}: {such_as}")
    return tuple(values)


def approved_root(place: Place) -> Path | None:
    """The root of the project, whose configuration counts once a person has approved it; None otherwise."""
    approvals = place.trust.approvals
    if place.spaces.project is None or approvals is None or not approvals.read().approved:
        return None
    return place.spaces.project.root


def asks_for_locks(place: Place) -> bool:
    """Whether the project asks for a lockfile of each of its tools (`lock: auto`); RyeError for another word.

    The first successful run then writes it, or a person's signature.
    """
    root = approved_root(place)
    found = _LOCKING[0] if root is None else _file(root, 0).value().get("lock", _LOCKING[0])
    if found in _LOCKING:
        return found == "auto"
    what = f"expected lock to be {' or '.join(_LOCKING)}, found {ascii(found)[:80]}"
    raise RyeError("invalid_item", what, where=f"{root}/{CONFIGURATION}", hint="such as lock: auto")


def allows_warm(place: Place) -> bool:
    """Whether interpreters may wait for calls: not where the user or the project says `warm: false`.

    RyeError for another word.
    """
    user, project = place.spaces.user.root, approved_root(place)
    said = [(user, _file(user, OTHERS_WRITE).value().get("warm", True))]
    if project is not None:
        said.append((project, _file(project, 0).value().get("warm", True)))
    for root, value in said:
        if not isinstance(value, bool):
            what = f"expected warm to be true or false, found {ascii(value)[:80]}"
            raise RyeError("invalid_item", what, where=f"{root}/{CONFIGURATION}", hint="such as warm: false")
    return all(value for _, value in said)


@lru_cache(maxsize=16)
def _file(root: Path, forbidden: int) -> KeptFile[Mapping[str, Any]]:
    """Every call asks what it says, and it is read when it has changed."""
    return KeptFile(
        Tree(root, forbidden=forbidden, root_forbidden=0), CONFIGURATION, _parsed, limit=_MAX_BYTES
    )


def _parsed(content: bytes | None, where: Path) -> Mapping[str, Any]:
    return MappingProxyType({} if content is None else parse_configuration(content, where))


def isolation_of(place: Place) -> Isolation:
    """How tools are confined, as the user says and the project tightens it; RyeError for what is invalid."""
    user, project = place.spaces.user.root, approved_root(place)
    said = _file(user, OTHERS_WRITE).value()
    tightened = None if project is None else _file(project, 0).value()
    kept = _isolations.get((user, project))
    if kept is not None and kept[0] is said and kept[1] is tightened:
        return kept[2]
    found, problems = read_isolation(said.get("isolation", {}))
    _require_none(problems, user, "isolation")
    narrows = None if tightened is None else tightened.get("isolation")
    if project is not None and narrows is not None:
        found, problems = read_isolation(narrows, tightens=found)
        _require_none(problems, project, "isolation")
    if len(_isolations) >= _MAX_KEPT:
        _isolations.clear()
    _isolations[user, project] = (said, tightened, found)
    return found


_isolations: Final[dict[tuple[Path, Path | None], tuple[object, object, Isolation]]] = {}
"""What two files said about isolation, and what that came to; both are the same objects until one changes."""


CodePolicy = Literal["off", "ask", "on"]
"""Whether agents may run programs that they write: not at all, each once a person agrees, or freely."""

_CODE: Final[tuple[CodePolicy, ...]] = ("off", "ask", "on")
_WRITTEN: Final[Mapping[Any, CodePolicy]] = {False: "off", True: "on", **{each: each for each in _CODE}}
"""YAML reads off and on without quotes as false and true."""


def code_policy(place: Place) -> CodePolicy:
    """Whether programs that agents write run (`code`): as the user says, or stricter by the project.

    Without a word they do not. RyeError for another word.
    """
    user, project = place.spaces.user.root, approved_root(place)
    found = _code(user, OTHERS_WRITE, "off")
    return found if project is None else min(found, _code(project, 0, found), key=_CODE.index)


def _code(root: Path, forbidden: int, default: CodePolicy) -> CodePolicy:
    said = _file(root, forbidden).value().get("code", default)
    if isinstance(said, bool | str) and said in _WRITTEN:
        return _WRITTEN[said]
    what = f"expected code to be one of {', '.join(_CODE)}, found {ascii(said)[:80]}"
    raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint='such as code: "ask"')


def handle_over(place: Place) -> int:
    """From how many bytes on the data of a run is kept, and an agent gets its handle (`handle_over`).

    The user's file says it. RyeError for what isn't a number between `MIN_HANDLE_OVER` and `MAX_HANDLE_OVER`.
    """
    root = place.spaces.user.root
    found = _file(root, OTHERS_WRITE).value().get("handle_over", DEFAULT_HANDLE_OVER)
    if type(found) is int and MIN_HANDLE_OVER <= found <= MAX_HANDLE_OVER:
        return found
    what = (
        f"expected handle_over to be a number of bytes from {MIN_HANDLE_OVER} to {MAX_HANDLE_OVER}, "
        f"found {ascii(found)[:80]}"
    )
    raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint="such as handle_over: 65536")


def shared_directories(place: Place) -> Mapping[str, Path]:
    """The directories of this machine that calls of other servers may work in, by name (`shared`).

    Only the user's file says so; RyeError for what is no absolute path, or is not a name.
    """
    root = place.spaces.user.root
    found = _file(root, OTHERS_WRITE).value().get("shared", {})
    if isinstance(found, dict) and all(
        isinstance(path, str) and path.startswith("/") and re.fullmatch(SHARED_NAME, str(name))
        for name, path in found.items()
    ):
        return {name: Path(path) for name, path in found.items()}
    what = "expected shared to have the absolute path of a directory for each name, found something else"
    raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint="such as shared: {data: /srv/data}")


def rules_about(item_id: str, place: Place) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The user's rules about calls of a tool, and the project's; RyeError for what is invalid."""
    project = approved_root(place)
    user = _rules(place.spaces.user.root, OTHERS_WRITE, item_id)
    return user, () if project is None else _rules(project, 0, item_id)


def _rules(root: Path, forbidden: int, item_id: str) -> tuple[Rule, ...]:
    value = _file(root, forbidden).value().get("rules")
    if value is None:
        return ()
    rules, problems = read_rules(value)
    _require_none(problems, root, "rules")
    return tuple(rule for rule in rules if rule.is_about(item_id))


def _require_none(problems: list[str], root: Path, name: str) -> None:
    if problems:
        what = "; ".join(f"{name}: {each}" for each in problems[:5])
        raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint=f"fix {root / CONFIGURATION}")


Action = Literal["sign", "execute"]

ACTIONS: Final[tuple[Action, ...]] = ("sign", "execute")
"""Actions that can require a person's agreement."""


def to_be_confirmed(place: Place) -> frozenset[Action]:
    """Return the actions that need a person's agreement under the current policy."""
    root = place.spaces.user.root
    found = list_of_texts(root, "confirm", such_as="[sign, execute]", forbidden=OTHERS_WRITE)
    unknown = [each for each in found if each not in ACTIONS]
    if unknown:
        what = f"expected confirm to be of {', '.join(ACTIONS)}, found {', '.join(unknown)[:80]}"
        raise RyeError("invalid_item", what, where=root / CONFIGURATION, hint="such as confirm: [execute]")
    return frozenset(cast("tuple[Action, ...]", found))
