"""Tokens are refreshed at a real endpoint, once for everybody who waits, whatever happens meanwhile."""

from __future__ import annotations

import base64
import functools
import gc
import json
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest

from lilux.primitives.errors import AuthenticationRequired, RefreshError
from lilux.runtime import _oauth, auth
from lilux.runtime.auth import AuthStore
from tests.http_server import Connection, Request, serve

SECRETS = ("access-0", "refresh-0", "s3cret-client")
Answer = Callable[["Endpoint", dict[str, str]], tuple[int, Any]]


class Endpoint:
    """A token endpoint that knows one refresh token at a time, as careful ones do."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.valid = SECRETS[1]
        self.answer: Answer = rotate
        self.asked, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.forms.append({name: values[0] for name, values in parse_qs(form).items()})
                endpoint.headers.append({name.lower(): value for name, value in self.headers.items()})
                endpoint.asked.set()
                endpoint.go_on.wait(20)
                with endpoint.lock:
                    status, answer = endpoint.answer(endpoint, endpoint.forms[-1])
                self.send_response(status)
                if status == 307:
                    self.send_header("Location", answer)
                self.end_headers()
                self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


def rotate(endpoint: Endpoint, form: dict[str, str]) -> tuple[int, Any]:
    """The next pair; what was good before is good no longer."""
    if form.get("refresh_token") != endpoint.valid:
        return 400, {"error": "invalid_grant"}
    number = int(endpoint.valid.rpartition("-")[2]) + 1
    endpoint.valid = f"refresh-{number}"
    return 200, {"access_token": f"access-{number}", "refresh_token": endpoint.valid, "expires_in": 3600}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def store(tmp_path: Path) -> AuthStore:
    return AuthStore(directory=tmp_path / "tokens", use_keyring=False)


def expired(store: AuthStore, endpoint: Endpoint, **more: Any) -> None:
    config = {"token_url": endpoint.url, "client_id": "me", "client_secret": SECRETS[2]} | more
    store.set_token(
        "x", SECRETS[0], refresh_token=SECRETS[1], expires_in=0, scopes="a", refresh_config=config
    )


async def until_waiting(store: AuthStore, count: int) -> None:
    """Wait until so many tasks wait for somebody else's refresh."""
    while store._flight("x").lock.statistics().tasks_waiting != count:  # noqa: ASYNC110 - a lock tells nobody
        await anyio.sleep(0.005)


# --- the exchange -----------------------------------------------------------------------


async def test_an_expired_token_is_refreshed(store: AuthStore, endpoint: Endpoint) -> None:
    expired(store, endpoint, extra={"audience": "é"})
    assert await store.get_token("x") == "access-1"
    assert endpoint.forms == [
        {
            "grant_type": "refresh_token",
            "refresh_token": SECRETS[1],
            "client_id": "me",
            "client_secret": SECRETS[2],
            "audience": "é",
        }
    ]
    assert endpoint.headers[0]["accept"] == "application/json"
    assert endpoint.headers[0]["content-type"] == "application/x-www-form-urlencoded"
    assert await store.get_token("x") == "access-1"
    assert len(endpoint.forms) == 1


async def test_rotated_refresh_tokens_and_the_configuration_are_kept(
    store: AuthStore, endpoint: Endpoint, tmp_path: Path
) -> None:
    now = time.time()
    expired(store, endpoint)
    for number in range(1, 4):
        at = functools.partial(float, now + number * 4000)
        later = AuthStore(directory=tmp_path / "tokens", use_keyring=False, clock=at)
        assert await later.get_token("x", "a") == f"access-{number}"
    assert [form["refresh_token"] for form in endpoint.forms] == ["refresh-0", "refresh-1", "refresh-2"]


async def test_what_the_answer_does_not_say_stays_as_it_was(store: AuthStore, endpoint: Endpoint) -> None:
    endpoint.answer = lambda *_: (200, {"access_token": "next", "token_type": "bearer"})
    expired(store, endpoint)
    assert await store.get_token("x", "a") == "next"
    metadata = store.get_cached_metadata("x") or {}
    assert (metadata["expires_at"], metadata["scopes"], metadata["refreshable"]) == (None, ["a"], True)


async def test_the_scopes_of_the_answer_count(store: AuthStore, endpoint: Endpoint) -> None:
    endpoint.answer = lambda *_: (200, {"access_token": "next", "scope": "b c", "expires_in": "3600"})
    expired(store, endpoint)
    with pytest.raises(AuthenticationRequired, match="scope a"):
        await store.get_token("x", "a")
    assert await store.get_token("x", "b c") == "next"


async def test_a_client_can_show_itself_in_the_header(store: AuthStore, endpoint: Endpoint) -> None:
    expired(store, endpoint, client_id="me:too", client_secret="ü+", auth_method="basic")
    await store.get_token("x")
    assert endpoint.forms == [{"grant_type": "refresh_token", "refresh_token": SECRETS[1]}]
    kind, _, told = endpoint.headers[0]["authorization"].partition(" ")
    assert (kind, base64.b64decode(told)) == ("Basic", b"me%3Atoo:%C3%BC%2B")


async def test_a_missing_scope_is_noticed_before_anything_is_refreshed(
    store: AuthStore, endpoint: Endpoint
) -> None:
    expired(store, endpoint)
    with pytest.raises(AuthenticationRequired):
        await store.get_token("x", "more")
    assert endpoint.forms == []


# --- what goes wrong --------------------------------------------------------------------

FAILURES: list[tuple[int, Any, str]] = [
    (500, {"error": "server_error"}, "has answered 500 (server_error)"),
    (401, {"error": "invalid_client", "error_description": "s3cret"}, "has answered 401 (invalid_client)"),
    (403, b"<html>s3cret</html>", "has answered 403"),
    (400, {"error": "S3CRET!"}, "has answered 400"),
    (400, [1], "has answered 400"),
    (307, "http://127.0.0.1:1/s3cret", "has answered 307"),
    (204, b"", "has answered 204"),
    (200, b"", "expected a token"),
    (200, b"s3cret", "expected a token"),
    (200, b"[" * 100_000, "expected a token"),
    (200, b"\xff\xfe", "expected a token"),
    (200, {"refresh_token": "s3cret"}, "expected a token"),
    (200, {"access_token": 7}, "expected a token"),
    (200, {"access_token": "s3cret\r\nX: y"}, "expected a token"),
    (200, {"access_token": "s3cret", "expires_in": "soon"}, "expected a token"),
    (200, {"access_token": "s3cret", "expires_in": [1]}, "expected a token"),
    (200, {"access_token": "s3cret", "expires_in": True}, "expected a token"),
    (200, b'{"access_token": "s3cret", "expires_in": NaN}', "expected a token"),
    (200, {"access_token": "s3cret", "refresh_token": 7}, "expected a token"),
    (200, {"access_token": "s3cret", "scope": [7]}, "expected a token"),
    (200, b" " * 2_000_000, "at most 1048576 bytes"),
    (200, {"access_token": "s3cret", "expires_in": 0}, "has expired already"),
]


@pytest.mark.parametrize(("status", "answer", "words"), FAILURES, ids=range(len(FAILURES)))
async def test_an_endpoint_that_gives_no_token_is_a_refresh_error_that_shows_no_secret(
    store: AuthStore, endpoint: Endpoint, status: int, answer: Any, words: str
) -> None:
    endpoint.answer = lambda *_: (status, answer)
    expired(store, endpoint)
    with pytest.raises(RefreshError) as caught:
        await store.get_token("x")
    assert words in str(caught.value)
    assert caught.value.service == "x"
    shown = f"{caught.value!r}{caught.value.__cause__!r}".lower()
    assert not any(secret in shown for secret in (*SECRETS, "s3cret"))


async def test_a_failed_refresh_loses_nothing(store: AuthStore, endpoint: Endpoint) -> None:
    endpoint.answer = lambda *_: (503, b"")
    expired(store, endpoint)
    with pytest.raises(RefreshError):
        await store.get_token("x")
    endpoint.answer = rotate
    assert await store.get_token("x") == "access-1"


async def test_a_refresh_token_that_is_good_no_longer_means_to_sign_in(
    store: AuthStore, endpoint: Endpoint
) -> None:
    endpoint.valid = "another"
    expired(store, endpoint)
    with pytest.raises(AuthenticationRequired, match="invalid_grant") as caught:
        await store.get_token("x")
    assert caught.value.service == "x"


async def test_an_endpoint_that_is_not_there_is_a_refresh_error(store: AuthStore, endpoint: Endpoint) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    expired(store, endpoint, token_url=f"http://127.0.0.1:{port}/?secret=s3cret")
    with pytest.raises(RefreshError, match=f"cannot reach http://127.0.0.1:{port}: ConnectError") as caught:
        await store.get_token("x")
    assert "s3cret" not in str(caught.value)


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("sends", "words"),
    [
        (b"", "ReadTimeout"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", "ReadTimeout"),
        (b"nonsense\r\n\r\n|", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{|", "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\n\r\n*", "within 1.5 s"),
        (b"HTTP/1.1 200 OK\r\nX-Long: *", "within 1.5 s"),
    ],
)
async def test_a_server_that_hangs_or_breaks_off_is_a_refresh_error(
    store: AuthStore, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, sends: bytes, words: str
) -> None:
    """`|` ends the connection, `*` sends a byte at a time for ever."""
    monkeypatch.setattr(_oauth, "STEP_LIMIT_S", 0.2)
    monkeypatch.setattr(_oauth, "TIME_LIMIT_S", 1.5)

    async def answer(connection: Connection, request: Request) -> None:
        await connection.send(sends.rstrip(b"|*"))
        while sends.endswith(b"*"):
            await anyio.sleep(0.02)
            await connection.send(b" ")
        if sends.endswith(b"|"):
            await connection.close()

    async with serve(answer) as server:
        expired(store, endpoint, token_url=f"{server.url}/")
        with pytest.raises(RefreshError, match=words):
            await store.get_token("x")


async def test_what_goes_to_this_machine_passes_no_proxy(
    store: AuthStore, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    expired(store, endpoint)
    assert await store.get_token("x") == "access-1"


# --- one at a time ----------------------------------------------------------------------


async def test_many_tasks_that_need_a_token_cause_one_refresh(store: AuthStore, endpoint: Endpoint) -> None:
    expired(store, endpoint)
    found: list[str] = []

    async def ask() -> None:
        found.append(await store.get_token("x"))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(ask)
    assert found == ["access-1"] * 100
    assert len(endpoint.forms) == 1


async def test_many_tasks_share_a_failure_too_and_the_next_one_tries_again(
    store: AuthStore, endpoint: Endpoint
) -> None:
    endpoint.go_on.clear()
    endpoint.answer = lambda *_: (500, b"")
    expired(store, endpoint)
    failures: list[RefreshError] = []

    async def ask() -> None:
        try:
            await store.get_token("x")
        except RefreshError as exc:
            failures.append(exc)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)
            await anyio.to_thread.run_sync(endpoint.asked.wait)
            await until_waiting(store, 19)
            endpoint.go_on.set()
    assert len(failures) == 20
    assert len({id(failure) for failure in failures}) == 20
    assert len(endpoint.forms) == 1
    endpoint.answer = rotate
    assert await store.get_token("x") == "access-1"


async def test_the_event_loop_goes_on_while_a_token_is_refreshed(
    store: AuthStore, endpoint: Endpoint
) -> None:
    endpoint.go_on.clear()
    expired(store, endpoint)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.get_token, "x")
            while not endpoint.asked.is_set():  # noqa: ASYNC110 - a thread sets it
                await anyio.sleep(0.001)
            endpoint.go_on.set()
    assert endpoint.valid == "refresh-1"


async def test_different_tokens_do_not_wait_for_each_other(store: AuthStore, endpoint: Endpoint) -> None:
    endpoint.go_on.clear()
    expired(store, endpoint)
    store.set_token("y", "other")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.get_token, "x")
            await anyio.to_thread.run_sync(endpoint.asked.wait)
            assert await store.get_token("y") == "other"
            store.set_token("z", "new")
            endpoint.go_on.set()


async def test_a_refresh_that_everybody_was_cancelled_from_is_kept(
    store: AuthStore, endpoint: Endpoint
) -> None:
    """Its old refresh token is worthless already."""
    endpoint.go_on.clear()
    expired(store, endpoint)
    started = time.monotonic()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.get_token, "x")
        tasks.start_soon(store.get_token, "x")
        await anyio.to_thread.run_sync(endpoint.asked.wait)
        tasks.cancel_scope.cancel()
    assert time.monotonic() - started < 10
    endpoint.go_on.set()
    with anyio.fail_after(20):
        assert await store.get_token("x") == "access-1"
    assert len(endpoint.forms) == 1


async def test_who_waited_for_one_that_was_cancelled_gets_its_result(
    store: AuthStore, endpoint: Endpoint
) -> None:
    endpoint.go_on.clear()
    expired(store, endpoint)
    found: list[str] = []

    async def ask() -> None:
        found.append(await store.get_token("x"))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            first = anyio.CancelScope()

            async def leave() -> None:
                with first:
                    await store.get_token("x")

            tasks.start_soon(leave)
            await anyio.to_thread.run_sync(endpoint.asked.wait)
            tasks.start_soon(ask)
            await until_waiting(store, 1)
            first.cancel()
            await until_waiting(store, 0)
            endpoint.go_on.set()
    assert found == ["access-1"]
    assert len(endpoint.forms) == 1


@pytest.mark.parametrize("action", ["set", "clear"])
async def test_what_is_done_to_a_token_while_it_is_refreshed_counts(
    store: AuthStore, endpoint: Endpoint, action: str
) -> None:
    endpoint.go_on.clear()
    expired(store, endpoint)
    outcomes: list[str] = []

    async def ask() -> None:
        try:
            outcomes.append(await store.get_token("x"))
        except AuthenticationRequired:
            outcomes.append("sign in")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.to_thread.run_sync(endpoint.asked.wait)
            if action == "set":
                store.set_token("x", "newer")
            else:
                store.clear_token("x")
            endpoint.go_on.set()
    assert outcomes == ["newer" if action == "set" else "sign in"]
    assert store.is_authenticated("x") is (action == "set")


@pytest.mark.thorough
async def test_a_store_that_nobody_has_any_more_is_forgotten_by_its_event_loop(
    endpoint: Endpoint, tmp_path: Path
) -> None:
    endpoint.answer = lambda *_: (500, b"")
    store = AuthStore(directory=tmp_path / "tokens", use_keyring=False)
    expired(store, endpoint)
    for _ in range(2):
        with pytest.raises(RefreshError):
            await store.get_token("x")
    known = weakref.ref(store)
    del store
    await anyio.to_thread.run_sync(int)  # an idle thread still knows what it did last
    gc.collect()
    assert known() is None


def test_one_store_serves_several_event_loops(store: AuthStore, endpoint: Endpoint) -> None:
    expired(store, endpoint)
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda kind=kind: found.append(anyio.run(store.get_token, "x", backend=kind)))
        for kind in ("asyncio", "trio", "asyncio", "trio")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["access-1"] * 4
    assert len(endpoint.forms) == 1


async def test_one_who_refreshes_for_too_long_is_not_waited_for(
    store: AuthStore, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "REFRESH_LIMIT_S", 0.1)
    expired(store, endpoint)
    other = AuthStore(directory=tmp_path / "tokens", use_keyring=False)
    with other._storage.lock("x"), pytest.raises(RefreshError, match=r"for 0\.1 s"):
        await store.get_token("x")
    assert endpoint.forms == []


# --- processes --------------------------------------------------------------------------

ASK = """
import sys, anyio
from lilux.runtime.auth import AuthStore
store = AuthStore(directory=sys.argv[1], use_keyring=False)
print("ready", flush=True); sys.stdin.readline()
print(anyio.run(store.get_token, "x"))
"""

SET = """
import sys
from lilux.runtime.auth import AuthStore
store = AuthStore(directory=sys.argv[1], use_keyring=False)
print("ready", flush=True); sys.stdin.readline()
for number in range(50):
    store.set_token(f"own-{sys.argv[2]}-{number}", f"token-{number}")
    store.set_token("shared", sys.argv[2] * 1000)
    assert store.is_authenticated("shared")
"""


def together(script: str, directory: Path, count: int = 4) -> list[str]:
    """Run a script in several processes that begin at the same time; what they print in the end."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(directory), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=50)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * count
    return outputs


def left_over(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.name.endswith(".tmp")]


def test_processes_that_need_a_token_at_once_cause_one_refresh(
    store: AuthStore, endpoint: Endpoint, tmp_path: Path
) -> None:
    expired(store, endpoint)
    assert together(ASK, tmp_path / "tokens") == ["access-1"] * 4
    assert len(endpoint.forms) == 1
    assert endpoint.valid == "refresh-1"


@pytest.mark.thorough
def test_processes_that_set_tokens_at_once_lose_nothing(store: AuthStore, tmp_path: Path) -> None:
    together(SET, tmp_path / "tokens", 3)

    async def look() -> None:
        for process in range(3):
            for number in range(50):
                assert await store.get_token(f"own-{process}-{number}") == f"token-{number}"
        assert await store.get_token("shared") in {str(process) * 1000 for process in range(3)}

    anyio.run(look)
    assert left_over(tmp_path) == []
