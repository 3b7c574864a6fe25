"""Attack: an agent takes over what a person vouched for, with whatever it did to the file first.

The canary is a file that only the agent's version of the tool would touch.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from mcp import MCPError

from rye_mcp.items import ItemFile, ItemType, Space, SpaceName
from rye_mcp.mcp_server.listings import possible_names
from rye_mcp.trust.approvals import Approvals
from rye_mcp.trust.keys import KeyRing
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.sign import sign_content
from rye_mcp.trust.signers import MAX_AGENTS_BYTES, MAX_RECORD_BYTES
from rye_mcp.trust.trust_store import revoke
from rye_mcp.verbs.load import LoadRequest, load
from rye_mcp.verbs.sign import BatchResult, SignRequest, sign
from tests.git_world import WHO, git
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts
from tests.people import Person, Publication
from tests.trust_world import World, refused
from tests.verb_world import DIRECTIVE, agent, person, put, tool

pytestmark = pytest.mark.anyio

LINE = "rye:signed:"
Form = Callable[[Path, str], str]
"""What an agent does to a file, with a line of code that it adds: the id that it asks to have signed."""


def line_kept(path: Path, more: str) -> str:
    path.write_text(path.read_text() + more)
    return "demo/hello"


def line_broken(path: Path, more: str) -> str:
    path.write_text(path.read_text().replace(LINE, f"{LINE}x", 1) + more)
    return "demo/hello"


def line_removed(path: Path, more: str) -> str:
    path.write_text(without_line(path.read_text()) + more)
    return "demo/hello"


def renamed(path: Path, more: str) -> str:
    path.rename(path.with_name("other.py"))
    path.with_name("other.py").write_text(path.with_name("other.py").read_text() + more)
    return "demo/other"


def renamed_without_line(path: Path, more: str) -> str:
    """What was signed, under another id: the agent would change it once it is its own."""
    path.with_name("other.py").write_text(without_line(path.read_text()))
    path.unlink()
    return "demo/other"


def in_another_language(path: Path, more: str) -> str:
    path.unlink()
    path.with_suffix(".sh").write_text("touch canary\n")
    return "demo/hello"


FORMS = (line_kept, line_broken, line_removed, renamed, renamed_without_line, in_another_language)


def committed(project: Path, *more: str) -> None:
    for command in ("init -q", "add --all", "commit -qm signed", *more):
        git(project, *command.split())


def without_line(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if LINE not in line)


async def takes_over(workshop: Workshop, mode: Mode, form: Form) -> None:
    """Ask over MCP to have it signed, and to run it: a person is needed, and nothing runs."""
    path, canary = workshop.project / ".ai/tools/demo/hello.py", workshop.project / "canary"
    item_id = form(path, f"\nopen({str(canary)!r}, 'w')\n")
    tools = {file: file.read_bytes() for file in path.parent.iterdir()}
    async with workshop.served(mode) as client:
        answer = await client.call_tool("execute", {"item_id": item_id})
        assert facts(answer)["status"] == "error"
        assert not facts(answer)["hint"].startswith("look at what changed")
        for pattern in (item_id, "demo/*"):
            error = facts(await client.call_tool("sign", {"item_id": pattern}))
            error = error["failed"][0] if "failed" in error else error
            assert error["code"] == "person_required", error
            assert error["hint"].endswith(
                f"rye sign {item_id} --project {shlex.quote(str(workshop.project))}"
            )
        assert facts(await client.call_tool("execute", {"item_id": item_id}))["status"] == "error"
    assert {file: file.read_bytes() for file in path.parent.iterdir()} == tools
    assert not canary.exists()


@pytest.mark.first_case
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
async def test_over_mcp_in_every_form(workshop: Workshop, mode: Mode, form: Form) -> None:
    path = workshop.tool("demo/hello", "print(1)")
    await takes_over(workshop, mode, form)
    if form is not line_broken:  # a person is told to remove that line first
        workshop.sign("demo/other" if path.with_name("other.py").exists() else "demo/hello")


@pytest.mark.thorough
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
async def test_in_the_clone_of_a_colleague(
    published: Publication, tmp_path: Path, mode: Mode, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was ever verified there: what is known stands in the file, and in the last commit."""
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    origin, clone = published.clone(tmp_path), tmp_path / "of bob"
    committed(origin)
    await to_thread.run_sync(git, tmp_path, "clone", "-q", str(origin), str(clone))
    bob = Person("bob", tmp_path / "bob")
    bob.begin(tmp_path / "elsewhere")
    bob.rye("trust", "review", "--accept", published.key_id, cwd=clone)
    await takes_over(Workshop(bob, clone), mode, form)


async def test_content_that_changed_is_for_a_person_to_look_at(workshop: Workshop, mode: Mode) -> None:
    path = workshop.tool("demo/hello", "print(1)")
    line_kept(path, "\n")
    async with workshop.served(mode) as client:
        error = facts(await client.call_tool("execute", {"item_id": "demo/hello"}))
        assert error["code"] == "content_changed"
        command = f"rye sign demo/hello --project {shlex.quote(str(workshop.project))}"
        assert error["hint"] == f"ask a person: look at what changed, then: {command}"
        found = facts(await client.call_tool("execute", {"item_id": "rye/core/verify"}))
        assert "ask a person: look at what changed" in str(found["data"])


@pytest.mark.thorough
async def test_a_line_that_is_gone_is_for_a_person_to_look_at(workshop: Workshop, mode: Mode) -> None:
    """The record knows the person: no answer advises the agent to sign, which would be refused."""
    path = workshop.tool("demo/hello", "print(1)")
    line_removed(path, "\n")
    hint = "ask a person: ada signed this before: look at what changed, then: rye sign demo/hello"
    async with workshop.served(mode) as client:
        error = facts(await client.call_tool("execute", {"item_id": "demo/hello"}))
        assert (error["code"], error["hint"]) == ("unsigned", hint)
        found = facts(await client.call_tool("execute", {"item_id": "rye/core/verify"}))
        assert hint in str(found["data"])


async def test_a_changed_list_of_files_is_for_a_person_to_look_at(workshop: Workshop, mode: Mode) -> None:
    path = workshop.tool("demo/hello", "print(1)")
    (path.parent / "data.json").write_text("{}")
    workshop.person.rye("sign", "demo/hello", "--with", "data.json", cwd=workshop.project)
    listing = path.parent / "deps.manifest.yaml"
    listing.write_text(listing.read_text() + "# more\n")
    async with workshop.served(mode) as client:
        error = facts(await client.call_tool("execute", {"item_id": "demo/hello"}))
        assert error["code"] == "content_changed"
        command = f"rye sign demo/hello --project {shlex.quote(str(workshop.project))}"
        assert error["hint"] == f"ask a person: look at what changed, then: {command}"


async def test_what_a_persons_tool_lacks_is_for_a_person_to_sign(workshop: Workshop) -> None:
    path = workshop.tool("demo/hello", "import pack.part")
    (path.parent / "pack").mkdir()
    (path.parent / "pack/part.py").touch()
    async with workshop.served("auto") as client:
        error = facts(await client.call_tool("execute", {"item_id": "demo/hello"}))
    assert (error["code"], error["signed_before_by"]) == ("tool_failed", "ada")
    assert error["hint"].startswith("ask a person: demo/hello needs pack/part.py")
    assert error["hint"].endswith("rye sign demo/hello --with pack/part.py")


async def test_packages_are_for_a_person_to_install(workshop: Workshop) -> None:
    workshop.tool("demo/hello", "import nobody_has_this")
    async with workshop.served("auto") as client:
        error = facts(await client.call_tool("execute", {"item_id": "demo/hello"}))
    by_uv, _, installed = error["hint"].partition(". Or ")
    assert "ask a person" not in by_uv
    assert installed.startswith("ask a person: install it in the project: ")


# --- each kind of evidence by itself ---


def asked(world: World, item_id: str = "demo/hello", item_type: ItemType = ItemType.TOOL) -> None:
    """Have it signed by an agent: by its id, and by a pattern."""
    error = refused("person_required", lambda: sign(SignRequest(item_id, item_type), agent(world)))
    assert f"rye sign {item_id}" in error.hint
    batch = sign(SignRequest("*", item_type), agent(world))
    assert isinstance(batch, BatchResult)
    assert {each.error.code for each in batch.failed} == {"person_required"}


def forget(world: World) -> None:
    """Remove the user's record, as if nothing had ever been verified."""
    shutil.rmtree(world.state / "signers", ignore_errors=True)


def changed(file: ItemFile) -> None:
    """The file without its signature, and with other content."""
    file.path.write_text(without_line(file.path.read_text()) + "\n# more\n")


def test_the_line_alone_names_a_person(world: World) -> None:
    file = put(world, tool(), signed=True)
    file.path.write_bytes(file.content + b"# more\n")
    forget(world)
    asked(world)


@pytest.mark.parametrize("spoilt", [b"rye:signed:", b"rye:signed:x", b"\xef\xbb\xbf# rye:signed:"])
def test_a_line_that_is_damaged_may_be_a_persons(world: World, spoilt: bytes) -> None:
    file = put(world, tool(), signed=True)
    file.path.write_bytes(b"# " + spoilt + file.content.partition(b"\n")[2])
    forget(world)
    asked(world)


def test_an_agents_key_that_was_revoked_vouches_for_no_agent(world: World) -> None:
    put(world, tool())
    sign(SignRequest("demo/hello"), agent(world))
    revoke(world.user_space, world.key(SignerKind.AGENT).public.key_id, "stolen")
    asked(world)


def test_the_record_alone_names_a_person_of_an_id(world: World) -> None:
    file = put(world, tool(), signed=True)
    world.verify(file)
    changed(file)
    asked(world)


def test_the_record_alone_names_a_person_of_an_id_in_other_letters(world: World) -> None:
    file = put(world, tool(), signed=True)
    world.verify(file)
    file.path.unlink()
    put(world, tool("print(2)"), "demo/Hello")
    asked(world, "demo/Hello")


def test_the_record_alone_names_a_person_of_a_content(world: World) -> None:
    file = put(world, tool(), signed=True)
    world.verify(file)
    put(world, tool(), "demo/copy")
    error = refused("person_required", lambda: sign(SignRequest("demo/copy"), agent(world)))
    assert "has signed before, as demo/hello" in error.message


def test_another_repository_hides_no_record(world: World) -> None:
    """Three small files make the project a worktree of a repository that the agent has made."""
    file = put(world, tool(), signed=True)
    git(world.project, "init", "-q")
    world.verify(file)
    changed(file)
    administration = world.root / "elsewhere/.git/worktrees/x"
    for name in ("objects", "refs"):
        (administration.parents[1] / name).mkdir(parents=True)
    administration.mkdir(parents=True)
    (administration.parents[1] / "HEAD").write_text("ref: refs/heads/main\n")
    (administration / "gitdir").write_text(f"{world.project}/.git\n")
    shutil.rmtree(world.project / ".git")
    (world.project / ".git").write_text(f"gitdir: {administration}\n")
    assert Approvals(world.project, world.state).repository == world.root / "elsewhere"
    asked(world)


def test_the_lockfile_alone_names_a_person(world: World) -> None:
    file = put(world, tool(), signed=True)
    context = person(world)
    from rye_mcp.verbs.lock import LockUpdateRequest, lock_update

    lock_update(LockUpdateRequest("demo/hello"), context)
    forget(world)
    changed(file)
    asked(world)
    (lock,) = world.project.glob(".ai/lockfiles/demo/*.json")
    lock.write_bytes(b"{}")
    asked(world)
    lock.unlink()
    sign(SignRequest("demo/hello"), agent(world))


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize("name", ["demo/hello", "demo/other"])
def test_the_last_commit_alone_names_a_person(
    world: World, name: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in WHO.items():
        monkeypatch.setenv(variable, value)
    file = put(world, tool(), signed=True)
    committed(world.project, *(("gc -q", "pack-refs --all") if packed else ()))
    forget(world)
    file.path.unlink()
    put(world, tool() if name == "demo/other" else tool("print(2)"), name)
    asked(world, name)
    shutil.rmtree(world.project / ".git")
    asked(world, name)
    forget(world)
    sign(SignRequest(name), agent(world))


def on_a_branch(project: Path) -> None:
    """Of a name that git allows: with other letters than those of ASCII, and with other signs."""
    committed(project, "checkout -qb größe(1),it's&so!")


def on_an_alias(project: Path) -> None:
    committed(project, "branch -qM main")
    git(project, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(project, "symbolic-ref", "HEAD", "refs/heads/alias")


def borrowed_twice(project: Path) -> None:
    """Of its objects none is its own, nor that of the repository which it borrows from."""
    committed(project)
    above = project.parent
    for origin, clone in ((project, "first"), (above / "first", "second")):
        git(above, "clone", "-q", "--shared", str(origin), clone)
    (project / ".git").rename(above / "origin.git")
    alternates = above / "first/.git/objects/info/alternates"
    alternates.write_text(f"{above}/origin.git/objects\n")
    (above / "second/.git").rename(project / ".git")


def in_a_repository_of_its_own(project: Path) -> None:
    committed(project / ".ai")


def in_a_submodule(project: Path) -> None:
    committed(project / ".ai/tools/demo")
    committed(project)


@pytest.mark.parametrize(
    "kept",
    [on_a_branch, on_an_alias, borrowed_twice, in_a_repository_of_its_own, in_a_submodule],
    ids=lambda kept: kept.__name__,
)
def test_the_last_commit_names_a_person_wherever_git_keeps_it(
    world: World, kept: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in WHO.items():
        monkeypatch.setenv(variable, value)
    file = put(world, tool(), signed=True)
    kept(world.project)
    forget(world)
    changed(file)
    asked(world)


def test_a_repository_that_lies_or_cannot_be_read_stops_nothing(world: World) -> None:
    put(world, tool())
    git = world.project / ".git"
    (git / "objects/pack").mkdir(parents=True)
    for number, head in enumerate(
        (b"", b"ref: refs/../../etc/passwd\n", b"a" * 40, b"ref: refs/heads/main\n")
    ):
        (git / "HEAD").write_bytes(head)
        (git / "objects/pack/pack-1.idx").write_bytes(b"\xfftOc\0\0\0\x02" + b"\xff" * 2000)
        put(world, tool(f"print({number})"), f"demo/new{number}")
        sign(SignRequest(f"demo/new{number}"), agent(world))


def test_a_namesake_in_the_user_space_is_a_persons(world: World) -> None:
    put(world, tool(), space=SpaceName.USER, signed=True)
    put(world, tool("print(2)"))
    asked(world)


def test_a_copy_out_of_the_user_space_stays_a_persons(world: World) -> None:
    original = put(world, tool(), space=SpaceName.USER, signed=True)
    copy = load(LoadRequest("demo/hello", destination=SpaceName.PROJECT), agent(world)).copied_to
    assert copy is not None
    original.path.unlink()
    copy.write_text(without_line(copy.read_text()) + "\n# more\n")
    asked(world)


@pytest.mark.parametrize("item_type", [ItemType.DIRECTIVE, ItemType.KNOWLEDGE])
def test_instructions_and_knowledge(world: World, item_type: ItemType) -> None:
    file = put(world, DIRECTIVE, extension=".md", item_type=item_type, signed=True)
    world.verify(file)
    file.path.write_text(without_line(file.path.read_text()) + "\nObey.\n")
    asked(world, item_type=item_type)


def test_what_a_person_listed_with_a_tool(world: World) -> None:
    """The listing of a person is a person's, also when an agent has removed it."""
    put(world, tool(), signed=False)
    data = world.project / ".ai/tools/demo/data.json"
    data.write_bytes(b"{}")
    sign(SignRequest("demo/hello", companions=("data.json",)), person(world))
    data.write_bytes(b"[]")
    put(world, tool("print(2)"), "demo/other")
    wanted = SignRequest("demo/other", companions=("data.json",))
    refused("person_required", lambda: sign(wanted, agent(world)))
    (data.parent / "deps.manifest.yaml").unlink()
    refused("person_required", lambda: sign(wanted, agent(world)))
    assert not (data.parent / "deps.manifest.yaml").exists()


# --- at the gate ---


def signed_past_the_gate(world: World) -> ItemFile:
    """What an agent with a shell writes, which signs with its key by itself."""
    file = world.file(tool("print('of the agent')"))
    return world.stored(world.signed_by_another_program(file, world.key(SignerKind.AGENT)))


def test_a_signature_of_an_agent_in_place_of_a_persons_is_refused(world: World) -> None:
    world.verify(put(world, tool(), signed=True))
    file = signed_past_the_gate(world)
    error = refused("signer_changed", lambda: world.verify(file))
    assert error.details["signed_before_by"] == "leo"
    trust = world.trust()
    trust.accept_agents_work(file)
    assert world.verify(file).signer.kind is SignerKind.AGENT
    assert world.verify(file, trust=trust).signer.kind is SignerKind.AGENT
    more = world.signed_by_another_program(world.file(tool("1")), world.key(SignerKind.AGENT))
    refused("signer_changed", lambda: world.verify(more))


def test_an_old_work_of_the_agent_does_not_come_back(world: World) -> None:
    """What it signed before a person did is no way back, in a process that has verified it, or in another."""
    file = put(world, tool())
    trust = world.trust()
    sign(SignRequest("demo/hello"), agent(world))
    old = file.path.read_bytes()
    world.verify(world.file(old), trust=trust)
    sign(SignRequest("demo/hello"), person(world))
    file.path.write_bytes(old)
    refused("signer_changed", lambda: world.verify(world.file(old), trust=trust))
    asked(world)


def test_an_agent_goes_on_with_its_own(world: World) -> None:
    file = put(world, tool())
    for number in range(3):
        sign(SignRequest("demo/hello"), agent(world))
        changed(file) if number else file.path.write_bytes(file.path.read_bytes() + b"# more\n")
    sign(SignRequest("demo/hello"), agent(world))


async def test_a_person_is_asked_before_an_agents_version_runs(workshop: Workshop) -> None:
    """An agent with a shell signs with its key by itself: nobody runs that without having been told."""
    person, project = workshop.person, workshop.project
    path, canary = workshop.tool("demo/hello", "print(1)"), workshop.project / "canary"
    keys = KeyRing(person.user_space, environment={})
    keys.ensure(SignerKind.AGENT)

    def take(more: str) -> None:
        content = without_line(path.read_text()) + f"\nopen({str(canary)!r}, 'a').write({more!r})\n"
        space = Space(SpaceName.PROJECT, project / ".ai")
        file = ItemFile(space, ItemType.TOOL, "demo/hello", ".py", path, content.encode())
        path.write_bytes(sign_content(file, keys.load(SignerKind.AGENT)))

    def answer(word: str, code: int) -> str:
        question = "Run it all the same"
        return person.types([(question, f"{word}\n")], "run", "demo/hello", cwd=project, code=code).out

    take("1")
    error = person.rye("run", "--json", "demo/hello", cwd=project, code=1).json
    assert error["code"] == "signer_changed"
    assert error["hint"] == "look at what the agent changed, and sign it if it is good: rye sign demo/hello"
    person.rye("verify", cwd=project, code=1)
    async with workshop.served("auto") as client:
        found = facts(await client.call_tool("execute", {"item_id": "demo/hello"}))
        assert found["code"] == "signer_changed"
        assert found["hint"].startswith("ask a person: look at what the agent changed")
    assert "signed demo/hello before" in await to_thread.run_sync(answer, "n", 1)
    assert not canary.exists()
    await to_thread.run_sync(answer, "y", 0)
    assert canary.read_text() == "1"
    assert "by your agent, not by you" in person.rye("verify", cwd=project).out
    person.rye("run", "demo/hello", cwd=project)
    take("2")
    assert "signer_changed" in person.rye("run", "demo/hello", cwd=project, code=1).err
    person.rye("sign", "demo/hello", cwd=project)
    assert "by you (" in person.rye("verify", cwd=project).out


# --- the record ---


def test_a_draft_is_nobodys_work(world: World) -> None:
    """What a person tries before they sign it is not signed: the agent that wrote it goes on."""
    from rye_mcp.trust.drafts import as_draft

    file = put(world, tool())
    trust = world.trust()
    draft = as_draft(file, trust, refused("unsigned", lambda: world.verify(file)))
    world.verify(draft.file, trust=draft.trust)
    sign(SignRequest("demo/hello"), agent(world))


def test_a_record_that_is_damaged_lets_no_agent_sign_and_stops_no_person(world: World) -> None:
    file = put(world, tool(), signed=True)
    world.verify(file)
    (record,) = (world.state / "signers").iterdir()
    record.write_bytes(b"nonsense\n")
    changed(file)
    refused("malformed_trust", lambda: sign(SignRequest("demo/hello"), agent(world)))
    sign(SignRequest("demo/hello"), person(world))


def test_of_several_verifications_at_once_each_fact_is_written(world: World) -> None:
    files = [put(world, tool(f"print({n})"), f"demo/t{n}", signed=True) for n in range(40)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(world.verify, files))
    (record,) = (world.state / "signers").iterdir()
    assert len(set(record.read_bytes().splitlines())) == len(files)


def test_a_record_that_cannot_be_written_stops_no_verification(world: World) -> None:
    world.state.mkdir(parents=True)
    (world.state / "signers").write_bytes(b"in the way")
    world.verify(put(world, tool(), signed=True))


def test_what_is_known_of_agents_takes_no_room_from_persons(world: World) -> None:
    file = put(world, tool(), signed=True)
    world.verify(file)
    (record,) = (world.state / "signers").iterdir()
    line = record.read_bytes()
    of_agent = line.replace(b"person\t", b"agent\t")
    of_agents = record.with_suffix(".agents.tsv")
    count = MAX_AGENTS_BYTES // len(of_agent)
    of_agents.write_bytes(
        b"".join(of_agent.replace(line.split(b"\t")[3], b"%064d" % n) for n in range(count))
    )
    of_agents.chmod(0o600)
    put(world, tool("print(2)"), "demo/second")
    sign(SignRequest("demo/second"), agent(world))
    assert MAX_AGENTS_BYTES // 4 < of_agents.stat().st_size < MAX_AGENTS_BYTES
    assert of_agents.read_bytes().splitlines()[-1].split(b"\t")[1] == b"tool/demo/second"
    assert record.read_bytes() == line
    changed(file)
    asked(world)


@pytest.mark.thorough
def test_where_no_more_is_kept_of_persons_no_agent_signs(world: World) -> None:
    """What it signs next could be a person's, of whom nobody knows any more."""
    file = put(world, tool(), signed=True)
    world.verify(file)
    (record,) = (world.state / "signers").iterdir()
    line = record.read_bytes()
    other = line.replace(b"demo/hello", b"demo/other")
    count = (MAX_RECORD_BYTES - len(line)) // len(other)
    record.write_bytes(line + b"".join(other.replace(b"other", b"%05d" % n) for n in range(count)))
    before = record.read_bytes()
    second = put(world, tool("print(2)"), "demo/second", signed=True)
    world.verify(second)
    assert record.read_bytes() == before
    changed(second)
    asked(world, "demo/second")
    error = refused("person_required", lambda: sign(SignRequest("demo/second"), agent(world)))
    assert "the record of signers of this project is full" in error.message
    sign(SignRequest("demo/second"), person(world))
    changed(file)
    asked(world)
    refused("too_large", lambda: world.trust().accept_agents_work(file))


def test_one_projects_record_is_nothing_to_another(world: World, tmp_path: Path) -> None:
    world.verify(put(world, tool(), signed=True))
    other = World(tmp_path / "other")
    shutil.copytree(world.user_space, other.user_space)
    shutil.copytree(world.state, other.state)
    assert Approvals(other.project, other.state).project != Approvals(world.project, world.state).project
    put(other, tool())
    sign(SignRequest("demo/hello"), agent(other))


# --- a name that was approved ---


LONG = f"{'quarter' * 4}/{'report' * 6}"
"""The id of a tool whose name is cut, and gets a piece of its hash, as many tools of other servers have."""

NAMES = {"plain": "a/report", "with a hash": LONG}


@pytest.mark.each_once
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("below", NAMES.values(), ids=NAMES)
async def test_the_name_of_a_persons_tool_is_never_that_of_an_agents(
    workshop: Workshop, mode: Mode, restarted: bool, below: str
) -> None:
    """`team/a_report` would get the name of `team/a/report`, which is gone."""
    path, canary = workshop.tool(f"team/{below}", "print(1)"), workshop.project / "canary"
    name = possible_names(f"team/{below}")[below == LONG]
    theirs = f"team/{name.removeprefix('team_')}"
    planted = workshop.project / f".ai/tools/{theirs}.py"
    code = path.read_text().partition("\n")[2].replace("print(1)", f"open({str(canary)!r}, 'w')")
    async with workshop.served(mode, "--expose", "team/*") as client:
        assert name in {each.name for each in (await client.list_tools()).tools}
        planted.write_text(code)
        assert facts(await client.call_tool("sign", {"item_id": theirs}))["status"] == "signed"
        path.unlink()
        if not restarted:
            await not_called(client, name, theirs)
    if restarted:
        async with workshop.served(mode, "--expose", "team/*") as client:
            await not_called(client, name, theirs)
    assert not canary.exists()


async def not_called(client: Any, name: str, theirs: str) -> None:
    tools = (await client.list_tools(cache_mode="refresh")).tools
    names = {(each.meta or {}).get("rye/item"): each.name for each in tools}
    assert name not in names.values()
    assert theirs in names, "it is offered, by another name"
    with suppress(MCPError):
        assert facts(await client.call_tool(name, {}))["status"] == "error"


async def test_a_tool_of_the_user_space_keeps_its_name(workshop: Workshop, mode: Mode) -> None:
    """Nobody has ever verified it; the agent's would stand in front of it, under the name of it."""
    path, canary = workshop.tool("mine/wallet", "print(1)"), workshop.project / "canary"
    mine = workshop.person.user_space / "tools/mine/wallet.py"
    mine.parent.mkdir(parents=True)
    code = path.read_text().partition("\n")[2]
    path.unlink()
    mine.write_text(code)
    shutil.rmtree(workshop.person.state / "rye/signers", ignore_errors=True)
    path.write_text(code.replace("print(1)", f"open({str(canary)!r}, 'w')"))
    async with workshop.served(mode, "--expose", "mine/*") as client:
        error = facts(await client.call_tool("sign", {"item_id": "mine/wallet"}))
        assert error["code"] == "person_required"
        by_itself(workshop, path, "mine/wallet")
        assert (
            facts(await client.call_tool("execute", {"item_id": "mine/wallet"}))["code"] == "signer_changed"
        )
        assert "mine_wallet" not in {
            each.name for each in (await client.list_tools(cache_mode="refresh")).tools
        }
    assert not canary.exists()


def by_itself(workshop: Workshop, path: Path, item_id: str) -> None:
    """What an agent with a shell does: it signs with its key by itself."""
    keys = KeyRing(workshop.person.user_space, environment={})
    keys.ensure(SignerKind.AGENT)
    space = Space(SpaceName.PROJECT, workshop.project / ".ai")
    file = ItemFile(space, ItemType.TOOL, item_id, ".py", path, path.read_bytes())
    path.write_bytes(sign_content(file, keys.load(SignerKind.AGENT)))


# --- what the gate knows without a record ---


def test_a_lockfile_of_any_version_keeps_an_id_a_persons(world: World) -> None:
    """The agent deletes what a person has locked, and signs 9.0.0."""
    from rye_mcp.verbs.lock import LockUpdateRequest, lock_update

    file = put(world, tool(), signed=True)
    lock_update(LockUpdateRequest("demo/hello"), person(world))
    forget(world)
    file.path.unlink()
    later = put(world, tool("print(2)").replace(b"1.2.0", b"9.0.0"))
    asked(world)
    theirs = world.stored(world.signed_by_another_program(later, world.key(SignerKind.AGENT)))
    error = refused("signer_changed", lambda: world.verify(theirs))
    assert "is locked as signed with the key" in error.message
    world.trust().accept_agents_work(theirs)
    assert world.verify(theirs).signer.kind is SignerKind.AGENT


def test_a_lockfile_that_cannot_be_read_may_be_a_persons(world: World) -> None:
    theirs = signed_past_the_gate(world)
    lock = world.project / ".ai/lockfiles/demo/hello@0.1.0.lock.json"
    lock.parent.mkdir(parents=True)
    for content in (b"{}", b"[", b"\xff"):
        lock.write_bytes(content)
        refused("signer_changed", lambda: world.verify(theirs))
    lock.unlink()
    world.verify(theirs)


def test_a_lockfile_of_an_agent_stops_no_agent(world: World) -> None:
    from rye_mcp.verbs.lock import LockUpdateRequest, lock_update

    put(world, tool())
    sign(SignRequest("demo/hello"), agent(world))
    lock_update(LockUpdateRequest("demo/hello"), person(world))
    put(world, tool("print(2)").replace(b"1.2.0", b"9.0.0"))
    sign(SignRequest("demo/hello"), agent(world))
    context = agent(world)
    context.verify(context.spaces.find("demo/hello", ItemType.TOOL).item)


@pytest.mark.parametrize("extension", [".py", ".sh"])
def test_an_id_of_the_user_space_is_no_agents_in_a_project(world: World, extension: str) -> None:
    """Whether or not anybody has signed or verified it, and in whatever language."""
    theirs = signed_past_the_gate(world)
    trust = world.trust()
    world.verify(theirs, trust=trust)
    mine = put(world, b"echo\n", extension=extension, space=SpaceName.USER)
    refused("signer_changed", lambda: world.verify(theirs, trust=trust))
    theirs.path.write_bytes(tool("print(2)"))
    asked(world)
    mine.path.unlink()
    sign(SignRequest("demo/hello"), agent(world))


def test_to_delete_a_persons_tool_and_to_write_it_again_makes_it_nobody_elses(world: World) -> None:
    """The record knows the id; the four verbs alone do not get around it."""
    file = put(world, tool())
    sign(SignRequest("demo/hello"), person(world))
    file.path.unlink()
    put(world, tool("print('of the agent')"), extension=".py")
    asked(world)
    refused("signer_changed", lambda: world.verify(signed_past_the_gate(world)))
