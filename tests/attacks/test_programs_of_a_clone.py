"""A project that nobody approved decides which program starts, or what that finds where it stands.

A `clone` has a binary that leaves a canary. Each attack leads a start there: by a shim of a version manager,
by the directory, by the PATH, by a variable, or by what code imports.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from rye_mcp.app import App, Settings
from rye_mcp.executor.environment.shims import PathWithoutShims
from rye_mcp.trust.approvals import Approvals
from rye_mcp.trust.directories import Directories, Look
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.examples import ExamplesRequest, run_examples
from tests.bridge_world import RAW, Bridged
from tests.runtime_workshop import Workshop, needs
from tests.trust_world import World

SYSTEM_PATH = "/usr/bin:/bin"
TOOL = """\
__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/{runtime}"
PERMISSIONS = "unconfined"
{more}
import os


def execute(params, project_path):
    return os.getcwd()


if __name__ == "__main__":
    print(os.getcwd())
"""


@dataclass
class Clone:
    """The project of a workshop, which nobody approved, and what it wants to have started."""

    workshop: Workshop
    place: Path

    @property
    def root(self) -> Path:
        return self.workshop.project

    @property
    def canary(self) -> Path:
        """It lies in the project, where a confined tool can leave it, too."""
        return self.root / "canary"

    @property
    def is_started(self) -> bool:
        return self.canary.exists()

    def program(self, name: str, directory: str = "bin") -> Path:
        """A program of the clone; what it does instead of its work is told by the canary."""
        path = self.root / directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\n: > "{self.canary}"\necho \'"evil"\'\n', encoding="utf-8")
        path.chmod(0o755)
        return path

    def tool(self, runtime: str = "python_function_runtime", more: str = "") -> str:
        return self.workshop.sign("demo/where.py", TOOL.format(runtime=runtime, more=more))


@pytest.fixture
def clone(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("PATH", SYSTEM_PATH)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Clone(Workshop(world), tmp_path)


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


# --- shims, and the directory ---

CHOOSES = """\
program=/usr/bin/$name
[ ! -e .tool-versions ] || program=$PWD/bin/$name
"""
"""What a version manager does: the file in the directory it is started in says which program is meant."""


def asdf(home: Path) -> Path:
    """As asdf: a script for each program hands over to the manager."""
    script(
        home / ".asdf/bin/asdf",
        f"#!/bin/sh\nverb=$1 name=$2\nshift 2\n{CHOOSES}"
        '[ $verb = exec ] || { echo "$program"; exit; }\nexec "$program" "$@"\n',
    )
    text = f'#!/bin/sh\n# asdf-plugin: python\nexec "{home}/.asdf/bin/asdf" exec "python3" "$@"\n'
    return script(home / ".asdf/shims/python3", text).parent


def mise(home: Path) -> Path:
    """As mise: a link for each program to the manager, which goes by the name it is started by."""
    manager = script(
        home / ".local/bin/mise",
        f'#!/bin/sh\nname=${{0##*/}}\n[ "$name" != mise ] || name=$2\n{CHOOSES}'
        '[ "${0##*/}" != mise ] || { echo "$program"; exit; }\nexec "$program" "$@"\n',
    )
    link = home / ".local/share/mise/shims/python3"
    link.parent.mkdir(parents=True)
    link.symlink_to(manager)
    return link.parent


def elsewhere(home: Path) -> Path:
    """As any other program that looks into the directory that it is started in."""
    text = f'#!/bin/sh\nname=python3\n{CHOOSES}exec "$program" "$@"\n'
    return script(home / "tools/python3", text).parent


@pytest.mark.first_case
@pytest.mark.parametrize("manager", [asdf, mise, elsewhere])
@pytest.mark.parametrize("runtime", ["python_function_runtime", "python_script_runtime", "python_runtime"])
async def test_a_shim_starts_no_program_of_it(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, manager: Callable[[Path], Path], runtime: str
) -> None:
    shims = manager(clone.place / "home")
    monkeypatch.setenv("PATH", f"{shims}:{SYSTEM_PATH}")
    clone.program("python3")
    (clone.root / ".tool-versions").write_text("python path:./\n", encoding="ascii")
    result = await clone.workshop.run(clone.tool(runtime))
    assert not clone.is_started
    assert result.success, (result.error, result.stderr)
    assert result.data.strip() == str(clone.root)


async def test_an_approved_project_has_no_shim_start_what_came_with_it(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{asdf(clone.place / 'home')}:{SYSTEM_PATH}")
    clone.program("python3")
    (clone.root / ".tool-versions").write_text("python path:./\n", encoding="ascii")
    Approvals(clone.root, clone.workshop.world.state).approve_project()
    result = await clone.workshop.run(clone.tool())
    assert not clone.is_started
    assert result.success, (result.error, result.stderr)


def among_programs(home: Path, link: Callable[[Path, Path], None]) -> Path:
    """A directory of the user's programs, of which some are the manager under another name."""
    text = mise(home).joinpath("python3").read_text(encoding="utf-8")
    manager = script(home / ".local/bin/mise", text)
    for name in ("tac", "git", "rg"):
        link(manager, manager.parent / name)
    script(manager.parent / "hello", "#!/bin/sh\necho hello\n")
    return manager.parent


def as_script(manager: Path, shim: Path) -> None:
    script(shim, f'#!/bin/sh\nexec "{manager}" exec {shim.name} "$@"\n')
    text = manager.read_text(encoding="utf-8")
    taking = '[ "$1" != exec ] || { name=$2; shift 2; . /dev/stdin; exec "$program" "$@"; } <<"END"\n'
    if taking not in text:
        manager.write_text(
            text.replace("#!/bin/sh\n", f"#!/bin/sh\n{taking}{CHOOSES}END\n"), encoding="utf-8"
        )


KINDS_OF_SHIMS: Mapping[str, Callable[[Path, Path], None]] = {
    "a link": lambda manager, shim: shim.symlink_to(manager),
    "a hard link": lambda manager, shim: shim.hardlink_to(manager),
    "a script": as_script,
}
DOORS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "spawn": ("rye/process/spawn", {"command": "tac", "args": ["/dev/null"]}),
    "bash": ("rye/bash/bash", {"command": "tac </dev/null"}),
    "python": ("rye/python/run", {"code": "import subprocess; subprocess.run(['tac'], stdin=-3)"}),
    "git": ("rye/git/status", {}),
    "grep": ("rye/file-system/grep", {"pattern": "x"}),
    "a program of the caller": (
        "rye/core/primitives/subprocess",
        {"config": {"command": "sh", "args": ["-c", "tac </dev/null"], "cwd": "{clone}"}},
    ),
}


UNCONFINED = """\
import os, subprocess

__version__ = "1.0.0"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
PERMISSIONS = "unconfined"
CONFIG_SCHEMA = {"type": "object", "properties": {"programs": {"type": "array"}}}


def execute(params, project_path):
    os.chdir(project_path)
    for name in params["programs"]:
        said = subprocess.run(["sh", "-c", name], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return said.stdout
"""
"""What a confined tool does not see on the PATH, this one does: no shim, and every other program."""


@pytest.mark.thorough
@pytest.mark.parametrize("link", KINDS_OF_SHIMS.values(), ids=KINDS_OF_SHIMS)
@pytest.mark.parametrize(("item_id", "given"), DOORS.values(), ids=DOORS)
async def test_a_shim_among_other_programs_starts_no_program_of_it(
    clone: Clone,
    monkeypatch: pytest.MonkeyPatch,
    link: Callable[[Path, Path], None],
    item_id: str,
    given: dict[str, Any],
) -> None:
    """What a tool starts by itself stands in the project, and is found by its bare name."""
    programs = among_programs(clone.place / "home", link)
    monkeypatch.setenv("PATH", f"{programs}:{SYSTEM_PATH}")
    for name in ("tac", "git", "rg"):
        clone.program(name)
    (clone.root / ".tool-versions").write_text("any path:./\n", encoding="ascii")
    given = json.loads(json.dumps(given).replace("{clone}", str(clone.root)))
    for is_confined in (True, False):
        if not is_confined:  # by its cell, which does not show what is around a shim
            clone.workshop.world.lift("rye/*")
        result = await clone.workshop.run(item_id, given)
        if item_id == "rye/process/spawn":
            assert result.success, (result.error, result.stderr)
            await ended(clone.workshop, result.data["id"])
        assert not clone.is_started
    free = clone.workshop.sign("demo/free.py", UNCONFINED)
    assert await clone.workshop.data(free, {"programs": ["tac", "git", "rg", "hello"]}) == "hello\n"
    assert not clone.is_started


async def ended(workshop: Workshop, process_id: str) -> None:
    """Let a process do what it does."""
    asked = {"id": process_id}
    for _ in range(200):
        [process] = (await workshop.data("rye/process/status", asked))["processes"]
        if process["state"] != "running":
            return
        await anyio.sleep(0.05)


async def test_spawn_starts_no_shim_where_the_project_is_approved_either(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = among_programs(clone.place / "home", KINDS_OF_SHIMS["a link"])
    monkeypatch.setenv("PATH", f"{programs}:{SYSTEM_PATH}")
    clone.program("tac")
    (clone.root / ".tool-versions").write_text("any path:./\n", encoding="ascii")
    Approvals(clone.root, clone.workshop.world.state).approve_project()
    started = await clone.workshop.data("rye/process/spawn", {"command": "tac", "args": ["/dev/null"]})
    await ended(clone.workshop, started["id"])
    assert not clone.is_started


async def test_git_is_started_where_no_file_of_it_counts(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a wrapper that nobody knows: it looks into the directory that it is started in."""
    clone.workshop.world.lift("rye/git/*")  # a cell does not show the wrapper
    wrapper = script(clone.place / "home/tools/git", f'#!/bin/sh\nname=git\n{CHOOSES}exec "$program" "$@"\n')
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{SYSTEM_PATH}")
    clone.program("git")
    (clone.root / ".tool-versions").write_text("git path:./\n", encoding="ascii")
    await clone.workshop.run("rye/git/status")
    assert not clone.is_started


def test_a_path_is_looked_at_again_when_a_shim_has_come(own_place: Path) -> None:
    """And what stands for a directory is made once, as long as that has the same programs."""
    path, programs = PathWithoutShims(lambda: own_place / "state"), own_place / "bin"
    script(programs / "hello", "#!/bin/sh\n")
    assert path.of({"PATH": str(programs)})["PATH"] == str(programs)
    script(programs / "mise", "#!/bin/sh\n")
    (programs / "node").symlink_to("mise")
    used = path.of({"PATH": str(programs)})["PATH"]
    assert sorted(each.name for each in Path(used).iterdir()) == ["hello", "mise"]
    assert PathWithoutShims(lambda: own_place / "state").of({"PATH": str(programs)})["PATH"] == used
    (own_place / "none").write_text("", encoding="ascii")
    nowhere = PathWithoutShims(lambda: own_place / "none").of({"PATH": f"{programs}:/usr/bin"})
    assert nowhere["PATH"] == "/usr/bin", "where no directory can be made"


# --- the PATH ---


def in_another_clone(clone: Clone, mark: str) -> Path:
    other = clone.place / "work/other"
    (other / mark).mkdir(parents=True)
    program = clone.program("python3")
    moved = other / "node_modules/.bin/python3"
    moved.parent.mkdir(parents=True)
    shutil.move(program, moved)
    return moved.parent


@pytest.mark.parametrize("mark", [".ai", ".git"])
@pytest.mark.parametrize(
    "approved", [False, True], ids=["called in a clone", "called in an approved project"]
)
async def test_the_path_leads_into_no_other_project_either(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, mark: str, *, approved: bool
) -> None:
    monkeypatch.setenv("PATH", f"{in_another_clone(clone, mark)}:{SYSTEM_PATH}")
    if approved:
        Approvals(clone.root, clone.workshop.world.state).approve_project()
    result = await clone.workshop.run(clone.tool())
    assert not clone.is_started
    assert result.success, (result.error, result.stderr)
    assert "path_not_used" in {notice.code for notice in result.notices}


async def test_the_path_leads_into_no_clone_when_examples_run_elsewhere(clone: Clone) -> None:
    program = clone.program("python3")
    example = "EXAMPLES = [{'parameters': {}, 'files': {'a.txt': 'x'}}]\n"
    item_id = clone.tool(more=example)
    world = clone.workshop.world
    settings = Settings.find(
        project=clone.root,
        user_directory=world.user_space.parent,
        state=world.state,
        environment={"PATH": f"{program.parent}:{SYSTEM_PATH}"},
    )
    app = App.open(settings)
    async with app.closing():
        context = app.context(SignerKind.PERSON)
        found = await run_examples(ExamplesRequest(item_id), context, executor_in=app.executor_in)
    assert not clone.is_started
    assert [outcome.error for outcome in found.outcomes] == [None]
    assert not found.failed


OTHERS = {
    "they own it": (4001, 0o755),
    "they may write to it": (0, 0o777),
    "as anybody, in /tmp": (0, 0o1777),
}


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of other users")
@pytest.mark.parametrize(("owner", "mode"), OTHERS.values(), ids=OTHERS)
async def test_the_path_leads_into_no_directory_that_another_user_can_write(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int
) -> None:
    shared = clone.place / "shared"
    shutil.copytree(clone.program("python3").parent, shared / "bin")
    shared.chmod(mode)
    os.chown(shared, owner, owner)
    for directory in (shared, shared / "bin"):
        directory.chmod(mode)
        os.chown(directory, owner, owner)
    monkeypatch.setenv("PATH", f"{shared}/bin:{SYSTEM_PATH}")
    result = await clone.workshop.run(clone.tool())
    assert not clone.is_started
    assert result.success, (result.error, result.stderr)
    assert "path_not_used" in {notice.code for notice in result.notices}


LINKS = {
    "in a directory of theirs": (4001, 0o755, False),
    "in one of theirs, as a second hop": (4001, 0o755, True),
    "of theirs in /tmp": (0, 0o1777, False),
    "of theirs in /tmp, as a second hop": (0, 0o1777, True),
    "in another clone, as a second hop": (0, 0o755, True),
}


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of other users")
@pytest.mark.parametrize(("owner", "mode", "over"), LINKS.values(), ids=LINKS)
async def test_the_path_leads_over_no_link_that_another_user_can_turn(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int, *, over: bool
) -> None:
    """The link leads to a place of this user, and would be turned elsewhere once that has been found good."""
    good, shared, own = (clone.place / name for name in ("good", "shared", "own"))
    shutil.copytree(clone.program("python3").parent, good)
    shared.mkdir()
    os.chown(shared, owner, owner)
    shared.chmod(mode)
    (shared / "bin").symlink_to(good)
    if (owner, mode) == (0, 0o755):
        (shared / ".git").mkdir()
    os.chown(shared / "bin", 4001, 4001, follow_symlinks=False)
    own.symlink_to(shared / "bin")
    monkeypatch.setenv("PATH", f"{own if over else shared / 'bin'}:{SYSTEM_PATH}")
    result = await clone.workshop.run(clone.tool())
    assert not clone.is_started
    assert result.success, (result.error, result.stderr)
    assert "path_not_used" in {notice.code for notice in result.notices}


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes other users")
def test_what_another_user_can_write_is_told_by_an_ordinary_user_too(
    request: pytest.FixtureRequest,
) -> None:
    """A user 4001 asks about directories of theirs, of root and of a user 4002, in a `/tmp` of everybody."""
    everybody = Path(tempfile.mkdtemp())  # those of pytest cannot be entered by others
    request.addfinalizer(partial(shutil.rmtree, everybody))
    places = {"own": (4001, 0o755), "roots": (0, 0o755), "others": (4002, 0o755), "open": (4001, 0o777)}
    everybody.chmod(0o1777)
    for name, (owner, mode) in places.items():
        (everybody / name).mkdir()
        os.chown(everybody / name, owner, owner)
        (everybody / name).chmod(mode)
    directories = Directories(user=everybody / "own", state=lambda: everybody / "own")
    (everybody / "open/bin").mkdir()
    asked = ["own", "roots", "others", "open", "open/bin", "missing", "."]
    answers = as_user(
        4001, lambda: [name for name in asked if directories.why_not(str(everybody / name)) is None]
    )
    assert answers == ["own", "roots"]


LATER: Mapping[str, Callable[[Path], None]] = {
    "a project around it": lambda place: (place / "a/.ai").mkdir(),
    "others may write above it": lambda place: (place / "a").chmod(0o777),
    "a link on the way": lambda place: turned(place / "links/link", place / "open"),
    "others may write above the link": lambda place: (place / "links").chmod(0o777),
}


@pytest.mark.parametrize("change", LATER.values(), ids=LATER)
def test_a_directory_that_becomes_unsafe_is_used_no_longer(
    own_place: Path, change: Callable[[Path], None]
) -> None:
    """What is above it changes right after it was found good; the clock says that all of it is long ago."""
    (own_place / "a/b/bin").mkdir(parents=True)
    (own_place / "open/b/bin").mkdir(parents=True)
    (own_place / "open").chmod(0o777)
    (own_place / "links").mkdir()
    (own_place / "links/link").symlink_to(own_place / "a")
    directories = Directories(
        user=own_place / "user", state=lambda: own_place / "state", clock=lambda: time.time_ns() + 10**10
    )
    asked = str(own_place / "links/link/b/bin")
    assert [directories.why_not(asked) for _ in range(2)] == [None, None]
    change(own_place)
    assert directories.why_not(asked) is not None


def test_a_change_that_has_the_time_of_the_last_one_is_noticed(own_place: Path) -> None:
    """One look for both questions: as if the clock of the file system had not gone on between them."""
    (own_place / "a/bin").mkdir(parents=True)
    directories, look = Directories(user=own_place / "user", state=lambda: own_place / "state"), Look()
    assert directories.why_not(str(own_place / "a/bin"), look) is None
    (own_place / "a/.ai").mkdir()
    assert directories.why_not(str(own_place / "a/bin"), look) is not None


def turned(link: Path, to: Path) -> None:
    link.unlink()
    link.symlink_to(to)


def as_user(uid: int, ask: Callable[[], Any]) -> Any:
    """What a process of another user finds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(writing, json.dumps(ask()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:  # noqa: PTH123 - a descriptor
        found = answer.read()
    os.waitpid(child, 0)
    return json.loads(found)


# --- variables ---


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["PYENV_ROOT", "JAVA_HOME", "SOME_PATH"])
@pytest.mark.parametrize("value", ["{clone}/x", "{clone}", "/usr/share:{clone}/x", "{other}"])
async def test_no_variable_leads_into_one(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    other = in_another_clone(clone, ".git")
    monkeypatch.setenv(name, value.format(clone=clone.root, other=other))
    body = f"import os\n\ndef execute(params, project_path):\n    return os.environ.get({name!r})\n"
    head = '__version__ = "1.0.0"\n__executor_id__ = "rye/core/runtimes/python_function_runtime"\n'
    result = await clone.workshop.run(clone.workshop.sign("demo/told.py", head + body))
    assert (result.success, result.data) == (True, "/usr/share" if ":" in value else None), result.error
    assert result.success, (result.error, result.stderr)
    assert "path_not_used" in {notice.code for notice in result.notices}


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of other users")
@pytest.mark.parametrize(("owner", "mode"), OTHERS.values(), ids=OTHERS)
async def test_no_variable_leads_where_another_user_can_write(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, owner: int, mode: int
) -> None:
    shared = clone.place / "shared"
    shared.mkdir()
    shared.chmod(mode)
    os.chown(shared, owner, owner)
    names = ("JAVA_HOME", "SOME_PATH", "OTHER_PATH")
    for name, value in zip(names, (shared / "x", shared, "/usr/share"), strict=True):
        monkeypatch.setenv(name, str(value))
    body = (
        f"import os\n\ndef execute(params, project_path):\n    return list(map(os.environ.get, {names!r}))\n"
    )
    head = (
        '__version__ = "1.0.0"\n__executor_id__ = "rye/core/runtimes/python_function_runtime"\n'
        'PERMISSIONS = "unconfined"\n'
    )
    result = await clone.workshop.run(clone.workshop.sign("demo/told.py", head + body))
    assert result.success, (result.error, result.stderr)
    assert result.data == [None, None, "/usr/share"]
    assert "path_not_used" in {notice.code for notice in result.notices}


@pytest.mark.parametrize("approved", [False, True])
async def test_a_variable_of_a_version_manager_leads_to_no_interpreter_of_it(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, *, approved: bool
) -> None:
    clone.program("python", "versions/3.11.0/bin")
    monkeypatch.setenv("PYENV_ROOT", str(clone.root))
    if approved:
        Approvals(clone.root, clone.workshop.world.state).approve_project()
    clone.workshop.sign(
        "base/py.yaml",
        "tool_type: runtime\nexecutor_id: rye/core/primitives/subprocess\n"
        "env_config: {interpreter: {type: version_manager, manager: pyenv, version: '3.11', var: P,"
        " fallback: python3}}\nconfig: {command: '${P}', args: ['{tool_path}']}\n",
    )
    await clone.workshop.run(
        clone.workshop.sign(
            "demo/x.py", '__executor_id__ = "base/py"\nPERMISSIONS = "unconfined"\nprint(1)\n'
        )
    )
    assert not clone.is_started


# --- what is started by other doors ---


async def test_a_server_of_the_user_space_does_not_stand_in_it(tmp_path: Path) -> None:
    scene = Bridged(tmp_path)
    where = tmp_path / "where"
    line = f"pwd > {shlex.quote(str(where))}; exec {shlex.join([sys.executable, str(RAW), 'good'])}"
    await scene.add({**scene.config(), "command": "sh", "args": ["-c", line]}, "echo")
    assert where.read_text() == "/\n", "while it was brought in"
    where.unlink()
    async with scene.serving():
        assert (await scene.call("echo", text="x")).success
    assert where.read_text() == "/\n"


# --- code that a caller gives ---

IMPORTS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "python": ("rye/python/run", {"code": "import evil"}, "python3"),
    "require": ("rye/node/run", {"code": "require('evil')"}, "node"),
    "require beside it": ("rye/node/run", {"code": "require('./evil.js')"}, "node"),
    "import": ("rye/node/run", {"code": "import 'evil'", "module": True}, "node"),
    "import()": ("rye/node/run", {"code": "import('evil')"}, "node"),
    "import beside it": ("rye/node/run", {"code": "import './evil.js'", "module": True}, "node"),
}


@pytest.mark.first_case
@pytest.mark.parametrize(("item_id", "given", "program"), IMPORTS.values(), ids=IMPORTS)
@pytest.mark.parametrize("approved", [False, True])
async def test_code_imports_nothing_of_it(
    clone: Clone,
    monkeypatch: pytest.MonkeyPatch,
    item_id: str,
    given: dict[str, Any],
    program: str,
    *,
    approved: bool,
) -> None:
    needs(program, monkeypatch)
    write = f"require('fs').writeFileSync('{clone.canary}', '')"
    for name, text in {
        "evil.py": f"open('{clone.canary}', 'w')",
        "evil.js": write,
        "node_modules/evil/index.js": write,
    }.items():
        script(clone.root / name, text)
    if approved:
        Approvals(clone.root, clone.workshop.world.state).approve_project()
    result = await clone.workshop.run(item_id, given)
    assert clone.is_started is approved, (result.error, result.data)


async def test_code_stands_in_the_project_all_the_same(clone: Clone) -> None:
    script(clone.root / "a.txt", "hello")
    for item_id, code in (
        ("rye/python/run", "print(open('a.txt').read())"),
        ("rye/node/run", "console.log(require('fs').readFileSync('a.txt', 'utf8'))"),
        ("rye/bash/bash", "cat a.txt; echo"),
    ):
        name = "command" if item_id.endswith("bash") else "code"
        result = await clone.workshop.run(item_id, {name: code})
        assert result.data["stdout"] == "hello\n", result.data


GIVEN: Mapping[str, dict[str, Any]] = {
    "rye/bash/bash": {"command": "true"},
    "rye/python/run": {"code": "1"},
    "rye/node/run": {"code": "1"},
    "rye/process/spawn": {"command": "true"},
    "rye/core/primitives/subprocess": {"config": {"command": "true"}},
    "demo/any": {"program": "true"},
}


@pytest.mark.first_case
@pytest.mark.parametrize("item_id", GIVEN)
async def test_what_runs_code_that_it_was_given_is_not_sealed(clone: Clone, item_id: str) -> None:
    clone.workshop.sign(
        "demo/any.yaml",
        "tool_type: tool\nexecutor_id: rye/core/primitives/subprocess\nconfig: {command: '{program}'}\n"
        "config_schema: {type: object, properties: {program: {type: string}}}\n",
    )
    result = await clone.workshop.run(item_id, GIVEN[item_id])
    assert result.sealed is False, result.error
    assert "was given" in result.metadata["why_not_sealed"]
