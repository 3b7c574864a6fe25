"""`rye mcp add` of servers that npx and uvx fetch, behind a company's proxy: scripted, and real."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from lilux.primitives.subprocess import SubprocessPrimitive
from tests import people
from tests.bridge_world import RAW
from tests.mcp_world import *  # noqa: F403
from tests.mcp_world import Workshop
from tests.people import UV, apart

CA = "/etc/company/ca.pem"
FETCHES = f"""\
#!/bin/sh
if [ "$1" = silent ]; then echo 'npm http fetch attempt 1' >&2; exec sleep 60; fi
if [ -z "$NODE_EXTRA_CA_CERTS" ]; then
    printf 'npm error code SELF_SIGNED_CERT_IN_CHAIN\\nnpm error \\033[2Jself-signed certificate\\n' >&2
    exit 1
fi
exec '{shutil.which("python3", path=os.defpath) or sys.executable}' 'SERVER'
"""
SET = {"NODE_EXTRA_CA_CERTS": CA, "HTTPS_PROXY": "http://ada:s3cret@proxy.example:3128", "PIP_CERT": CA}


@pytest.fixture
def programs(workshop: Workshop) -> dict[str, Any]:
    """An environment in which npx is a script, and the company's variables are set."""
    place = Path(workshop.person.environment["HOME"]) / "programs"
    place.mkdir()
    server = Path(shutil.copy(RAW, workshop.project / "fetched.py"))  # where a confined program sees it
    (place / "npx").write_text(FETCHES.replace("SERVER", str(server)))
    (place / "npx").chmod(0o755)
    return {**SET, "PATH": f"{place}:{os.defpath}"}


ADD = ("mcp", "add", "raw", "--only", "echo")
PINNED = ("--", "npx", "-y", "@company/server@1.2.3")


def test_the_words_of_the_child_are_told_and_what_would_help(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    answer = workshop.person.rye(*ADD, "--json", *PINNED, cwd=workshop.project, code=1, **programs)
    assert answer.json["code"] == "lost"
    assert "npm error code SELF_SIGNED_CERT_IN_CHAIN" in answer.json["error"]
    assert "\x1b" not in answer.json["error"]
    assert answer.json["hint"].endswith("--network: HTTPS_PROXY, NODE_EXTRA_CA_CERTS")
    assert "s3cret" not in answer.shown


@pytest.mark.thorough
def test_what_the_person_agrees_to_is_written_by_name_and_missed_at_once(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    person, project = workshop.person, workshop.project
    person.rye(*ADD, "--network", *PINNED, cwd=project, **programs)
    text = (project / ".ai/tools/mcp/raw/echo.yaml").read_text()
    for name in ("NODE_EXTRA_CA_CERTS", "HTTPS_PROXY"):
        assert f'{name}: "${{{name}}}"' in text
        assert f'- "{name}"' in text
    assert not any(value in text for value in (CA, "s3cret", "PIP_CERT", "fetch_retries"))
    run = ["run", "--json", "mcp/raw/echo", "--text", "hello"]
    assert person.rye(*run, cwd=project, **programs).json["data"]
    del programs["NODE_EXTRA_CA_CERTS"]
    refused = person.rye(*run, cwd=project, code=1, **programs).json
    assert refused["code"] == "variable_not_set"
    assert "NODE_EXTRA_CA_CERTS" in refused["error"]
    update = person.rye("mcp", "update", "raw", "--json", cwd=project, code=1, **programs)
    assert update.json["code"] == "variable_not_set"


@pytest.mark.thorough
@pytest.mark.parametrize(("said", "code"), [("y", 0), ("n", 1)])
def test_at_a_terminal_it_asks_once(
    workshop: Workshop, programs: dict[str, Any], said: str, code: int
) -> None:
    asked = ("What may raw do with the project", "Which hosts may it reach")
    typed = [*((question, "\n") for question in asked), ("Pass that on to the server", f"{said}\n")]
    person, project = workshop.person, workshop.project
    shown = person.types(typed, *ADD, *PINNED, cwd=project, code=code, **programs)
    assert "HTTPS_PROXY, NODE_EXTRA_CA_CERTS" in shown.out
    if not code:
        again = person.types([], "mcp", "update", "raw", "--only", "echo", cwd=project, **programs)
        assert "Pass that on" not in again.out


@pytest.mark.thorough
def test_a_version_that_is_not_pinned_is_a_warning_with_the_form(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    person, project = workshop.person, workshop.project
    floating = ["--network", "--", "npx", "-y", "@company/server"]
    warned = person.rye(*ADD, *floating, cwd=project, **programs)
    assert "warning: raw: @company/server is fetched" in warned.err
    assert "pin it: @company/server@VERSION (npm view @company/server version)" in warned.err
    person.rye("mcp", "remove", "raw", cwd=project)
    assert "warning" not in person.rye(*ADD, "--network", *PINNED, cwd=project, **programs).err


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("program", "cached", "pinned"),
    [
        ("npx", [".npm/_npx/1/node_modules/@company/server/package.json"], "@company/server@1.2.3"),
        (
            "npx",
            [f".npm/_npx/{each}/node_modules/@company/server/package.json" for each in range(2)],
            "@company/server@VERSION",
        ),
        ("uvx", [".cache/uv/wheels-v5/pypi/company-server/1.2.3-py3-none-any"], "company_server==1.2.3"),
    ],
)
def test_the_version_that_was_fetched_is_the_one_to_pin(
    workshop: Workshop, programs: dict[str, Any], program: str, cached: list[str], pinned: str
) -> None:
    home = Path(workshop.person.environment["HOME"])
    (home / "programs/uvx").symlink_to(home / "programs/npx")
    for number, each in enumerate(cached, start=3):
        (home / each).parent.mkdir(parents=True)
        (home / each).write_text(f'{{"version": "1.2.{number}"}}')
    words = [
        "--env",
        "NODE_EXTRA_CA_CERTS",
        "--",
        program,
        "company_server" if program == "uvx" else "@company/server",
    ]
    warned = workshop.person.rye(*ADD, *words, cwd=workshop.project, **programs)
    assert f"pin it: {pinned} (" in warned.err


def test_only_what_speaks_of_the_network_gets_the_hint_about_it(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    words = ["--", "sh", "-c", r"printf 'first line\nno such option: --x\n' >&2; exit 2"]
    answer = workshop.person.rye(*ADD, *words, cwd=workshop.project, code=1, **programs)
    assert "it last said:\n    first line\n    no such option: --x\n  hint:  " in answer.err
    assert "--network" not in answer.err


def test_the_shim_of_a_version_manager_gets_a_hint_that_names_the_real_file(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    root = Path(workshop.person.environment["HOME"]) / ".pyenv"
    texts = {
        "bin/pyenv": "#!/bin/sh\nexit 1\n",
        "shims/uvx": f'#!/bin/sh\nexec "{root}/bin/pyenv" exec "uvx" "$@"\n',
        "versions/3.12.1/bin/uvx": "#!/bin/sh\n",
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    found: dict[str, Any] = {"PATH": f"{root}/shims:{root}/bin:{os.defpath}"}
    words = ["mcp", "add", "raw", "--json", "--", "uvx", "a-server==1.2.3"]
    answer = workshop.person.rye(*words, cwd=workshop.project, code=1, **found)
    assert answer.json["code"] == "spawn_failed"
    real = root / "versions/3.12.1/bin/uvx"
    assert answer.json["hint"].endswith(f"name the file itself: rye mcp add raw -- {real} a-server==1.2.3")


def test_a_company_with_a_ca_of_its_own_is_told_which_variable_names_it(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    unset = {name: value for name, value in programs.items() if name not in SET}
    answer = workshop.person.rye(*ADD, "--json", *PINNED, cwd=workshop.project, code=1, **unset)
    assert answer.json["hint"] == (
        "if your network has a certificate authority of its own, set NODE_EXTRA_CA_CERTS to its file, "
        "and add --network"
    )


@pytest.mark.thorough
def test_what_is_imported_is_asked_and_warned_about_as_what_is_added(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    servers = {"raw": {"command": "npx", "args": ["-y", "@company/server"]}}
    (Path(workshop.person.environment["HOME"]) / ".claude.json").write_text(
        json.dumps({"mcpServers": servers})
    )
    words = ["mcp", "import", "raw", "--to", "project"]
    failed = workshop.person.rye(*words, cwd=workshop.project, code=1, **programs)
    assert "add --network: HTTPS_PROXY, NODE_EXTRA_CA_CERTS" in failed.err
    assert "warning: raw: @company/server is fetched" in failed.err
    asked = ("What may raw do with the project", "Which hosts may it reach")
    typed = [*((question, "\n") for question in asked), ("Pass that on to the server raw", "y\n")]
    workshop.person.types(typed, *words, cwd=workshop.project, **programs)
    assert "HTTPS_PROXY" in (workshop.project / ".ai/tools/mcp/raw/echo.yaml").read_text()


@pytest.mark.thorough
def test_a_silent_child_is_told_of_and_given_up_when_the_person_says(
    workshop: Workshop, programs: dict[str, Any]
) -> None:
    words = ["--json", "--start-timeout", "2", "--", "npx", "silent"]
    answer = workshop.person.rye(*ADD, *words, cwd=workshop.project, code=1, **programs)
    assert "rye: waiting for the server raw to say what it offers, for at most 2 s" in answer.err
    assert answer.json["code"] == "timeout"
    assert "it last said: npm http fetch attempt 1" in answer.json["error"]


# --- real ones ---

REAL = {
    "files": (
        ["npx", "-y", "@modelcontextprotocol/server-filesystem", "{project_path}"],
        "read_text_file",
    ),
    "time": (["uvx", "mcp-server-time", "--local-timezone", "UTC"], "convert_time"),
}


def real(name: str, place: Path) -> dict[str, Any]:
    """What a shell of this machine sets for its network, with caches of its own."""
    program = UV.with_name("uvx") if name == "time" else shutil.which("npx")
    if program is None or not Path(program).exists():
        pytest.skip("the program that fetches it is not installed")
    directories = [apart(program), apart(UV)] if name == "time" else [str(Path(program).parent)]
    own = ("CERT", "PROXY", "REGISTRY", "CA_BUNDLE", "INDEX")
    kept = {each: value for each, value in os.environ.items() if any(part in each.upper() for part in own)}
    caches = {"npm_config_cache": str(place / "npm"), "UV_CACHE_DIR": str(place / "uv")}
    return {**kept, **caches, "PATH": ":".join([*directories, os.defpath])}


@pytest.mark.network
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", REAL)
def test_a_published_server_is_fetched_with_the_certificates_of_the_shell(
    workshop: Workshop, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "_TIMEOUT_S", 200)
    command, tool = REAL[name]
    words = ["mcp", "add", name, "--network", "--start-timeout", "120", "--only", tool, "--", *command]
    added = workshop.person.rye(*words, cwd=workshop.project, **real(name, tmp_path))
    assert added.out == f"added mcp/{name}/{tool}\n"


IN_CELLS: dict[str, tuple[str, list[str], dict[str, str], str]] = {
    "files": (
        "read",
        ["registry.npmjs.org"],
        {"path": "{project}/said.txt"},
        "said in the project",
    ),
    "time": (
        "none",
        ["pypi.org", "files.pythonhosted.org"],
        {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        "21:00",
    ),
}
"""What each server may do with the project, where it is fetched from, a call, and what is in its answer."""


def are_public(hosts: list[str]) -> bool:
    """Whether a confined program may reach these hosts by name: not where a mirror stands for them."""
    found = [each[4][0] for host in hosts for each in socket.getaddrinfo(host, 443)]
    return all(ipaddress.ip_address(address).is_global for address in found)


@pytest.mark.network
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", REAL)
def test_a_published_server_is_fetched_and_called_in_a_cell(
    workshop: Workshop, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "_TIMEOUT_S", 200)
    given = real(name, tmp_path)
    if anyio.run(SubprocessPrimitive().probe).cell is None:
        pytest.skip("no cells can be made here")
    command, tool = REAL[name]
    access, hosts, parameters, expected = IN_CELLS[name]
    net = hosts if are_public(hosts) else ["any"]
    permissions = ["--project-access", access, *(word for host in net for word in ("--net", host))]
    (workshop.project / "said.txt").write_text("said in the project")
    words = ["mcp", "add", name, "--network", "--start-timeout", "120", "--only", tool, *permissions]
    workshop.person.rye(*words, "--", *command, cwd=workshop.project, **given)
    filled = {key: text.format(project=workshop.project) for key, text in parameters.items()}
    words = ["run", f"mcp/{name}/{tool}", "--json", "--params", json.dumps(filled)]
    answer = workshop.person.rye(*words, cwd=workshop.project, **given).json
    assert expected in json.dumps(answer["data"])
    assert answer["enforced"]["level"] == "cell"
    assert answer["enforced"]["project"] == access
    assert answer["enforced"]["net"] == ("any" if net == ["any"] else sorted(f"{host}:443" for host in hosts))


@pytest.mark.network
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", REAL)
def test_unplugged_it_fails_with_the_words_of_the_child_and_not_by_a_time_limit(
    workshop: Workshop, tmp_path: Path, name: str
) -> None:
    command, _ = REAL[name]
    nowhere = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:9")
    given = {**real(name, tmp_path), **nowhere, "NO_PROXY": "localhost"}
    answer = workshop.person.rye(
        "mcp", "add", name, "--json", "--network", "--", *command, cwd=workshop.project, code=1, **given
    )
    assert answer.json["code"] == "lost"
    assert "it last said: " in answer.json["error"]
    assert any(text in answer.json["error"] for text in ("ECONNREFUSED", "onnect"))
