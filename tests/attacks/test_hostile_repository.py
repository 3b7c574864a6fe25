"""A repository that names programs wherever git would run one: the tools that read it run none."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from rye_mcp.items import ItemType
from tests.git_world import READING, ask, commit, git, refusal, repository
from tests.runtime_workshop import Workshop
from tests.trust_world import World, refused
from tests.verb_world import person, put
from tests.verb_world import tool as tool_text

CONFIGURATION = """
[core]
    fsmonitor = {fsmonitor}
    pager = {pager}
    editor = {editor}
    askPass = {askpass}
    sshCommand = {ssh}
    hooksPath = {hooks}
[pager]
    log = {pager}
[diff]
    external = {external}
[diff "command"]
    command = {command}
[diff "textconv"]
    textconv = {textconv}
[filter "clean"]
    clean = {clean}
    smudge = {clean}
    required
[filter "o=d.d"]
    clean = {odd}
[filter "process"]
    process = {process}
[merge "driver"]
    driver = {merge}
[log]
    showSignature = true
    diffMerges = remerge
[gpg]
    program = {gpg}
[include]
    path = more
"""
KINDS = tuple(dict.fromkeys(re.findall(r"{(\w+)}", CONFIGURATION)))
ATTRIBUTES = """
a.txt diff=command filter=clean merge=driver
b.txt diff=textconv filter=o=d.d
c.txt filter=process
d.txt filter=included
"""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A repository whose reader lets the git tools run unconfined: they have to hold without a cell, too."""
    found = repository(tmp_path, monkeypatch)
    found.world.lift("rye/git/*")
    return found


def plant(project: Path) -> Path:
    """Name programs wherever a repository can; the directory in which each that ran leaves a file."""
    ran, programs = project.parent / "ran", project.parent / "programs"
    for directory in (ran, programs):
        directory.mkdir()
    for kind in (*KINDS, "included", "post-index-change", "reference-transaction"):
        program = programs / kind
        program.write_text(f'#!/bin/sh\ntouch "{ran}/{kind}"\ncat\n')
        program.chmod(0o755)
    named = {kind: programs / kind for kind in KINDS} | {"hooks": programs}
    with (project / ".git/config").open("a") as config:
        config.write(CONFIGURATION.format(**named))
    (project / ".git/more").write_text(f'[filter "included"]\n\tclean = {programs}/included\n')
    (project / ".git/info/attributes").write_text(ATTRIBUTES)
    return ran


@pytest.fixture
def ready(workshop: Workshop) -> Workshop:
    """A repository with a signed merge, and files of which git cannot tell by their time what they hold."""
    project = workshop.project
    commit(workshop, "one", a_txt="a\n", b_txt="b\n", c_txt="c\n", d_txt="d\n", e_txt="e\n")
    git(project, "checkout", "--quiet", "-b", "other")
    commit(workshop, "other", a_txt="other\n")
    git(project, "checkout", "--quiet", "main")
    commit(workshop, "ours", a_txt="ours\n", b_txt="ours\n")
    git(project, "merge", "--quiet", "--strategy=ours", "--message=merged", "other")
    raw = git(project, "cat-file", "commit", "HEAD").replace(
        "\n\nmerged", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\nmerged"
    )
    signed = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=project, input=raw + "\n", capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    git(project, "reset", "--quiet", "--hard", signed)
    for name in "bcd":
        os.utime(project / f"{name}.txt", (1, 1))
    for name in "abe":
        (project / f"{name}.txt").write_text("changed\n")
    return workshop


@pytest.mark.thorough
async def test_reading_runs_no_program_that_the_repository_names(ready: Workshop) -> None:
    ran = plant(ready.project)
    for tool in READING:
        await ask(ready, tool)
    assert [each["path"] for each in (await ask(ready, "status"))["changes"]] == ["a.txt", "b.txt", "e.txt"]
    assert "+changed" in (await ask(ready, "diff"))["patch"]
    assert sorted(path.name for path in ran.iterdir()) == []


def test_git_by_itself_does_run_them(ready: Workshop) -> None:
    """Else the test above would prove nothing."""
    ran = plant(ready.project)
    for arguments in (("diff",), ("log", "-p", "-m"), ("show", "-p", "HEAD~1"), ("status",)):
        subprocess.run(
            ["git", "--paginate", *arguments], cwd=ready.project, capture_output=True, check=False, timeout=20
        )
    names = {"fsmonitor", "external", "textconv", "clean", "odd", "process", "gpg", "merge", "included"}
    assert {path.name for path in ran.iterdir()} >= names


@pytest.mark.thorough
async def test_reading_goes_into_no_submodule(workshop: Workshop) -> None:
    """Git looks into submodules with their own configuration: what it names was not switched off outside."""
    inner = workshop.project / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    (inner / "x.txt").write_text("x\n")
    git(inner, "add", "x.txt")
    git(inner, "commit", "--quiet", "--message=inner")
    commit(workshop, "with a submodule", a_txt="a\n")
    program = workshop.project.parent / "canary.sh"
    program.write_text(f'#!/bin/sh\ntouch "{workshop.project.parent}/ran"\n')
    program.chmod(0o755)
    git(inner, "config", "filter.inner.clean", str(program))
    (inner / ".git/info/attributes").write_text("* filter=inner\n")
    os.utime(inner / "x.txt", (1, 1))  # so that git has to look into it
    for tool in READING:
        await ask(workshop, tool)
    assert not (workshop.project.parent / "ran").exists()
    git(workshop.project, "status")
    assert (workshop.project.parent / "ran").exists(), "git by itself does"


async def test_what_is_missing_is_not_fetched(workshop: Workshop) -> None:
    first = commit(workshop, "one", a_txt="a line\n")
    commit(workshop, "two", a_txt="another line\n")
    project, origin = workshop.project, workshop.project.parent / "origin"
    git(project, "clone", "--quiet", "--bare", ".", str(origin))
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    partial = project.parent / "partial"
    git(project.parent, "clone", "--quiet", "--filter=blob:none", f"file://{origin}", str(partial))
    (project / ".git").rename(project.parent / "old")
    (partial / ".git").rename(project / ".git")
    program = project.parent / "canary.sh"
    program.write_text(f'#!/bin/sh\ntouch "{project.parent}/ran"\nexec git-upload-pack "$@"\n')
    program.chmod(0o755)
    git(project, "config", "remote.origin.uploadpack", str(program))
    await refusal(workshop, "show", revision=first, path="a.txt")
    assert not (project.parent / "ran").exists()
    git(project, "show", f"{first}:a.txt")
    assert (project.parent / "ran").exists(), "git by itself does"


@pytest.mark.thorough
async def test_a_repository_whose_files_are_said_to_be_elsewhere_shows_none(workshop: Workshop) -> None:
    elsewhere = workshop.project.parent / "elsewhere"
    elsewhere.mkdir()
    commit(workshop, "one", a_txt="a\n")
    (elsewhere / "a.txt").write_text("canary\n")
    git(workshop.project, "config", "core.worktree", str(elsewhere))
    assert "canary" in git(workshop.project, "diff"), "git by itself does"
    for tool in ("status", "diff"):
        assert "found files elsewhere" in await refusal(workshop, tool)
    git(workshop.project, "config", "core.worktree", "/")
    assert "canary" not in str(await ask(workshop, "diff"))


async def test_variables_of_git_in_the_environment_of_the_server_do_not_count(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(workshop, "one", a_txt="a\n")
    (workshop.project / "a.txt").write_text("changed\n")
    canary = workshop.project.parent / "ran"
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {canary}; true")
    monkeypatch.setenv("GIT_TRACE", str(canary))
    monkeypatch.setenv("GIT_DIR", str(workshop.project.parent))
    assert "+changed\n" in (await ask(workshop, "diff"))["patch"]
    assert not canary.exists()


OWN = {"attributes": "a.txt -diff\n", "excludes": "c.txt\n"}


def files_named_by(project: Path, directory: Path, *scope: str) -> None:
    """Let a configuration name files outside of the repository."""
    directory.mkdir(exist_ok=True)
    for name, text in OWN.items():
        (directory / name).write_text(text)
        git(project, "config", *scope, f"core.{name}File", str(directory / name))


@pytest.mark.thorough
async def test_no_file_is_read_that_the_repository_names(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be one without an end, as /dev/zero is. What the person names counts."""
    first = commit(workshop, "one", a_txt="a\n")
    commit(workshop, "two", a_txt="b\n")
    for name in "ac":
        (workshop.project / f"{name}.txt").write_text("changed\n")
    files_named_by(workshop.project, tmp_path / "of the repository")
    assert "Binary files" in git(workshop.project, "diff"), "git by itself does"
    assert "+changed\n" in (await ask(workshop, "diff"))["patch"]
    assert "+b\n" in (await ask(workshop, "show", revision="HEAD"))["patch"]
    assert "+b\n" in (await ask(workshop, "diff", **{"from": first, "to": "HEAD"}))["patch"]
    assert "c.txt" in (await ask(workshop, "status"))["untracked"]
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/git").mkdir(parents=True)
    person = tmp_path / "config/git/config"
    files_named_by(workshop.project, tmp_path / "config/git/of the person", "--file", str(person))
    assert "Binary files" in (await ask(workshop, "diff"))["patch"]
    assert "c.txt" not in (await ask(workshop, "status"))["untracked"]


async def test_git_gets_no_more_memory_than_it_needs_to_read(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of `.git` can be a link to one without an end (`objects/info/alternates`), which git reads."""
    commit(workshop, "one", a_txt="a\n")
    (tmp_path / "bin").mkdir()
    telling = tmp_path / "bin/git"
    # Confined, it can write nothing: with another limit it fails instead.
    telling.write_text(
        '#!/bin/sh\nsleep 0.3\n[ "$(ulimit -d)" = 2097152 ] || exit 9\nexec /usr/bin/git "$@"\n'
    )
    telling.chmod(0o755)
    monkeypatch.setenv("PATH", f"{telling.parent}:{os.environ['PATH']}")
    assert (await ask(workshop, "status"))["untracked"] == []


def test_no_hint_has_a_person_run_git_where_the_repository_may_name_programs(tmp_path: Path) -> None:
    """An unpacked archive with a changed tool: what the refusal says to run would start its programs."""
    world = World(tmp_path)
    file = put(world, tool_text(), signed=True)
    git(world.project, "init", "--quiet")
    file.path.write_bytes(file.path.read_bytes() + b"# changed\n")
    ran = plant(world.project)
    for approved in (False, True):
        approvals = world.trust().approvals
        assert approvals is not None
        approvals.approve_project(approved=approved)
        found = person(world).spaces.find("demo/hello", ItemType.TOOL).item
        error = refused("content_changed", lambda: person(world).verify(found))  # noqa: B023
        assert error.hint.startswith("look at what changed")
        assert error.hint.endswith("then: rye sign demo/hello")
        assert ("git -C" in error.hint) is approved
    assert not list(ran.iterdir())
