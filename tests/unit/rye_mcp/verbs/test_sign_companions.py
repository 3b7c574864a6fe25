"""Signing what a tool rests on, and what becomes of its lockfile."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import SpaceName
from rye_mcp.trust.dependency_manifest import manifest_file, render_listing
from rye_mcp.trust.scope import Role, SignerKind
from rye_mcp.trust.sign import sign_listing
from rye_mcp.trust.trust_document import TrustDocument
from rye_mcp.verbs.context import Context
from rye_mcp.verbs.sign import BatchResult, SignRequest, SignResult, sign
from tests.file_helpers import names_in
from tests.lock_world import LockWorld, chain_of, files_below
from tests.trust_world import World, new_key, refused
from tests.verb_world import RUNTIME, agent, person, put, tool

SIGNED_ALONG = 8
"""How many files are signed one by one; what is more is listed."""

ANCHORED = (
    RUNTIME
    + b"""\
anchor: {enabled: true, mode: always, root: tool_dir}
verify_deps: {enabled: true, scope: anchor, recursive: true}
"""
)


@pytest.fixture
def project(world: World) -> World:
    """`demo/hello` on an anchored runtime, unsigned, with files beside it."""
    put(world, ANCHORED, "my/runtime", ".yaml", signed=True)
    write_tool(world)
    for name, content in FILES.items():
        beside(world, name).parent.mkdir(parents=True, exist_ok=True)
        beside(world, name).write_bytes(content)
    return world


FILES = {
    "helper.py": b"x = 1\n",
    "sub/more.py": b"y = 2\n",
    "data.json": b"{}",
    "broken.py": b"__version__ = 3\n",
}


def write_tool(
    world: World, text: str = "import helper", version: str = "1.2.0", executor: str = "my/runtime"
) -> None:
    put(world, tool(text, executor=executor).replace(b"1.2.0", version.encode()))


def beside(world: World, name: str) -> Path:
    return world.project / ".ai/tools/demo" / name


def listing(world: World) -> str:
    path = beside(world, "deps.manifest.yaml")
    return path.read_text() if path.exists() else ""


def done(
    context: Context, *companions: str, item_id: str = "demo/hello", all_beside: bool = False
) -> SignResult:
    result = sign(SignRequest(item_id, companions=companions, all_beside=all_beside), context)
    assert isinstance(result, SignResult)
    return result


def codes(result: SignResult) -> list[str]:
    return [warning.code for warning in result.warnings]


def carried(context: Context, item_id: str = "demo/hello") -> set[str]:
    """What a run would carry besides the tool, when it would run at all."""
    return set(chain_of(context, item_id).verified.carried.digests)


# --- what a tool rests on ---


def test_an_anchored_tool_is_signed_with_all_that_it_rests_on(project: World) -> None:
    result = done(person(project), all_beside=True)
    assert codes(result) == ["signed_along", "listed"]
    assert b"rye:signed:" in beside(project, "helper.py").read_bytes()
    assert b"rye:signed:" in beside(project, "sub/more.py").read_bytes()
    assert beside(project, "data.json").read_bytes() == b"{}"
    assert hashlib.sha256(b"{}").hexdigest() in listing(project)
    assert "broken.py" in listing(project)
    assert beside(project, "broken.py").read_bytes() == FILES["broken.py"]
    assert carried(person(project)) == {f"tools/demo/{name}" for name in FILES}


@pytest.mark.parametrize("more", [False, True])
def test_many_files_are_listed_by_one_signature_and_stay_as_they_are(project: World, more: bool) -> None:
    wanting = [name for name in FILES if name in ("helper.py", "sub/more.py")]
    added = [f"module{number}.py" for number in range(SIGNED_ALONG - len(wanting) + more)]
    for name in added:
        beside(project, name).write_bytes(b"z = 3\n")
    assert codes(done(person(project), all_beside=True)) == (
        ["listed"] if more else ["signed_along", "listed"]
    )
    signed = [name for name in (*wanting, *added) if b"rye:signed:" in beside(project, name).read_bytes()]
    assert signed == ([] if more else [*wanting, *added])
    assert carried(person(project)) == {f"tools/demo/{name}" for name in (*FILES, *added)}
    beside(project, added[0]).write_bytes(b"z = 4\n")
    refused("content_changed" if more else "unsigned", lambda: carried(person(project)))


def test_what_is_authentic_already_stays_as_it_is(project: World) -> None:
    done(person(project), all_beside=True)
    before = files_below(project.project / ".ai/tools/demo")
    result = done(person(project))
    after = files_below(project.project / ".ai/tools/demo")
    assert codes(result) == []
    assert {name for name in after if after[name] != before[name]} <= {"hello.py"}


@pytest.mark.parametrize(
    ("name", "code"),
    [("data.json", "listed"), ("helper.py", "signed_along"), ("sub/more.py", "signed_along")],
)
def test_what_changed_is_signed_or_listed_again(project: World, name: str, code: str) -> None:
    done(person(project), all_beside=True)
    beside(project, name).write_bytes(b"# other\n")
    refused("unsigned" if name.endswith(".py") else "content_changed", lambda: carried(person(project)))
    assert codes(done(person(project))) == [code]
    assert f"tools/demo/{name}" in carried(person(project))


def test_a_missing_file_leaves_the_listing(project: World) -> None:
    done(person(project), all_beside=True)
    beside(project, "data.json").unlink()
    assert codes(done(person(project))) == ["listed_no_more"]
    assert "data.json" not in listing(project)
    assert "tools/demo/data.json" not in carried(person(project))


def test_a_tool_that_rests_on_nothing_leaves_no_listing(world: World) -> None:
    write_tool(world, "pass", executor="rye/core/primitives/subprocess")
    assert codes(done(person(world))) == []
    assert names_in(beside(world, "")) == ["hello.py"]


def test_the_library_of_a_runtime_is_signed_with_it(world: World) -> None:
    brings = b"anchor: {enabled: false, lib: lib/python}\nconfig: {args: ['{runtime_lib}/run.py']}\n"
    put(world, RUNTIME + brings, "my/runtime", ".yaml")
    library = world.project / ".ai/tools/my/lib/python"
    library.mkdir(parents=True)
    (library / "run.py").write_bytes(b"x = 1\n")
    (library / "data.bin").write_bytes(b"\0")
    assert codes(done(person(world), item_id="my/runtime", all_beside=True)) == ["signed_along", "listed"]
    write_tool(world, "pass")
    done(person(world))
    assert carried(person(world)) == {"lib/run.py", "lib/data.bin"}


def test_an_agent_signs_what_its_own_tool_rests_on(project: World) -> None:
    assert codes(done(agent(project), all_beside=True)) == ["signed_along", "listed"]
    assert len(carried(person(project))) == len(FILES)


def test_a_person_who_signs_an_agents_tool_signs_all_of_it(project: World) -> None:
    done(agent(project), all_beside=True)
    context = person(project)
    assert set(codes(done(context, all_beside=True))) == {
        "signer_changed",
        "signed_along",
        "listed",
        "listing_replaced",
    }
    assert len(carried(context)) == len(FILES)


def test_a_link_among_the_files_signs_nothing(project: World) -> None:
    beside(project, "link.py").symlink_to("/etc/hostname")
    before = files_below(project.project)
    error = refused("unsafe_path", lambda: done(person(project)))
    assert error.details["dependency"] == "tools/demo/link.py"
    assert files_below(project.project) == before


def test_a_pattern_signs_what_each_tool_rests_on_and_leaves_listings_that_fit(project: World) -> None:
    for first in (True, False):
        beside(project, "helper.py").write_bytes(b"x = 3\n")
        result = sign(SignRequest("demo/hel*", all_beside=first), person(project))
        assert isinstance(result, BatchResult)
        assert not result.failed
        assert len(carried(person(project))) == len(FILES)


# --- files that are named ---


def test_a_file_that_is_named_is_listed(world: World) -> None:
    write_tool(world, "open('data.json')", executor="rye/core/primitives/subprocess")
    beside(world, "data.json").write_bytes(b"{}")
    beside(world, "sub").mkdir()
    beside(world, "sub/more.bin").write_bytes(b"\0")
    assert codes(done(person(world))) == ["not_carried"]
    assert codes(done(person(world), "data.json", "./sub/more.bin")) == ["listed"]
    assert carried(person(world)) == {"tools/demo/data.json", "tools/demo/sub/more.bin"}


def test_nobody_is_told_to_sign_a_file_that_hides_a_module_of_python(world: World) -> None:
    write_tool(world, "import json, helper", executor="rye/core/primitives/subprocess")
    beside(world, "json.py").write_bytes(b"planted = 1\n")
    (planted,) = done(person(world)).warnings
    assert planted.code == "not_carried"
    assert "json.py" in planted.message
    assert "--with" not in planted.message
    beside(world, "helper.py").write_bytes(b"x = 1\n")
    _, missing = done(person(world)).warnings
    assert missing.message.endswith("rye sign demo/hello --with helper.py")


def test_a_file_that_hides_a_module_of_python_is_named_behind_however_many_are_missing(world: World) -> None:
    names = [f"helper{number}" for number in range(10)]
    write_tool(world, f"import {', '.join(names)}, json", executor="rye/core/primitives/subprocess")
    for name in (*names, "json"):
        beside(world, f"{name}.py").write_bytes(b"x = 1\n")
    hiding, _ = done(person(world)).warnings
    assert "not json.py beside it" in hiding.message


def test_a_listed_item_that_is_signed_is_listed_as_it_is_then(world: World) -> None:
    write_tool(world, "import helper", executor="rye/core/primitives/subprocess")
    beside(world, "helper.py").write_bytes(b"x = 1\n")
    done(person(world), "helper.py")
    done(person(world), item_id="demo/helper")
    assert carried(person(world)) == {"tools/demo/helper.py"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nothing.json", "read_failed"),
        ("../outside.json", "unsafe_path"),
        ("/etc/hostname", "unsafe_path"),
        ("hello.py", "unsafe_path"),
        ("link.json", "unsafe_path"),
        ("deps.manifest.yaml", "invalid_item"),
        ("sub", "unsafe_path"),
        ("x\0y", "unsafe_path"),
        ("\udcff.json", "invalid_item"),
        ("x" * 300, "invalid_item"),
    ],
)
def test_a_file_that_cannot_be_listed_signs_nothing(world: World, name: str, code: str) -> None:
    write_tool(world, executor="rye/core/primitives/subprocess")
    (world.project / ".ai/tools/outside.json").write_bytes(b"{}")
    beside(world, "link.json").symlink_to("/etc/hostname")
    beside(world, "sub").mkdir()
    person(world)
    before = files_below(world.project)
    refused(code, lambda: done(person(world), name))
    assert files_below(world.project) == before


@pytest.mark.parametrize(
    "request_",
    [SignRequest("demo/*", companions=("a",)), SignRequest("x", item_type="knowledge", companions=("a",))],  # type: ignore[arg-type]
)
def test_files_are_named_for_one_tool_alone(world: World, request_: SignRequest) -> None:
    refused("unknown_argument", lambda: sign(request_, person(world)))


def test_a_bad_listing_is_replaced(project: World) -> None:
    done(person(project), all_beside=True)
    path = beside(project, "deps.manifest.yaml")
    path.write_bytes(path.read_bytes() + b'  "zzz.json": ' + b"0" * 64 + b"\n")
    assert "listing_replaced" in codes(done(person(project), all_beside=True))
    assert "zzz.json" not in listing(project)
    assert len(carried(person(project))) == len(FILES)


def test_an_agent_changes_nothing_in_a_persons_listing(world: World) -> None:
    primitive = "rye/core/primitives/subprocess"
    write_tool(world, executor=primitive)
    beside(world, "data.json").write_bytes(b"{}")
    done(person(world), "data.json")
    before = listing(world)
    beside(world, "data.json").write_bytes(b"[]")
    put(world, tool("pass", executor=primitive), "demo/other")
    refused("person_required", lambda: sign(SignRequest("demo/other"), agent(world)))
    assert listing(world) == before
    beside(world, "data.json").write_bytes(b"{}")
    sign(SignRequest("demo/other"), agent(world))
    assert listing(world) == before


def test_what_a_person_signs_beside_an_agents_listing_runs_afterwards(project: World) -> None:
    """It rests on nothing that an agent listed, and `rye sign` is what the refusal says."""
    done(agent(project), all_beside=True)
    put(project, tool("pass", executor="rye/core/primitives/subprocess"), "demo/other")
    signed = done(person(project), item_id="demo/other")
    assert "listing_replaced" in codes(signed)
    assert "out_of_scope" not in codes(signed)
    assert carried(person(project), "demo/other") == set()


@pytest.mark.parametrize("before", [None, b"what somebody has read"])
def test_a_listing_that_changed_meanwhile_is_not_replaced(world: World, before: bytes | None) -> None:
    path = beside(world, "deps.manifest.yaml")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"of somebody else")
    file = manifest_file(world.space(), "tools/demo", render_listing({}))
    key = world.key()
    refused("content_changed", lambda: sign_listing(file, key, world.trust(), role=Role.TOOL, before=before))
    assert path.read_bytes() == b"of somebody else"
    assert names_in(path.parent) == [path.name]


# --- warnings ---


def test_a_template_inside_of_a_shells_command_is_a_warning(world: World) -> None:
    content = b"""\
tool_type: script
version: "1.0.0"
executor_id: rye/core/primitives/subprocess
config: {command: bash, args: ["-c", "echo {name}"]}
config_schema: {type: object, properties: {name: {type: string}}}
"""
    put(world, content, "demo/shell", ".yaml")
    result = done(person(world), item_id="demo/shell")
    assert codes(result) == ["template_in_shell"]
    assert "{name}" in result.warnings[0].message


def test_what_would_be_refused_is_told_when_it_is_signed(world: World) -> None:
    put(world, RUNTIME, "my/runtime", ".yaml")
    write_tool(world, "pass")
    assert codes(done(person(world))) == ["unsigned"]


# --- the lockfile ---


@pytest.fixture
def lock(tmp_path: Path) -> LockWorld:
    lock = LockWorld.make(tmp_path)
    lock.run()
    return lock


def signed_again(lock: LockWorld, context: Context | None = None, **changes: str) -> list[str]:
    """Edit the tool, sign it; the warnings."""
    lock.write(changes.get("text", "print('edited')"), version=changes.get("version", "1.2.0"), signed=False)
    return codes(done(context or lock.context))


def other_runtime(lock: LockWorld) -> None:
    put(lock.world, RUNTIME + b"description: another\n", "my/runtime", ".yaml", signed=True)


def test_its_lockfile_follows_a_tool_that_its_pinned_signer_signs(lock: LockWorld) -> None:
    assert signed_again(lock) == ["lock_refreshed"]
    assert lock.run(locked=True).lock.state == "match"


def test_another_version_goes_on_where_the_newest_locked_one_ends(lock: LockWorld) -> None:
    before = lock.path.read_bytes()
    assert signed_again(lock, version="1.10.0") == ["lock_refreshed"]
    assert lock.path.read_bytes() == before
    assert signed_again(lock, version="1.11.0") == ["lock_refreshed"]
    pinned = lock.run(locked=True)
    assert pinned.lock.path == lock.in_space(SpaceName.PROJECT, version="1.11.0")
    assert not pinned.notices


def test_signing_what_did_not_change_leaves_its_lockfile_alone(lock: LockWorld) -> None:
    before = lock.path.read_bytes()
    assert codes(done(lock.context)) == []
    assert lock.path.read_bytes() == before


def test_a_tool_that_is_not_locked_is_not_locked_by_signing(tmp_path: Path) -> None:
    lock = LockWorld.make(tmp_path)
    assert signed_again(lock) == []
    assert not lock.path.exists()


@pytest.mark.parametrize("version", ["1.2.0", "1.3.0"])
def test_nobody_but_the_pinned_signer_moves_a_pin(lock: LockWorld, version: str) -> None:
    lock.edit(lambda document: document["resolved_chain"][0].update(signer="0" * 64))
    before = files_below(lock.path.parent)
    refused("person_required", lambda: signed_again(lock, agent(lock.world), version=version))
    found = signed_again(lock, version=version)
    assert "lock_refreshed" not in found
    assert files_below(lock.path.parent) == before
    if version == "1.2.0":
        assert "lock_mismatch" in found
        refused("lock_mismatch", lock.run)


def test_an_agent_moves_the_pin_of_its_own_tool(tmp_path: Path) -> None:
    lock = LockWorld.make(tmp_path)
    lock.write(signed=False)
    done(agent(lock.world))
    lock.run()
    assert signed_again(lock, agent(lock.world)) == ["lock_refreshed"]
    assert lock.run(locked=True).lock.state == "match"


def test_a_person_locks_with_her_tool_the_executor_that_she_signed_since(lock: LockWorld) -> None:
    other_runtime(lock)
    refused("lock_mismatch", lock.run)
    assert signed_again(lock) == ["lock_refreshed"]
    assert lock.run(locked=True).lock.state == "match"


def test_signing_an_executor_locks_the_tools_that_its_signer_has_locked(lock: LockWorld) -> None:
    put(lock.world, RUNTIME + b"description: another\n", "my/runtime", ".yaml")
    assert codes(done(lock.context, item_id="my/runtime")) == ["lock_refreshed"]
    assert lock.run(locked=True).lock.state == "match"


def test_a_chain_that_changed_underneath_is_not_locked_by_signing_the_tool(lock: LockWorld) -> None:
    mia = new_key()
    lock.world.trust_key(TrustDocument.create(mia.public, "mia"))
    file = lock.world.file(RUNTIME + b"description: another\n", item_id="my/runtime", extension=".yaml")
    lock.world.stored(lock.world.signed(file, mia))
    before = lock.path.read_bytes()
    assert signed_again(lock) == ["lock_mismatch"]
    assert lock.path.read_bytes() == before
    refused("lock_mismatch", lock.run)


@pytest.mark.parametrize("signer", [person, agent])
def test_a_file_that_changed_is_locked_by_a_person_who_signs_the_tool(
    tmp_path: Path, signer: Callable[[World], Context]
) -> None:
    lock = LockWorld.make(tmp_path)
    beside(lock.world, "data.json").write_bytes(b"{}")
    done(lock.context, "data.json")
    lock.run()
    before = lock.path.read_bytes()
    beside(lock.world, "data.json").write_bytes(b"[]")
    if signer is person:
        assert "lock_refreshed" in signed_again(lock)
    else:
        refused("person_required", lambda: signed_again(lock, signer(lock.world)))
    assert (lock.path.read_bytes() != before) is (signer is person)


def test_in_locked_mode_no_pin_is_moved(lock: LockWorld) -> None:
    before = lock.path.read_bytes()
    assert signed_again(lock, replace(lock.context, locked=True)) == []
    assert lock.path.read_bytes() == before


def test_a_pin_without_a_signer_is_moved_by_nobody(lock: LockWorld) -> None:
    lock.edit(lambda document: document["resolved_chain"][0].pop("signer"))
    assert signed_again(lock) == ["lock_mismatch"]


@pytest.mark.parametrize("content", [b"{", b"[]"])
def test_an_invalid_lockfile_stays_as_it_is(lock: LockWorld, content: bytes) -> None:
    lock.path.write_bytes(content)
    assert signed_again(lock) == ["malformed_lockfile"]
    assert lock.path.read_bytes() == content


def test_a_lockfile_of_the_user_space_is_not_moved_by_signing_in_a_project(lock: LockWorld) -> None:
    place = lock.in_space(SpaceName.USER)
    place.parent.mkdir(parents=True)
    lock.path.rename(place)
    before = place.read_bytes()
    assert signed_again(lock) == []
    assert place.read_bytes() == before
    assert not lock.path.exists()


def test_signers_are_compared_by_key_and_not_by_kind(lock: LockWorld) -> None:
    lock.edit(lambda document: document["resolved_chain"][0].update(signer="0" * 64))
    assert lock.context.caller is SignerKind.PERSON
    assert signed_again(lock) == ["lock_mismatch"]


def test_what_is_wrong_with_the_last_file_signs_none_of_the_first(project: World) -> None:
    beside(project, "zzz.py").write_bytes("x = '\u202e'\n".encode())
    before = files_below(project.project)
    refused("not_text", lambda: done(person(project)))
    assert files_below(project.project) == before


def test_what_is_wrong_with_the_tool_signs_nothing_that_it_rests_on(project: World) -> None:
    write_tool(project, "print('\u202e')")
    before = files_below(project.project)
    refused("not_text", lambda: done(person(project)))
    assert files_below(project.project) == before


def test_a_refusal_names_what_rests_on_the_file(project: World) -> None:
    beside(project, "helper.py").write_bytes("x = '\u202e'\n".encode())
    error = refused("not_text", lambda: done(person(project)))
    assert isinstance(error, RyeError)
    assert error.message.startswith("demo/hello rests on tools/demo/helper.py: ")
