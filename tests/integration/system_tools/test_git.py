"""`rye/git/*` through the executor, in real repositories: what they answer, and what they never run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.trust.approvals import Approvals
from tests.git_world import READING, ask, commit, git, refusal, repository
from tests.runtime_workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    return repository(tmp_path, monkeypatch)


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


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["gibberish", "next year", "--all"])
async def test_what_is_no_time_is_refused_instead_of_finding_nothing(workshop: Workshop, text: str) -> None:
    commit(workshop, "one", a_txt="a\n")
    assert "expected a time as since" in await refusal(workshop, "log", since=text)
    assert "expected a time as until" in await refusal(workshop, "log", until=text)
    assert len((await ask(workshop, "log", since="2001-01-31", until="2099-01-31"))["commits"]) == 1


@pytest.mark.parametrize("name", ["author", "message", "since", "until"])
async def test_a_text_with_nul_is_refused_before_git_is_asked(workshop: Workshop, name: str) -> None:
    found = await workshop.run("rye/git/log", {name: "a\0b"})
    assert (found.success, found.code) == (False, "invalid_parameters")


@pytest.mark.thorough
async def test_a_long_message_is_shortened_and_one_that_is_endless_hides_no_other(workshop: Workshop) -> None:
    project = workshop.project
    first = commit(workshop, "one", a_txt="a\n")
    (project.parent / "message").write_text(f"two\n\n{'m' * 3000}{'n' * 30_000}\n")
    git(project, "commit", "--quiet", "--allow-empty", f"--file={project.parent}/message")
    newest, oldest = (await ask(workshop, "log"))["commits"]
    assert newest["body"] == f"{'m' * 2000}\n[… 31000 more characters …]"
    assert oldest["commit"] == first
    shown = (await ask(workshop, "show"))["commit"]
    assert len(shown["body"]) < 17_000
    (project.parent / "message").write_text(f"three\n\n{'x' * (9 << 20)}\n")
    git(project, "commit", "--quiet", "--allow-empty", f"--file={project.parent}/message")
    assert "expected a commit of at most" in await refusal(workshop, "log")
    assert len((await ask(workshop, "log", skip=1))["commits"]) == 2
    git(project, "commit", "--quiet", "--allow-empty", "--message=four")
    found = await ask(workshop, "log")
    assert ([each["subject"] for each in found["commits"]], found["more"]) == (["four"], True)


@pytest.mark.thorough
async def test_no_more_files_are_listed_than_an_agent_needs(workshop: Workshop) -> None:
    directory = workshop.project / "many"
    directory.mkdir()
    for number in range(510):
        (directory / f"{number:03}").write_text(f"{number}\n")
    git(workshop.project, "add", "--all")
    staged = await ask(workshop, "diff", staged=True, patch=False)
    assert (len(staged["files"]), staged["left_out"]) == (500, 10)
    commit(workshop, "many")
    shown = await ask(workshop, "show", patch=False)
    assert (len(shown["files"]), shown["left_out"]) == (500, 10)
    entries = await ask(workshop, "show", path="many")
    assert (len(entries["entries"]), entries["left_out"]) == (500, 10)


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_a_directory_is_committed_whatever_is_in_it_and_however_much(workshop: Workshop) -> None:
    directory = workshop.project / "/".join(["d" * 200] * 12)
    directory.mkdir(parents=True)
    for number in range(1000):  # more names than a command line holds
        (directory / f"{number:04}").touch()
    (directory / os.fsdecode(b"caf\xe9")).touch()
    done = await ask(workshop, "commit", message="all", paths=["d" * 200])
    assert (len(done["files"]), done["left_out"]) == (500, 501)
    assert git(workshop.project, "status", "--porcelain") == ""
    (directory / os.fsdecode(b"th\xe9")).touch()
    (workshop.project / ".git/hooks").mkdir(exist_ok=True)
    hook = workshop.project / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    Approvals(workshop.project, workshop.world.state).approve_project()
    await refusal(workshop, "commit", message="no", paths=["d" * 200])
    assert git(workshop.project, "status", "--porcelain").startswith("??"), "what was announced is forgotten"


async def test_hooks_run_for_a_commit_and_a_refusal_leaves_everything_as_it_was(workshop: Workshop) -> None:
    Approvals(workshop.project, workshop.world.state).approve_project()
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


@pytest.mark.thorough
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


@pytest.mark.first_case
@pytest.mark.parametrize("tool", [*READING, "commit"])
async def test_without_a_repository_git_says_so(workshop: Workshop, tool: str) -> None:
    (workshop.project / ".git").rename(workshop.project.parent / "elsewhere")
    found = await refusal(workshop, tool, **({"message": "x"} if tool == "commit" else {}))
    assert "not a git repository" in found


@pytest.mark.first_case
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


@pytest.mark.first_case
@pytest.mark.parametrize(
    ("tool", "name", "revision"),
    [
        ("diff", "from", "--output=canary"),
        ("log", "to", "--all"),
        ("log", "from", "-p"),
        ("log", "to", "nowhere"),
        ("log", "to", "^HEAD"),
        ("diff", "from", "^HEAD"),
        ("show", "revision", "^HEAD"),
        ("show", "revision", "a\nb"),
        ("show", "revision", "HEAD^{tree}"),
    ],
)
async def test_a_revision_is_never_an_option(workshop: Workshop, tool: str, name: str, revision: str) -> None:
    commit(workshop, "one", a_txt="a\n")
    assert "expected a revision" in await refusal(workshop, tool, **{name: revision})
    assert not (workshop.project / "canary").exists()
