"""A tool of several files runs from its sources once; from then on its process keeps what they compile to."""

from __future__ import annotations

from pathlib import Path

import pytest

from rye_mcp.executor.primitive_executor import PrimitiveExecutor
from tests.runtime_workshop import Workshop
from tests.trust_world import World

pytestmark = pytest.mark.both_loops

HEAD = '__executor_id__ = "rye/core/runtimes/python_script_runtime"\n'
HELPER = f"LOADED_FROM_BYTECODE = __import__('os').path.exists(__cached__)  # {'long' * 600}\n"
TOOL = f"{HEAD}import helper, json\nprint(json.dumps(helper.LOADED_FROM_BYTECODE))\n"


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(World(tmp_path.resolve()))
    workshop.sign("many/tool.py", TOOL)
    workshop.write("many/__init__.py", "")
    workshop.write("many/helper.py", HELPER)
    workshop.sign_listing("many", "__init__.py", "helper.py")
    return workshop


def executor_of(workshop: Workshop) -> PrimitiveExecutor:
    return PrimitiveExecutor(
        workshop.project, user_space=workshop.world.user_space.parent, state=workshop.world.state
    )


async def data_of(executor: PrimitiveExecutor, item_id: str = "many/tool") -> object:
    result = await executor.execute(item_id)
    assert result.success, (result.code, result.error, result.stderr)
    return result.data


@pytest.mark.thorough
async def test_the_second_run_has_bytecode_and_a_changed_file_has_none(workshop: Workshop) -> None:
    executor = executor_of(workshop)
    try:
        assert await data_of(executor) is False
        await executor._preparation.background.wait()
        assert await data_of(executor) is True
        workshop.write("many/helper.py", f"# changed\n{HELPER}")
        workshop.sign_listing("many", "__init__.py", "helper.py")
        result = await executor.execute("many/tool", use_lockfile=False)
        assert (result.success, result.data) == (True, False)
    finally:
        await executor.close()


@pytest.mark.thorough
async def test_a_run_that_failed_has_nothing_compiled(workshop: Workshop) -> None:
    workshop.sign("many/tool.py", f"{TOOL}raise SystemExit(1)\n")
    executor = executor_of(workshop)
    try:
        for _ in range(2):
            result = await executor.execute("many/tool")
            assert (result.success, result.data) == (False, False)
            await executor._preparation.background.wait()
    finally:
        await executor.close()
