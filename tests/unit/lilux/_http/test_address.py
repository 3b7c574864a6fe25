"""Which addresses are public."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lilux._http.address import _REFUSED, MAX_ADDRESSES, AddressGuard, HostRefusedError, is_address, refusal

ASSETS = Path(__file__).parents[3] / "assets"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("0.0.0.0", "unspecified"),  # noqa: S104
        ("0.1.2.3", "unspecified"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "carrier-grade NAT"),
        ("100.100.100.200", "carrier-grade NAT"),
        ("169.254.169.254", "link-local"),
        ("168.63.129.16", "a service of the cloud that hosts this machine"),
        ("192.0.0.192", "reserved"),
        ("192.0.2.1", "reserved"),
        ("198.18.0.1", "reserved"),
        ("198.51.100.1", "reserved"),
        ("203.0.113.1", "reserved"),
        ("192.88.99.1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("::ffff:8.8.8.8", "an IPv4-mapped address"),
        ("::ffff:127.0.0.1", "an IPv4-mapped address"),
        ("::ffff:0:8.8.8.8", "an IPv4-translated address"),
        ("::8.8.8.8", "an IPv4-compatible address"),
        ("64:ff9b::8.8.8.8", "an IPv4 address behind NAT64"),
        ("64:ff9b:1::1", "an IPv4 address behind NAT64"),
        ("2001:0:4136:e378::1", "an IPv4 address behind Teredo"),
        ("2002:7f00:1::", "an IPv4 address behind 6to4"),
        ("2001:db8::1", "reserved"),
        ("2001:10::1", "reserved"),
        ("3fff::1", "reserved"),
        ("5f00::1", "reserved"),
        ("100::1", "reserved"),
        ("4000::1", "reserved"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("fec0::1", "private"),
        ("ff02::1", "multicast"),
        ("example.org", "no address at all"),
        ("", "no address at all"),
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str, why: str) -> None:
    assert refusal(address) == why


@pytest.mark.parametrize(
    "address",
    [
        *("8.8.8.8", "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.0.0.1"),
        *("128.0.0.1", "172.15.255.255", "172.32.0.0", "192.167.0.1", "192.169.0.1", "223.255.255.255"),
        *("2606:4700::1111", "2a00:1450::1", "2001:4860::8888", "2003::1"),
    ],
)
def test_a_public_address_is_not(address: str) -> None:
    assert refusal(address) is None


def test_the_door_of_the_supervisor_refuses_the_same_addresses() -> None:
    # crates/lilux-proc/src/door/address.rs is tested with the same table.
    cases: list[tuple[str, str | None]] = json.loads((ASSETS / "addresses.json").read_bytes())
    assert {address: refusal(address) for address, _ in cases} == dict(cases)
    assert {why for _, why in cases} == {*(why for _, why in _REFUSED), None}


@given(address=st.ip_addresses())
def test_nothing_that_python_calls_special_is_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    if special or address.is_reserved or address.is_unspecified:
        assert refusal(str(address)) is not None


@given(address=st.ip_addresses(v=4))
def test_no_ipv6_address_that_carries_an_ipv4_address_is_public(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for prefix, shift in [
        ("::ffff:0:0", 0),
        ("::", 0),
        ("64:ff9b::", 0),
        ("::ffff:0:0:0", 0),
        ("2002::", 80),
    ]:
        carrier = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | number << shift)
        assert refusal(str(carrier)) is not None


async def test_an_address_is_not_looked_up() -> None:
    async def never(host: str, port: int) -> list[str]:
        raise AssertionError

    assert await AddressGuard(never).addresses("8.8.8.8", 80) == ["8.8.8.8"]


async def test_one_refused_address_refuses_the_host() -> None:
    async def both(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(HostRefusedError, match="private"):
        await AddressGuard(both).addresses("example.org", 80)


async def test_all_addresses_are_checked_and_some_are_tried() -> None:
    addresses = [f"8.8.8.{number}" for number in range(100)]

    async def many(host: str, port: int) -> list[str]:
        return addresses

    assert await AddressGuard(many).addresses("example.org", 80) == addresses[:MAX_ADDRESSES]
    addresses[-1] = "10.0.0.1"
    with pytest.raises(HostRefusedError):
        await AddressGuard(many).addresses("example.org", 80)


async def test_the_resolver_of_the_system_knows_every_spelling_of_loopback() -> None:
    for host in ("localhost", "127.1", "0x7f.1", "2130706433", "017700000001"):
        with pytest.raises(HostRefusedError, match="loopback"):
            await AddressGuard().addresses(host, 80)


def test_an_address_is_told_from_a_name() -> None:
    assert is_address("127.0.0.1")
    assert is_address("::1")
    assert not is_address("127.1")
    assert not is_address("example.org")
