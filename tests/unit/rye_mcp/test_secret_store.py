from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.secret_store import SecretStore, command_to_set, problem_of_name
from tests.trust_world import refused

SECRET = "s3cr3t"


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / ".ai")


def test_what_was_kept_is_there_for_the_next_process(store: SecretStore, tmp_path: Path) -> None:
    store.set("B_TOKEN", SECRET)
    store.set("A_TOKEN", "other")
    store.set("B_TOKEN", f"{SECRET} again")
    again = SecretStore(tmp_path / ".ai")
    assert again.names() == ("A_TOKEN", "B_TOKEN")
    assert again.values(["B_TOKEN", "A_TOKEN"]) == {"A_TOKEN": "other", "B_TOKEN": f"{SECRET} again"}
    again.remove("B_TOKEN")
    assert store.names() == ("A_TOKEN",)


def test_without_any_nothing_is_made(store: SecretStore, tmp_path: Path) -> None:
    assert store.names() == ()
    assert store.lacking(["X"]) == ("X",)
    refused("secret_missing", lambda: store.remove("X"))
    assert list(tmp_path.iterdir()) == []


def test_all_that_are_missing_are_named_with_the_command_that_sets_them(store: SecretStore) -> None:
    store.set("THERE", SECRET)
    error = refused("secret_missing", lambda: store.values(["Z_TOKEN", "THERE", "A_TOKEN"]))
    assert error.details["secrets"] == ["A_TOKEN", "Z_TOKEN"]
    assert error.hint == command_to_set(["A_TOKEN", "Z_TOKEN"])
    assert error.hint == "rye secret set A_TOKEN && rye secret set Z_TOKEN"


def test_what_is_lent_is_in_no_file(store: SecretStore, tmp_path: Path) -> None:
    store.lend("LENT", SECRET)
    assert store.values(["LENT"]) == {"LENT": SECRET}
    assert store.names() == ()
    assert SecretStore(tmp_path / ".ai").lacking(["LENT"]) == ("LENT",)


@pytest.mark.parametrize("value", ["", "two\nlines", "a\ttab", "é", "\0", "x" * (64 * 1024 + 1)], ids=ascii)
def test_a_value_that_no_header_can_hold_is_refused_and_not_shown(store: SecretStore, value: str) -> None:
    for take in (store.set, store.lend):
        error = refused("invalid_parameters", lambda take=take: take("X", value))  # type: ignore[misc]
        assert not value or value not in str(error.as_dict())
    assert store.lacking(["X"]) == ("X",)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((name, True) for name in ("API_TOKEN", "x", "_A1", "GIT_TOKEN", "UV_PUBLISH_TOKEN")),
        *((name, False) for name in ("", "1A", "A-B", "A B", "A=B", "A\n", "é", "x" * 129)),
        *((name, False) for name in ("LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "RYE_LOCKED", "lilux_x")),
    ],
)
def test_which_names_a_secret_can_have(name: str, is_one: bool) -> None:
    assert (problem_of_name(name) is None) is is_one


def test_a_file_that_is_damaged_is_named_and_shows_nothing(store: SecretStore) -> None:
    store.set("X", SECRET)
    [file] = store.directory.iterdir()
    file.write_text(f'{{"{SECRET}": 1}}')
    for ask in (store.names, lambda: store.values(["X"])):
        error = refused("read_failed", ask)
        assert str(file) in error.message
        assert SECRET not in str(error.as_dict())
    store.set("X", "new")
    assert store.values(["X"]) == {"X": "new"}


def test_a_store_that_is_a_link_is_refused(store: SecretStore, tmp_path: Path) -> None:
    store.set("X", SECRET)
    store.directory.rename(tmp_path / "elsewhere")
    store.directory.symlink_to(tmp_path / "elsewhere")
    refused("unsafe_path", lambda: store.values(["X"]))
    refused("unsafe_path", lambda: store.set("Y", SECRET))


def test_no_repr_shows_a_value(store: SecretStore) -> None:
    store.lend("X", SECRET)
    assert SECRET not in repr(store)
