"""Who gets in: one browser, with the secret of the address, on this machine."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.people import Person
from tests.ui_world import RunningPage, started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPage]:
    place = tmp_path_factory.mktemp("eve")
    with started(Person("eve", place / "eve"), place) as running:
        yield running


def test_the_way_in(page: RunningPage) -> None:
    with page.client() as client:
        entrance = client.get("/")
        assert entrance.status_code == 200
        assert "Opening" in entrance.text
        assert client.get("/runs").status_code == 401
        assert client.post("/session", content="a guess").status_code == 403
        answer = client.post("/session", content=page.secret)
        assert answer.status_code == 200
        assert "Nothing has run yet." in answer.text
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"rye_{page.port}=")
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.get("/runs").status_code == 200
        assert client.get("/").headers["location"] == "/runs"
        assert client.post("/session", content=page.secret).status_code == 403


def test_every_answer_has_the_headers_that_keep_it_where_it_is(page: RunningPage) -> None:
    with page.client() as client:
        for path in ("/", "/runs", "/nothing", "/icon.svg"):
            headers = client.get(path).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert "require-trusted-types-for 'script'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


@pytest.mark.parametrize("kind", ["script", "style"])
def test_the_policy_lets_in_the_one_script_and_the_one_style_sheet(page: RunningPage, kind: str) -> None:
    with page.client() as client:
        answer = client.get("/")
    [source] = re.findall(f"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    assert f" {kind}-src 'sha256-{digest}';" in answer.headers["content-security-policy"]


def test_a_log_that_cannot_be_read_is_a_refusal_on_the_page_and_does_not_end_it(tmp_path: Path) -> None:
    person = Person("eve", tmp_path / "eve")
    person.rye("run", "rye/bash/bash", "--command", "true", cwd=tmp_path)
    [log] = tmp_path.rglob("runs.sqlite3")
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with started(person, tmp_path) as running, running.client() as client:
        answer = client.post("/session", content=running.secret)
        assert "read_failed" in answer.text
        assert answer.status_code != 403, "which would say that the page was opened before"
        assert client.get("/items").status_code == 200


def test_it_listens_on_loopback_alone_and_ends_with_a_signal(tmp_path: Path) -> None:
    person = Person("eve", tmp_path / "eve")
    with started(person, tmp_path) as running:
        assert running.address.startswith("http://127.")
        packed = int.from_bytes(socket.inet_aton(running.host), sys.byteorder)
        table = Path("/proc/net/tcp").read_text().splitlines()
        ports = [line.split()[1] for line in table if line.split()[3] == "0A"]
        assert [each for each in ports if each.endswith(f":{running.port:04X}")] == [
            f"{packed:08X}:{running.port:04X}"
        ]
        with socket.create_server(("", 0)) as taken:
            port = str(taken.getsockname()[1])
            assert "cannot_listen" in person.rye("ui", "--port", port, "--no-open", cwd=tmp_path, code=1).err
        running.process.terminate()
        assert running.process.wait(20) in (0, -15)
