"""What tests of verbs share: a `World` with the parts that a verb works with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rye_mcp.app import App, Settings
from rye_mcp.items import ItemFile, ItemType, SpaceName, relative_path
from rye_mcp.trust.scope import SignerKind
from rye_mcp.verbs.context import Context
from tests.trust_world import World

__all__ = ["DIRECTIVE", "RUNTIME", "SECRET", "agent", "app_of", "path_of", "person", "put", "tool"]

SECRET = "the content that nobody may see"

RUNTIME = b"""\
name: my_runtime
version: "1.0.0"
tool_type: runtime
executor_id: rye/core/primitives/subprocess
"""

DIRECTIVE = b"""\
---
name: greet
version: "1.0.0"
description: Greets somebody.
---
Say hello.
"""


def tool(text: str = "print('hello')", *, executor: str = "rye/core/primitives/subprocess") -> bytes:
    """A tool in Python that says what a tool has to say."""
    return (
        f'"""Says hello."""\n\n__version__ = "1.2.0"\n__tool_type__ = "python"\n'
        f"__executor_id__ = {executor!r}\n\n\ndef main():\n    {text}\n"
    ).encode()


def person(world: World, *, ask_passphrase: Callable[[], bytes] | None = None) -> Context:
    """What a verb works with when this user asks; their key is there."""
    world.keys.ensure(SignerKind.PERSON, owner="leo")
    return app_of(world).context(SignerKind.PERSON, ask_passphrase=ask_passphrase)


def agent(world: World) -> Context:
    """What a verb works with when an agent of this user asks."""
    return app_of(world).context()


def put(
    world: World,
    content: bytes,
    item_id: str = "demo/hello",
    extension: str = ".py",
    *,
    item_type: ItemType = ItemType.TOOL,
    space: SpaceName = SpaceName.PROJECT,
    signed: bool = False,
) -> ItemFile:
    """Write an item; with `signed`, with a signature of this user."""
    file = world.file(content, item_id=item_id, extension=extension, item_type=item_type, space=space)
    return world.stored(world.signed(file) if signed else file)


def path_of(world: World, space: SpaceName, item_id: str = "demo/hello", extension: str = ".py") -> Path:
    """Where a tool is, or would be."""
    return world.space(space).root / relative_path(ItemType.TOOL, item_id, extension)


def app_of(world: World) -> App:
    """The parts of one call in this world."""
    (world.project / ".ai").mkdir(parents=True, exist_ok=True)
    settings = Settings.find(
        project=world.project,
        user_directory=world.user_space.parent,
        state=world.state,
        environment=world.environment,
    )
    return App.open(settings)
