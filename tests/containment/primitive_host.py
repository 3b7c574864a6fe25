"""A program that runs a tool with `SubprocessPrimitive`, and can be killed.

python -m tests.containment.primitive_host LOOP COMMAND ARGUMENT…
"""

import sys

import anyio

from lilux.primitives.subprocess import SubprocessPrimitive


async def main(command: list[str]) -> None:
    await SubprocessPrimitive().execute({"command": command[0], "args": command[1:]})


if __name__ == "__main__":
    anyio.run(main, sys.argv[2:], backend=sys.argv[1])
