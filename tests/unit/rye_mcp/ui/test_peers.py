"""The kernel says which user is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from rye_mcp.ui.peers import Address, answered_uid, is_of_this_user, listed_uid, uid_of_peer
from tests.users import ADA, two_users


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    made = socket.create_server(("127.0.0.1", 0))
    yield made
    made.close()


Look = Callable[[Address, Address], int | None]
BOTH = pytest.mark.parametrize("look", [answered_uid, listed_uid])


@BOTH
def test_this_user_is_at_the_other_end(listening: socket.socket, look: Look) -> None:
    with socket.create_connection(listening.getsockname()) as ours:
        theirs, peer = listening.accept()
        with theirs:
            assert look(peer, theirs.getsockname()) == os.getuid()
            assert is_of_this_user(peer, theirs.getsockname())
            assert not is_of_this_user(None, None)
        assert ours.getsockname() == peer


@two_users
@BOTH
def test_another_user_is_told(listening: socket.socket, look: Look) -> None:
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{listening.getsockname()[1]}; read -u 3"
    with subprocess.Popen(["bash", "-c", connect], user=ADA, group=ADA, cwd="/") as other:
        theirs, peer = listening.accept()
        with theirs:
            assert look(peer, theirs.getsockname()) == ADA
            assert not is_of_this_user(peer, theirs.getsockname())
        other.wait(10)


@BOTH
def test_an_end_that_nobody_holds_any_more_belongs_to_nobody(listening: socket.socket, look: Look) -> None:
    """The kernel says 0 of it, which is a user as well."""
    gone = socket.create_connection(listening.getsockname())
    theirs, peer = listening.accept()
    gone.close()
    with theirs:
        assert theirs.recv(1) == b""
        assert look(peer, theirs.getsockname()) is None
        assert uid_of_peer(peer, theirs.getsockname()) is None


@BOTH
def test_a_socket_that_listens_at_the_address_of_a_peer_is_no_peer(
    listening: socket.socket, look: Look
) -> None:
    assert look(listening.getsockname(), ("127.0.0.1", 2)) is None


@BOTH
def test_an_invalid_connection_belongs_to_nobody(look: Look) -> None:
    assert look(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
    assert uid_of_peer(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
