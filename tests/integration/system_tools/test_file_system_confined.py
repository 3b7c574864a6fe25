"""`rye/file-system/*` stays in the project, whatever links there are and whoever exchanges them meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.file_system_world import TOOLS, Desk, at_desk, names_below

Call = tuple[str, dict[str, Any]]


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    async with at_desk(tmp_path, monkeypatch) as found:
        yield found


def reading(path: str) -> list[Call]:
    return [("read", {"path": path}), ("grep", {"pattern": "secret", "path": path})]


def changing(path: str) -> list[Call]:
    edit = {"old_text": "secret", "new_text": "changed"}
    return [
        ("write", {"path": path, "content": "changed"}),
        ("edit", {"path": path, "edits": [edit]}),
    ]


@pytest.mark.thorough
async def test_no_link_and_no_path_leads_out(desk: Desk) -> None:
    (desk.project / "file").symlink_to(desk.outside / "secret.txt")
    (desk.project / "directory").symlink_to("../outside")
    (desk.project / "indirect").symlink_to("directory/secret.txt")
    (desk.project / "a").mkdir()
    (desk.project / "a/up").symlink_to("../..")
    absolute = str(desk.outside / "secret.txt")
    paths = [
        "file",
        "directory/secret.txt",
        "indirect",
        "a/up/outside/secret.txt",
        "../outside/secret.txt",
        absolute,
        f"{desk.project}-not/secret.txt",
        f"{desk.project}/../outside/secret.txt",
    ]
    calls = [call for path in paths[:1] for call in reading(path) + changing(path)]
    calls += [(reading(path) + changing(path))[turn % 4] for turn, path in enumerate(paths)]
    for tool, parameters in [
        *calls,
        ("ls", {"path": "directory"}),
        ("glob", {"path": "a/up", "pattern": "**"}),
        ("move", {"source": "directory/secret.txt", "target": "taken"}),
        ("move", {"source": "a", "target": "directory/a"}),
        ("delete", {"path": "directory/secret.txt"}),
    ]:
        assert "leads out of it" in await desk.refusal(tool, **parameters), (tool, parameters)
    assert (desk.outside / "secret.txt").read_text() == "secret\n"
    assert os.listdir(desk.outside) == ["secret.txt"]  # noqa: PTH208


@pytest.mark.thorough
async def test_links_within_the_project_are_followed_and_stay_links(desk: Desk) -> None:
    desk.write("real/a.txt", "one\n")
    (desk.project / "link").symlink_to("real")
    (desk.project / "file").symlink_to(desk.project / "link/a.txt")
    assert (await desk.ask("read", path="file"))["path"] == "real/a.txt"
    assert (await desk.ask("write", path="file", content="two\n"))["path"] == "real/a.txt"
    assert (desk.project / "file").is_symlink()
    assert (desk.project / "real/a.txt").read_text() == "two\n"
    (desk.project / "ring").symlink_to("ring")
    assert "at most 40 links" in await desk.refusal("read", path="ring")
    await desk.ask("move", source="link", target="moved")
    assert (desk.project / "moved").is_symlink()
    await desk.ask("delete", path="file")
    assert names_below(desk.project) == ["moved", "real", "real/a.txt", "ring"]


async def test_searching_follows_no_link(desk: Desk) -> None:
    (desk.project / "out").symlink_to(desk.outside)
    (desk.project / "secret.txt").symlink_to(desk.outside / "secret.txt")
    desk.write("here.txt", "no secret here\n")
    found = await desk.ask("grep", pattern="secret")
    assert [each["path"] for each in found["matches"]] == ["here.txt"]
    assert (await desk.ask("glob", pattern="**"))["paths"] == ["here.txt"]
    assert (await desk.ask("glob", pattern="**", type="any"))["paths"] == ["here.txt", "out", "secret.txt"]
    listed = await desk.ask("ls", depth=3, hidden=False)
    assert [(each["name"], each["type"]) for each in listed["entries"]] == [
        ("here.txt", "file"),
        ("out", "link"),
        ("secret.txt", "link"),
    ]


RACE = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from answers import Refusal
from contents import write_whole
from places import Project

end, inside = time.monotonic() + 1.5, 0
with Project(sys.argv[2]) as project:
    while time.monotonic() < end:
        try:
            with project.find("turn/secret.txt") as place:
                descriptor = place.open()
                content = os.read(descriptor, 100)
                os.close(descriptor)
                write_whole(place, content)
        except (Refusal, OSError):
            continue
        inside += 1
        assert content == b"inside\\n", content
print(inside)
"""


@pytest.mark.thorough
def test_exchanging_a_directory_for_a_link_opens_no_way_out(tmp_path: Path) -> None:
    """Another process exchanges a directory and a link to the outside all the time. Thousands of attempts get
    what is inside or nothing: the link is seen as one, whenever it takes the place of the directory.
    """
    project, outside = tmp_path / "project", tmp_path / "outside"
    for directory, content in ((project / "turn", "inside\n"), (outside, "secret\n")):
        directory.mkdir(parents=True)
        (directory / "secret.txt").write_text(content)
    process = os.fork()
    if not process:
        exchange_until(project / "stop", project / "turn", outside)
    try:
        command = [sys.executable, "-B", "-c", RACE, str(TOOLS / "lib"), str(project)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        (project / "stop").touch()
        os.waitpid(process, 0)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 0
    assert (outside / "secret.txt").read_text() == "secret\n"
    assert os.listdir(outside) == ["secret.txt"]  # noqa: PTH208


def exchange_until(stop: Path, place: Path, outside: Path) -> None:
    """Exchange a directory and a link, in a process of its own, until a file is there."""
    aside, link = place.with_name("aside"), place.with_name("link")
    try:
        link.symlink_to(outside)
        while not stop.exists():
            place.rename(aside)
            link.rename(place)
            place.rename(link)
            aside.rename(place)
    finally:
        os._exit(0)


@pytest.mark.thorough
async def test_what_decides_about_trust_is_changed_by_none_of_them(desk: Desk) -> None:
    deciding = [
        ".ai/lockfiles/demo.lock.json",
        ".ai/keys/agent.pem",
        ".ai/trusted_keys/a.toml",
        ".ai/revoked.toml",
        ".git/hooks/pre-commit",
        "sub/.ai/keys/agent.pem",
    ]
    for path in deciding:
        desk.write(path, "secret")
    desk.write("new.txt", "new")
    (desk.project / "way").symlink_to(".ai/lockfiles")
    calls = [("move", {"source": "new.txt", "target": path, "overwrite": True}) for path in deciding[::2]]
    calls += [("delete", {"path": path}) for path in deciding[1::2]]
    calls += [changing(path)[turn % 2] for turn, path in enumerate([*deciding, "way/demo.lock.json"])]
    calls += changing(".ai/./LockFiles/new")[:1]
    for tool, parameters in calls:
        problem = await desk.refusal(tool, **parameters)
        assert "decides about trust" in problem or "git's own" in problem, (tool, parameters, problem)
    for path in (".ai", "sub/.ai", "."):
        await desk.refusal("delete", path=path, recursive=True)
    for path in (".ai", ".git"):
        await desk.refusal("move", source=path, target="elsewhere")
    assert [(desk.project / path).read_text() for path in deciding] == ["secret"] * len(deciding)
    for tool, parameters in [*reading(".ai/keys/agent.pem"), *reading("sub/.ai/keys/agent.pem")[:1]]:
        assert "expected no private key" in await desk.refusal(tool, **parameters)


@pytest.mark.first_case
@pytest.mark.parametrize("pattern", ["secret", "secre(?=t)"], ids=["with ripgrep, if it is there", "without"])
@pytest.mark.parametrize("path", [".", ".ai", "sub/.AI"])
async def test_private_keys_are_never_found(desk: Desk, pattern: str, path: str) -> None:
    for each in (".ai/keys/agent.pem", ".ai/revoked.toml", "sub/.AI/Keys/a/b.pem", "sub/.AI/keys.txt"):
        desk.write(each, "secret")
    below = [
        each for each in (".ai/revoked.toml", "sub/.AI/keys.txt") if path == "." or each.startswith(path)
    ]
    found = await desk.ask("grep", pattern=pattern, path=path, hidden=True, gitignore=False, output="files")
    assert found["files"] == below
    listed = await desk.ask("glob", pattern="**/*", path=path, hidden=True, gitignore=False)
    assert {each for each in listed["paths"] if "lockfiles" not in each} == {*below}


@pytest.mark.thorough
async def test_authors_write_tools_where_tools_are(desk: Desk) -> None:
    written = await desk.ask("write", path=".ai/tools/demo/new.py", content="x = 1\n")
    assert written["made_directories"] == [".ai/tools", ".ai/tools/demo"]
    await desk.ask("edit", path=".ai/tools/demo/new.py", edits=[{"old_text": "1", "new_text": "2"}])
    await desk.ask("move", source=".ai/tools/demo/new.py", target=".ai/tools/demo/newer.py")
    await desk.ask("delete", path=".ai/tools/demo/newer.py")
    assert list((desk.project / ".ai/tools/demo").iterdir()) == []
