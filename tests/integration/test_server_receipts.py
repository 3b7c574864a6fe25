"""Receipts over MCP: every call that ran, was refused or was cancelled has one, and its result names it."""

from __future__ import annotations

import json

import pytest

from rye_mcp.runs.receipts import ReceiptStore
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Mode, Workshop, facts, read
from tests.receipt_world import Ledger

pytestmark = pytest.mark.anyio

SLOW = 'import time\nopen(params["pipe"], "w").write("here")\ntime.sleep(600)\n'


async def test_a_result_names_its_receipt(workshop: Workshop, mode: Mode) -> None:
    workshop.tool("demo/quick", "print('{}')")
    workshop.tool("demo/slow", SLOW)
    pipe = workshop.pipe()
    async with workshop.served(mode) as client:
        ran = await client.call_tool("execute", {"item_id": "demo/quick"})
        other = await client.call_tool("execute", {"item_id": "demo/none"})
        started = await client.call_tool(
            "execute", {"item_id": "demo/slow", "parameters": {"pipe": str(pipe)}, "async": True}
        )
        await read(pipe)
        run_id = facts(started)["run_id"]
        await client.call_tool("execute", {"run_id": run_id, "action": "cancel"})
    ledger = Ledger(workshop.person.state / "rye")
    assert ledger.problems() == []
    with ReceiptStore(ledger.state) as store:
        by_digest = {each.digest: json.loads(each.payload) for each in store.all()}
        cancelled = json.loads(store.of(run_id).payload)
    codes = [
        by_digest[(each.meta or {})["rye/receipt"]]["predicate"]["verified"]["code"] for each in (ran, other)
    ]
    assert codes == [None, "item_not_found"]
    assert cancelled["predicate"]["observed"]["exit"]["kind"] == "cancelled"
    [names] = [
        [subject["name"] for subject in statement["subject"]]
        for statement in by_digest.values()
        if statement["predicate"]["verified"]["run_id"] == facts(ran)["run_id"]
    ]
    assert {"item:demo/quick", "output:stdout"} <= set(names)
