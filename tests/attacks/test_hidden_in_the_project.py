"""A confined tool reads files of its project that hold a person's secrets: by name and behind links."""

from __future__ import annotations

import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.anyio

READS = '''\
"""Reads files of the project."""

__executor_id__ = "python_function_runtime"
__version__ = "1.0.0"
PERMISSIONS = {permissions}
CONFIG_SCHEMA = {{"type": "object", "properties": {{"names": {{"type": "array"}}}}}}


def execute(params, project_path):
    found = []
    for name in params["names"]:
        try:
            with open(project_path + "/" + name) as file:
                found += [name] if "secret" in file.read() else []
        except OSError:
            pass
    return found
'''
NAMES = (
    ".env",
    ".env.local",
    ".env.development.local",
    ".env.production.local",
    ".env.test.local",
)
LINKS = {
    "a file of the project": "shared/real",
    "a directory of the project": "shared",
    "a file elsewhere": "../elsewhere",
    "nothing": "missing",
    "the project": ".",
}
"""Where a person's own link leads."""


async def seen(workshop: Workshop, permissions: str, *names: str) -> list[str]:
    """Which of these files a tool of a person has read."""
    item_id = "demo/free" if "unconfined" in permissions else "demo/reads"
    workshop.sign(f"{item_id}.py", READS.format(permissions=permissions))
    executor = PrimitiveExecutor(
        workshop.project,
        user_space=workshop.world.user_space.parent,
        state=workshop.world.state,
        environment={"PATH": "/usr/bin:/bin", "HOME": str(workshop.world.root / "home")},
    )
    try:
        result = await executor.execute(item_id, {"names": list(names)})
    finally:
        await executor.close()
    assert result.success, result.error
    found: list[str] = result.data
    return found


@pytest.fixture
async def workshop(world: World) -> Workshop:
    if (await SubprocessPrimitive().probe()).cell is None:
        pytest.skip("no cells can be made here")
    made = Workshop(world)
    (made.project / "shared").mkdir(parents=True)
    for path in (made.project / "shared/real", made.project / "open", made.project.parent / "elsewhere"):
        path.write_text("secret")
    return made


@pytest.mark.parametrize("permissions", ['{"project": "read"}', '{"project": "write"}'])
async def test_files_of_secrets_are_hidden_by_their_names(workshop: Workshop, permissions: str) -> None:
    for name in NAMES:
        (workshop.project / name).write_text("secret")
    assert await seen(workshop, permissions, "open", *NAMES) == ["open"]
    assert await seen(workshop, '"unconfined"', "open", *NAMES) == ["open", *NAMES]


@pytest.mark.first_case
@pytest.mark.parametrize("leads_to", LINKS)
async def test_a_link_with_such_a_name_hides_what_it_leads_to(workshop: Workshop, leads_to: str) -> None:
    (workshop.project / ".env").symlink_to(LINKS[leads_to])
    found = await seen(workshop, '{"project": "write"}', "open", ".env", "shared/real")
    hidden = leads_to in ("a file of the project", "a directory of the project")
    assert found == (["open"] if hidden else ["open", "shared/real"])


@pytest.mark.parametrize("place", [".aws", ".config"])
async def test_keys_of_the_home_that_lie_in_the_project_are_hidden(workshop: Workshop, place: str) -> None:
    """A person keeps all of their settings in one repository, and links lead to it from their home."""
    kept = workshop.project / "settings" / place
    (kept / "gh").mkdir(parents=True)
    (kept / "credentials").write_text("secret")
    (kept / "gh/hosts.yml").write_text("secret")
    home = workshop.world.root / "home"
    home.mkdir(exist_ok=True)
    (home / place).symlink_to(kept)
    names = [f"settings/{place}/credentials", f"settings/{place}/gh/hosts.yml"]
    found = await seen(workshop, '{"project": "read"}', "open", *names)
    assert found == (["open"] if place == ".aws" else ["open", names[0]])
