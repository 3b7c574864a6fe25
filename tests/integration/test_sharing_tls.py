"""Registries on other machines are reached over TLS, or not at all."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from tests.http_server import authority, serve, server_tls
from tests.people import Person
from tests.registry_world import RegistryServer, author_in

HOST = socket.gethostname()


def address_of_this_machine() -> str | None:
    """Where a name that is none of loopback leads to, if it leads here."""
    try:
        return socket.gethostbyname(HOST)
    except OSError:
        return None


pytestmark = pytest.mark.skipif(
    address_of_this_machine() is None or HOST == "localhost", reason="the name of this machine leads nowhere"
)


async def test_the_certificate_counts_and_nothing_is_sent_without_one(tmp_path: Path) -> None:
    author = author_in(tmp_path / "alice")
    file, key = author.shared()
    there = RegistryServer()
    there.put(file, key)
    bob = Person("bob", tmp_path / "bob")
    project = bob.begin(tmp_path / "bobs")
    certificates = tmp_path / "authority.pem"
    authority().cert_pem.write_to_path(certificates)
    address = address_of_this_machine()
    assert address is not None
    async with serve(there.answer, host=address, tls=server_tls(HOST)) as server:
        reference = f"{HOST}:{server.port}/team/tools:1"
        entry = {"auth": base64.b64encode(b"bob:the-password").decode()}
        docker = Path(bob.environment["HOME"]) / ".docker"
        docker.mkdir()
        (docker / "config.json").write_text(json.dumps({"auths": {f"{HOST}:{server.port}": entry}}))

        def pull(*options: str, code: int = 0, **variables: Any) -> str:
            return bob.rye("pull", reference, *options, cwd=project, code=code, **variables).shown

        assert "registry_unreachable" in await anyio.to_thread.run_sync(lambda: pull(code=1))
        assert "registry_unreachable" in await anyio.to_thread.run_sync(lambda: pull("--insecure", code=1))
        assert server.requests == []
        shown = await anyio.to_thread.run_sync(lambda: pull(SSL_CERT_FILE=str(certificates)))
        assert "wrote   tools/demo/hello.py" in shown
    assert (project / ".ai/tools/demo/hello.py").read_bytes() == file.content
