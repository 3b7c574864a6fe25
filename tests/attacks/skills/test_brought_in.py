"""Somebody offers a directory or a repository whose skills should write, read or run something elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rye_mcp.errors import RyeError
from rye_mcp.items import MAX_SKILL_BYTES, SpaceName
from rye_mcp.sharing.checkout import checked_out, is_repository
from rye_mcp.verbs.skills import CLIENTS, AddRequest, LinkRequest, add, link
from tests.skill_world import FILES, TEXT, directory_of, read, write, written
from tests.trust_world import World, refused
from tests.verb_world import app_of, person


def _link(skill: Path) -> None:
    (skill / "references/passwd").symlink_to("/etc/passwd")


def _directory_link(skill: Path) -> None:
    (skill / "more").symlink_to("/etc")


def _pipe(skill: Path) -> None:
    os.mkfifo(skill / "pipe")


def _set_uid(skill: Path) -> None:
    (skill / "scripts/kettle.sh").chmod(0o6755)


def _too_much(skill: Path) -> None:
    with (skill / "assets.bin").open("wb") as file:
        file.truncate(MAX_SKILL_BYTES + 1)


def _cases(skill: Path) -> None:
    write(skill, {"references/LEAVES.md": "x"})


def _device(skill: Path) -> None:
    write(skill, {"references/aux.md": "x"})


def _colon(skill: Path) -> None:
    write(skill, {"references/a:b": "x"})


def _trailing_dot(skill: Path) -> None:
    write(skill, {"references/a.": "x"})


def _hidden_name(skill: Path) -> None:
    write(skill, {"references/a\u202egnp.md": "x"})


def _backslash(skill: Path) -> None:
    write(skill, {"references/..\\..\\x": "x"})


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (_link, "unsafe_path"),
        (_directory_link, "unsafe_path"),
        (_pipe, "unsafe_path"),
        (_set_uid, "unsafe_permissions"),
        (_too_much, "too_large"),
        (_cases, "invalid_item"),
        (_device, "unsafe_path"),
        (_colon, "unsafe_path"),
        (_trailing_dot, "unsafe_path"),
        (_hidden_name, "invalid_item"),
        (_backslash, "invalid_item"),
    ],
)
def test_what_no_skill_may_have_is_not_brought_in(
    world: World, tmp_path: Path, plant: Callable[[Path], None], code: str
) -> None:
    plant(write(tmp_path / "brew-tea"))
    result = add(AddRequest(tmp_path / "brew-tea"), person(world))
    assert [each.error.code for each in result.failed] == [code]
    assert not directory_of(world).exists()


def test_one_bad_skill_keeps_no_other_out(world: World, tmp_path: Path) -> None:
    _link(write(tmp_path / "skills/brew-tea"))
    write(tmp_path / "skills/pour", {"SKILL.md": TEXT.replace("brew-tea", "pour")})
    result = add(AddRequest(tmp_path), person(world))
    assert [each.file.item_id for each in result.added] == ["pour"]
    assert [each.error.code for each in result.failed] == ["unsafe_path"]


@pytest.mark.parametrize("place", ["", "skills", *CLIENTS.values()])
def test_skills_are_found_where_clients_have_them(world: World, tmp_path: Path, place: str) -> None:
    write(tmp_path / "other" / place / "brew-tea")
    (added,) = add(AddRequest(tmp_path / "other"), person(world)).added
    assert added.file == read(world)
    assert added.file.content == b""


def test_bytes_stay_as_they_are(world: World, tmp_path: Path) -> None:
    odd = {"SKILL.md": TEXT.replace("\n", "\r\n").encode(), "assets/a": bytes(range(256)), "empty": b""}
    source = write(tmp_path / "brew-tea", odd)
    (source / "assets/a").chmod(0o755)
    assert len(add(AddRequest(source), person(world)).added) == 1
    found = directory_of(world)
    assert {path: (found / path).read_bytes() for path in odd} == odd
    assert os.access(found / "assets/a", os.X_OK)
    assert not os.access(found / "empty", os.X_OK)


def test_bytecode_and_repositories_stay_behind(world: World, tmp_path: Path) -> None:
    source = write(tmp_path / "brew-tea", {**FILES, ".git/config": "x", "scripts/__pycache__/a.pyc": "x"})
    assert len(add(AddRequest(source), person(world)).added) == 1
    assert set(read(world).skill.files) == set(FILES)  # type: ignore[union-attr]


def test_a_skill_that_is_there_is_replaced_only_when_asked_for(world: World, tmp_path: Path) -> None:
    written(world)
    source = write(tmp_path / "brew-tea", {"SKILL.md": TEXT + "More.\n"})
    result = add(AddRequest(source), person(world))
    assert [each.error.code for each in result.failed] == ["item_exists"]
    world.verify(read(world))
    assert not add(AddRequest(source, overwrite=True), person(world)).failed
    assert read(world).content == b""
    refused("unsigned", lambda: world.verify(read(world)))


def test_a_directory_without_skills_is_refused(world: World, tmp_path: Path) -> None:
    refused("item_not_found", lambda: add(AddRequest(tmp_path), person(world)))
    refused("out_of_scope", lambda: add(AddRequest(tmp_path, SpaceName.SYSTEM), person(world)))


# --- repositories ---


def _git(directory: Path, *arguments: str) -> None:
    names = ("-c", "user.name=mallory", "-c", "user.email=m@example.com", "-c", "commit.gpgSign=false")
    subprocess.run(["git", "-C", str(directory), *names, *arguments], check=True, capture_output=True)


def _anywhere(_: str) -> None:
    """Programs may be started from every directory."""


def _repository(place: Path, files: dict[str, str | bytes]) -> str:
    write(place, files)
    _git(place, "init", "--quiet")
    _git(place, "add", "--all", "--force")
    _git(place, "commit", "--quiet", "--message", "x")
    return f"file://{place}"


def _brought_in(world: World, source: str) -> list[str]:
    async def bring_in() -> list[str]:
        async with checked_out(source, os.environ, _anywhere) as found:
            result = add(AddRequest(found.directory, origin=found.origin, renamed=True), person(world))
            assert not result.failed, result.failed[0].error
            return [each.origin for each in result.added]

    return anyio.run(bring_in)


def test_a_repository_that_is_a_skill_is_brought_in_under_its_name(world: World, tmp_path: Path) -> None:
    source = _repository(tmp_path / "repository", dict(FILES))
    (origin,) = _brought_in(world, source)
    assert origin.startswith(f"{source}@")
    assert read(world).text.decode() == TEXT


def test_a_revision_and_a_directory_of_a_repository(world: World, tmp_path: Path) -> None:
    place = tmp_path / "repository"
    source = _repository(place, {f"deep/brew-tea/{path}": text for path, text in FILES.items()})
    _git(place, "tag", "v1")
    (place / "deep/brew-tea/SKILL.md").write_text("broken")
    _git(place, "commit", "--quiet", "--all", "--message", "y")
    (origin,) = _brought_in(world, f"git+{source}@v1#deep/brew-tea")
    assert origin.endswith("#deep/brew-tea")
    assert read(world).text.decode() == TEXT


def test_nothing_of_a_repository_runs(world: World, tmp_path: Path) -> None:
    """Hooks, filters, submodules and attributes would run a program, or change the bytes."""
    mark = tmp_path / "mark"
    place = tmp_path / "repository"
    attributes = "* filter=evil text eol=crlf ident export-subst\nSKILL.md working-tree-encoding=UTF-16\n"
    source = _repository(place, {**FILES, "a.md": "$Id$ $Format:%H$\n"})
    (place / ".gitattributes").write_text(attributes)
    (place / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch /tmp/x"\n')
    _git(place, "add", ".gitattributes", ".gitmodules")
    _git(place, "commit", "--quiet", "--message", "y")
    for hook in ("post-checkout", "pre-receive", "post-upload-pack"):
        path = place / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {mark}\n")
        path.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[filter "evil"]\n\tsmudge = touch {mark}; cat\n\trequired = true\n')

    async def files() -> dict[str, bytes]:
        async with checked_out(source, {**os.environ, "HOME": str(home)}, _anywhere) as found:
            return {path: (found.directory / path).read_bytes() for path in ("SKILL.md", "a.md")}

    assert anyio.run(files) == {"SKILL.md": TEXT.encode(), "a.md": b"$Id$ $Format:%H$\n"}
    assert not mark.exists()


@pytest.mark.parametrize("where", ["bin", "."])
def test_what_git_starts_does_not_come_from_a_clone(
    world: World, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither git nor what it starts by a name: `ssh`, or a credential helper."""
    mark, clone = tmp_path / "mark", tmp_path / "clone"
    (clone / ".ai").mkdir(parents=True)
    planted = clone / where / "git"
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(f"#!/bin/sh\ntouch {mark}\n")
    planted.chmod(0o755)
    shutil.copy(planted, planted.with_name("ssh"))
    monkeypatch.chdir(clone)
    path = f"{planted.parent if where == 'bin' else '.'}:{os.environ['PATH']}"
    why_not = app_of(world).trust.directories.why_not

    async def fetch(source: str) -> None:
        async with checked_out(source, {**os.environ, "PATH": path}, why_not):
            pass

    anyio.run(fetch, _repository(tmp_path / "repository", dict(FILES)))
    with pytest.raises(RyeError):
        anyio.run(fetch, "user@host.invalid:x.git")
    assert not mark.exists()


def test_a_directory_of_a_repository_is_no_link_out_of_it(tmp_path: Path) -> None:
    write(tmp_path / "private/brew-tea")
    place = write(tmp_path / "repository")
    (place / "more").symlink_to(tmp_path / "private")
    source = _repository(place, {})

    async def fetch() -> None:
        async with checked_out(f"{source}#more/brew-tea", os.environ, _anywhere):
            raise AssertionError

    refused("artifact_not_found", lambda: anyio.run(fetch))


def test_a_link_in_a_repository_leads_nowhere(world: World, tmp_path: Path) -> None:
    place = write(tmp_path / "repository")
    _link(place)
    source = _repository(place, {})

    async def bring_in() -> list[str]:
        async with checked_out(source, os.environ, _anywhere) as found:
            result = add(AddRequest(found.directory, origin="x", renamed=True), person(world))
            return [each.error.code for each in result.failed]

    assert anyio.run(bring_in) == ["unsafe_path"]


@pytest.mark.parametrize(
    "source",
    [
        "ext::sh -c 'touch /tmp/x'",
        "--upload-pack=touch /tmp/x",
        "http://example.com/x.git",
        "git://x/y",
        "fd::17",
        "",
    ],
)
def test_addresses_that_make_git_run_something_are_refused(source: str) -> None:
    assert not is_repository(source)

    async def fetch() -> None:
        async with checked_out(source, os.environ, _anywhere):
            raise AssertionError

    with pytest.raises(RyeError) as caught:
        anyio.run(fetch)
    assert caught.value.code == "unknown_argument"


@pytest.mark.parametrize("source", ["https://name@localhost/x.git", "ssh://name@localhost/x.git"])
def test_no_other_host_is_asked_than_the_one_that_was_named(source: str, tmp_path: Path) -> None:
    """What stands before the `@` is a name at the host, and what follows it is no revision."""
    program = """\
#!/bin/sh
case " $* " in *" fetch "*) echo "$@" > asked; exit 1;; esac
exec /usr/bin/git "$@"
""".replace("asked", f"{tmp_path}/asked")
    write(tmp_path / "bin", {"git": program})
    (tmp_path / "bin/git").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}

    async def fetch() -> None:
        async with checked_out(source, environment, _anywhere):
            raise AssertionError

    refused("registry_unreachable", lambda: anyio.run(fetch))
    assert (tmp_path / "asked").read_text().split()[-3:] == ["--", source, "HEAD:refs/rye/pulled"]


def test_an_address_with_a_password_is_refused() -> None:
    assert not is_repository("https://name:password@example.com/x.git")


@pytest.mark.parametrize("directory", ["..", "a/../..", "/etc", "a//b"])
def test_a_directory_outside_of_a_repository_is_refused(tmp_path: Path, directory: str) -> None:
    source = _repository(tmp_path / "repository", dict(FILES))

    async def fetch() -> None:
        async with checked_out(f"{source}#{directory}", os.environ, _anywhere):
            raise AssertionError

    with pytest.raises(RyeError) as caught:
        anyio.run(fetch)
    assert caught.value.code == "artifact_not_found"


def test_git_is_not_found_where_nothing_may_be_started(tmp_path: Path) -> None:
    source = _repository(tmp_path / "repository", dict(FILES))
    mark, planted = tmp_path / "mark", tmp_path / "project/bin"
    write(planted, {"git": f"#!/bin/sh\ntouch {mark}\n"})
    (planted / "git").chmod(0o755)

    async def fetch() -> None:
        path = f"{planted}:."
        async with checked_out(source, {**os.environ, "PATH": path}, lambda _: "it is a project's"):
            raise AssertionError

    with pytest.raises(RyeError) as caught:
        anyio.run(fetch)
    assert caught.value.code == "registry_unreachable"
    assert "it is a project's" in caught.value.message
    assert not mark.exists()


def test_an_invalid_repository_is_reported(tmp_path: Path) -> None:
    async def fetch() -> None:
        async with checked_out(f"file://{tmp_path}/nothing", os.environ, _anywhere):
            raise AssertionError

    with pytest.raises(RyeError) as caught:
        anyio.run(fetch)
    assert caught.value.code == "registry_unreachable"


# --- copies for clients ---


def test_a_copy_for_a_client_is_of_what_passes_the_gate(world: World) -> None:
    written(world)
    (place,) = link(LinkRequest("brew-tea", ("claude",)), person(world))
    assert place == world.project / ".claude/skills/brew-tea"
    assert {path: (place / path).read_text() for path in FILES} == FILES
    (directory_of(world) / "SKILL.md").write_text(TEXT + "More.\n")
    refused("content_changed", lambda: link(LinkRequest("brew-tea", ("agents",)), person(world)))
    assert not (world.project / ".agents").exists()


def test_a_copy_that_was_changed_is_told_and_not_replaced_unasked(world: World) -> None:
    from rye_mcp.verbs.survey import SurveyRequest, survey

    written(world)
    context = person(world)
    (place,) = link(LinkRequest("brew-tea", ("claude",)), context)
    asked = SurveyRequest("brew-tea", locks=True)
    assert survey(asked, context).is_good
    (place / "conftest.py").write_text("evil")
    found = survey(asked, context)
    assert not found.is_good
    (error,) = found.items[0].copies
    assert error.message.endswith("found another in conftest.py")
    assert json.loads(json.dumps(found.as_dict()))["status"] == "refused"
    refused("item_exists", lambda: link(LinkRequest("brew-tea", ("claude",)), context))
    link(LinkRequest("brew-tea", ("claude",), overwrite=True), context)
    assert survey(asked, context).is_good


def test_a_copy_is_written_through_no_link(world: World, tmp_path: Path) -> None:
    written(world)
    (tmp_path / "elsewhere").mkdir()
    (world.project / ".claude").symlink_to(tmp_path / "elsewhere")
    refused("unsafe_path", lambda: link(LinkRequest("brew-tea", ("claude",)), person(world)))
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_unknown_client_is_refused(world: World) -> None:
    written(world)
    refused("unknown_argument", lambda: link(LinkRequest("brew-tea", ("emacs",)), person(world)))


def test_a_copy_of_a_skill_of_the_user_goes_to_their_home(world: World) -> None:
    written(world, space=SpaceName.USER)
    (place,) = link(LinkRequest("brew-tea", ("codex",)), person(world))
    assert place == world.user_space.parent / ".codex/skills/brew-tea"
    shutil.rmtree(place)
