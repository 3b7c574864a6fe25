"""Which values of the headers `Host` and `Origin` the server accepts, and which addresses are one client.

- A name is compared as a whole, in any case: no prefix of it counts.
- A known name without a port matches with every port; one with a port matches with that port only. An origin
  that the user named matches exactly.
- Every address of this machine's loopback is the same client: whoever is on it has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

__all__ = ["KnownNames", "one_client"]

_WITH_PORT: Final = re.compile(r"(.+):[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The hosts and the origins that are known, in lower case."""

    hosts: frozenset[str]
    origins: frozenset[str]
    exact_origins: frozenset[str]

    @classmethod
    def of(
        cls, hosts: Iterable[str], origins: Iterable[str], exact_origins: Iterable[str] = ()
    ) -> KnownNames:
        """Those with these names, in any case."""
        return cls(*(frozenset(map(str.lower, names)) for names in (hosts, origins, exact_origins)))

    def has_host(self, host: str) -> bool:
        """Whether a `Host` is known."""
        return _is_one_of(self.hosts, host)

    def has_origin(self, origin: str) -> bool:
        """Whether an `Origin` is known."""
        return origin.lower() in self.exact_origins or _is_one_of(self.origins, origin)


def one_client(address: tuple[str, int] | None) -> str:
    """The client at an address, as far as addresses tell."""
    host = (address[0] if address else "").partition("%")[0]
    try:
        found = ip_address(host)
    except ValueError:
        return host
    found = getattr(found, "ipv4_mapped", None) or found
    return "loopback" if found.is_loopback else str(found)


def _is_one_of(known: frozenset[str], given: str) -> bool:
    given = given.lower()
    if given in known:
        return True
    found = _WITH_PORT.fullmatch(given)
    return found is not None and found[1] in known and not _has_port(found[1])


def _has_port(name: str) -> bool:
    return _WITH_PORT.fullmatch(name) is not None
