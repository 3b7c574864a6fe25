"""Tokens are kept for their user only, and handed out while they are good."""

from __future__ import annotations

import json
import logging
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.chainer import ChainerBackend
from keyring.errors import KeyringLocked, PasswordDeleteError, PasswordSetError

from lilux.primitives.errors import AuthenticationRequired, ConfigurationError, IntegrityError
from lilux.runtime import _token_storage, auth
from lilux.runtime._tokens import Record, RefreshConfig, Token
from lilux.runtime.auth import AuthStore

SECRETS = ("s3cret-access", "s3cret-refresh", "s3cret-client")
REFRESH = {"token_url": "https://auth.example/token", "client_id": "me", "client_secret": SECRETS[2]}


class MemoryKeyring(KeyringBackend):
    """A keyring that works, and forgets everything with the process."""

    priority: float = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.kept:
            raise PasswordDeleteError("no such password")
        del self.kept[service, username]


class FailingKeyring(MemoryKeyring):
    """A keyring that works until it is `locked`; what it raises then shows what it was given."""

    locked = True

    def _check(self, *given: str) -> None:
        if self.locked:
            raise KeyringLocked(f"locked: {given}")

    def get_password(self, service: str, username: str) -> str | None:
        self._check(service, username)
        return super().get_password(service, username)

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check(service, username, password)
        super().set_password(service, username, password)

    def delete_password(self, service: str, username: str) -> None:
        self._check(service, username)
        super().delete_password(service, username)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> AuthStore:
    return AuthStore(directory=tmp_path / "tokens", use_keyring=False, clock=clock)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemoryKeyring]:
    """A keyring that the whole process uses."""
    before, backend = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


def files(path: Path) -> list[Path]:
    return sorted(found for found in path.rglob("*") if found.is_file())


def test_the_public_names_are_those_listed() -> None:
    own = {name for name, item in vars(auth).items() if getattr(item, "__module__", "") == auth.__name__}
    assert {name for name in own if not name.startswith("_")} | {"RefreshConfig"} == set(auth.__all__)


# --- what is kept comes back ----------------------------------------------------------


async def test_a_token_that_was_set_is_handed_out(store: AuthStore) -> None:
    store.set_token("github", SECRETS[0])
    assert store.is_authenticated("github")
    assert await store.get_token("github") == SECRETS[0]


async def test_tokens_outlive_the_store_that_has_kept_them(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("github", SECRETS[0])
    other = AuthStore(directory=tmp_path / "tokens", use_keyring=False)
    assert await other.get_token("github") == SECRETS[0]


async def test_services_and_stores_of_different_names_are_apart(store: AuthStore, tmp_path: Path) -> None:
    names = ["a", "A", "a/b", "a b", "../a", "ä", "." * 3, "x" * 512]
    for name in names:
        store.set_token(name, f"token-of-{names.index(name)}")
    assert [await store.get_token(name) for name in names] == [f"token-of-{n}" for n in range(len(names))]
    other = AuthStore("other", directory=tmp_path / "tokens", use_keyring=False)
    assert not other.is_authenticated("a")


async def test_a_later_token_takes_the_place_of_an_earlier_one(store: AuthStore) -> None:
    store.set_token("x", "first", scopes=["a"])
    store.set_token("x", "second")
    assert await store.get_token("x") == "second"
    assert (store.get_cached_metadata("x") or {})["scopes"] is None


async def test_without_a_token_somebody_has_to_sign_in(store: AuthStore) -> None:
    assert not store.is_authenticated("x")
    assert store.get_cached_metadata("x") is None
    with pytest.raises(AuthenticationRequired, match="sign in to 'x': there is no token") as caught:
        await store.get_token("x")
    assert caught.value.service == "x"


async def test_a_cleared_token_is_gone(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRETS[0])
    store.clear_token("x")
    store.clear_token("x")
    store.clear_token("never set")
    assert not store.is_authenticated("x")
    assert files(tmp_path) == []
    with pytest.raises(AuthenticationRequired):
        await store.get_token("x")


def test_looking_makes_nothing(store: AuthStore, tmp_path: Path) -> None:
    store.is_authenticated("x")
    store.get_cached_metadata("x")
    assert not (tmp_path / "tokens").exists()


# --- expiry and scopes ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("life", "age", "good"),
    [
        (None, 10**9, True),
        (3600, 3539, True),
        (3600, 3541, False),
        (100, 89, True),
        (100, 91, False),
        (0, 0, False),
        (-5, 0, False),
        (3600, -(10**6), True),
    ],
)
async def test_a_token_expires_a_little_before_its_time(
    store: AuthStore, clock: Clock, life: float | None, age: float, good: bool
) -> None:
    store.set_token("x", "token", expires_in=life)
    clock.now += age
    assert store.is_authenticated("x") is good
    assert (store.get_cached_metadata("x") or {})["expired"] is not good
    if good:
        assert await store.get_token("x") == "token"
        return
    with pytest.raises(AuthenticationRequired, match="has expired and cannot be refreshed"):
        await store.get_token("x")


def test_an_expired_token_that_can_be_refreshed_counts_as_authenticated(store: AuthStore) -> None:
    store.set_token("x", "token", expires_in=0, refresh_token=SECRETS[1])
    assert not store.is_authenticated("x")
    for config in (REFRESH, RefreshConfig.parse(REFRESH)):
        store.set_token("x", "token", expires_in=0, refresh_token=SECRETS[1], refresh_config=config)
        assert store.is_authenticated("x")


@pytest.mark.parametrize(
    ("granted", "asked", "missing"),
    [
        (None, None, None),
        (["a"], None, None),
        (["a", "b"], "a", None),
        ("a b", ["b", "a"], None),
        (("a",), {"a"}, None),
        (["a"], "a b", "b"),
        (["ab"], "a", "a"),
        ([], "a", "a"),
        (None, "a", "a"),
    ],
)
async def test_a_token_must_have_the_scopes_that_are_asked_for(
    store: AuthStore, granted: Any, asked: Any, missing: str | None
) -> None:
    store.set_token("x", "token", scopes=granted)
    if missing is None:
        assert await store.get_token("x", asked) == "token"
        return
    with pytest.raises(AuthenticationRequired, match=f"not known to have the scope {missing}$"):
        await store.get_token("x", asked)


def test_metadata_tell_everything_but_secrets(store: AuthStore) -> None:
    store.set_token(
        "x", SECRETS[0], refresh_token=SECRETS[1], expires_in=100, scopes="b a", refresh_config=REFRESH
    )
    assert store.get_cached_metadata("x") == {
        "scopes": ["a", "b"],
        "issued_at": 1_000_000.0,
        "expires_at": 1_000_100.0,
        "expired": False,
        "refreshable": True,
    }


# --- files ------------------------------------------------------------------------------


def test_a_file_is_for_its_user_only(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRETS[0])
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(
    store: AuthStore, tmp_path: Path, mode: int
) -> None:
    store.set_token("x", SECRETS[0])
    (file,) = files(tmp_path)
    file.chmod(mode)
    with pytest.raises(IntegrityError, match=f"chmod 600 {file}"):
        store.is_authenticated("x")
    store.set_token("x", SECRETS[0])
    assert store.is_authenticated("x")


def test_a_directory_that_others_can_enter_is_refused(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRETS[0])
    files(tmp_path)[0].parent.chmod(0o755)
    with pytest.raises(IntegrityError, match="chmod 700"):
        store.is_authenticated("x")


def test_a_file_that_is_a_link_is_refused(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRETS[0])
    (file,) = files(tmp_path)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="symlink"):
        store.is_authenticated("x")


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    b'{"format": 2}',
    b'{"format": 1, "service": "y", "saved_at": 1, "token": null}',
    b'{"format": 1, "service": "x", "saved_at": "1", "token": null}',
    b'{"format": 1, "service": "x", "saved_at": 1, "token": {"access_token": "s3cret"}}',
    b'{"format": 1, "service": "x", "saved_at": 1, "token": "s3cret"}',
    b'{"format": 1, "service": "x", "saved_at": 1, "token": {"access_token": "s3cret", "issued_at": NaN,'
    b' "refresh_token": null, "expires_at": null, "scopes": null, "refresh_config": null}}',
    b"[" * 100_000,
    b"s3cret" * 200_000,
]


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
async def test_a_file_that_is_no_token_is_a_typed_error_that_shows_nothing_of_it(
    store: AuthStore, tmp_path: Path, content: bytes
) -> None:
    store.set_token("x", "token")
    (file,) = files(tmp_path)
    file.write_bytes(content)
    for ask in (store.is_authenticated, store.get_cached_metadata):
        with pytest.raises(ConfigurationError) as caught:
            ask("x")
        assert str(file) in str(caught.value)
        assert "s3cret" not in str(caught.value)
    store.set_token("x", "again")
    assert await store.get_token("x") == "again"
    file.write_bytes(content)
    store.clear_token("x")
    assert not store.is_authenticated("x")


def test_a_directory_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = AuthStore(directory=tmp_path / "file/tokens", use_keyring=False)
    with pytest.raises(ConfigurationError, match="cannot keep tokens in") as caught:
        store.set_token("x", SECRETS[0])
    assert caught.value.field == "directory"


def test_without_a_directory_the_state_directory_of_the_user_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    AuthStore("my-tool", use_keyring=False).set_token("x", SECRETS[0])
    assert [file.relative_to(tmp_path).parts[:2] for file in files(tmp_path)] == [("my-tool", "tokens")]


# --- keyrings ---------------------------------------------------------------------------


async def test_a_keyring_that_works_has_the_token_and_no_file_has(
    memory: MemoryKeyring, tmp_path: Path
) -> None:
    store = AuthStore("my-tool", directory=tmp_path)
    store.set_token("x", SECRETS[0], scopes=["a"])
    assert list(memory.kept) == [("my-tool", "x")]
    assert files(tmp_path) == []
    assert await AuthStore("my-tool", directory=tmp_path).get_token("x", "a") == SECRETS[0]
    assert store.notices == ()
    store.clear_token("x")
    store.clear_token("x")
    assert memory.kept == {}
    assert files(tmp_path) == []
    assert not store.is_authenticated("x")


async def test_a_backend_can_be_given(tmp_path: Path) -> None:
    backend = MemoryKeyring()
    store = AuthStore(directory=tmp_path, keyring_backend=backend)
    store.set_token("x", SECRETS[0])
    assert len(backend.kept) == 1
    assert await store.get_token("x") == SECRETS[0]


async def test_a_keyring_that_fails_gives_way_to_a_file_with_a_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = AuthStore(directory=tmp_path, keyring_backend=FailingKeyring())
    with caplog.at_level(logging.DEBUG):
        store.set_token("x", SECRETS[0], refresh_token=SECRETS[1])
    assert await store.get_token("x") == SECRETS[0]
    assert len(files(tmp_path)) == 1
    (notice,) = store.notices
    assert "the keyring has failed (KeyringLocked)" in notice
    assert str(tmp_path) in notice
    assert [record.getMessage() for record in caplog.records] == [notice]
    assert not any(secret in caplog.text for secret in SECRETS)


async def test_what_was_saved_later_counts_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_token_storage, "KEYRING_REST_S", 0)
    backend = FailingKeyring()
    store = AuthStore(directory=tmp_path, keyring_backend=backend)
    backend.locked = False
    store.set_token("x", "first, in the keyring")
    backend.locked = True
    assert not store.is_authenticated("x")
    store.set_token("x", "second, in a file")
    backend.locked = False
    assert await store.get_token("x") == "second, in a file"
    store.set_token("x", "third, in the keyring")
    assert await store.get_token("x") == "third, in the keyring"
    assert files(tmp_path) == []


async def test_clearing_holds_though_the_keyring_could_not_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_token_storage, "KEYRING_REST_S", 0)
    backend = FailingKeyring()
    backend.locked = False
    store = AuthStore(directory=tmp_path, keyring_backend=backend)
    store.set_token("x", SECRETS[0])
    backend.locked = True
    store.clear_token("x")
    backend.locked = False
    assert not store.is_authenticated("x")
    assert not any(secret in file.read_text() for file in files(tmp_path) for secret in SECRETS)
    store.clear_token("x")
    assert files(tmp_path) == []
    assert backend.kept == {}


def test_a_keyring_that_has_failed_is_left_alone_for_a_while(tmp_path: Path) -> None:
    backend = FailingKeyring()
    store = AuthStore(directory=tmp_path, keyring_backend=backend)
    store.set_token("x", "token")
    backend.locked = False
    store.set_token("x", "token")
    assert backend.kept == {}


@pytest.mark.timeout(20)
async def test_a_keyring_that_waits_for_somebody_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_token_storage, "KEYRING_LIMIT_S", 0.1)
    answered = threading.Event()

    class WaitingKeyring(MemoryKeyring):
        def get_password(self, service: str, username: str) -> str | None:
            answered.wait()
            return None

        def set_password(self, service: str, username: str, password: str) -> None:
            answered.wait()

    store = AuthStore(directory=tmp_path, keyring_backend=WaitingKeyring())
    started = time.monotonic()
    store.set_token("x", SECRETS[0])
    assert await store.get_token("x") == SECRETS[0]
    assert time.monotonic() - started < 10
    assert "has not answered within 0.1 s" in store.notices[0]
    answered.set()


async def test_a_keyring_that_cannot_hold_that_much_gives_way_to_a_file(tmp_path: Path) -> None:
    class SmallKeyring(MemoryKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            raise PasswordSetError(f"too long: {password}")

    store = AuthStore(directory=tmp_path, keyring_backend=SmallKeyring())
    store.set_token("x", SECRETS[0])
    assert await store.get_token("x") == SECRETS[0]
    assert SECRETS[0] not in store.notices[0]


async def test_a_clock_that_was_set_back_does_not_bring_an_old_token_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SmallKeyring(MemoryKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            if len(password) > 1000:
                raise PasswordSetError("too long")
            super().set_password(service, username, password)

    store = AuthStore(directory=tmp_path, keyring_backend=SmallKeyring())
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 2**62)
        store.set_token("x", "old, from the future")
    store.set_token("x", "new" * 1000)
    other = AuthStore(directory=tmp_path, keyring_backend=store._storage._backend)
    assert await other.get_token("x") == "new" * 1000


@pytest.mark.parametrize("action", ["set", "clear"])
def test_what_another_process_holds_is_waited_for_and_then_a_typed_error(
    store: AuthStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setattr(_token_storage, "WRITE_LIMIT_S", 0.1)
    other = AuthStore(directory=tmp_path / "tokens", use_keyring=False)
    calls = {"set": lambda: store.set_token("x", "token"), "clear": lambda: store.clear_token("x")}
    with other._storage.lock(), pytest.raises(ConfigurationError, match="another process holds them"):
        calls[action]()
    store.set_token("x", "token")


def test_a_keyring_that_keyring_does_not_recommend_is_not_used(
    memory: MemoryKeyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would write plain text, or ask for a password."""
    monkeypatch.setattr(MemoryKeyring, "priority", 0.6)
    store = AuthStore(directory=tmp_path)
    store.set_token("x", "token")
    assert memory.kept == {}
    assert "this system has none that works by itself" in store.notices[0]


def test_of_several_keyrings_one_that_is_recommended_is_used(
    memory: MemoryKeyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lesser(MemoryKeyring):
        priority = 0.5

    lesser = Lesser()
    monkeypatch.setattr(ChainerBackend, "backends", [lesser, memory])
    keyring.set_keyring(ChainerBackend())  # type: ignore[no-untyped-call]
    AuthStore(directory=tmp_path).set_token("x", "token")
    assert (len(memory.kept), len(lesser.kept)) == (1, 0)


def test_something_else_in_the_keyring_is_a_typed_error_that_shows_nothing_of_it(tmp_path: Path) -> None:
    backend = MemoryKeyring()
    backend.kept["lilux", "x"] = SECRETS[0]
    store = AuthStore(directory=tmp_path, keyring_backend=backend)
    with pytest.raises(ConfigurationError) as caught:
        store.is_authenticated("x")
    assert SECRETS[0] not in repr(caught.value)
    store.set_token("x", "token")
    assert store.is_authenticated("x")


def test_without_the_package_a_file_is_used(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['keyring'] = None\n"
        "from lilux.runtime.auth import AuthStore\n"
        f"store = AuthStore(directory={str(tmp_path)!r})\n"
        "store.set_token('x', 'token')\n"
        "assert store.is_authenticated('x')\n"
        "print(store.notices[0])"
    )
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "the package `keyring` is not installed" in ran.stdout
    assert len(files(tmp_path)) == 1


def test_neither_a_keyring_nor_an_http_client_is_loaded_before_it_is_needed() -> None:
    script = (
        "import sys, lilux.runtime.auth\n"
        "others = {'keyring', 'httpx', 'jsonschema', 'regex', 'cryptography', 'platformdirs'}\n"
        "assert not others & set(sys.modules), others & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# --- secrets ----------------------------------------------------------------------------


def test_no_repr_shows_a_secret(store: AuthStore) -> None:
    config = RefreshConfig.parse({**REFRESH, "extra": {"assertion": SECRETS[0]}})
    token = Token(access_token=SECRETS[0], refresh_token=SECRETS[1], issued_at=1, refresh_config=config)
    record = Record(service="x", saved_at=1, token=token)
    store.set_token("x", SECRETS[0])
    shown = f"{config!r} {token!r} {record!r} {store!r} {record} {store}"
    assert not any(secret in shown for secret in SECRETS)
    assert repr(store) == "AuthStore('lilux')"


def test_a_record_is_the_same_after_it_was_kept() -> None:
    config = RefreshConfig.parse({**REFRESH, "auth_method": "basic", "extra": {"audience": "é"}})
    token = Token(
        access_token=SECRETS[0],
        refresh_token=SECRETS[1],
        issued_at=1.5,
        expires_at=2.5,
        scopes=("a", "b"),
        refresh_config=config,
    )
    for record in (Record(service="é", saved_at=7, token=token), Record(service="x", saved_at=8)):
        assert Record.from_json(record.to_json(), record.service) == record
        assert json.loads(record.to_json())["format"] == 1


# --- wrong use --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"service": ""}, "service"),
        ({"service": 7}, "service"),
        ({"service": "a\nb"}, "service"),
        ({"service": "x" * 513}, "service"),
        ({"access_token": ""}, "access_token"),
        ({"access_token": None}, "access_token"),
        ({"access_token": "s3cret\r\nX-Evil: 1"}, "access_token"),
        ({"access_token": "s3crét"}, "access_token"),
        ({"access_token": "s3cret" * 20_000}, "access_token"),
        ({"refresh_token": "s3cret\0"}, "refresh_token"),
        ({"refresh_token": 7}, "refresh_token"),
        ({"expires_in": "s3cret"}, "expires_in"),
        ({"expires_in": True}, "expires_in"),
        ({"expires_in": float("nan")}, "expires_in"),
        ({"scopes": 7}, "scopes"),
        ({"scopes": ["a b"]}, "scopes"),
        ({"scopes": [7]}, "scopes"),
        ({"refresh_config": "s3cret"}, "refresh_config"),
        ({"refresh_config": {}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "token_url": "http://auth.example/"}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "token_url": "http://10.0.0.1/"}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "token_url": "ftp://localhost/"}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "token_url": "https:///x"}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "token_url": "https://u:s3cret@h/"}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "token_url": "https://[::1/"}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "token_url": "https://h:x/"}}, "refresh_config.token_url"),
        ({"refresh_config": {**REFRESH, "client_id": 7}}, "refresh_config.client_id"),
        ({"refresh_config": {**REFRESH, "client_secret": ["s3cret"]}}, "refresh_config.client_secret"),
        ({"refresh_config": {**REFRESH, "auth_method": "s3cret"}}, "refresh_config.auth_method"),
        ({"refresh_config": {**REFRESH, "auth_method": ["post"]}}, "refresh_config.auth_method"),
        ({"refresh_config": {**REFRESH, "extra": {"a": 1}}}, "refresh_config.extra"),
        ({"refresh_config": {**REFRESH, "unknown": "s3cret"}}, "refresh_config"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_its_field_and_not_shown(
    store: AuthStore, tmp_path: Path, arguments: Any, field: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        store.set_token(**{"service": "x", "access_token": "token", **arguments})
    assert caught.value.field == field
    assert "s3cr" not in str(caught.value)
    assert files(tmp_path) == []


URLS = ["https://a.example/token?x=1", "http://localhost:1/", "http://127.0.0.1/", "http://[::1]:8/"]


@pytest.mark.parametrize("url", URLS)
def test_tokens_are_only_sent_where_nobody_listens_in(url: str) -> None:
    assert RefreshConfig.parse({"token_url": url}).token_url == url


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\0b", 7])
def test_a_store_needs_a_name_that_a_directory_can_have(name: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AuthStore(name)
    assert caught.value.field == "service_name"


async def test_the_other_calls_refuse_what_is_no_service_too(store: AuthStore) -> None:
    for call in (store.is_authenticated, store.clear_token, store.get_cached_metadata):
        with pytest.raises(ConfigurationError):
            call("")
    with pytest.raises(ConfigurationError):
        await store.get_token("")
    with pytest.raises(ConfigurationError):
        await store.get_token("x", 7)  # type: ignore[arg-type]
