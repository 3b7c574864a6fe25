"""Attack: a registry lies, sends more than it said, leads elsewhere, or stops in the middle."""

from __future__ import annotations

import base64
import gzip
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.sharing.artifact import MAX_MANIFEST_BYTES
from rye_mcp.sharing.fetching import Network
from rye_mcp.sharing.reference import parse_reference
from tests.http_server import Connection, Request, authority, serve, server_tls
from tests.people import Person
from tests.registry_world import Fault, Member, RegistryServer, author_in, member_in, registry


@pytest.fixture
def alice(tmp_path: Path) -> Member:
    return author_in(tmp_path / "alice")


@pytest.fixture
def bob(tmp_path: Path) -> Member:
    return member_in(tmp_path / "bob")


async def nothing_is_written(bob: Member, code: str, doing: Callable[[], Awaitable[object]]) -> RyeError:
    """The refusal of what leaves bob's project as it was."""
    before = bob.files()
    with pytest.raises(RyeError) as caught:
        await doing()
    assert caught.value.code == code, caught.value.message
    assert bob.files() == before
    return caught.value


def about(kind: str, answer: Callable[[Connection, bytes], Awaitable[None]]) -> Fault:
    """A fault in each answer that gives out a blob or a manifest; it gets the honest body."""

    async def fault(there: RegistryServer, connection: Connection, request: Request) -> bool:
        _, _, name = request.target.partition(f"/{kind}/")
        body = (there.blobs if kind == "blobs" else there.manifests).get(name)
        if request.method != "GET" or body is None:
            return False
        await answer(connection, body)
        return True

    return fault


async def other_bytes(connection: Connection, body: bytes) -> None:
    await connection.reply(body=bytes(len(body)))


async def fewer_bytes(connection: Connection, body: bytes) -> None:
    await connection.reply(body=body[:-1])


async def more_bytes(connection: Connection, body: bytes) -> None:
    await connection.reply(body=body + b"!")


async def without_end(connection: Connection, body: bytes) -> None:
    """Send until the client is gone, and never say how much it will be."""
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await connection.send(b"10000\r\n" + bytes(65536) + b"\r\n")


async def packed(connection: Connection, body: bytes) -> None:
    await connection.reply(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})


async def stopped(connection: Connection, body: bytes) -> None:
    await connection.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:10])
    await connection.close()


async def failed(connection: Connection, body: bytes) -> None:
    await connection.reply("503 Service Unavailable", b"\x1b[2Jno")


@pytest.mark.parametrize(
    ("kind", "answer", "code"),
    [
        ("blobs", other_bytes, "invalid_artifact"),
        ("blobs", fewer_bytes, "invalid_artifact"),
        ("blobs", more_bytes, "invalid_artifact"),
        ("blobs", without_end, "invalid_artifact"),
        ("blobs", packed, "invalid_artifact"),
        ("blobs", stopped, "registry_unreachable"),
        ("blobs", failed, "registry_failed"),
        ("manifests", without_end, "invalid_artifact"),
        ("manifests", packed, "invalid_artifact"),
        ("manifests", stopped, "registry_unreachable"),
        ("manifests", failed, "registry_failed"),
    ],
)
async def test_a_lie_about_bytes_writes_nothing(
    alice: Member, bob: Member, kind: str, answer: Callable[..., Awaitable[None]], code: str
) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        there.faults.append(about(kind, answer))
        error = await nothing_is_written(bob, code, lambda: bob.pull(there.reference()))
        assert "\x1b" not in error.message
        there.faults.clear()
        await bob.pull(there.reference())
    assert "sources.toml" in bob.files()


async def test_another_artifact_under_the_digest_that_was_asked_for(alice: Member, bob: Member) -> None:
    async with registry() as there:
        first = await alice.push(there.reference("1"), "demo/*")
        await bob.pull(there.reference("1"))
        second = await alice.push(there.reference("2"), "demo/hello")
        there.manifests[first.digest] = there.manifests[second.digest]
        (bob.space / "tools/demo/hello.py").unlink()
        await nothing_is_written(bob, "invalid_artifact", bob.sync)
        by_digest = f"{there.host}/team/tools@{first.digest}"
        await nothing_is_written(bob, "invalid_artifact", lambda: bob.pull(by_digest))
        there.manifests[first.digest] = bytes(MAX_MANIFEST_BYTES)
        await nothing_is_written(bob, "invalid_artifact", bob.sync)


async def test_one_digest_with_two_sizes(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        manifest = json.loads(there.manifests["1"])
        first, second = manifest["layers"][:2]
        second["digest"] = first["digest"]
        second["size"] = first["size"] + 1
        there.put_manifest(json.dumps(manifest).encode())
        await nothing_is_written(bob, "invalid_artifact", lambda: bob.pull(there.reference()))


def leading_to(place: str) -> Fault:
    async def fault(there: RegistryServer, connection: Connection, request: Request) -> bool:
        if request.method != "GET" or "/blobs/" not in request.target:
            return False
        target = place.replace("{digest}", request.target.rpartition("/")[2])
        await connection.reply("307 Temporary Redirect", headers={"Location": target})
        return True

    return fault


def with_password(member: Member, host: str) -> None:
    """Give somebody a password for a registry, as `docker login` does."""
    place = member.world.root / "home/.docker/config.json"
    place.parent.mkdir(parents=True)
    entry = {"auth": base64.b64encode(b"bob:the-password").decode()}
    place.write_text(json.dumps({"auths": {host: entry}}))


async def asks_for_a_password(there: RegistryServer, connection: Connection, request: Request) -> bool:
    if "authorization" in request.headers:
        return False
    await connection.reply("401 Unauthorized", headers={"WWW-Authenticate": 'Basic realm="here"'})
    return True


async def test_a_redirect_takes_no_password_to_another_server(alice: Member, bob: Member) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")

        async def store(connection: Connection, request: Request) -> None:
            await connection.reply(body=there.blobs[request.target.removeprefix("/")])

        async with serve(store) as elsewhere:
            there.faults += [asks_for_a_password, leading_to(f"{elsewhere.url}/{{digest}}")]
            with_password(bob, there.host)
            await bob.pull(there.reference())
            assert elsewhere.requests
            assert not [each for each in elsewhere.requests if "authorization" in each.headers]
        sent = {each.headers["authorization"] for each in there.requests if "authorization" in each.headers}
    assert sent == {f"Basic {base64.b64encode(b'bob:the-password').decode()}"}


async def test_the_server_behind_a_redirect_does_not_say_who_gets_the_password(
    alice: Member, bob: Member
) -> None:
    asked: list[Request] = []

    async def takes(connection: Connection, request: Request) -> None:
        asked.append(request)
        await connection.json(b'{"token": "a-token"}')

    async with registry() as there, serve(takes) as thief:
        await alice.push(there.reference(), "demo/*")
        challenge = {"WWW-Authenticate": f'Bearer realm="{thief.url}/token"'}

        async def store(connection: Connection, request: Request) -> None:
            await connection.reply("401 Unauthorized", headers=challenge)

        async with serve(store) as elsewhere:
            there.faults.append(leading_to(f"{elsewhere.url}/{{digest}}"))
            with_password(bob, there.host)
            await nothing_is_written(bob, "registry_refused", lambda: bob.pull(there.reference()))
    assert asked == []


@pytest.mark.parametrize(
    "place",
    [
        "http://registry.example.com/{digest}",
        "file:///etc/passwd",
        "ftp://127.0.0.1/{digest}",
        "https://user:password@127.0.0.1/{digest}",
        "/v2/team/tools/blobs/{digest}",
    ],
)
async def test_a_redirect_leads_to_no_other_protocol_and_round_in_no_circle(
    alice: Member, bob: Member, place: str
) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        there.faults.append(leading_to(place))
        await nothing_is_written(bob, "registry_failed", lambda: bob.pull(there.reference()))


async def test_an_upload_is_led_to_no_other_server(alice: Member) -> None:
    async with registry() as there, registry() as other:

        async def elsewhere(there: RegistryServer, connection: Connection, request: Request) -> bool:
            if request.method != "POST":
                return False
            await connection.reply("202 Accepted", headers={"Location": f"http://{other.host}/take"})
            return True

        there.faults.append(elsewhere)
        with pytest.raises(RyeError) as caught:
            await alice.push(there.reference(), "demo/*")
        assert caught.value.code == "registry_failed"
        assert other.requests == []


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_redirect_takes_no_file_to_another_server(alice: Member, method: str) -> None:
    async with registry() as there, registry() as other:

        async def elsewhere(there: RegistryServer, connection: Connection, request: Request) -> bool:
            if request.method != method:
                return False
            await connection.reply(
                "307 Temporary Redirect", headers={"Location": f"http://{other.host}/take"}
            )
            return True

        there.faults.append(elsewhere)
        with pytest.raises(RyeError) as caught:
            await alice.push(there.reference(), "demo/*")
        assert caught.value.code == "registry_failed"
        assert other.requests == []


async def test_a_password_goes_to_no_other_registry_and_into_no_message(
    alice: Member, bob: Member, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")
        with_password(bob, "registry.example.com")
        there.faults.append(asks_for_a_password)
        error = await nothing_is_written(bob, "registry_refused", lambda: bob.pull(there.reference()))
        assert not [
            each for each in there.requests if "authorization" in each.headers and each.method == "GET"
        ]
    shown = f"{error.as_dict()} {caplog.text}"
    assert "the-password" not in shown
    assert base64.b64encode(b"bob:the-password").decode() not in shown
    assert "state=secret" not in caplog.text


async def test_a_token_is_asked_for_this_repository_alone(alice: Member, bob: Member) -> None:
    tokens: list[Request] = []

    async def hands_out(connection: Connection, request: Request) -> None:
        tokens.append(request)
        await connection.json(b'{"token": "the-token"}')

    async with registry() as there, serve(hands_out) as service:
        await alice.push(there.reference(), "demo/*")

        async def wants_everything(there: RegistryServer, connection: Connection, request: Request) -> bool:
            if request.headers.get("authorization") == "Bearer the-token":
                return False
            realm = f'Bearer realm="{service.url}/token",service="s",scope="registry:catalog:*"'
            await connection.reply("401 Unauthorized", headers={"WWW-Authenticate": realm})
            return True

        there.faults.append(wants_everything)
        with_password(bob, there.host)
        await bob.pull(there.reference())
    [asked] = tokens
    assert asked.target == "/token?service=s&scope=repository%3Ateam%2Ftools%3Apull"
    assert asked.headers["authorization"].startswith("Basic ")
    assert "sources.toml" in bob.files()


@pytest.mark.parametrize("realm", ["http://registry.example.com/token", "file:///token", ""])
async def test_a_password_is_sent_to_no_service_without_tls(alice: Member, bob: Member, realm: str) -> None:
    async with registry() as there:
        await alice.push(there.reference(), "demo/*")

        async def challenges(there: RegistryServer, connection: Connection, request: Request) -> bool:
            header = {"WWW-Authenticate": f'Bearer realm="{realm}"'}
            await connection.reply("401 Unauthorized", headers=header)
            return True

        there.faults.append(challenges)
        with_password(bob, there.host)
        await nothing_is_written(bob, "registry_failed", lambda: bob.pull(there.reference()))


HOST = socket.gethostname()
"""A name of this machine that is not taken for loopback."""


def is_known(name: str) -> bool:
    """Whether a name leads to an address."""
    try:
        return bool(socket.gethostbyname(name))
    except OSError:
        return False


@pytest.mark.skipif(not is_known(HOST), reason="the name of this machine leads nowhere")
async def test_a_sync_speaks_without_tls_to_the_registry_that_was_named_and_to_no_other(
    tmp_path: Path,
) -> None:
    author = author_in(tmp_path / "alice")
    bob = Person("bob", tmp_path / "bob")
    project = bob.begin(tmp_path / "bobs")
    certificates = tmp_path / "authority.pem"
    authority().cert_pem.write_to_path(certificates)
    plain, safe = RegistryServer(), RegistryServer()
    plain.put(*author.shared())
    safe.put(*author.shared("demo/bye"))

    async def rye(*arguments: str) -> str:
        trusted: dict[str, Any] = {"SSL_CERT_FILE": str(certificates)}
        return (await anyio.to_thread.run_sync(lambda: bob.rye(*arguments, cwd=project, **trusted))).shown

    address = socket.gethostbyname(HOST)
    async with (
        serve(plain.answer, host=address) as first,
        serve(safe.answer, host=address, tls=server_tls(HOST)) as second,
    ):
        await rye("pull", f"{HOST}:{first.port}/team/tools:1", "--insecure")
        await rye("pull", f"{HOST}:{second.port}/team/tools:1")
        for name in ("hello", "bye"):
            (project / f".ai/tools/demo/{name}.py").unlink()
        asked = len(second.requests)
        shown = await rye("sync", "--insecure", f"{HOST}:{first.port}")
        assert shown.count("wrote   tools/demo/") == 2
        assert len(second.requests) > asked


SPELLINGS = (
    "localhost", "localhost.", "a.localhost", "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0.0.0.0",  # noqa: S104
    "[::1]", "[::]", "[::ffff:127.0.0.1]", "169.254.169.254",
)  # fmt: skip


@pytest.mark.skipif(not is_known(HOST), reason="the name of this machine leads nowhere")
async def test_a_redirect_leads_to_this_machine_in_no_spelling() -> None:
    """A registry elsewhere would have the user ask services that only this machine reaches."""
    there = RegistryServer()
    places = iter(SPELLINGS)

    async def leads_here(_: RegistryServer, connection: Connection, request: Request) -> bool:
        await connection.reply("302 Found", headers={"Location": f"https://{next(places)}:1/x"})
        return True

    there.faults.append(leads_here)
    async with serve(there.answer, host=socket.gethostbyname(HOST)) as server:
        host = f"{HOST}:{server.port}"
        for spelling in SPELLINGS:
            with pytest.raises(RyeError) as caught:
                await Network({}, lambda _: None, {host}).fetch(parse_reference(f"{host}/team/tools:1"))
            assert "found this machine" in caught.value.message, spelling
