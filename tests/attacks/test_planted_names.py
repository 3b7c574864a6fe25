"""A confined tool plants what other programs of the machine trust later: a repository, settings, hooks."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.executor.job.planted import Missing, present
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from rye_mcp.executor.results import ExecutionResult
from rye_mcp.permissions.planning import GUARDED
from tests import fuse_file_system
from tests.runtime_workshop import Workshop
from tests.trust_world import World
from tests.users import ADA, as_user, two_users

pytestmark = pytest.mark.anyio

RUN = "20260101T000000Z-0123456789abcdef"
PLANTS = '''\
"""Runs a program in the project."""

import subprocess
import time

__tool_type__ = "python"
__executor_id__ = "python_function_runtime"
__version__ = "1.0.0"
{permissions}
CONFIG_SCHEMA = {{"type": "object", "properties": {{"script": {{"type": "string"}}}}}}


def execute(params, project_path):
    subprocess.run(["/bin/sh", "-c", params["script"]], cwd=project_path, check=True)
    return "done"
'''


class Planting:
    """A person's project, and a tool that may write it."""

    def __init__(self, root: Path, permissions: str | None) -> None:
        root = root.resolve()
        self.workshop = Workshop(World(root))
        self.project, self.home = self.workshop.project, root / "home"
        (self.project / ".ai").mkdir(parents=True)
        self.home.mkdir(exist_ok=True)
        line = "" if permissions is None else f"PERMISSIONS = {permissions}\n"
        self.item_id = self.workshop.sign("demo/plants.py", PLANTS.format(permissions=line))

    async def run(self, script: str, timeout: float | None = None) -> ExecutionResult:
        world = self.workshop.world
        executor = PrimitiveExecutor(
            self.project,
            user_space=world.user_space.parent,
            state=world.state,
            environment={"PATH": os.environ["PATH"], "HOME": str(self.home)},
        )
        try:
            return await executor.execute(self.item_id, {"script": script}, timeout=timeout)
        finally:
            await executor.close()

    @property
    def trashed(self) -> dict[str, Path]:
        found = (self.home / ".local/state/rye/trash").glob("planted-*/*/*")
        return {path.name: path for path in found}


@pytest.fixture
async def planting(tmp_path: Path) -> Planting:
    await require_cells()
    return Planting(tmp_path, '{"project": "write"}')


async def require_cells() -> None:
    if (await SubprocessPrimitive().probe()).cell is None:
        pytest.skip("no cells can be made here")


def planted(result: ExecutionResult) -> list[str]:
    return [notice.message for notice in result.notices if notice.code == "planted"]


def is_there(planting: Planting, *names: str) -> bool:
    return any(os.path.lexists(planting.project / name) for name in names)


def do(planting: Planting, *command: str) -> None:
    """Something that the person does in the project."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(planting.home)}
    subprocess.run(command, cwd=planting.project, check=True, env=environment, capture_output=True)


@pytest.mark.parametrize("half", [GUARDED[::2], GUARDED[1::2]], ids=["one half", "the other half"])
async def test_what_other_programs_trust_is_moved_to_the_trash(
    planting: Planting, half: tuple[str, ...]
) -> None:
    names = [name for name in half if name != ".ai"]
    result = await planting.run("; ".join(f"mkdir {name}; echo evil >{name}/config" for name in names))
    assert result.success, result.error
    assert not is_there(planting, *names)
    assert sorted(planting.trashed) == sorted(names)
    messages = planted(result)
    assert len(messages) == len(names)
    for name, message in zip(names, messages, strict=True):
        assert str(planting.project / name) in message
        assert result.run_id is not None
        assert result.run_id in message
        assert str(planting.trashed[name]) in message
    way_back = messages[0].rpartition(": ")[2]
    do(planting, *shlex.split(way_back))
    assert (planting.project / names[0] / "config").read_text() == "evil\n"


@pytest.mark.first_case
@pytest.mark.parametrize("others", [0, 300], ids=["few files", "many files"])
@pytest.mark.parametrize("mode", ["755", "311"])
async def test_however_much_is_beside_it_and_whether_it_can_be_listed(
    planting: Planting, others: int, mode: str
) -> None:
    for number in range(others):
        (planting.project / f"file{number}").touch()
    result = await planting.run(f"mkdir .git .husky; ln -s /nowhere .envrc; chmod {mode} .")
    planting.project.chmod(0o755)
    assert result.success, result.error
    assert sorted(planting.trashed) == [".envrc", ".git", ".husky"]
    assert len(planted(result)) == 3


def test_what_is_there_is_seen_with_its_kind(tmp_path: Path) -> None:
    names = [f"name{number}" for number in range(12)]
    paths = [f"{tmp_path}/{name}" for name in names]
    (tmp_path / names[1]).touch()
    (tmp_path / names[2]).mkdir()
    (tmp_path / names[3]).symlink_to("nowhere")
    expected = {paths[1]: False, paths[2]: False, paths[3]: True}
    others = ["\0", f"{tmp_path}/no/such", f"{paths[1]}/below", *(f"{tmp_path}/no/{name}" for name in names)]
    for crowd in (0, 300):
        for number in range(crowd):
            (tmp_path / f"file{number}").touch()
        assert present([*paths, *others]) == expected
        assert present(paths[:4]) == expected


async def test_a_run_that_makes_very_many_is_told_in_a_few_words(planting: Planting) -> None:
    result = await planting.run("for n in $(seq 100); do mkdir -p d$n/.git; done")
    assert result.success, result.error
    assert not is_there(planting, *(f"d{number}/.git" for number in range(1, 101)))
    messages = planted(result)
    assert len(messages) == 33
    assert "68 more names" in messages[-1]
    place = planting.home / f".local/state/rye/trash/planted-{result.run_id}"
    assert str(place) in messages[-1]
    assert len(list(place.iterdir())) == 100


async def test_what_was_there_stays(planting: Planting) -> None:
    (planting.project / ".envrc").write_text("mine")
    (planting.project / ".vscode").mkdir()
    result = await planting.run("echo fine >file")
    assert result.success, result.error
    assert planted(result) == []
    assert planting.trashed == {}
    assert (planting.project / ".envrc").read_text() == "mine"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "script",
    ["echo evil >.envrc; exit 3", "echo evil >.envrc; kill -9 $PPID", "echo evil >.envrc; sleep 60"],
    ids=["fails", "is killed", "runs out of time"],
)
async def test_however_a_run_ends(planting: Planting, script: str) -> None:
    result = await planting.run(script, timeout=3)
    assert not result.success
    assert len(planted(result)) == 1
    assert list(planting.trashed) == [".envrc"]
    assert not (planting.project / ".envrc").exists()


async def test_a_link_is_moved_and_not_followed(planting: Planting) -> None:
    target = planting.home / "mine"
    target.mkdir()
    result = await planting.run(
        f"ln -s {shlex.quote(str(target))} .git; mkfifo .envrc; mkdir .idea; mkfifo .idea/x"
    )
    assert len(planted(result)) == 3
    assert planting.trashed[".git"].is_symlink()
    assert planting.trashed[".envrc"].is_fifo()
    assert target.is_dir()
    assert not is_there(planting, ".git")


async def test_what_a_link_leads_to_stays_and_a_link_that_is_turned_is_moved(planting: Planting) -> None:
    """A person may keep settings elsewhere in the project; no mount keeps the link to them."""
    project = planting.project
    (project / "kept").mkdir()
    (project / "kept/settings.json").write_text("{}")
    (project / ".claude").symlink_to("kept")
    (project / ".vscode").symlink_to("../nowhere")
    result = await planting.run("! echo x > .claude/settings.json; ! mv kept away; echo x > a.txt")
    assert (result.success, planted(result)) == (True, []), result.error
    assert (project / ".claude/settings.json").read_text() == "{}"
    assert (project / ".vscode").is_symlink()
    result = await planting.run("mkdir evil; ln -sfn evil .claude; rm .vscode; mkdir .vscode")
    assert result.success, result.error
    assert len(planted(result)) == 2
    assert not is_there(planting, ".claude", ".vscode")
    assert {".claude", ".vscode"} <= set(planting.trashed)


async def test_modes_keep_nothing_where_it_is(planting: Planting) -> None:
    """Neither a directory that cannot be changed, nor a project that cannot."""
    result = await planting.run("mkdir .git; echo evil >.git/config; chmod 0 .git; chmod 0500 .")
    assert len(planted(result)) == 1
    assert not is_there(planting, ".git")
    planting.project.chmod(0o700)


async def test_a_tool_that_says_nothing_does_as_before(tmp_path: Path) -> None:
    planting = Planting(tmp_path, None)
    result = await planting.run("mkdir .vscode")
    assert planted(result) == []
    assert (planting.project / ".vscode").is_dir()


@pytest.fixture
async def repository(tmp_path: Path) -> Planting:
    await require_cells()
    planting = Planting(tmp_path, '{"project": "write", "uses": ["git"]}')
    do(planting, "git", "init", "--template=", ".")
    return planting


LEADS_ASIDE = """
mkdir -p .git/other/objects .git/other/refs
printf '[core]\\nrepositoryformatversion = 0\\nfsmonitor = touch %s\\n' "$PWD/owned" >.git/other/config
echo other >.git/commondir
"""


async def test_the_next_git_runs_nothing_that_a_tool_led_it_to(repository: Planting) -> None:
    owned = repository.project / "owned"
    do(repository, "/bin/sh", "-ec", LEADS_ASIDE)
    do(repository, "git", "status")
    assert owned.exists(), "the attack has to work where nothing prevents it"
    owned.unlink()
    (repository.project / ".git/commondir").unlink()
    result = await repository.run(LEADS_ASIDE)
    assert result.success, result.error
    do(repository, "git", "status")
    assert not owned.exists()
    assert list(repository.trashed) == ["commondir"]


async def test_hooks_that_a_tool_makes_never_run(repository: Planting) -> None:
    result = await repository.run(
        "mkdir .git/hooks; echo evil >.git/hooks/pre-commit; echo >.git/config.worktree"
    )
    assert len(planted(result)) == 2
    assert sorted(repository.trashed) == ["config.worktree", "hooks"]
    assert not (repository.project / ".git/hooks").exists()


async def test_git_configuration_behind_a_link_is_read(repository: Planting) -> None:
    dotfiles = repository.home / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "gitconfig").write_text("[user]\nname = Ada\n")
    (dotfiles / "other").write_text("secret")
    (repository.home / ".gitconfig").symlink_to(dotfiles / "gitconfig")
    quoted = shlex.quote(str(dotfiles / "other"))
    result = await repository.run(f"git config user.name >name; cat {quoted} >other || true")
    assert result.success, (result.error, result.stderr)
    assert (repository.project / "name").read_text() == "Ada\n"
    assert (repository.project / "other").read_text() == ""


async def test_git_configuration_that_leads_to_a_hidden_place_is_not_shown(repository: Planting) -> None:
    (repository.home / ".ssh").mkdir()
    (repository.home / ".ssh/id_ed25519").write_text("[user]\nname = secret\n")
    (repository.home / ".gitconfig").symlink_to(repository.home / ".ssh/id_ed25519")
    result = await repository.run("git config user.name >name || true")
    assert result.success, (result.error, result.stderr)
    assert (repository.project / "name").read_text() == ""


@pytest.fixture
def adas(tmp_path: Path) -> Iterator[Path]:
    """A directory of an ordinary user."""
    place = Path(f"/tmp/rye-planted-{os.getpid()}")
    place.mkdir(mode=0o700)
    os.chown(place, ADA, ADA)
    yield place
    subprocess.run(["rm", "-rf", str(place)], check=True)


@two_users
def test_an_ordinary_user_is_kept_from_it_as_well(adas: Path) -> None:
    def act() -> Any:
        project, trash = adas / "project", str(adas / "state/rye/trash")
        project.mkdir()
        (adas / "state").mkdir()
        missing = Missing.among(
            dict.fromkeys(f"{project}/{name}" for name in (".git", ".envrc", ".idea")), trash
        )
        (project / ".git").mkdir()
        (project / ".git").chmod(0)
        (project / ".envrc").symlink_to("/etc/passwd")
        project.chmod(0)
        notices = missing.take_away(RUN)
        project.chmod(0o700)
        return [
            len(notices),
            sorted(path.name for path in project.iterdir()),
            len(list(Path(f"{trash}/planted-{RUN}").iterdir())),
        ]

    count, left, trashed = as_user(ADA, act)
    assert count == 2
    # A directory without a right to write in it cannot go to another directory.
    assert left == [f"planted-{RUN}-git"]
    assert trashed == 2


@two_users
def test_what_cannot_be_moved_is_said(adas: Path) -> None:
    (adas / "roots/.git").mkdir(parents=True)
    path = f"{adas}/roots/.git"

    def act() -> Any:
        return [notice.message for notice in Missing((path,), f"{adas}/rye/trash").take_away(RUN)]

    [message] = as_user(ADA, act)
    assert path in message
    assert "could not be moved" in message


async def test_temporary_files_that_stay_hide_no_project_below_them(tmp_path: Path) -> None:
    """Nor does a link that a run left in them lead the next one anywhere."""
    await require_cells()
    planting = Planting(tmp_path, '{"project": "write", "uses": ["temp"]}')
    if planting.project.parts[1] != "tmp":
        pytest.skip("the project is not below /tmp")
    for _ in range(2):
        result = await planting.run("echo mine >file; echo kept >>/tmp/kept; cp /tmp/kept .")
        assert result.success, (result.error, result.stderr)
    assert (planting.project / "file").read_text() == "mine\n"
    assert (planting.project / "kept").read_text() == "kept\nkept\n"
    [kept] = (planting.home / ".cache/rye/tools").glob("*/temp")
    top = kept / planting.project.parts[2]
    do(planting, "mv", str(top), f"{top}.moved")
    elsewhere = planting.home / "elsewhere"
    elsewhere.mkdir()
    top.symlink_to(elsewhere)
    result = await planting.run("true")
    assert not result.success
    assert list(elsewhere.iterdir()) == []


BARE = """mkdir -p {0}/objects {0}/refs; echo 'ref: refs/heads/x' >{0}/HEAD
printf '[core]\\nbare = false\\nworktree = .\\nfsmonitor = "touch evil; false"\\n' >{0}/config"""
"""A directory of git in which git starts a program, under another name than `.git`."""


@pytest.mark.parametrize("place", [".", "src"])
async def test_a_directory_of_git_without_its_name_is_none_after_the_run(
    planting: Planting, place: str
) -> None:
    (planting.project / "src").mkdir()
    result = await planting.run(BARE.format(place))
    assert result.success, result.error
    assert list(planting.trashed) == ["HEAD"]
    assert len(planted(result)) == 1
    do(planting, "sh", "-c", f"cd {place}; git status || true")
    assert not is_there(planting, "evil", "src/evil")


async def test_a_directory_of_git_that_was_there_stays_as_it_is(planting: Planting) -> None:
    do(planting, "git", "init", "--bare", "kept")
    config = planting.project / "kept/config"
    before = config.read_bytes()
    result = await planting.run("! { echo x >>kept/config; }; ! { echo x >kept/hooks/post-update; }")
    assert result.success, result.error
    assert (config.read_bytes(), planted(result)) == (before, [])


async def test_a_project_that_a_link_leads_to_is_written_and_protected_as_elsewhere(
    planting: Planting, tmp_path: Path
) -> None:
    do(planting, "git", "init", "-q")
    config = planting.project / ".git/config"
    before, real = config.read_bytes(), planting.project
    planting.project = tmp_path / "shortcut"
    planting.project.symlink_to(real)
    result = await planting.run("echo new > made; ! echo x > .git/config; mkdir .vscode")
    assert result.enforced is not None
    assert (result.success, result.enforced.level) == (True, "cell")
    assert (real / "made").read_text() == "new\n"
    assert config.read_bytes() == before
    assert (len(planted(result)), is_there(planting, ".vscode")) == (1, False)


MOUNTED = """
mkdir behind behind/docs project; mkfifo told
"$0" "$1" /dev/fuse behind project < /dev/null > told & read ready < told
"$0" -c "$2" "$PWD/project"; umount project; wait
"""
SETS_TIMES_BACK = """
import os, sys, time
from pathlib import Path
from lilux._stamps import SETTLED_NS, stamp_of
from rye_mcp.executor.job.guarded import Repository, Surroundings

docs, repository = Path(sys.argv[1], "docs"), Repository(sys.argv[1], sys.argv[1])
around = Surroundings(clock=lambda: time.time_ns() + 2 * SETTLED_NS)
assert around.look(repository).nested == ()
before = docs.stat()
(docs / ".git").touch()
os.utime(docs, ns=(before.st_atime_ns, before.st_mtime_ns))
after = docs.stat()
print([(found.st_mtime_ns, found.st_ctime_ns) for found in (before, after)])
print(around.look(repository).nested)
"""


def test_where_a_tool_can_set_the_times_of_changes_a_repository_that_it_makes_is_found(
    tmp_path: Path,
) -> None:
    """As with sshfs; on other file systems, the time of the last change gives it away."""
    around = ["unshare", "--user", "--map-root-user", "--mount", "--propagation", "private"]
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("no file system of a program can be mounted here")
    tried = subprocess.run(
        [*around, "mount", "-t", "tmpfs", "none", tmp_path], check=False, capture_output=True
    )
    if tried.returncode != 0:
        pytest.skip(f"nobody but root may mount here: {tried.stderr!r}")
    ran = subprocess.run(
        [*around, "sh", "-ec", MOUNTED, sys.executable, fuse_file_system.__file__, SETS_TIMES_BACK],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    times, nested = ran.stdout.splitlines()
    before, after = ast.literal_eval(times)
    assert before == after, "nothing was hidden"
    assert ast.literal_eval(nested) == (str(tmp_path / "project/docs/.git"),)


class Interrupted(PrimitiveExecutor):
    """An executor whose caller is gone as soon as a run has begun, before anybody hears of it."""

    def _begin(self, call: Any, logged: Any) -> Any:
        super()._begin(call, logged)
        raise LookupError("the caller is gone")


async def test_a_run_that_nobody_heard_of_is_not_under_way_for_ever(planting: Planting) -> None:
    """What a person makes later would count as its own, and be moved away after each run."""
    world = planting.workshop.world
    executor = Interrupted(
        planting.project,
        user_space=world.user_space.parent,
        state=world.state,
        environment={"PATH": os.environ["PATH"], "HOME": str(planting.home)},
    )
    try:
        with pytest.raises(LookupError):
            await executor.execute(planting.item_id, {"script": "true"})
    finally:
        await executor.close()
    (planting.project / ".vscode").mkdir()
    result = await planting.run("true")
    assert (result.success, planted(result), is_there(planting, ".vscode")) == (True, [], True)
