"""Which `Host` and `Origin` a server of this machine answers, so that no page in a browser gets in.

DNS rebinding leads a page to this machine under a name that is not ours, and a page of another origin says
so. Without a port, a name stands for every port; with one, for this port alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

from lilux._dataclasses import dataclass

__all__ = ["STATUS_OF_UNKNOWN", "Header", "KnownNames"]

Header = Literal["Host", "Origin"]

STATUS_OF_UNKNOWN: Final[Mapping[Header, int]] = MappingProxyType({"Host": 421, "Origin": 403})
"""The HTTP status of the answer to a request in which one of them is unknown."""

_WITH_PORT: Final = re.compile(r"(.+):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The hosts and the origins that are known, in lower case. `exact_origins` have their port in them."""

    hosts: frozenset[str]
    origins: frozenset[str]
    exact_origins: frozenset[str]

    @classmethod
    def of(
        cls, hosts: Iterable[str], origins: Iterable[str], exact_origins: Iterable[str] = ()
    ) -> KnownNames:
        """Those with these names, in any case."""
        return cls(*(frozenset(map(str.lower, names)) for names in (hosts, origins, exact_origins)))

    def unknown_in(self, hosts: Sequence[str], origins: Sequence[str]) -> Header | None:
        """Which header of a request is unknown, or says two things; None if a request may be answered."""
        if len(hosts) != 1 or not _is_one_of(self.hosts, hosts[0]):
            return "Host"
        return None if all(map(self._has_origin, filter(None, origins))) else "Origin"

    def _has_origin(self, origin: str) -> bool:
        return origin.lower() in self.exact_origins or _is_one_of(self.origins, origin)


def _is_one_of(known: frozenset[str], given: str) -> bool:
    given = given.lower()
    if given in known:
        return True
    found = _WITH_PORT.fullmatch(given)
    return found is not None and found[1] in known and not _has_port(found[1])


def _has_port(name: str) -> bool:
    return _WITH_PORT.fullmatch(name) is not None
