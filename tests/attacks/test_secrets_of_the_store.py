"""Somebody is after a secret of the user's store: by a tool, a header, or what is left of a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.app import App, Settings
from rye_mcp.executor.drafts import DraftExecutor
from rye_mcp.executor.primitive_executor import PrimitiveExecutor, Watch
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.secret_store import SecretStore
from rye_mcp.spaces import Spaces
from rye_mcp.trust.drafts import as_draft
from rye_mcp.trust.keys import SigningKey
from rye_mcp.trust.scope import SignerKind
from rye_mcp.trust.verify import Trust
from rye_mcp.verbs.explain import ExplainRequest, explain
from rye_mcp.verbs.sign import SignRequest, sign
from tests.bridge_world import RAW, Bridged
from tests.http_server import Connection, Request, serve
from tests.people import Person, Publication
from tests.runtime_workshop import Workshop
from tests.trust_world import World, refused
from tests.users import BOB, as_user, two_users

SECRET = "s3cr3t-of-the-store"
NAME = "STORED_WORD"
"""It does not look like a secret: what guards it goes by where it comes from."""

SHELL = f"""# /// rye
# version: "1.0.0"
# executor_id: bash_runtime
# permissions: {{project: write, secrets: [{NAME}]}}
# ///
"""
LOOKS = f"""import os
from pathlib import Path
__version__ = "1.0.0"
__executor_id__ = "python_runtime"
{{more}}


def main():
    found = []
    for process in Path("/proc").iterdir():
        for name in ("environ", "cmdline"):
            try:
                if b"{SECRET}" in (process / name).read_bytes():
                    found.append(process.name + "/" + name)
            except OSError:
                continue
    return dict(mine=os.environ.get("{NAME}"), elsewhere=found)
"""
NAMES_IT = f'PERMISSIONS = {{"secrets": ["{NAME}"]}}'

SEEKS = """import os
__version__ = "1.0.0"
__executor_id__ = "python_runtime"
PERMISSIONS = {{"project": "write"}}


def main():
    try:
        return os.listdir("{directory}")
    except OSError:
        return "nothing"
"""

REQUEST = """tool_type: http
executor_id: http_runtime
permissions: {{net: any, secrets: [{name}]}}
config_schema: {{type: object, properties: {{base: {{type: string}}, path: {{type: string}}}}}}
config: {{{config}}}
"""


@pytest.fixture
def workshop(world: World) -> Workshop:
    SecretStore(world.user_space).set(NAME, SECRET)
    return Workshop(world)


def sign_with(world: World, relative: str, text: str, key: SigningKey) -> str:
    """The id of a tool that somebody signed with this key."""
    item_id, _, extension = relative.partition(".")
    world.stored(world.signed(world.file(text.encode(), item_id=item_id, extension=f".{extension}"), key))
    return item_id


def whole(result: ExecutionResult) -> str:
    return json.dumps(result.as_dict(detail=True))


# --- whose tools get one ---


async def test_a_tool_of_a_person_gets_what_it_names_and_no_other_tool_does(workshop: Workshop) -> None:
    named = workshop.sign("demo/named.py", LOOKS.format(more=NAMES_IT))
    silent = workshop.sign("demo/silent.py", LOOKS.format(more=""))
    assert (await workshop.data(named))["mine"] == SECRET
    assert (await workshop.data(silent))["mine"] is None


async def test_a_tool_of_an_agent_gets_none(workshop: Workshop, world: World) -> None:
    text = LOOKS.format(more=NAMES_IT)
    item_id = sign_with(world, "demo/agents.py", text, world.key(SignerKind.AGENT))
    result = await workshop.run(item_id)
    assert (result.success, result.data["mine"]) == (True, None)
    assert any(NAME in each.message for each in result.notices if each.code == "permissions_ignored")


async def test_a_tool_of_an_agent_gets_none_by_a_runtime_that_names_it(
    workshop: Workshop, world: World
) -> None:
    runtime = f"""tool_type: runtime
executor_id: rye/core/primitives/subprocess
permissions: {{secrets: [{NAME}]}}
config: {{command: /usr/bin/env}}
"""
    workshop.sign("base/runtime.yaml", runtime)
    text = "tool_type: script\nexecutor_id: base/runtime\n"
    item_id = sign_with(world, "demo/agents.yaml", text, world.key(SignerKind.AGENT))
    result = await workshop.run(item_id)
    assert result.success, result.error
    assert SECRET not in whole(result)


async def test_a_confined_tool_does_not_find_the_files(workshop: Workshop, world: World) -> None:
    """Neither an agent's, nor a person's that declares what it may do, whatever path it tries."""
    directory = SecretStore(world.user_space).directory
    text = SEEKS.format(directory=directory)
    for key in (world.key(), world.key(SignerKind.AGENT)):
        item_id = sign_with(world, f"demo/seeks_{key.kind}.py", text, key)
        assert await workshop.data(item_id) == "nothing"


def test_a_tool_of_a_clone_gets_none(tmp_path: Path) -> None:
    """Not even after a question: its signer is unknown to the user of the clone."""
    published = Publication.make(tmp_path)
    tool = published.project / ".ai/tools/demo/hello.py"
    tool.write_text(LOOKS.format(more=NAMES_IT))
    published.author.rye("sign", "demo/hello", cwd=published.project)
    bob = Person("bob", tmp_path / "bob")
    bob.begin(tmp_path / "own")
    SecretStore(bob.user_space).set(NAME, SECRET)
    clone = published.clone(tmp_path)
    error = bob.refused("untrusted_key", "run", "demo/hello", cwd=clone)
    assert SECRET not in json.dumps(error)


async def test_a_server_gets_none_unless_its_item_names_it(tmp_path: Path) -> None:
    scene = Bridged(tmp_path, **{NAME: "of the server's own environment"})
    SecretStore(scene.app.spaces.user.root).set(NAME, SECRET)
    server = scene.project / "server.py"
    server.write_bytes(RAW.read_bytes())
    about = {**scene.config(env={NAME: f"${{{NAME}}}"}), "args": [str(server), "good"]}
    await scene.add(about, "environment")
    async with scene.serving():
        seen = await scene.call("environment")
    assert SECRET not in whole(seen)
    item = scene.item("environment")
    before, _, after = item.read_text().partition("permissions:\n")
    text = before + "permissions:\n" + after.replace("  env:", "  project: read\n  secrets:", 1)
    item.write_text("".join(line for line in text.splitlines(True) if "rye:signed" not in line))
    sign(SignRequest("mcp/raw/environment"), scene.person)
    async with scene.serving():
        named = await scene.call("environment")
    assert named.success, named.error
    assert scene.json(named)[NAME] == SECRET


def test_a_draft_gets_none(world: World) -> None:
    workshop = Workshop(world)
    SecretStore(world.user_space).set(NAME, SECRET)
    world.key()
    file = world.stored(world.file(LOOKS.format(more=NAMES_IT).encode()))
    spaces = Spaces.locate(world.project, user=world.user_space.parent)
    trust = Trust(
        user_space=world.user_space,
        project=world.project,
        system_space=spaces.system.root,
        state=world.state,
        environment={},
    )
    draft = as_draft(file, trust, refused("unsigned", lambda: world.verify(file, trust=trust)))
    executor = DraftExecutor.of_draft(
        draft, spaces, project=workshop.project, state=world.state, locked=False, environment=dict(os.environ)
    )

    async def run() -> None:
        try:
            result = await executor.execute("demo/hello", use_lockfile=False)
        finally:
            await executor.close()
        assert (result.code, result.hint) == ("secret_missing", "rye sign demo/hello")

    anyio.run(run)


# --- where it is ---


async def test_while_a_tool_has_it_no_process_but_that_one_shows_it(workshop: Workshop, world: World) -> None:
    """No server, no supervisor and no keeper has it in its environment or its arguments."""
    held = workshop.sign("demo/holds.sh", f"{SHELL}echo ready\nexec cat fifo\n")
    looks = workshop.sign("demo/looks.py", LOOKS.format(more=""))
    fifo = world.project / "fifo"
    os.mkfifo(fifo)
    executor = PrimitiveExecutor(world.project, user_space=world.user_space.parent, state=world.state)
    ready, pids = anyio.Event(), list[int]()
    watch = Watch(on_output=lambda *_: ready.set(), on_started=lambda pid, _: pids.append(pid))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: executor.execute(held, watch=watch))
            await ready.wait()
            found = (await executor.execute(looks)).data
            os.close(os.open(fifo, os.O_WRONLY))
    finally:
        await executor.close()
    assert {each.partition("/")[2] for each in found["elsewhere"]} <= {"environ"}
    assert {each.partition("/")[0] for each in found["elsewhere"]} <= {str(pids[0])}


def test_nothing_of_it_is_left_of_a_run(tmp_path: Path) -> None:
    """Not in the log, what was kept, the answer, a dry run, an explanation, a lockfile or the project."""
    bob = Person("bob", tmp_path / "bob")
    project = bob.begin(tmp_path / "project")
    tool = project / ".ai/tools/demo/uses.sh"
    tool.parent.mkdir(parents=True)
    tool.write_text(f'{SHELL}echo "${{#{NAME}}}"; head -c 400000 /dev/zero >&2; exit 3\n')
    assert SECRET not in bob.rye("secret", "set", NAME, cwd=project, given=f"{SECRET}\n".encode()).shown
    shown = [
        bob.rye(*words, cwd=project, code=None).shown
        for words in [
            ("sign", "demo/uses"),
            ("lock", "update", "demo/uses"),
            ("run", "demo/uses"),
            ("run", "demo/uses", "--json"),
            ("run", "demo/uses", "--dry-run"),
            ("explain", "demo/uses", "--json"),
            ("log", "--json"),
            ("secret", "list", "--json"),
        ]
    ]
    assert f"{len(SECRET)}" in shown[2]
    assert NAME in shown[0]
    assert all(SECRET not in each for each in shown)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    holding = [path for path in files if SECRET.encode() in path.read_bytes()]
    assert [path.parent for path in holding] == [bob.user_space / "secrets"]


async def test_no_bundle_and_no_preview_holds_it(workshop: Workshop, world: World) -> None:
    item_id = workshop.sign("demo/named.sh", f'{SHELL}echo "${{#{NAME}}}"\n')
    executor = PrimitiveExecutor(world.project, user_space=world.user_space.parent, state=world.state)
    try:
        bundle = await executor.bundle(item_id)
        preview = await executor.preview(item_id)
        dry = await executor.dry_run(item_id)
        again = await executor.run_bundle(bundle)
    finally:
        await executor.close()
    assert SECRET.encode() not in bundle.to_bytes()
    assert SECRET not in f"{preview!r} {dry!r} {dry.as_dict()}"
    assert NAME in dry.job["environment"]
    assert again.data == len(SECRET)


async def test_an_explanation_names_it_and_no_agents_tool_has_one(tmp_path: Path) -> None:
    scene = Bridged(tmp_path)
    SecretStore(scene.app.spaces.user.root).set(NAME, SECRET)
    tool = scene.project / ".ai/tools/demo/uses.py"
    tool.parent.mkdir(parents=True)
    tool.write_text(LOOKS.format(more=NAMES_IT.replace("]", ', "OTHER_WORD"]')))
    sign(SignRequest("demo/uses"), scene.app.context(SignerKind.AGENT))
    agents = await explain(ExplainRequest("demo/uses"), scene.person)
    sign(SignRequest("demo/uses"), scene.person)
    persons = await explain(ExplainRequest("demo/uses"), scene.person)
    assert agents.secrets == {}
    assert persons.secrets == {NAME: True, "OTHER_WORD": False}
    assert persons.refusal is not None
    assert (persons.refusal.code, persons.refusal.hint) == ("secret_missing", "rye secret set OTHER_WORD")
    assert SECRET not in f"{persons!r} {persons.as_dict()}"


@pytest.mark.parametrize(
    "config",
    [
        "command: echo, args: ['${%s}']",
        "command: 'echo ${%s}', shell: true",
        "command: echo, args: ['${X:-${%s}}']",
        "command: echo, cwd: '/tmp/${%s}'",
    ],
    ids=["an argument", "a shell", "a default", "the directory"],
)
async def test_it_stands_in_no_command_line(workshop: Workshop, config: str) -> None:
    text = f"""tool_type: script
executor_id: rye/core/primitives/subprocess
permissions: {{secrets: [{NAME}]}}
config: {{{config.replace("%s", NAME)}}}
"""
    result = await workshop.run(workshop.sign("demo/tool.yaml", text))
    assert (result.success, result.code) == (False, "invalid_item")
    assert NAME in (result.error or "")
    assert SECRET not in whole(result)


@two_users
def test_another_user_reads_none(world: World, tmp_path: Path) -> None:
    store = SecretStore(world.user_space)
    store.set(NAME, SECRET)
    [file] = store.directory.iterdir()
    assert (store.directory.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)

    def read() -> str:
        try:
            return file.read_text()
        except PermissionError:
            return "denied"

    assert as_user(BOB, read) == "denied"


def test_what_others_can_read_is_not_used(world: World) -> None:
    store = SecretStore(world.user_space)
    store.set(NAME, SECRET)
    [file] = store.directory.iterdir()
    file.chmod(0o644)
    error = refused("unsafe_permissions", lambda: store.values([NAME]))
    assert "chmod 0600" in error.hint
    assert SECRET not in str(error.as_dict())
    file.chmod(0o600)
    store.directory.chmod(0o755)
    refused("unsafe_permissions", lambda: store.values([NAME]))


# --- where a header goes ---


async def _greet(connection: Connection, request: Request) -> None:
    await connection.json(b'{"fine": true}')


async def _request(
    workshop: Workshop, config: str, given: Mapping[str, Any] | None = None
) -> ExecutionResult:
    return await workshop.run(workshop.sign("demo/ask.yaml", REQUEST.format(name=NAME, config=config)), given)


HEADERS = f"headers: {{X-Word: '${{{NAME}}}'}}"
AUTH = f"auth: {{type: bearer, token: '${{{NAME}}}'}}"


@pytest.mark.parametrize(
    ("config", "header", "sent"),
    [(HEADERS, "x-word", SECRET), (AUTH, "authorization", f"Bearer {SECRET}")],
    ids=["a header", "auth"],
)
async def test_a_header_has_it_for_the_host_of_the_file(
    workshop: Workshop, config: str, header: str, sent: str
) -> None:
    async with serve(_greet) as server:
        result = await _request(workshop, f"url: '{server.url}/{{path}}', {config}", {"path": "a"})
    assert result.success, result.error
    assert server.requests[0].headers[header] == sent
    assert SECRET not in whole(result)


@pytest.mark.parametrize("config", [HEADERS, AUTH], ids=["a header", "auth"])
@pytest.mark.parametrize("url", ["{base}", "{base}/x", "http://{base}/x", "http://127.0.0.1:{base}/x"])
async def test_a_parameter_chooses_no_host_for_it(workshop: Workshop, config: str, url: str) -> None:
    async with serve(_greet) as server:
        whole_url, host = server.url, server.url.partition("//")[2]
        base = {"http://{base}/x": host, "http://127.0.0.1:{base}/x": str(server.port)}.get(url, whole_url)
        result = await _request(
            workshop, f"url: '{url}', allow_private_hosts: true, {config}", {"base": base}
        )
        assert server.requests == []
    assert (result.success, result.code) == (False, "invalid_item")
    assert "host" in (result.error or "")


async def test_a_variable_chooses_no_host_for_it(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(_greet) as server:
        monkeypatch.setenv("SOME_BASE", server.url)
        result = await _request(workshop, f"url: '${{SOME_BASE}}/x', {HEADERS}")
        assert server.requests == []
    assert (result.success, result.code) == (False, "invalid_item")


async def test_a_redirect_takes_it_to_no_other_host(workshop: Workshop) -> None:
    async with serve(_greet) as other:

        async def lead_away(connection: Connection, request: Request) -> None:
            await connection.reply("302 Found", headers={"Location": f"{other.url}/there"})

        async with serve(lead_away) as server:
            config = f"url: '{server.url}/', follow_redirects: true, {HEADERS}"
            result = await _request(workshop, f"{config}, allow_private_hosts: true")
    assert result.success, result.error
    assert server.requests[0].headers["x-word"] == SECRET
    assert [SECRET.encode() in request.raw_head for request in other.requests] == [False]


@pytest.mark.parametrize(
    "config",
    [
        "url: 'http://127.0.0.1:1/?key=${%s}'",
        "url: 'http://127.0.0.1:1/${%s}'",
        "url: 'http://127.0.0.1:1/', method: POST, body: {key: '${%s}'}",
        "url: 'http://127.0.0.1:1/', auth: {type: api_key, key: x, header: '${%s}'}",
    ],
    ids=["the query", "the path", "the body", "the name of a header"],
)
async def test_a_request_has_it_nowhere_but_in_a_header(workshop: Workshop, config: str) -> None:
    result = await _request(workshop, config.replace("%s", NAME))
    assert (result.success, result.code) == (False, "invalid_item")
    assert SECRET not in whole(result)


async def test_a_host_that_repeats_it_puts_it_into_no_error(workshop: Workshop, world: World) -> None:
    async def repeat(connection: Connection, request: Request) -> None:
        await connection.reply(f"401 wrong {request.headers['x-word']}")

    async with serve(repeat) as server:
        result = await _request(workshop, f"url: '{server.url}/', {HEADERS}")
    assert (result.success, result.code) == (False, "tool_failed")
    assert SECRET not in (result.error or "")
    kept = [path for path in world.state.rglob("*") if path.is_file() and not path.is_symlink()]
    assert kept
    assert all(SECRET.encode() not in path.read_bytes() for path in kept)


# --- the command ---


def test_a_value_among_the_arguments_is_not_shown_and_not_kept(tmp_path: Path) -> None:
    bob = Person("bob", tmp_path / "bob")
    project = bob.begin(tmp_path / "project")
    for words in ((NAME, SECRET), (NAME, f"--value={SECRET}"), (f"{NAME}={SECRET}",)):
        answer = bob.rye("secret", "set", *words, cwd=project, code=2, given=b"other")
        assert SECRET not in answer.shown
    assert bob.rye("secret", "list", "--json", cwd=project).json["secrets"] == []


def test_no_tool_that_an_agent_signed_makes_rye_run_ask(tmp_path: Path) -> None:
    bob = Person("bob", tmp_path / "bob")
    project = bob.begin(tmp_path / "project")
    tool = project / ".ai/tools/demo/asks.py"
    tool.parent.mkdir(parents=True)
    tool.write_text(LOOKS.format(more=NAMES_IT))
    settings = Settings.find(
        project=project,
        user_directory=bob.user_space.parent,
        state=bob.state / "rye",
        environment=bob.environment,
    )
    sign(SignRequest("demo/asks"), App.open(settings).context(SignerKind.AGENT))
    shown = bob.types([], "run", "demo/asks", cwd=project).out
    assert f"Value of {NAME}" not in shown
    assert '"mine": null' in shown
