"""`rye/git/*` through the executor, in real repositories: what they answer, and what they never run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.executor.results import ExecutionResult
from tests.runtime_workshop import Workshop
from tests.trust_world import World

READING = ("status", "diff", "log", "show")
WHO = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop will do: what is looked at here happens in other processes."""
    return "asyncio"


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    for name, value in WHO.items():
        monkeypatch.setenv(name, value)
    found = Workshop(World(tmp_path))
    (found.project / ".ai").mkdir(parents=True)
    git(found.project, "init", "--quiet", "--initial-branch=main")
    (found.project / ".git/info/exclude").write_text(".ai/\n")
    return found


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(workshop: Workshop, message: str, **files: str) -> str:
    """Write files (`a_txt` is `a.txt`) and commit everything; the id of the commit."""
    for name, text in files.items():
        (workshop.project / name.replace("_", ".")).write_text(text)
    git(workshop.project, "add", "--all")
    git(workshop.project, "commit", "--quiet", "--allow-empty", f"--message={message}")
    return git(workshop.project, "rev-parse", "HEAD")


async def ask(workshop: Workshop, tool: str, **parameters: Any) -> Any:
    return await workshop.data(f"rye/git/{tool}", parameters)


async def refusal(workshop: Workshop, tool: str, **parameters: Any) -> str:
    """What a tool says when it refuses: one sentence."""
    found: ExecutionResult = await workshop.run(f"rye/git/{tool}", parameters)
    assert (found.success, found.code) == (False, "tool_failed")
    return (found.stderr or "").strip()


async def test_status_tells_staged_from_unstaged_and_reads_odd_names(workshop: Workshop) -> None:
    first = commit(workshop, "one", a_txt="a\n", b_txt="b\n" * 20, c_txt="c\n")
    project = workshop.project
    (project / "a.txt").write_text("changed\n")
    git(project, "mv", "b.txt", "moved b.txt")
    git(project, "rm", "--quiet", "c.txt")
    (project / " ->\n\té").write_text("odd\n")
    found = await ask(workshop, "status")
    assert (found["branch"], found["commit"], found["clean"]) == ("main", first, False)
    assert sorted(found["changes"], key=str) == sorted(
        [
            {"path": "a.txt", "staged": None, "unstaged": "modified"},
            {"path": "c.txt", "staged": "deleted", "unstaged": None},
            {"path": "moved b.txt", "staged": "renamed", "unstaged": None, "from": "b.txt"},
        ],
        key=str,
    )
    assert found["untracked"] == [" ->\n\té"]
    few = await ask(workshop, "status", limit=2)
    assert (len(few["changes"]), few["untracked"], few["left_out"]) == (2, [], 2)
    assert [each["path"] for each in (await ask(workshop, "status", paths=["a.txt"]))["changes"]] == ["a.txt"]


async def test_status_counts_what_is_ahead_and_behind_and_names_conflicts(workshop: Workshop) -> None:
    project = workshop.project
    commit(workshop, "one", a_txt="a\n")
    git(project, "branch", "theirs")
    git(project, "branch", "--quiet", "--set-upstream-to=theirs")
    commit(workshop, "ours", a_txt="ours\n")
    git(project, "checkout", "--quiet", "theirs")
    commit(workshop, "theirs", a_txt="theirs\n")
    git(project, "checkout", "--quiet", "main")
    found = await ask(workshop, "status")
    assert (found["upstream"], found["ahead"], found["behind"]) == ("theirs", 1, 1)
    assert found["clean"] is True
    with pytest.raises(subprocess.CalledProcessError):
        git(project, "merge", "theirs")
    assert (await ask(workshop, "status"))["changes"] == [
        {"path": "a.txt", "staged": "conflict", "unstaged": "conflict"}
    ]


async def test_diff_compares_each_pair_of_states(workshop: Workshop) -> None:
    first = commit(workshop, "one", a_txt="1\n2\n3\n")
    second = commit(workshop, "two", a_txt="1\nzwei\n3\n")
    (workshop.project / "a.txt").write_text("1\nzwei\ndrei\n")
    (workshop.project / "b.bin").write_bytes(bytes(range(256)))
    git(workshop.project, "add", "b.bin")
    plain = await ask(workshop, "diff")
    assert plain["files"] == [{"path": "a.txt", "state": "modified", "added": 1, "removed": 1}]
    assert "-3\n+drei\n" in plain["patch"]
    staged = await ask(workshop, "diff", staged=True)
    assert staged["files"] == [{"path": "b.bin", "state": "added", "binary": True}]
    between = await ask(workshop, "diff", **{"from": first, "to": "HEAD", "context": 0})
    assert between["patch"].endswith("@@ -2 +2 @@\n-2\n+zwei\n")
    against = await ask(workshop, "diff", **{"from": second, "paths": ["a.txt"], "patch": False})
    assert against == {"files": [{"path": "a.txt", "state": "modified", "added": 1, "removed": 1}]}


async def test_a_patch_that_is_too_long_is_cut_at_the_end_of_a_line(workshop: Workshop) -> None:
    commit(workshop, "one", a_txt="")
    (workshop.project / "a.txt").write_text("a line of some length\n" * 40_000)
    found = await ask(workshop, "diff")
    assert found["truncated"] is True
    assert 250_000 < len(found["patch"]) <= 256 * 1024
    assert found["patch"].endswith("+a line of some length\n")


async def test_log_lists_commits_and_goes_on_where_it_ended(workshop: Workshop) -> None:
    assert await ask(workshop, "log") == {"commits": [], "more": False}
    ids = [commit(workshop, f"Number {n}\n\nWhy: {n}\nand more", a_txt=f"{n}\n") for n in range(3)]
    found = await ask(workshop, "log", limit=2)
    assert [each["commit"] for each in found["commits"]] == [ids[2], ids[1]]
    assert found["more"] is True
    newest = found["commits"][0]
    assert newest["author"] == {"name": "Ada", "email": "ada@example.org"}
    assert (newest["subject"], newest["body"]) == ("Number 2", "Why: 2\nand more")
    assert newest["parents"] == [ids[1]]
    assert (await ask(workshop, "log", skip=2))["commits"][0]["commit"] == ids[0]
    assert [each["commit"] for each in (await ask(workshop, "log", **{"from": ids[1]}))["commits"]] == ids[2:]
    assert len((await ask(workshop, "log", message="why: 1"))["commits"]) == 1
    assert (await ask(workshop, "log", paths=["nowhere.txt"]))["commits"] == []
    assert (await ask(workshop, "log", author="--grep=Number"))["commits"] == []


async def test_show_gives_a_commit_a_file_of_it_or_a_directory(workshop: Workshop) -> None:
    (workshop.project / "sub").mkdir()
    (workshop.project / "sub/x").write_bytes(b"\xff\xfe")
    first = commit(workshop, "one", a_txt="é\n")
    commit(workshop, "two", a_txt="new\n")
    root = await ask(workshop, "show", revision=first)
    assert [each["path"] for each in root["files"]] == ["a.txt", "sub/x"]
    assert root["commit"]["subject"] == "one"
    assert "+é\n" in root["patch"]
    assert await ask(workshop, "show", revision="HEAD~1", path="./a.txt") == {
        "commit": first, "path": "./a.txt", "size": 3, "content": "é\n", "encoding": "utf-8",
    }  # fmt: skip
    assert (await ask(workshop, "show", path="sub/x"))["encoding"] == "base64"
    assert (await ask(workshop, "show", path="."))["entries"] == ["a.txt", "sub/"]
    commit(workshop, "three", a_txt="é" * 200_000)
    long = await ask(workshop, "show", path="a.txt")
    assert (long["size"], long["truncated"], long["content"]) == (400_000, True, "é" * 131_072)


async def test_commit_takes_the_named_paths_alone(workshop: Workshop) -> None:
    commit(workshop, "one", a_txt="a\n", b_txt="b\n", c_txt="c\n")
    project = workshop.project
    (project / "a.txt").write_text("named\n")
    (project / "b.txt").write_text("staged\n")
    git(project, "add", "b.txt")
    (project / "c.txt").unlink()
    (project / "new -file").write_text("new\n")
    found = await ask(workshop, "commit", message="# Two\n\nwhy", paths=["a.txt", "c.txt", "new -file"])
    assert [(each["path"], each["state"]) for each in found["files"]] == [
        ("a.txt", "modified"), ("c.txt", "deleted"), ("new -file", "added"),
    ]  # fmt: skip
    assert (found["branch"], found["subject"], found["body"]) == ("main", "# Two", "why")
    assert git(project, "diff", "--cached", "--name-only") == "b.txt"
    rest = await ask(workshop, "commit", message="Three")
    assert [each["path"] for each in rest["files"]] == ["b.txt"]
    assert "nothing to commit" in await refusal(workshop, "commit", message="Four")


async def test_hooks_run_for_a_commit_and_a_refusal_leaves_everything_as_it_was(workshop: Workshop) -> None:
    commit(workshop, "one", a_txt="a\n")
    project = workshop.project
    hook = project / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no commits today >&2\nexit 1\n")
    hook.chmod(0o755)
    (project / "a.txt").write_text("changed\n")
    (project / "new.txt").write_text("new\n")
    before = git(project, "status", "--porcelain")
    said = await refusal(workshop, "commit", message="Two", paths=["a.txt", "new.txt"])
    assert said == "no commits today"
    assert git(project, "status", "--porcelain") == before == "M a.txt\n?? new.txt"


async def test_a_project_below_the_top_of_a_repository_sees_its_own_files(workshop: Workshop) -> None:
    top = workshop.project.parent
    (workshop.project / ".git").rename(top / ".git")
    (top / ".git/info/exclude").write_text("/home\n/state\n.ai/\n")
    (top / "outside.txt").write_text("outside\n")
    first = commit(workshop, "one", a_txt="a\n", b_txt="b\n")
    git(workshop.project, "mv", "a.txt", "c.txt")
    (top / "outside.txt").write_text("changed\n")
    (workshop.project / "b.txt").write_text("changed\n")
    found = await ask(workshop, "status")
    assert {each["path"] for each in found["changes"]} == {"b.txt", "c.txt"}
    assert [each["path"] for each in (await ask(workshop, "diff"))["files"]] == ["b.txt"]
    made = await ask(workshop, "commit", message="Two", paths=["b.txt"])
    assert [each["path"] for each in made["files"]] == ["b.txt"]
    assert (await ask(workshop, "show", revision=first, path="b.txt"))["content"] == "b\n"


@pytest.mark.parametrize("tool", [*READING, "commit"])
async def test_without_a_repository_git_says_so(workshop: Workshop, tool: str) -> None:
    (workshop.project / ".git").rename(workshop.project.parent / "elsewhere")
    found = await refusal(workshop, tool, **({"message": "x"} if tool == "commit" else {}))
    assert "not a git repository" in found


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("status", {"paths": ["a.txt", ".."]}),
        ("diff", {"paths": ["/etc"]}),
        ("log", {"paths": ["a/../../b"]}),
        ("show", {"path": "../project/a.txt"}),
        ("commit", {"paths": ["../project"], "message": "x"}),
    ],
)
async def test_a_path_out_of_the_project_is_refused(
    workshop: Workshop, tool: str, parameters: dict[str, Any]
) -> None:
    commit(workshop, "one", a_txt="a\n")
    assert "expected a path in the project" in await refusal(workshop, tool, **parameters)


async def test_paths_are_spelled_as_they_are(workshop: Workshop) -> None:
    commit(workshop, "one", a_txt="a\n")
    (workshop.project / "a.txt").write_text("changed\n")
    magic = ["*", ":/", ":(exclude)b", "--cached", "-p"]
    assert (await ask(workshop, "diff", paths=magic))["files"] == []


@pytest.mark.parametrize(
    ("tool", "name", "revision"),
    [
        ("diff", "from", "--output=canary"),
        ("log", "to", "--all"),
        ("log", "from", "-p"),
        ("log", "to", "nowhere"),
        ("show", "revision", "a\nb"),
        ("show", "revision", "HEAD^{tree}"),
    ],
)
async def test_a_revision_is_never_an_option(workshop: Workshop, tool: str, name: str, revision: str) -> None:
    commit(workshop, "one", a_txt="a\n")
    assert "expected a revision" in await refusal(workshop, tool, **{name: revision})
    assert not (workshop.project / "canary").exists()


# --- programs that a repository names ---

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


async def test_reading_goes_into_no_submodule(workshop: Workshop) -> None:
    """Git looks into submodules with their own configuration, whatever was switched off outside."""
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
    git(inner, "config", "core.fsmonitor", str(program))
    (inner / "x.txt").write_text("changed\n")
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
