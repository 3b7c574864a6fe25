"""A client in a process of its own, which can be killed.

    python -m tests.containment.host MANNER BINARY COMMAND ARGUMENT…

It starts a run, prints who takes part in it, and waits to be killed. With the manner `forked` a child of it
holds the socket to the supervisor too, and outlives it; with `stopped` the supervisor is stopped by then.
"""

import json
import os
import signal
import sys
from pathlib import Path

from tests.containment.client import Client
from tests.containment.scene import cast_of


def main(manner: str, binary: str, *command: str) -> None:
    with Client.start(Path(binary)) as client:
        pids = cast_of(client, client.wait_for(client.start_run(*command, notify=True), "started"))
        if manner == "forked" and os.fork() == 0:
            sys.stdin.read()
            os._exit(0)
        if manner == "stopped":
            os.kill(pids["serve"], signal.SIGSTOP)
        sys.stdout.write(json.dumps({"client": os.getpid(), **pids}) + "\n")
        sys.stdout.flush()
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
