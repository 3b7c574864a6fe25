"""`rye` for a shell: hands its arguments, directory, environment and streams to the server of `forked_rye`.

    python -I -S tests/forked_rye_client.py DESCRIPTOR SCRIPT ARGUMENTS…

Starts without `site` and imports hardly anything, so that a page with many commands is quick.
"""

from __future__ import annotations

import json
import os
import socket
import sys

__all__ = ["main"]

_TIMEOUT_S = 120
_SIGNALLED = 128


def main(descriptor: int, script: str, arguments: list[str]) -> int:
    """The exit code, as a shell knows it."""
    call = {
        "argv": [script, *arguments],
        "cwd": os.getcwd(),  # noqa: PTH109 - to import pathlib takes as long as all the rest
        "env": dict(os.environ),
        "timeout_s": _TIMEOUT_S,
    }
    read_end, write_end = os.pipe()
    with socket.socket(fileno=os.dup(descriptor)) as server:
        socket.send_fds(server, [json.dumps(call).encode()], [0, 1, 2, write_end])
    os.close(write_end)
    code = os.waitstatus_to_exitcode(int(os.read(read_end, 64)))
    return code if code >= 0 else _SIGNALLED - code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
