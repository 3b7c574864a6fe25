"""Becomes a client of `forked_server`, for whoever wants to start `rye-mcp` as a program.

    python -I -S tests/forked_server_client.py ADDRESS ARGUMENTS…

Starts without `site` and imports hardly anything, so that there is a server at once.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

__all__ = ["main"]

_SIGNALLED = 128
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MESSAGE = 64


def main(address: str, arguments: list[str]) -> int:
    """The exit code of the server."""
    call = {"arguments": arguments, "cwd": os.getcwd(), "env": dict(os.environ)}  # noqa: PTH109 - no pathlib
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address)
        socket.send_fds(connection, [json.dumps(call).encode()], [0, 1, 2])
        server = int(connection.recv(_MESSAGE))
        for number in _PASSED_ON:
            signal.signal(number, lambda received, _: os.kill(server, received))
        for stream in range(3):
            os.close(stream)  # they are the server's alone now
        status = connection.recv(_MESSAGE)
    code = os.waitstatus_to_exitcode(int(status))
    return code if code >= 0 else _SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
