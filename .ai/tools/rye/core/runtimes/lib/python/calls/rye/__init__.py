"""Calls other tools from a tool whose signed file names them in permissions.calls.

    from rye import call, keep, handle, result, search, describe, CallError

    commits = call("rye/git/log", limit=5)

`call` returns the data of the result, and raises CallError with a `code` when the call is refused or fails.
`keep` leaves the data where it is, and returns its handle. Each thread has a channel of its own, so calls of several threads run beside each other; `rye.aio` has the
same for async code.
"""

import base64
import json
import os
import socket
import threading

__all__ = ["CallError", "Handle", "call", "describe", "handle", "keep", "result", "search"]

PIECE_BYTES = 1 << 20

_local = threading.local()


class CallError(Exception):
    """A call that was refused, or failed: `code` says why, `facts` has everything that is known of it."""

    def __init__(self, facts):
        super().__init__("%s: %s" % (facts.get("code"), facts.get("error")))
        self.code = facts.get("code")
        self.hint = facts.get("hint")
        self.facts = facts


def call(item_id, parameters=None, /, **named):
    """The data that a tool returns; its parameters as a mapping, by name, or both."""
    return _data(_ask(_call_of(item_id, parameters, named)))


def keep(item_id, parameters=None, /, **named):
    """The handle of the data that a tool returns, which is kept: a parameter of another call, or a result."""
    return _handle_in(_succeeded(_ask(_call_of(item_id, parameters, named, as_handle=True))))


def result(item_id, parameters=None, /, *, timeout=None, as_handle=False):
    """The whole result of a tool, as over MCP: data, run_id, kept, notices and more. `timeout` is in seconds."""
    return _succeeded(_ask(_call_of(item_id, parameters, {}, timeout=timeout, as_handle=as_handle)))


class Handle(str):
    """The address of a result that was kept. It is text, so it can be passed on, and returned."""

    def read(self, offset=0, length=None):
        """So many bytes from a place on; all of the rest without a length. A negative offset is from the end."""
        found, wanted = [], length
        while wanted is None or wanted > 0:
            room = PIECE_BYTES if wanted is None else min(wanted, PIECE_BYTES)
            piece = _ask({"read": self, "offset": offset, "length": room, "base64": True})
            found.append(base64.b64decode(piece["content"]))
            offset, wanted = piece["next_offset"], wanted and wanted - len(found[-1])
            if offset is None:
                break
        return b"".join(found)

    def text(self):
        """All of it as text."""
        return self.read().decode()

    def json(self):
        """All of it as the value that it is in JSON."""
        return json.loads(self.read())


def handle(address):
    """What was kept under an address, `rye://result/…`."""
    return Handle(address)


def _handle_in(answer):
    return Handle(answer["kept"][-1]["handle"])


def search(words, limit=10):
    """The tools that this one may call, found by what they are for."""
    return _ask({"search": words, "limit": limit})["results"]


def describe(item_id):
    """What a tool that this one may call does, and the schema of its parameters."""
    return _ask({"describe": item_id})


def _call_of(item_id, parameters, named, **options):
    asked = {"call": item_id, "parameters": {**(parameters or {}), **named}}
    return {**asked, **{name: value for name, value in options.items() if value}}


def _data(answer):
    return _succeeded(answer).get("data")


def _succeeded(answer):
    if answer.get("status") != "success":
        raise CallError(answer)
    return answer


def _ask(asked):
    """What an own channel of this thread answers."""
    if getattr(_local, "process", None) != os.getpid():  # a fork shares no channel
        _local.stream, _local.process = _open_channel().makefile("rwb"), os.getpid()
    stream = _local.stream
    try:
        stream.write(json.dumps({"id": 1, **asked}).encode() + b"\n")
        stream.flush()
        line = stream.readline()
    except OSError:
        line = b""  # the other end has closed this channel
    return _read(line)


def _read(line):
    if not line:
        raise CallError({"code": "lost", "error": "expected an answer, found that nobody answers any more"})
    answer = json.loads(line)
    if "error" in answer:
        raise CallError(answer["error"])
    return answer["result"]


def _open_channel():
    """A channel of one's own, through the descriptor that all of a tool's processes have together."""
    number = os.environ.get("RYE_CALL_FD")
    if not number:
        what = "expected a tool with permissions.calls, found one that may not call"
        raise CallError({"code": "call_not_allowed", "error": what})
    ours, theirs = socket.socketpair()
    with theirs, socket.socket(fileno=os.dup(int(number))) as door:
        socket.send_fds(door, [b'{"channel":true}\n'], [theirs.fileno()])
    return ours
