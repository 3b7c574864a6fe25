"""What a run was given is seen by the run and by nobody else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.containment.client import Client
from tests.containment.nobody import PREFIX, Nobody, as_root
from tests.containment.processes import family_of

SECRET = "s3cret-1f0d6c"


@pytest.fixture
def keeping_a_secret(client: Client) -> tuple[Client, int, int]:
    """A client, and a run that was told a secret in its environment and its input, with its tool's pid."""
    script = 'read -r line; echo "$line $TOKEN" >&2; sleep 100'
    run = client.start_run(
        "/bin/sh",
        "-c",
        script,
        stdin="pipe",
        payload=f"{SECRET}\n".encode(),
        env={"TOKEN": SECRET},
        stream={"credit": 100},
        notify=True,
    )
    tool = client.wait_for(run, "started").header["pid"]
    assert client.wait_for(run, "output").payload == f"{SECRET} {SECRET}\n".encode()
    return client, run, tool


def holders(name: str, pids: list[int]) -> list[int]:
    """Who shows the secret in this file of /proc."""
    return [pid for pid in pids if SECRET.encode() in Path(f"/proc/{pid}/{name}").read_bytes()]


def test_no_argument_list_holds_what_a_run_was_told(keeping_a_secret: tuple[Client, int, int]) -> None:
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = []
    for pid in everybody:
        try:
            found += holders("cmdline", [pid])
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
    assert found == []


def test_only_the_tool_itself_has_it_in_its_environment(keeping_a_secret: tuple[Client, int, int]) -> None:
    client, _, tool = keeping_a_secret
    family = family_of(client.status()["warden"])
    assert tool in family
    child = family[-1]
    assert set(holders("environ", family)) == {tool, child}


def test_the_result_and_its_errors_do_not_repeat_the_environment(client: Client) -> None:
    for env in ({"TOKEN": SECRET}, {"TOKEN": SECRET, "A=B": "x"}, {"TOKEN": SECRET + "\0"}):
        result = client.run("no-such-program", env=env).result
        assert result["error"] is not None
        assert SECRET not in json.dumps(result)


@as_root
@pytest.mark.parametrize("name", ["environ", "mem", "maps", "fd"])
def test_a_process_of_the_same_user_cannot_look_into_the_supervisor(name: str, nobody: Nobody) -> None:
    with nobody.client() as client:
        run = client.start_run("cat", stdin="pipe", notify=True, payload=SECRET.encode())
        tool = client.wait_for(run, "started").header["pid"]
        family = family_of(client.status()["warden"])
        guardians = [pid for pid in family if pid != tool]
        assert len(guardians) >= 3
        for pid in guardians:
            assert look(pid, name) != 0, (
                f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()}) can be read"
            )
        assert look(tool, name) == 0, "this user can read nothing at all, so this proves nothing"


def look(pid: int, name: str) -> int:
    """Try to open a file of /proc as nobody; the exit code."""
    command = [*PREFIX, "/bin/sh", "-c", ': < "$1"', "sh", f"/proc/{pid}/{name}"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode


def test_the_supervisor_has_nothing_of_its_clients_environment_for_the_tool(binary: Path) -> None:
    with Client.start(binary, env={"TOKEN": SECRET}) as client:
        assert SECRET.encode() not in client.run("/usr/bin/env").stdout
