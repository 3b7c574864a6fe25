"""A program that uses `SubprocessPrimitive`, and can be killed.

    python -m tests.containment.primitive_host asyncio|trio|spawn COMMAND ARGUMENT…

It runs the command on that event loop, or spawns it and waits.
"""

import sys

import anyio

from lilux.primitives.subprocess import SubprocessPrimitive


async def run(command: list[str]) -> None:
    await SubprocessPrimitive().execute({"command": command[0], "args": command[1:]})


async def spawn(command: list[str]) -> None:
    await SubprocessPrimitive().spawn(command[0], command[1:])
    await anyio.sleep_forever()


if __name__ == "__main__":
    manner, *command = sys.argv[1:]
    if manner == "spawn":
        anyio.run(spawn, command)
    else:
        anyio.run(run, command, backend=manner)
