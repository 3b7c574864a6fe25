"""Attack: what a person is about to sign is exchanged between their look and their signature.

Another user can write into the directory: with what was made, or shown, nothing else is signed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.new import NewRequest, new
from rye_mcp.verbs.sign import SignRequest, plan, sign
from tests.people import Person
from tests.trust_world import World, refused
from tests.verb_world import person, put, tool

PLANTED = '''"""Greets."""
__version__ = "0.1.0"
__executor_id__ = "rye/core/runtimes/python_function_runtime"


def main(name="x"):
    return "planted"
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return mia(tmp_path).begin(tmp_path / "project")


def mia(tmp_path: Path) -> Person:
    return Person("mia", tmp_path / "mia")


@contextmanager
def exchanged_once_there(path: Path) -> Iterator[None]:
    """Put another file in the place of one as soon as it is there."""
    planted = path.parents[2] / "planted"
    planted.write_text(PLANTED)

    def exchange() -> None:
        while not path.exists():
            pass
        planted.rename(path)

    thread = threading.Thread(target=exchange, daemon=True)
    thread.start()
    yield
    thread.join(10)
    assert not planted.exists()


def test_rye_new_signs_what_it_made(tmp_path: Path, project: Path) -> None:
    path = project / ".ai/tools/demo/hello.py"
    path.parent.mkdir(parents=True)
    with exchanged_once_there(path):
        mia(tmp_path).rye("new", "demo/hello", "--sign", cwd=project, code=None)
    assert path.read_text() == PLANTED
    mia(tmp_path).refused("unsigned", "run", "demo/hello", cwd=project)


@pytest.mark.parametrize("extension", [".py", ".sh"])
def test_nothing_but_what_was_made_is_signed(world: World, extension: str) -> None:
    """Neither another content, nor the same under another extension."""
    made = new(NewRequest("demo/hello"), person(world)).file
    exchanged = made.path.with_suffix(extension)
    made.path.rename(exchanged)
    exchanged.write_bytes(made.content if extension == ".sh" else PLANTED.encode())
    request = SignRequest("demo/hello", exactly=made)
    refused("content_changed", lambda: sign(request, person(world)))
    refused("content_changed", lambda: plan(request, person(world)))
    assert b"rye:signed:" not in exchanged.read_bytes()


def pressed_once(change: Callable[[], object]) -> Callable[[], str]:
    """Exchange the file at the very moment in which `s` is pressed."""

    def press() -> str:
        change()
        return "s"

    return press


def test_rye_dev_signs_what_was_looked_at(tmp_path: Path, project: Path) -> None:
    path = project / ".ai/tools/demo/hello.py"
    mia(tmp_path).rye("new", "demo/hello", cwd=project)
    planted = tmp_path / "planted"
    planted.write_text(PLANTED)
    shown = mia(tmp_path).types(
        [("s: sign it", pressed_once(lambda: planted.rename(path))), ("press s again", "q")],
        *("dev", "demo/hello", "--name", "Ada"),
        cwd=project,
    )
    assert "── signed" not in shown.out
    assert path.read_text() == PLANTED


def test_rye_dev_signs_nothing_along_that_changed_since_the_look(tmp_path: Path, project: Path) -> None:
    """A file that she signed before is hers; but what it says now, nobody has looked at."""
    leo = mia(tmp_path)
    directory = project / ".ai/tools/demo"
    leo.rye("new", "demo/hello", cwd=project)
    helper = directory / "helper.py"
    helper.write_text("x = 1\n")
    (directory / "__init__.py").write_text("")
    leo.rye("sign", "demo/hello", "--all-beside", cwd=project)
    (directory / "hello.py").write_text((directory / "hello.py").read_text() + "\n")
    shown = leo.types(
        [("s: sign it", pressed_once(lambda: helper.write_text("planted = 1\n"))), ("press s again", "q")],
        *("dev", "demo/hello", "--name", "Ada"),
        cwd=project,
    )
    assert "── signed" not in shown.out
    assert helper.read_text() == "planted = 1\n"


def test_to_plan_needs_no_passphrase(world: World) -> None:
    """So `rye dev` plans at every look, and asks for it when somebody signs."""
    world.keys.ensure(SignerKind.PERSON, owner="leo", passphrase=b"a long passphrase")
    put(world, tool())
    found = plan(SignRequest("demo/hello"), person(world))
    assert list(found.files) == ["tools/demo/hello.py"]
    refused("passphrase_required", lambda: sign(SignRequest("demo/hello"), person(world)))
