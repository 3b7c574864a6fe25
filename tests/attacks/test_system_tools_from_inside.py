"""A program with exactly what a system item may do tries more, and annotations say what comes of it."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from lilux.primitives.subprocess import CallSpec, Halves, RuntimeSpec, SubprocessPrimitive
from rye_mcp.app import App, Settings
from rye_mcp.executor.job.confinement import Confinement, Rights
from rye_mcp.permissions import Access, Permissions, Requirement, hints, sentence
from rye_mcp.spaces import Spaces
from rye_mcp.verbs.offers import Offer, OffersRequest, offers
from tests.unit.rye_mcp.test_system_space import TOOLS, declared

pytestmark = pytest.mark.anyio

PROBE = """
import json, os, socket, sys

done = []
given = json.loads(sys.argv[1])
for name, path in given["read"].items():
    try:
        with open(path) as file:
            done += [name] if file.read() == "theirs" else []
    except OSError:
        pass
for name, path in given["write"].items():
    try:
        os.close(os.open(path, os.O_WRONLY | (0 if name == "system" else os.O_CREAT), 0o600))
        with open(path, "a") as file:
            file.write("" if name == "system" else "planted")
        done.append(name)
    except OSError:
        pass
for name, address in given["connect"].items():
    try:
        socket.create_connection(tuple(address), timeout=5).close()
        done.append(name)
    except OSError:
        pass
print(json.dumps(done))
"""
POLICIES = {
    sentence(permissions): permissions
    for permissions in (declared(path).permissions for path in TOOLS)
    if permissions is not None
}
"""What system items may do, each once."""

PROGRAM = "rye/core/primitives/subprocess"
CELL, WALLS = Requirement.CELL, Requirement.WALLS


class Scene:
    """A project of a person with a home, other places, and somebody who listens."""

    def __init__(self, root: Path, addresses: dict[str, tuple[str, int]]) -> None:
        self.root, self.addresses = root, addresses
        self.home, self.project = root / "home", root / "project"
        self.files = {
            "project": self.project / "mine.txt",
            "hook": self.project / ".git/hooks/pre-commit",
            "object": self.project / ".git/objects/one",
            "item": self.project / ".ai/tools/demo.py",
            "home": self.home / ".bashrc",
            "elsewhere": root / "elsewhere/file",
            "trash": self.home / ".local/state/rye/trash/one",
        }
        self.secrets = {"key": self.home / ".ssh/id", "masked": self.project / ".env"}
        for path in (*self.files.values(), *self.secrets.values()):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.write_text("theirs")

    async def run(self, permissions: Permissions, tier: Requirement) -> set[str]:
        """What a program with these permissions did, as it is seen from outside."""
        write = {**self.files, "system": Path("/etc/passwd")}
        given = {
            "write": {name: str(path) for name, path in write.items()},
            "read": {
                name: str(path) for name, path in {**self.secrets, "source": self.files["project"]}.items()
            },
            "connect": self.addresses,
        }
        runtime = RuntimeSpec(command=sys.executable, args=("-I", "-c", PROBE), env={"HOME": str(self.home)})
        spaces = Spaces.locate(self.project, user=self.root / "space")
        environment = {"HOME": str(self.home)}
        confinement = Confinement(spaces, self.project, self.root / "state", environment)
        scratch = None
        if tier is WALLS:
            scratch = self.root / "scratch"
            scratch.mkdir()
        process = Halves(runtime, CallSpec(args=(json.dumps(given),), cwd=str(self.project)))
        rights = Rights(permissions, "rye/probe", ("system",))
        confined = confinement.confine(rights, process, scratch=scratch)
        assert confined.policy is not None
        policy = replace(confined.policy, tier="cell" if tier is CELL else "walls", require="none")
        spec = confined.process.whole(policy=policy)
        ran = await SubprocessPrimitive().run(spec)
        assert ran.success, (ran.error, ran.stderr)
        assert ran.enforced is not None
        assert ran.enforced.level == tier.name.lower()
        said = set(json.loads(ran.stdout))
        changed = {name for name, path in self.files.items() if path.read_text() != "theirs"}
        return (said - self.files.keys()) | changed


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("", 0)))
        port = server.getsockname()[1]
        addresses = {"loopback": ("127.0.0.1", port)}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                addresses["host"] = (probe.getsockname()[0], port)
            except OSError:
                pass  # without any network there is no other address
        yield Scene(tmp_path.resolve(), addresses)


def allowed(permissions: Permissions, tier: Requirement, scene: Scene) -> set[str]:
    """What follows from the permissions; walls cannot keep what is inside a project that is written."""
    writes, reads = permissions.project is Access.WRITE, permissions.project >= Access.READ
    in_walls = tier is WALLS
    could = {
        "source": reads,
        "masked": reads and in_walls,
        "project": writes,
        "hook": writes and in_walls,
        "object": writes and (in_walls or "git" in permissions.uses),
        "item": writes and (in_walls or "items" in permissions.uses),
        "trash": "trash" in permissions.uses,
        **dict.fromkeys(scene.addresses, permissions.any_host),
    }
    return {name for name, can in could.items() if can}


@pytest.mark.parametrize("tier", [CELL, WALLS], ids=["cell", "walls"])
@pytest.mark.parametrize("words", POLICIES)
async def test_a_system_item_can_do_what_it_declares_and_its_annotations_say_so(
    scene: Scene, words: str, tier: Requirement
) -> None:
    facts = await SubprocessPrimitive().probe()
    if not facts.seccomp or (facts.cell is None if tier is CELL else not facts.landlock):
        pytest.skip("this machine cannot enforce it")
    permissions = POLICIES[words]
    done = await scene.run(permissions, tier)
    assert done == allowed(permissions, tier, scene)
    changed, reached = done & scene.files.keys(), done & scene.addresses.keys()
    calls = bool(permissions.calls)  # what it calls may do more than the tool itself
    assert hints(permissions, tier) == {
        "readOnlyHint": tier is CELL and not changed and not reached and not calls,
        "destructiveHint": bool(changed - {"trash"}) or calls,
        "openWorldHint": bool(reached) or calls,
    }
    for offer in offered(scene.root):
        if offer.metadata.permissions == permissions:
            told = offer.annotations(tier)
            assert not told["readOnlyHint"] or not (changed or reached), offer.item_id
            assert told["destructiveHint"] or not changed - {"trash"}, offer.item_id
            assert told["openWorldHint"] or not reached, offer.item_id


IN_THIS_PROCESS = {
    "rye/code/save",
    "rye/core/explain",
    "rye/core/runs",
    "rye/core/verify",
    "rye/http/fetch",
    "rye/process/kill",
    "rye/process/logs",
    "rye/process/spawn",
    "rye/process/status",
}
"""System tools that no kernel keeps from anything: what they do is our code."""


def offered(root: Path) -> tuple[Offer, ...]:
    """The tools of the system space, as a server lists them."""
    settings = Settings.find(
        project=root / "project", user_directory=root, state=root / "state", environment={}
    )
    app = App.open(settings)
    return offers(OffersRequest(), app.context()).items


def test_annotations_claim_nothing_that_is_not_enforced(scene: Scene) -> None:
    harmless = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
    for offer in offered(scene.root):
        claiming = replace(offer, metadata=replace(offer.metadata, annotations=harmless))
        permissions = offer.metadata.permissions
        if offer.item_id in IN_THIS_PROCESS or permissions is None:
            continue
        for tier in Requirement:
            assert claiming.annotations(tier) == hints(permissions, tier), offer.item_id


def test_a_system_tool_that_no_kernel_keeps_from_anything_is_told_of_as_its_author_says(
    scene: Scene,
) -> None:
    ours = {
        each.item_id: each for each in offered(scene.root) if each.executors.pairs[-1][0].item_id != PROGRAM
    }
    assert ours.keys() == IN_THIS_PROCESS
    for tier in Requirement:
        only_read = {item_id for item_id, each in ours.items() if each.annotations(tier)["readOnlyHint"]}
        assert only_read == {f"rye/{name}" for name in ("core/explain", "core/runs", "core/verify")} | {
            "rye/process/logs",
            "rye/process/status",
        }
        reaching = {item_id for item_id, each in ours.items() if each.annotations(tier)["openWorldHint"]}
        assert reaching == {"rye/http/fetch", "rye/process/spawn"}


def test_the_policies_are_those_of_many_items() -> None:
    assert len(POLICIES) >= 6
    assert any(each.any_host for each in POLICIES.values())
    assert Permissions() in POLICIES.values()
