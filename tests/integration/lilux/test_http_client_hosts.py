"""Hosts that a parameter names: only public addresses, and the connection goes to the one that was checked.

Loopback stands for the whole world here: the guard of a test is told which of its addresses are public.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import pytest

from lilux.primitives.errors import ConfigurationError
from lilux.primitives.http_client import AddressGuard, HttpClientPrimitive, HttpResult
from tests.http_server import Connection, Request, client_tls, serve, server_tls

PUBLIC = "127.0.0.2"


class Names:
    """A resolver with a table; each name gives its answers one after the other, the last one for ever."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.asked: list[str] = []
        self._answers = answers

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host.partition(".")[0])
        if answers is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def recording(connection: Connection, request: Request) -> None:
    await connection.reply(body=b"arrived")


async def ask(url: str, params: dict[str, Any], names: Names | None = None, **config: Any) -> HttpResult:
    guard = AddressGuard(names, exempt=[PUBLIC]) if names else None
    async with HttpClientPrimitive(ssl_context=client_tls(), guard=guard) as http:
        return await http.execute({"url": url, "timeout": 20, **config}, params)


LOOPBACK_SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "017700000001",
    "0177.1",
    "localhost",
    "LOCALHOST",
    "0",
    "0.0.0.0",  # noqa: S104 - it is refused
    "::1",
    "[::1]",
    "::ffff:127.0.0.1",
    "[::ffff:7f00:1]",
    "127。0。0。1",
    "127.0.0.1",
]
REFUSED_SPELLINGS = [
    "①②⑦.⓪.⓪.①",
    "127.0.0.1:80",
    "example.org@127.0.0.1",
    "127.0.0.1/x",
    "127.0.0.1#",
    "127.0.0.1?",
    "127.0.0.1\\@example.org",
    "127.0.0.1%2f",
    "127.0.0.1 ",
    "%31%32%37.0.0.1",
    "0177.0.0.1",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "[::1%25lo]",
    "[::1",
    "a\r\nHost: b",
    "a\0b",
    "",
    "..",
    "a" * 64,
]


@pytest.mark.parametrize("host", LOOPBACK_SPELLINGS)
async def test_loopback_is_refused_in_every_spelling_when_a_parameter_names_it(host: str) -> None:
    async with serve(recording) as server:
        result = await ask(f"http://{{host}}:{server.port}/", {"host": host})
    assert (result.error_code, server.connections) == ("host_refused", 0)
    assert str(result.error).endswith("; allow_private_hosts would let it pass")


@pytest.mark.parametrize("host", ["localhost.", "127.0.0.1.", "127.1."])
async def test_a_dot_at_the_end_does_not_help(host: str) -> None:
    """Some resolvers know these, others do not."""
    async with serve(recording) as server:
        result = await ask(f"http://{{host}}:{server.port}/", {"host": host})
        names = Names(**{host.partition(".")[0]: [["127.0.0.1"]]})
        resolved = await ask(f"http://{{host}}:{server.port}/", {"host": host}, names)
    assert (result.success, resolved.error_code, server.connections) == (False, "host_refused", 0)


@pytest.mark.parametrize("host", REFUSED_SPELLINGS)
async def test_what_is_no_host_is_refused_as_one(host: str) -> None:
    async with serve(recording) as server:
        with pytest.raises(ConfigurationError) as caught:
            await ask(f"http://{{host}}:{server.port}/", {"host": host})
    assert (caught.value.field, server.connections) == ("url", 0)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://2130706433:{port}/x?y",
        "HTTP://LocalHost:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
    ],
)
async def test_a_url_that_is_a_parameter_is_checked_too(url: str) -> None:
    async with serve(recording) as server:
        result = await ask("{url}", {"url": url.replace("{port}", str(server.port))})
    assert (result.error_code, server.connections) == ("host_refused", 0)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org@127.0.0.1/",
        "http://example.org\\@127.0.0.1/",
        "http:127.0.0.1",
        "//127.0.0.1/",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "",
        "gopher://127.0.0.1/",
        " http://127.0.0.1/",
        "http://127.0.0.1\t/",
        "http://example.org/\r\nX-Evil: 1",
    ],
)
async def test_a_parameter_that_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await ask("{url}", {"url": url})
    assert caught.value.field == "url"


@pytest.mark.parametrize(
    "template", ["http://{host}/", "http://x.{host}/", "http://{host}.org/", "http://{a}{b}/"]
)
async def test_a_part_of_the_host_is_enough_to_have_it_checked(template: str) -> None:
    names = Names(**{name: [["10.0.0.1"]] for name in ("x", "in", "ab")})
    result = await ask(template, {"host": "in", "a": "a", "b": "b"}, names)
    assert (result.error_code, len(names.asked)) == ("host_refused", 1)


async def test_private_hosts_can_be_allowed() -> None:
    async with serve(recording) as server:
        for url, params in [
            (f"http://{{host}}:{server.port}/", {"host": "localhost"}),
            ("{url}", {"url": server.url}),
        ]:
            assert (await ask(url, params, allow_private_hosts=True)).body == "arrived"


async def test_a_host_of_the_configuration_may_be_private(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(recording) as server:
        monkeypatch.setenv("LILUX_TEST_BASE", server.url)
        monkeypatch.setenv("LILUX_TEST_HOST", server.host)
        for url in [
            f"{server.url}/{{x}}",
            "${LILUX_TEST_BASE}/{x}",
            f"${{UNSET_:-{server.url}}}/{{x}}",
            f"http://${{LILUX_TEST_HOST}}:{server.port}/{{x}}",
            "http://127.0.0.1:{port}/{x}",
        ]:
            assert (await ask(url, {"x": "y", "port": server.port})).body == "arrived", url


async def test_every_address_of_a_host_is_checked() -> None:
    async with serve(recording, host=PUBLIC) as server:
        for addresses in [[PUBLIC, "127.0.0.1"], ["::1", PUBLIC], [PUBLIC, "169.254.169.254"]]:
            result = await ask(f"http://{{h}}:{server.port}/", {"h": "mixed.test"}, Names(mixed=[addresses]))
            assert result.error_code == "host_refused"
    assert server.connections == 0


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name that answers something else the second time gets no second question."""
    names = Names(rebind=[[PUBLIC], ["127.0.0.1"]])
    async with serve(recording, host=PUBLIC) as public, serve(recording, port=public.port) as private:
        url = f"http://{{h}}:{public.port}/path"
        result = await ask(url, {"h": "rebind.test"}, names)
        assert (result.body, names.asked) == ("arrived", ["rebind.test"])
        again = await ask(url, {"h": "rebind.test"}, names)
    assert again.error_code == "host_refused"
    assert private.connections == 0
    assert public.requests[0].headers["host"] == f"rebind.test:{public.port}"
    assert public.requests[0].target == "/path"


async def test_a_redirect_to_the_host_that_a_parameter_named_is_checked_again() -> None:
    async def around(connection: Connection, request: Request) -> None:
        await connection.reply("302 Found", headers={"Location": "/new"})

    names = Names(rebind=[[PUBLIC], ["127.0.0.1"]])
    async with serve(around, host=PUBLIC) as public, serve(recording, port=public.port) as private:
        url = f"http://{{h}}:{public.port}/"
        result = await ask(url, {"h": "rebind.test"}, names, follow_redirects=True)
    assert (result.error_code, len(names.asked)) == ("host_refused", 2)
    assert (len(public.requests), private.connections) == (1, 0)


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with serve(recording, host=PUBLIC) as server:
        names = Names(many=[["127.0.0.9", PUBLIC]])
        guard = AddressGuard(names, exempt=[PUBLIC, "127.0.0.9"])
        async with HttpClientPrimitive(guard=guard) as http:
            result = await http.execute({"url": f"http://{{h}}:{server.port}/"}, {"h": "many.test"})
    assert result.body == "arrived"


async def test_a_host_that_nobody_knows_is_a_result() -> None:
    result = await ask("http://{h}/", {"h": "nowhere.test"}, Names())
    assert result.error_code == "connect_failed"
    assert result.error == "cannot connect to nowhere.test: Name or service not known"


async def test_a_host_without_an_address_is_a_result() -> None:
    result = await ask("http://{h}/", {"h": "empty.test"}, Names(empty=[[]]))
    assert result.error_code == "connect_failed"


async def test_a_checked_connection_is_used_once() -> None:
    """Else a request for one name could travel on a connection that was made, and verified, for another."""
    async with serve(recording, host=PUBLIC) as server:
        guard = AddressGuard(Names(a=[[PUBLIC]], b=[[PUBLIC]]), exempt=[PUBLIC])
        async with HttpClientPrimitive(guard=guard) as http:
            for _ in range(2):
                await http.execute({"url": f"http://{PUBLIC}:{server.port}/"}, {})
            for name in ("a.test", "b.test", PUBLIC):
                await http.execute({"url": f"http://{{h}}:{server.port}/"}, {"h": name})
            await http.execute({"url": f"http://{PUBLIC}:{server.port}/"}, {})
    assert [request.connection for request in server.requests] == [1, 1, 2, 3, 4, 1]


# --- TLS ------------------------------------------------------------------------


async def test_tls_asks_for_the_name_and_its_certificate() -> None:
    seen: list[str | None] = []
    tls = server_tls("good.test")
    tls.sni_callback = lambda _, name, __: seen.append(name)
    names = {"good": [[PUBLIC]], "evil": [[PUBLIC]]}
    async with serve(recording, host=PUBLIC, tls=tls) as server:
        good = await ask(f"https://{{h}}:{server.port}/", {"h": "good.test"}, Names(**names))
        dotted = await ask(f"https://{{h}}:{server.port}/", {"h": "good.test."}, Names(**names))
        evil = await ask(f"https://{{h}}:{server.port}/", {"h": "evil.test"}, Names(**names))
    assert (good.body, dotted.body) == ("arrived", "arrived")
    assert evil.error_code == "connect_failed"
    assert "evil.test" in str(evil.error)
    assert seen == ["good.test", "good.test", "evil.test"]
    assert server.requests[0].headers["host"] == f"good.test:{server.port}"


async def test_tls_to_an_address_asks_for_a_certificate_of_the_address() -> None:
    async with serve(recording, host=PUBLIC, tls=server_tls(PUBLIC)) as server:
        result = await ask(f"https://{{h}}:{server.port}/", {"h": PUBLIC}, Names())
    assert result.body == "arrived"


async def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    async with serve(recording, tls=server_tls("127.0.0.1")) as server:
        async with HttpClientPrimitive() as http:
            result = await http.execute({"url": server.url}, {})
        trusting = await ask(server.url, {})
    assert (result.error_code, trusting.body) == ("connect_failed", "arrived")
    assert "certificate" in str(result.error)
    assert len(server.requests) == 1


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(recording) as server, serve(recording) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        result = await ask(server.url, {})
        checked = await ask("http://{h}/", {"h": "127.0.0.1"})
    assert (result.body, checked.error_code) == ("arrived", "host_refused")
    assert proxy.connections == 0
