"""Whatever changes on this machine between two calls shows in the confinement of the second.

Everything is tried twice: what was made a moment ago is looked at again for each call, and what is older is
remembered for as long as nothing changes.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lilux import _footprints, _stamps
from lilux.primitives.subprocess import CallSpec, Halves, Policy, RuntimeSpec
from rye_mcp.executor.job.confinement import Confined, Confinement, Rights
from rye_mcp.executor.job.planted import Missing
from rye_mcp.permissions import CLOSED, CREDENTIALS, Access, Permissions
from rye_mcp.spaces import Spaces
from tests.unit.rye_mcp.executor.job.test_guarded import let_the_clock_tick


@dataclass
class Scene:
    """A home with a project in it, and a confinement that is asked again and again."""

    home: Path
    confinement: Confinement

    @classmethod
    def make(cls, root: Path) -> Scene:
        root = Path(os.path.realpath(root))
        home, project = root / "home", root / "home/work/site"
        for directory in (project / "kept", home / "notes/gh"):
            directory.mkdir(parents=True)
        (home / ".git").mkdir()
        (home / ".git/config").touch()
        spaces = Spaces.locate(project, user=root)
        return cls(home, Confinement(spaces, project, root / "state", {"HOME": str(home)}))

    @property
    def project(self) -> Path:
        return self.home / "work/site"

    @property
    def copy(self) -> Path:
        """The private copy of a call, another one each time."""
        return self.home.parent / f"copies/{next(_NUMBERS)}"

    @property
    def part(self) -> Path:
        """A part of each run."""
        return self.home / "notes/gh"

    def confined(self, access: Access = Access.WRITE, *interpreters: Path) -> Confined:
        """The confinement of the next call, of a tool that may write the project, or read it."""
        process = Halves(RuntimeSpec(command="/bin/true", env={}), CallSpec())
        rights = Rights(Permissions(project=access), "demo/writes", ("person",))
        found = self.confinement.confine(
            rights, process, private_copy=self.copy, also=[self.part], interpreters=interpreters
        )
        let_the_clock_tick(self.home.parent)
        return found

    def policy(self, access: Access = Access.WRITE) -> Policy:
        policy = self.confined(access).policy
        assert policy is not None
        return policy

    def missing(self) -> Missing:
        missing = self.confined().missing
        assert missing is not None
        return missing


_NUMBERS = itertools.count()


@pytest.fixture(params=["young", "old"])
def scene(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scene:
    scene = Scene.make(tmp_path)
    if request.param == "old":
        for module in (_footprints, _stamps):
            monkeypatch.setattr(module, "SETTLED_NS", -(10**12))
    return scene


def test_what_is_old_is_remembered_and_what_is_young_is_looked_at_again(
    scene: Scene, request: pytest.FixtureRequest
) -> None:
    is_old = request.node.callspec.params["scene"] == "old"
    assert (scene.missing() is scene.missing()) == is_old


def test_every_run_writes_the_copy_that_is_its_own(scene: Scene) -> None:
    first, second = (scene.policy().write for _ in range(2))
    assert first[1:] == second[1:] == [str(scene.project)]
    assert first[0] != second[0]


def lead(path: Path, target: Path) -> None:
    """Make a link, and what is above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def shows_part(scene: Scene) -> bool:
    return str(scene.part) in scene.policy().read


@pytest.mark.parametrize("closed", [*CLOSED, *CREDENTIALS])
def test_a_part_is_not_shown_once_what_is_closed_leads_to_it(scene: Scene, closed: str) -> None:
    assert shows_part(scene)
    lead(scene.home / closed.removeprefix("~/"), scene.part)
    assert not shows_part(scene)


@pytest.mark.parametrize("target", ["notes", "linked"])
def test_a_part_is_not_shown_once_a_directory_above_what_is_closed_leads_to_it(
    scene: Scene, target: str
) -> None:
    lead(scene.home / "linked", scene.home / "notes")
    assert shows_part(scene)
    lead(scene.home / ".config", scene.home / target)
    assert not shows_part(scene)


def test_a_part_is_shown_again_once_the_link_leads_elsewhere(scene: Scene) -> None:
    lead(scene.home / ".ssh", scene.part)
    assert not shows_part(scene)
    (scene.home / ".ssh").unlink()
    lead(scene.home / ".ssh", scene.home / "elsewhere")
    assert shows_part(scene)


@pytest.mark.parametrize("closed", [*CLOSED, *CREDENTIALS])
def test_what_is_closed_is_hidden_wherever_a_link_leads_by_now(scene: Scene, closed: str) -> None:
    target = str(scene.project / "kept")
    assert target not in scene.confinement.hidden(())
    lead(scene.home / closed.removeprefix("~/"), scene.project / "kept")
    assert target in scene.confinement.hidden(())


def test_an_interpreter_is_shown_where_its_environment_says_by_now(scene: Scene) -> None:
    root = scene.home.parent
    for name in ("old", "new"):
        (root / name / "lib").mkdir(parents=True)
        (root / name / "bin").mkdir()
        (root / name / "bin/python").touch(0o755)
    (root / "venv/bin").mkdir(parents=True)
    (root / "venv/bin/python").symlink_to(root / "old/bin/python")

    def shown(behind: str) -> list[str]:
        (root / "venv/pyvenv.cfg").write_text(f"home = {root}/{behind}/bin\n")
        policy = scene.confined(Access.NONE, root / "venv/bin/python").policy
        assert policy is not None
        return [name for name in ("old", "new") if str(root / name) in policy.read]

    assert shown("old") == ["old"]
    assert shown("new") == ["old", "new"], "its program is that of the old one"


def test_a_part_that_is_gone_is_left_out(scene: Scene) -> None:
    assert shows_part(scene)
    scene.part.rmdir()
    assert not shows_part(scene)


def named_hooks(scene: Scene) -> None:
    """Name a directory of the project in the configuration of the repository of the whole home."""
    (scene.home / ".git/config").write_text(f"[core]\nhooksPath = {scene.project}/kept\n")


def made_hooks(scene: Scene) -> None:
    """Make a repository above the project, whose hooks are in the project."""
    (scene.home / "work/.git").mkdir()
    (scene.home / "work/.git/config").write_text("[core]\nhooksPath = site/kept\n")


APPEARS: dict[str, tuple[Callable[[Scene], None], Callable[[Scene], bool]]] = {
    "a link with a guarded name": (
        lambda scene: lead(scene.project / ".envrc", scene.project / "kept"),
        lambda scene: f"{scene.project}/kept" in scene.policy().protect,
    ),
    "a link that the run may turn": (
        lambda scene: lead(scene.project / ".envrc", scene.project / "kept"),
        lambda scene: (f"{scene.project}/.envrc", f"{scene.project}/kept") in scene.missing().links,
    ),
    "a guarded file": (
        lambda scene: (scene.project / ".envrc").touch(),
        lambda scene: f"{scene.project}/.envrc" not in scene.missing().paths,
    ),
    "a guarded file, which becomes read-only": (
        lambda scene: (scene.project / ".envrc").touch(),
        lambda scene: f"{scene.project}/.envrc" in scene.policy().protect,
    ),
    "a file of secrets, which is masked": (
        lambda scene: (scene.project / ".env").touch(),
        lambda scene: f"{scene.project}/.env" in scene.policy().mask,
    ),
    "a file of secrets, which is masked for whoever reads the project": (
        lambda scene: (scene.project / ".env").touch(),
        lambda scene: f"{scene.project}/.env" in scene.policy(Access.READ).mask,
    ),
    "a configuration of git": (
        named_hooks,
        lambda scene: f"{scene.project}/kept" in scene.policy().protect,
    ),
    "a file of secrets": (
        lambda scene: (scene.project / ".env").touch(),
        lambda scene: f"{scene.project}/.env" not in scene.missing().paths,
    ),
    "a link with the name of such a file": (
        lambda scene: lead(scene.project / ".env", scene.project / "kept"),
        lambda scene: f"{scene.project}/kept" in scene.policy().mask,
    ),
    "a repository in the project": (
        lambda scene: (scene.project / "kept/.git").mkdir(),
        lambda scene: f"{scene.project}/kept/.git" in scene.policy().protect,
    ),
    "a repository around the project": (
        made_hooks,
        lambda scene: f"{scene.project}/kept" in scene.policy().protect,
    ),
    "a virtual environment": (
        lambda scene: (scene.project / "kept/pyvenv.cfg").touch(),
        lambda scene: f"{scene.project}/kept" in scene.policy().protect,
    ),
}


def test_a_repository_counts_wherever_it_appears_in_a_project_whose_index_says_nothing(scene: Scene) -> None:
    (scene.project / "kept/deep").mkdir()
    (scene.project / ".git").mkdir()
    (scene.project / ".git/index").write_text("link: no index, or one that is split")
    inner = scene.project / "kept/deep/.git"
    assert str(inner) not in scene.policy().protect
    inner.mkdir()
    assert str(inner) in scene.policy().protect


@pytest.mark.parametrize("crowd", [0, 300])
@pytest.mark.parametrize("case", APPEARS)
def test_what_appears_in_a_project_counts_from_the_next_call_on(scene: Scene, case: str, crowd: int) -> None:
    for number in range(crowd):
        (scene.project / f"file{number}").touch()
    appears, counts = APPEARS[case]
    assert not counts(scene)
    appears(scene)
    assert counts(scene)


def test_what_a_guarded_link_leads_to_is_missing_only_if_it_is_not_there(scene: Scene) -> None:
    """The run must not make it either; and what was there before it is not taken away afterwards."""
    lead(scene.project / ".envrc", scene.project / "nowhere")
    lead(scene.project / ".idea", scene.project / "kept")
    missing = set(scene.missing().paths)
    named = {f"{scene.project}/{name}" for name in (".envrc", ".idea", "kept", "nowhere")}
    assert missing & named == {f"{scene.project}/nowhere"}
