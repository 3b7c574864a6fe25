"""Tokens are kept for their user only, and handed out while they are good."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.errors import AuthenticationRequired, ConfigurationError, IntegrityError
from lilux.runtime import auth
from lilux.runtime.auth import AuthStore

SECRET = "s3cret-access"


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
    return AuthStore(directory=tmp_path / "tokens", clock=clock)


def files(path: Path) -> list[Path]:
    return sorted(found for found in path.rglob("*") if found.is_file())


def test_the_public_names_are_those_listed() -> None:
    own = {name for name, item in vars(auth).items() if getattr(item, "__module__", "") == auth.__name__}
    assert {name for name in own if not name.startswith("_")} == set(auth.__all__)


# --- what is kept comes back ----------------------------------------------------------


def test_a_token_that_was_set_is_handed_out(store: AuthStore) -> None:
    store.set_token("github", SECRET)
    assert store.is_authenticated("github")
    assert store.get_token("github") == SECRET


def test_tokens_outlive_the_store_that_has_kept_them(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("github", SECRET)
    other = AuthStore(directory=tmp_path / "tokens")
    assert other.get_token("github") == SECRET


def test_services_and_stores_of_different_names_are_apart(store: AuthStore, tmp_path: Path) -> None:
    names = ["a", "A", "a/b", "a b", "../a", "ä", "." * 3, "x" * 512]
    for name in names:
        store.set_token(name, f"token-of-{names.index(name)}")
    assert [store.get_token(name) for name in names] == [f"token-of-{n}" for n in range(len(names))]
    other = AuthStore("other", directory=tmp_path / "tokens")
    assert not other.is_authenticated("a")


def test_a_later_token_takes_the_place_of_an_earlier_one(store: AuthStore) -> None:
    store.set_token("x", "first", scopes=["a"])
    store.set_token("x", "second")
    assert store.get_token("x") == "second"


def test_without_a_token_somebody_has_to_sign_in(store: AuthStore) -> None:
    assert not store.is_authenticated("x")
    with pytest.raises(AuthenticationRequired, match="sign in to 'x': there is no token") as caught:
        store.get_token("x")
    assert caught.value.service == "x"


def test_a_cleared_token_is_gone(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRET)
    store.clear_token("x")
    store.clear_token("x")
    store.clear_token("never set")
    assert not store.is_authenticated("x")
    assert files(tmp_path) == []
    with pytest.raises(AuthenticationRequired):
        store.get_token("x")


def test_the_services_are_listed_whether_their_tokens_are_good_or_not(
    store: AuthStore, clock: Clock, tmp_path: Path
) -> None:
    assert store.services() == ()
    store.set_token("b", SECRET, expires_in=1)
    store.set_token("a", SECRET)
    AuthStore("other", directory=tmp_path / "other").set_token("c", SECRET)
    clock.now += 10
    assert store.services() == ("a", "b")
    store.clear_token("a")
    assert store.services() == ("b",)


def test_looking_makes_nothing(store: AuthStore, tmp_path: Path) -> None:
    store.is_authenticated("x")
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
def test_a_token_expires_a_little_before_its_time(
    store: AuthStore, clock: Clock, life: float | None, age: float, good: bool
) -> None:
    store.set_token("x", "token", expires_in=life)
    clock.now += age
    assert store.is_authenticated("x") is good
    if good:
        assert store.get_token("x") == "token"
        return
    with pytest.raises(AuthenticationRequired, match="has expired"):
        store.get_token("x")


@pytest.mark.parametrize(
    ("granted", "asked", "missing"),
    [
        ((), (), None),
        (["a"], (), None),
        (["a", "b"], "a", None),
        ("a b", ["b", "a"], None),
        (("a",), {"a"}, None),
        (["a"], "a b", "b"),
        (["ab"], "a", "a"),
        ([], "a", "a"),
        ((), "a", "a"),
    ],
)
def test_a_token_must_have_the_scopes_that_are_asked_for(
    store: AuthStore, granted: Any, asked: Any, missing: str | None
) -> None:
    store.set_token("x", "token", scopes=granted)
    if missing is None:
        assert store.get_token("x", asked) == "token"
        return
    with pytest.raises(AuthenticationRequired, match=f"not known to have the scope {missing}$"):
        store.get_token("x", asked)


# --- files ------------------------------------------------------------------------------


def test_a_file_is_for_its_user_only(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRET)
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "tokens").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(
    store: AuthStore, tmp_path: Path, mode: int
) -> None:
    store.set_token("x", SECRET)
    (file,) = files(tmp_path)
    file.chmod(mode)
    with pytest.raises(IntegrityError, match=f"chmod 0600 {file}"):
        store.is_authenticated("x")
    store.set_token("x", SECRET)
    assert store.is_authenticated("x")


def test_a_directory_that_others_can_enter_is_refused(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRET)
    files(tmp_path)[0].parent.chmod(0o755)
    with pytest.raises(IntegrityError, match="chmod 0700"):
        store.is_authenticated("x")


def test_a_file_that_is_a_link_is_refused(store: AuthStore, tmp_path: Path) -> None:
    store.set_token("x", SECRET)
    (file,) = files(tmp_path)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="symbolic link"):
        store.is_authenticated("x")


KEPT = '{"service": "x", "access_token": "s3cret", "issued_at": 1.0, "expires_at": null, "scopes": []}'
GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"\xff\xfe",
    KEPT.replace('"x"', '"y"').encode(),
    KEPT.replace("1.0", "NaN").encode(),
    KEPT.replace("1.0", '"s3cret"').encode(),
    KEPT.replace("[]", "null").encode(),
    KEPT.replace("{", '{"s3cret": 1, ').encode(),
    KEPT.replace('"s3cret"', "7").encode(),
    KEPT.encode()[:-1],
    b"[" * 100_000,
    b"s3cret" * 200_000,
]


@pytest.mark.parametrize("content", GARBAGE, ids=range(len(GARBAGE)))
def test_a_file_that_is_no_token_is_a_typed_error_that_shows_nothing_of_it(
    store: AuthStore, tmp_path: Path, content: bytes
) -> None:
    store.set_token("x", "token")
    (file,) = files(tmp_path)
    file.write_bytes(content)
    for ask in (store.is_authenticated, store.get_token):
        with pytest.raises(ConfigurationError) as caught:
            ask("x")
        assert str(file) in str(caught.value)
        assert "s3cret" not in str(caught.value)
    store.set_token("x", "again")
    assert store.get_token("x") == "again"
    file.write_bytes(content)
    store.clear_token("x")
    assert not store.is_authenticated("x")


def test_a_directory_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = AuthStore(directory=tmp_path / "file/tokens")
    with pytest.raises(ConfigurationError, match="cannot keep tokens in") as caught:
        store.set_token("x", SECRET)
    assert caught.value.field == "directory"


def test_without_a_directory_the_state_directory_of_the_user_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    AuthStore("my-tool").set_token("x", SECRET)
    assert [file.relative_to(tmp_path).parts[:2] for file in files(tmp_path)] == [("my-tool", "tokens")]


def test_nothing_else_is_imported_for_it() -> None:
    script = (
        "import sys, lilux.runtime.auth\n"
        "others = {'httpx', 'cryptography', 'jsonschema', 'platformdirs'}\n"
        "assert not others & set(sys.modules), others & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


# --- secrets ----------------------------------------------------------------------------


def test_no_repr_shows_a_token(store: AuthStore) -> None:
    store.set_token("x", SECRET)
    assert repr(store) == "AuthStore('lilux')"
    assert repr(store._read("x")) == "<the token of 'x'>"


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
        ({"expires_in": "s3cret"}, "expires_in"),
        ({"expires_in": True}, "expires_in"),
        ({"expires_in": float("nan")}, "expires_in"),
        ({"scopes": 7}, "scopes"),
        ({"scopes": ["a b"]}, "scopes"),
        ({"scopes": [7]}, "scopes"),
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


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\0b", 7])
def test_a_store_needs_a_name_that_a_directory_can_have(name: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AuthStore(name)
    assert caught.value.field == "service_name"


def test_the_other_calls_refuse_what_is_no_service_too(store: AuthStore) -> None:
    for call in (store.is_authenticated, store.clear_token, store.get_token):
        with pytest.raises(ConfigurationError):
            call("")
    with pytest.raises(ConfigurationError):
        store.get_token("")
    with pytest.raises(ConfigurationError):
        store.get_token("x", 7)  # type: ignore[arg-type]
