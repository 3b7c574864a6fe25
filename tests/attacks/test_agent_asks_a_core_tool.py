"""The tools of `rye/core` are asked for what only a person gets: words of unverified files, ids of runs.

Who runs such a tool changes nothing: its answer may stand before an agent later.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rye_mcp.runs.log import RunLog
from tests.runtime_workshop import Workshop
from tests.trust_world import World

UNSIGNED = """\
'''canary one'''
__version__ = "9.9.9"
__executor_id__ = "demo/canary_runtime"
__tags__ = ["canary"]
"""

MALFORMED = UNSIGNED.replace("9.9.9", "canary")

RUNTIME = "name: canary\nversion: 9.9.9\ntool_type: runtime\nexecutor_id: rye/core/primitives/canary\n"

ECHO = """\
__version__ = "1.0.0"
__executor_id__ = "python_function_runtime"
def execute(params, project_path):
    return params
"""


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    found = Workshop(World(tmp_path))
    (found.project / ".ai").mkdir(parents=True)
    return found


async def said(workshop: Workshop, tool: str, parameters: dict[str, Any]) -> str:
    """All that comes of a call."""
    found = await workshop.run(f"rye/core/{tool}", parameters)
    return json.dumps(found.as_dict(detail=True))


async def test_nothing_of_a_file_that_did_not_pass_is_told(workshop: Workshop) -> None:
    workshop.write("demo/planted.py", UNSIGNED)
    workshop.write("demo/pmalformed.py", MALFORMED)
    workshop.write("demo/canary_runtime.yaml", RUNTIME)
    for tool, item_id in (("explain", "demo/planted"), ("explain", "demo/pmalformed"), ("verify", "demo/p*")):
        text = await said(workshop, tool, {"item_id": item_id})
        assert '"unsigned"' in text
        assert "canary" not in text


async def test_what_stands_behind_an_element_that_did_not_pass_is_not_told(workshop: Workshop) -> None:
    workshop.sign("demo/tool.py", ECHO.replace("python_function_runtime", "demo/middle"))
    workshop.write("demo/middle.yaml", RUNTIME)
    text = await said(workshop, "explain", {"item_id": "demo/tool"})
    assert '"demo/middle"' in text
    assert "canary" not in text
    assert "9.9.9" not in text


async def test_the_log_tells_no_id_and_no_parameter(workshop: Workshop) -> None:
    workshop.sign("demo/echo.py", ECHO)
    run = await workshop.run("demo/echo", {"canary": "secret"})
    assert run.run_id is not None
    text = await said(workshop, "runs", {"item_id": "demo/*"})
    assert "demo/echo" in text
    log = RunLog(workshop.world.state)
    shown = [each for record in log.list() for each in (record.run_id, *record.parameters)]
    log.close()
    assert run.run_id in shown
    own = json.loads(text)["run_id"]
    assert [each for each in shown if each in text and each not in (own, "item_id")] == []
