"""The answer to `initialize`, given before the SDK is imported, which takes most of the start.

Only a plain request that is there when the server starts is answered, and only with the SDK that would give
the same answer. The SDK still gets the request; its answer is dropped if it is the same.
"""

from __future__ import annotations

import json
import os
import select
from importlib.util import find_spec
from typing import Any, Final

__all__ = ["AGREED_ON", "INSTRUCTIONS", "KNOWN_SDK", "NAME", "TITLE", "Greeting", "answer_to", "greet"]

NAME: Final = "rye-mcp"
TITLE: Final = "Rye"
INSTRUCTIONS: Final = (
    "Tools, directives, knowledge and skills of this project, each signed. load shows one, execute runs it, "
    "sign makes what you wrote runnable. Every refusal has a code and a hint: follow the hint. To write a "
    "tool, execute the directive rye/core/create_tool; how things work is knowledge below rye/core."
)

KNOWN_SDK: Final = "2.3.0"
"""The SDK whose answers these are; with another one, it answers itself."""

AGREED_ON: Final = {
    "2024-11-05": "2024-11-05",
    "2025-03-26": "2024-11-05",
    "2025-06-18": "2025-06-18",
    "2025-11-25": "2025-11-25",
}
"""The revision of the protocol that a client asks for, and the one that is agreed on."""

_LISTED: Final = {"listChanged": True}
_CAPABILITIES: Final = {
    "completions": {},
    "logging": {},
    "prompts": _LISTED,
    "resources": {**_LISTED, "subscribe": True},
    "tools": _LISTED,
}
_MAX_BYTES: Final = 64 << 10
_MAX_ID: Final = (1 << 53) - 1
_MAX_ID_LENGTH: Final = 64
_REQUEST: Final = {"jsonrpc", "id", "method", "params"}
_PARAMETERS: Final = {"protocolVersion", "capabilities", "clientInfo"}
_CLIENT: Final = ({"name", "version"}, {"name", "version", "title"})
_OF_CLIENTS: Final = {"roots", "sampling", "elicitation"}


class Greeting:
    """What was read from standard input so far, and what was answered to the first line of it.

    A client that was answered may end before the server is loaded; `parent` is the process that counts.
    """

    __slots__ = ("answer", "parent", "taken")

    def __init__(self, taken: bytes = b"", answer: dict[str, Any] | None = None) -> None:
        self.taken = taken
        self.answer = answer
        self.parent = os.getppid()

    def is_repeated_by(self, message: str) -> bool:
        """Whether a message is the answer that was given; only the first one to that request can be."""
        given = self.answer
        if given is None:
            return False
        found = json.loads(message)
        if not isinstance(found, dict) or found.get("id") != given["id"] or "method" in found:
            return False
        self.answer = None
        return bool(found == given)


def greet() -> Greeting:
    """Answer a plain `initialize` that is on standard input already; never wait for one."""
    greeting = Greeting()  # before the answer: a client that has it may end, and is no parent any more
    try:
        poll = select.poll()
        poll.register(0, select.POLLIN)
        if not any(event & select.POLLIN for _, event in poll.poll(0)):
            return greeting
        greeting.taken = os.read(0, _MAX_BYTES)
    except OSError:  # without a standard input: the server says so
        return greeting
    line, end, _ = greeting.taken.partition(b"\n")
    answer = answer_to(line) if end else None
    if answer is not None and _written(json.dumps(answer, separators=(",", ":")).encode() + b"\n"):
        greeting.answer = answer
    return greeting


def answer_to(line: bytes) -> dict[str, Any] | None:
    """The answer to a request; None if the SDK must look at it."""
    try:
        found = json.loads(line.decode())  # of bytes, it would also read UTF-16
    except (ValueError, RecursionError):
        return None
    if not _is_plain(found) or (version := _version()) is None:
        return None
    result = {
        "capabilities": _CAPABILITIES,
        "instructions": INSTRUCTIONS,
        "protocolVersion": AGREED_ON[found["params"]["protocolVersion"]],
        "serverInfo": {"name": NAME, "title": TITLE, "version": version},
    }
    return {"jsonrpc": "2.0", "id": found["id"], "result": result}


def _written(line: bytes) -> bool:
    """Whether somebody takes the answer, without waiting: it is shorter than what a pipe takes at once."""
    poll = select.poll()
    poll.register(1, select.POLLOUT)
    if poll.poll(0) != [(1, select.POLLOUT)]:
        return False
    try:
        return os.write(1, line) == len(line)
    except OSError:  # the client has gone since: the server says so
        return False


def _is_plain(found: object) -> bool:
    """Whether this is a request for a session that the SDK would answer, whatever else it says."""
    if not isinstance(found, dict) or found.keys() != _REQUEST or found["jsonrpc"] != "2.0":
        return False
    params = found["params"]
    if found["method"] != "initialize" or not _is_plain_id(found["id"]) or not isinstance(params, dict):
        return False
    client, revision = params.get("clientInfo"), params.get("protocolVersion")
    return (
        params.keys() == _PARAMETERS
        and isinstance(revision, str)
        and revision in AGREED_ON
        and isinstance(client, dict)
        and client.keys() in _CLIENT
        and all(isinstance(text, str) and text.isprintable() for text in client.values())
        and _are_plain(params["capabilities"])
    )


def _is_plain_id(number: object) -> bool:
    if isinstance(number, str):
        return len(number) <= _MAX_ID_LENGTH and number.isascii() and number.isprintable()
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _MAX_ID


def _are_plain(capabilities: object) -> bool:
    """Whether the client names only known capabilities, without experiments, extensions and details."""
    if not isinstance(capabilities, dict) or not capabilities.keys() <= _OF_CLIENTS:
        return False
    roots = capabilities.get("roots", {})
    if not isinstance(roots, dict) or not roots.keys() <= _LISTED.keys():
        return False
    are_flags = all(isinstance(flag, bool) for flag in roots.values())
    return are_flags and all(said == {} for name, said in capabilities.items() if name != "roots")


def _version() -> str | None:
    """The version of this package, if the SDK beside it is the known one. To ask for it would take longer."""
    spec = find_spec("mcp")
    if spec is None or spec.origin is None:
        return None
    place = os.path.dirname(os.path.dirname(spec.origin))  # noqa: PTH120 - `pathlib` takes as long as all this
    if not os.path.isdir(f"{place}/mcp-{KNOWN_SDK}.dist-info"):  # noqa: PTH112
        return None
    beginning, ending = "rye_mcp-", ".dist-info"
    with os.scandir(place) as entries:
        names = [each.name for each in entries if each.name.startswith(beginning)]
    found = [each for each in names if each.endswith(ending)]
    return found[0][len(beginning) : -len(ending)] if len(found) == 1 else None
