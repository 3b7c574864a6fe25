"""A parked process waits for one call, is that call's run, and is ended like any other when none comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.containment.client import MAX_PAYLOAD, Client

SHOW = "cat <&20; exec 20<&-; cat; echo $0 >&2; [ ! -e /proc/self/fd/20 ]"
BASH = "/bin/bash"
LEVELS: dict[str, dict[str, Any]] = {
    "none": {},
    "walls": {"policy": {"tier": "walls"}},
    "cell": {"policy": {"tier": "cell", "require": "cell"}},
}


@pytest.mark.parametrize("fields", LEVELS.values(), ids=LEVELS)
def test_a_parked_process_gets_its_call_and_is_its_run(client: Client, fields: dict[str, Any]) -> None:
    run = client.start_run(BASH, "-c", SHOW, cwd="/", park={}, **fields)
    parked = client.wait_for(run, "parked").header
    assert client.ask("status", run=run).header["state"] == "parked"
    call = {"args": ["a b", ""], "cwd": "/usr", "env": {"A": "1"}}
    client.send("call", b" and its input", id=run, stdin="data", notify=True, digests=True, **call)
    ended = client.end_of(run)
    told, rest = json.JSONDecoder().raw_decode(ended.stdout.decode())
    assert (told, ended.stdout.decode()[rest:]) == ({**call, "stdin": True}, " and its input")
    (started,) = ended.events("started")
    assert started.header.get("enforced") == parked.get("enforced") == ended.result.get("enforced")
    assert started.header["pid"] == parked["pid"] == ended.result["pid"]
    assert ended.result["return_code"] == 0
    assert ended.result["stdout"]["sha256"] is not None
    assert "parked" not in ended.result


def test_a_call_may_be_longer_than_a_pipe_holds(client: Client) -> None:
    run = client.start_run(BASH, "-c", "exec wc -c <&20", park={})
    client.wait_for(run, "parked")
    client.send("call", id=run, args=["x" * MAX_PAYLOAD] * 20)
    assert int(client.end_of(run).stdout) > 20 * MAX_PAYLOAD


def test_what_a_process_wrote_while_it_was_parked_belongs_to_its_run(client: Client) -> None:
    run = client.start_run(BASH, "-c", "echo early; cat <&20 >/dev/null; echo late", park={})
    client.wait_for(run, "parked")
    client.send("call", id=run)
    assert client.end_of(run).stdout == b"early\nlate\n"


def test_without_a_call_it_is_ended_when_its_time_is_over(client: Client) -> None:
    run = client.start_run("/bin/sleep", "600", park={"limit_ms": 50})
    ended = client.end_of(run)
    assert (ended.result["kind"], ended.result["parked"]) == ("timeout", True)


def test_the_time_of_a_call_is_counted_from_the_call(client: Client) -> None:
    """Its own limit may be shorter or longer than that of the waiting, and the waiting counts for neither."""
    slow = client.park("/bin/sh", "-c", "read -r go; sleep 0.1; echo done")
    client.send("call", b"go\n", id=slow, stdin="data", timeout_ms=60_000)
    assert client.end_of(slow).stdout == b"done\n"
    quick = client.park("/bin/sleep", "600")
    client.send("call", id=quick, timeout_ms=50)
    result = client.end_of(quick).result
    assert (result["kind"], "parked" in result) == ("timeout", False)


def test_a_limit_for_waiting_ends_no_call(client: Client) -> None:
    for limit_s in (0.7, 5, 25):  # on a busy machine the call may come too late
        script = f"cat <&20 >/dev/null; sleep {limit_s + 0.3}; echo done"
        run = client.start_run(BASH, "-c", script, park={"limit_ms": int(limit_s * 1000)})
        client.wait_for(run, "parked")
        client.send("call", id=run)
        ended = client.end_of(run)
        if "parked" not in ended.result:
            assert ended.stdout == b"done\n"
            return
    pytest.fail("no call came before the waiting ended")


def test_a_process_that_has_ended_gets_no_call(client: Client) -> None:
    run = client.start_run("/bin/true", park={})
    assert client.end_of(run).result["parked"] is True
    client.send("call", id=run)
    refused = client.next_for(run).header
    assert (refused["event"], refused["code"]) == ("error", "not_parked")


def test_a_second_call_ends_the_first(client: Client) -> None:
    run = client.park("/bin/sleep", "600")
    client.send("call", id=run)
    client.send("call", id=run)
    assert client.end_of(run).error == "not_parked"


def test_a_call_that_asks_for_the_impossible_ends_what_was_parked(client: Client) -> None:
    impossible: list[tuple[dict[str, Any], str]] = [
        ({"max_output": 1}, "invalid_request"),
        ({"spool": {"dir": "/nope"}}, "spool_failed"),
    ]
    for fields, code in impossible:
        run = client.park("/bin/sleep", "600")
        client.send("call", id=run, **fields)
        assert client.end_of(run).error == code
    assert client.status()["runs"] == 0


def test_what_cannot_be_started_is_not_parked(client: Client) -> None:
    ended = client.run("/nope", park={})
    assert ended.error == "command_not_found"


def test_a_parked_process_can_be_cancelled_and_killed(client: Client) -> None:
    for _ in range(3):
        run = client.park("/bin/sleep", "600")
        client.send("cancel", id=run, grace_ms=0)
        assert client.end_of(run).result["parked"] is True
        run = client.park("/bin/sleep", "600")
        assert client.ask("kill", run=run, grace_ms=0).event == "killed"
        assert client.end_of(run).result["kind"] == "cancelled"
