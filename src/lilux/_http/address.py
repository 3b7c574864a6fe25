"""Decides which addresses a request may reach if its caller named the host: public ones only.

A name is resolved once, and every address of it is checked. The caller connects to what was checked here, so
a second, different answer of the resolver changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

import anyio

__all__ = ["AddressGuard", "HostRefusedError", "Resolver", "is_address", "refusal", "resolve"]

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the addresses of a host, as text; OSError without any."""

MAX_ADDRESSES: Final = 8
"""More addresses of one host are checked, but not tried."""

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")

_REFUSED: Final = tuple(
    (ipaddress.ip_network(network), why)
    for network, why in [
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a service of the cloud that hosts this machine"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved"),
        ("198.51.100.0/24", "reserved"),
        ("203.0.113.0/24", "reserved"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "an IPv4-mapped address"),
        ("::ffff:0:0:0/96", "an IPv4-translated address"),
        ("::/96", "an IPv4-compatible address"),
        ("64:ff9b::/96", "an IPv4 address behind NAT64"),
        ("64:ff9b:1::/48", "an IPv4 address behind NAT64"),
        ("2001::/32", "an IPv4 address behind Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "reserved"),
        ("2002::/16", "an IPv4 address behind 6to4"),
        ("3fff::/20", "reserved"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
    ]
)


class HostRefusedError(Exception):
    """A host has an address that its namer may not reach."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, from the system's resolver."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


class AddressGuard:
    """Resolves hosts and refuses those that are not public. `exempt` addresses count as public."""

    def __init__(self, resolver: Resolver = resolve, *, exempt: Collection[str] = ()) -> None:
        self._resolver = resolver
        self._exempt = frozenset(exempt)

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Where to connect to, every address checked; HostRefusedError, or OSError without any."""
        found = [host] if is_address(host) else await self._resolver(host, port)
        for address in found:
            why = None if address in self._exempt else refusal(address)
            if why is not None:
                raise HostRefusedError(why)
        if not found:
            raise OSError("the host has no address")
        return found[:MAX_ADDRESSES]


def refusal(address: str) -> str | None:
    """Why an address is refused; None when it is public."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "no address at all"
    for network, why in _REFUSED:
        if parsed.version == network.version and parsed in network:
            return why
    if parsed.version == _GLOBAL_UNICAST.version and parsed not in _GLOBAL_UNICAST:
        return "reserved"
    return None


def is_address(host: str) -> bool:
    """True for an IPv4 or IPv6 address in its usual spelling."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
