"""Attack: a clone puts a marker beside its files, so that to sign a tool of one's own signs all of them.

Nothing is signed or listed along that the signer did not name, and that she never vouched for before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.trust.dependency_manifest import manifest_file, render_listing
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.sign import sign_content
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.sign import BatchResult, SignRequest, sign
from tests.lock_world import chain_of, files_below
from tests.people import Person
from tests.trust_world import World, new_key, refused
from tests.verb_world import agent, person, put, tool

PYTHON = "rye/core/runtimes/python_function_runtime"
NODE = "rye/core/runtimes/node_runtime"
DEPLOY = tool("return 'of the clone'", executor=PYTHON)
GO = b"""\
// /// rye
// version: 1.0.0
// description: Goes.
// executor_id: rye/core/runtimes/node_runtime
// ///
export function execute() { return 'of the clone'; }
"""
Signs = Callable[[World], Context]
SIGNERS = pytest.mark.parametrize("signs", [person, agent])


@pytest.fixture
def clone(world: World) -> World:
    """What came with a clone, in which somebody writes a tool of their own."""
    put(world, DEPLOY, "helpers/deploy")
    put(world, b"planted = 1\n", "json")
    at(world, "__init__.py").write_bytes(b"")
    put(world, tool("import json", executor=PYTHON), "greet")
    return world


def at(world: World, name: str) -> Path:
    return world.project / ".ai/tools" / name


def carried(context: Context) -> set[str]:
    """What a run of `demo/hello` would bring along of its own directory."""
    names = chain_of(context).verified.carried.digests
    return {name.removeprefix("tools/demo/") for name in names if name.startswith("tools/")}


def not_named(world: World, do: Callable[[], object]) -> RyeError:
    """The refusal, after which no file is another one."""
    before = files_below(world.project / ".ai/tools")
    error = refused("not_named", do)
    assert files_below(world.project / ".ai/tools") == before
    return error


@SIGNERS
def test_a_marker_of_a_clone_makes_nothing_the_signers(clone: World, signs: Signs) -> None:
    context = signs(clone)
    error = not_named(clone, lambda: sign(SignRequest("greet"), context))
    assert error.details["files"] == [
        "tools/__init__.py",
        "tools/helpers/deploy.py",
        "tools/json.py",
    ]
    refused("unsigned", lambda: chain_of(context, "helpers/deploy"))


@SIGNERS
def test_a_marker_of_node_makes_nothing_the_signers(world: World, signs: Signs) -> None:
    put(world, GO, "deploy/go", ".mjs")
    at(world, "package.json").write_bytes(b"{}")
    put(world, GO, "hi", ".mjs")
    not_named(world, lambda: sign(SignRequest("hi"), signs(world)))


def test_a_new_item_is_not_signed_with_what_came_with_a_clone(tmp_path: Path) -> None:
    """The command line, from the clone to the run."""
    mia = Person("mia", tmp_path / "mia")
    project = mia.begin(tmp_path / "project")
    tools = project / ".ai/tools"
    (tools / "helpers").mkdir(parents=True)
    (tools / "__init__.py").write_bytes(b"")
    (tools / "helpers/deploy.py").write_bytes(DEPLOY)
    (tools / "json.py").write_bytes(b"planted = 1\n")
    before = files_below(tools)
    mia.refused("not_named", "new", "hello", "--sign", cwd=project)
    assert {name: content for name, content in files_below(tools).items() if name in before} == before
    assert mia.refused("unsigned", "run", "helpers/deploy", cwd=project)
    (tools / "__init__.py").unlink()
    mia.rye("sign", "hello", cwd=project)
    mia.rye("run", "hello", "--name", "Ada", cwd=project)


@SIGNERS
def test_what_is_named_is_all_that_is_listed(clone: World, signs: Signs) -> None:
    context = signs(clone)
    error = not_named(clone, lambda: sign(SignRequest("greet", companions=("__init__.py",)), context))
    assert error.details["files"] == ["tools/helpers/deploy.py", "tools/json.py"]


def test_a_pattern_names_what_matches_and_nothing_else(clone: World) -> None:
    """`json` and `__init__` are below no `g*`."""
    found = sign(SignRequest("g*"), person(clone))
    assert isinstance(found, BatchResult)
    assert [each.error.code for each in found.failed] == ["not_named"]
    assert b"rye:signed:" not in at(clone, "json.py").read_bytes()


def test_a_marker_that_no_chain_asks_for_widens_nothing(world: World) -> None:
    """A `pyproject.toml` need not be authentic for a run; what is below it has to be somebody's first."""
    context = person(world)
    put(world, b"x = 1\n", "demo/helper")
    sign(SignRequest("demo/helper"), context)
    put(world, b"x = 2\n", "demo/helper")
    put(world, tool("import helper", executor=PYTHON))
    at(world, "demo/pyproject.toml").write_bytes(b"")
    error = not_named(world, lambda: sign(SignRequest("demo/hello"), context))
    assert error.details["files"] == ["tools/demo/pyproject.toml"]


@pytest.fixture
def stranger() -> SigningKey:
    return new_key()


@pytest.mark.parametrize("is_trusted", [False, True])
def test_no_signature_of_somebody_else_is_replaced(
    clone: World, stranger: SigningKey, is_trusted: bool
) -> None:
    if is_trusted:
        clone.trust_key(TrustDocument.create(stranger.public, "bob"))
    file = clone.stored(clone.signed(clone.file(DEPLOY, item_id="helpers/deploy"), stranger))
    file.path.write_bytes(file.content + b"# more\n")
    not_named(clone, lambda: sign(SignRequest("greet"), person(clone)))
    sign(SignRequest("greet", all_beside=True), person(clone))
    assert file.path.read_bytes() == file.content + b"# more\n"
    refused(
        "content_changed",
        lambda: clone.verify(clone.file(file.path.read_bytes(), item_id="helpers/deploy")),
    )


def test_what_a_stranger_signed_in_the_place_of_ones_own_is_named_first(
    clone: World, stranger: SigningKey
) -> None:
    """That she once signed a file of this id does not make the next one hers."""
    sign(SignRequest("greet", all_beside=True), person(clone))
    file = clone.stored(clone.signed(clone.file(DEPLOY + b"# more\n", item_id="helpers/deploy"), stranger))
    error = not_named(clone, lambda: sign(SignRequest("greet"), person(clone)))
    assert error.details["files"] == ["tools/helpers/deploy.py"]
    assert file.path.read_bytes() == file.content


@SIGNERS
@pytest.mark.parametrize("planted", ["helper.js", "helper.cjs", "Helper.mjs"])
def test_a_file_of_another_name_than_one_of_hers_is_named_first(
    world: World, signs: Signs, planted: str
) -> None:
    """Its id is that of a file that she signed, which is gone; in another language, or in other letters."""
    context = signs(world)
    put(world, GO, "demo/helper", ".mjs")
    sign(SignRequest("demo/helper"), context)
    put(world, GO, "demo/hello", ".mjs")
    at(world, "demo/package.json").write_bytes(b"{}")
    sign(SignRequest("demo/hello", companions=("package.json",)), context)
    at(world, "demo/helper.mjs").unlink()
    at(world, f"demo/{planted}").write_bytes(GO + b"// planted\n")
    at(world, "demo/hello.mjs").write_bytes(GO + b"// changed\n")
    error = not_named(world, lambda: sign(SignRequest("demo/hello"), signs(world)))
    assert error.details["files"] == [f"tools/demo/{planted}"]


def test_a_listing_of_somebody_else_is_replaced_by_nobody_unasked(world: World, stranger: SigningKey) -> None:
    """Not even when what it lists is signed: its line would have to change."""
    world.trust_key(TrustDocument.create(stranger.public, "bob"))
    file = put(world, tool())
    listing = manifest_file(world.space(), "tools/demo", render_listing({"hello.py": "0" * 64}))
    at(world, "demo/deps.manifest.yaml").write_bytes(sign_content(listing, stranger))
    error = not_named(world, lambda: sign(SignRequest("demo/hello"), person(world)))
    assert error.details["files"] == ["tools/demo/deps.manifest.yaml"]
    assert file.path.read_bytes() == file.content


def test_what_an_agent_wrote_becomes_nobodys_unasked(world: World) -> None:
    put(world, b"x = 1\n", "demo/helper")
    sign(SignRequest("demo/helper"), agent(world))
    put(world, tool("import helper", executor=PYTHON))
    at(world, "demo/__init__.py").write_bytes(b"")
    error = not_named(
        world, lambda: sign(SignRequest("demo/hello", companions=("__init__.py",)), person(world))
    )
    assert error.details["files"] == ["tools/demo/helper.py"]


@SIGNERS
def test_an_edit_of_a_tool_of_three_files_takes_one_command(world: World, signs: Signs) -> None:
    """No attack: what she signed or listed before is hers."""
    context = signs(world)
    put(world, tool("import helper", executor=PYTHON))
    for name, content in (("__init__.py", b""), ("helper.py", b"x = 1\n"), ("data.json", b"{}")):
        at(world, f"demo/{name}").write_bytes(content)
    sign(SignRequest("demo/hello", companions=("data.json",), all_beside=True), context)
    for name in ("helper.py", "data.json"):
        at(world, f"demo/{name}").write_bytes(b"# other\n")
    sign(SignRequest("demo/hello"), signs(world))
    assert carried(signs(world)) == {"__init__.py", "helper.py", "data.json"}
    at(world, "demo/more.py").write_bytes(b"y = 1\n")
    not_named(world, lambda: sign(SignRequest("demo/hello"), signs(world)))
    sign(SignRequest("demo/hello", companions=("more.py",)), signs(world))
    assert carried(signs(world)) == {"__init__.py", "helper.py", "data.json", "more.py"}


def test_a_record_that_cannot_be_read_makes_nothing_hers(world: World) -> None:
    context = person(world)
    put(world, b"x = 1\n", "demo/helper")
    sign(SignRequest("demo/helper"), context)
    put(world, b"x = 2\n", "demo/helper")
    put(world, tool("import helper", executor=PYTHON))
    at(world, "demo/__init__.py").write_bytes(b"")
    (record,) = (world.state / "signers").iterdir()
    record.write_bytes(b"no record\n")
    os.utime(record, ns=(0, 0))
    error = not_named(world, lambda: sign(SignRequest("demo/hello", companions=("__init__.py",)), context))
    assert error.details["files"] == ["tools/demo/helper.py"]
