"""An engine reaches its node with the real ssh: a server of OpenSSH on a loopback port, keys of the test."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rye_mcp.errors import RyeError
from tests.engine_world import Site, tool

pytestmark = pytest.mark.anyio

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
SSH = shutil.which("ssh")

SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {root}/host_key
AuthorizedKeysFile {root}/user_key.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin prohibit-password
"""
CLIENT = """\
Host gpu1
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {root}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {root}/known_hosts
  StrictHostKeyChecking yes
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """The node's rye stands behind a script that says who its user is; the client has a file of its own."""
    made = Site(tmp_path.resolve())
    stand_in = made.bin / "ssh"
    on_node = made.bin / "rye-of-the-node"
    on_node.write_text(stand_in.read_text())
    on_node.chmod(0o755)
    stand_in.write_text(f'#!/bin/sh\nexec {SSH} -F {tmp_path.resolve()}/ssh/config "$@"\n')
    made.pair.accept()
    made.pair.trust()
    made.pair.server.sign("demo/count.sh", tool())
    made.engine(program=str(on_node))
    return made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A server of OpenSSH that listens; the test is skipped where there is none that this user can start."""
    if SSHD is None or SSH is None:
        pytest.skip("OpenSSH (sshd and ssh) is not installed")
    root = tmp_path.resolve() / "ssh"
    root.mkdir(mode=0o700)
    for name in ("host_key", "user_key"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(root / name)]
        subprocess.run(made, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    host = (root / "host_key.pub").read_text()
    (root / "known_hosts").write_text(f"[127.0.0.1]:{port} {host}")
    (root / "config").write_text(CLIENT.format(port=port, root=root, user=getpass.getuser()))
    (root / "sshd_config").write_text(SERVER.format(port=port, root=root))
    command = [str(Path(SSHD).absolute()), "-D", "-e", "-f", str(root / "sshd_config")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "Server listening" in line:
                break
        else:
            pytest.skip(f"this user cannot start sshd here: {said.strip()}")
        try:
            yield process
        finally:
            process.terminate()


async def test_a_call_goes_over_ssh_and_its_worker_ends_with_the_server(
    site: Site, server: subprocess.Popen[str]
) -> None:
    async with site.executor() as executor:
        for _ in range(2):
            result = await executor.run("demo/count", {"word": "hello"})
            assert (result.success, result.data) == (True, {"word": "hello"}), result.error
            assert result.node is not None
            assert result.node.key_id == site.node_key
    assert (site.pair.counted, site.ran_here) == (2, False)
    assert site.told.read_text().splitlines() == ["worker"], "one worker for both calls"


async def test_what_ssh_says_of_a_host_that_is_gone_is_told(
    site: Site, server: subprocess.Popen[str]
) -> None:
    server.terminate()
    server.wait()
    with pytest.raises(RyeError) as caught:
        await site.run()
    assert caught.value.code == "engine_unreachable"
    assert "refused" in caught.value.message
    assert (site.pair.counted, site.ran_here) == (0, False)
