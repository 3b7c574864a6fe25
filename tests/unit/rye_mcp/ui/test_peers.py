"""The kernel says which user is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from rye_mcp.ui.peers import is_of_this_user, uid_of_peer
from tests.users import ADA, two_users


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    made = socket.create_server(("127.0.0.1", 0))
    yield made
    made.close()


def test_this_user_is_at_the_other_end(listening: socket.socket) -> None:
    with socket.create_connection(listening.getsockname()) as ours:
        theirs, peer = listening.accept()
        with theirs:
            assert uid_of_peer(peer, theirs.getsockname()) == os.getuid()
            assert is_of_this_user(peer, theirs.getsockname())
            assert not is_of_this_user(None, None)
        assert ours.getsockname() == peer


@two_users
def test_another_user_is_told(listening: socket.socket) -> None:
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{listening.getsockname()[1]}; read -u 3"
    with subprocess.Popen(["bash", "-c", connect], user=ADA, group=ADA, cwd="/") as other:
        theirs, peer = listening.accept()
        with theirs:
            assert uid_of_peer(peer, theirs.getsockname()) == ADA
            assert not is_of_this_user(peer, theirs.getsockname())
        other.wait(10)


def test_an_invalid_connection_belongs_to_nobody() -> None:
    assert uid_of_peer(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
