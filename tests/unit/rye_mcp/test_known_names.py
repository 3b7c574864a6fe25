"""Which `Host` and `Origin` are known."""

from __future__ import annotations

import pytest

from rye_mcp.known_names import KnownNames

ANY_PORT = KnownNames.of(["127.0.0.1", "[::1]"], ["http://127.0.0.1"], ["https://tools.example:8443"])
ONE_PORT = KnownNames.of(["127.0.0.1:8000"], [], ["http://127.0.0.1:8000"])


@pytest.mark.parametrize(
    ("names", "hosts", "origins", "unknown"),
    [
        (ANY_PORT, ["127.0.0.1"], [], None),
        (ANY_PORT, ["127.0.0.1:80"], ["http://127.0.0.1:99"], None),
        (ANY_PORT, ["[::1]:80"], ["HTTPS://TOOLS.EXAMPLE:8443"], None),
        (ANY_PORT, ["127.0.0.1"], [""], None),
        (ANY_PORT, ["evil.example"], [], "Host"),
        (ANY_PORT, [], [], "Host"),
        (ANY_PORT, ["127.0.0.1", "127.0.0.1"], [], "Host"),
        (ANY_PORT, ["127.0.0.1:80:80"], [], "Host"),
        (ANY_PORT, ["127.0.0.1"], ["null"], "Origin"),
        (ANY_PORT, ["127.0.0.1"], ["https://tools.example"], "Origin"),
        (ANY_PORT, ["127.0.0.1"], ["http://127.0.0.1", "http://evil.example"], "Origin"),
        (ONE_PORT, ["127.0.0.1:8000"], ["http://127.0.0.1:8000"], None),
        (ONE_PORT, ["127.0.0.1:8001"], [], "Host"),
        (ONE_PORT, ["127.0.0.1"], [], "Host"),
        (ONE_PORT, ["127.0.0.1:8000"], ["http://127.0.0.1:8001"], "Origin"),
        (ONE_PORT, ["127.0.0.1:8000"], ["https://127.0.0.1:8000"], "Origin"),
    ],
)
def test_what_is_unknown_is_named(
    names: KnownNames, hosts: list[str], origins: list[str], unknown: str | None
) -> None:
    assert names.unknown_in(hosts, origins) == unknown
