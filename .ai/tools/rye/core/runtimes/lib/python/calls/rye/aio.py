"""The same as `rye`, for async code: `await gather(*(call("demo/page", number=n) for n in range(5)))`."""

import asyncio
import base64
import itertools
import json

from rye import PIECE_BYTES, CallError, Handle, _call_of, _data, _handle_in, _open_channel, _read, _succeeded

__all__ = ["CallError", "Handle", "call", "describe", "keep", "read", "result", "search"]

_LONGEST_LINE = 1 << 30


async def call(item_id, parameters=None, /, **named):
    """The data that a tool returns; its parameters as a mapping, by name, or both."""
    return _data(await _ask(_call_of(item_id, parameters, named)))


async def keep(item_id, parameters=None, /, **named):
    """The handle of the data that a tool returns, which is kept: a parameter of another call, or a result."""
    return _handle_in(_succeeded(await _ask(_call_of(item_id, parameters, named, as_handle=True))))


async def result(item_id, parameters=None, /, *, timeout=None, as_handle=False):
    """The whole result of a tool, as over MCP: data, run_id, kept, notices and more. `timeout` is in seconds."""
    asked = _call_of(item_id, parameters, {}, timeout=timeout, as_handle=as_handle)
    return _succeeded(await _ask(asked))


async def read(handle, offset=0, length=PIECE_BYTES):
    """At most so many bytes of what was kept (at most 1 MiB), from a place on."""
    asked = {"read": handle, "offset": offset, "length": length, "base64": True}
    return base64.b64decode((await _ask(asked))["content"])


async def search(words, limit=10):
    """The tools that this one may call, found by what they are for."""
    return (await _ask({"search": words, "limit": limit}))["results"]


async def describe(item_id):
    """What a tool that this one may call does, and the schema of its parameters."""
    return await _ask({"describe": item_id})


class _Channel:
    """One channel of an event loop, for all of its calls."""

    def __init__(self):
        self.waiting = {}
        self.ids = itertools.count(1)

    async def open(self):
        self.reader, self.writer = await asyncio.open_unix_connection(
            sock=_open_channel(), limit=_LONGEST_LINE
        )
        self.task = asyncio.ensure_future(self.read())
        return self

    async def read(self):
        while line := await self.reader.readline():
            waiting = self.waiting.pop(json.loads(line)["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(line)
        for waiting in self.waiting.values():
            waiting.done() or waiting.set_result(b"")

    async def ask(self, asked):
        number = next(self.ids)
        waiting = self.waiting[number] = asyncio.get_running_loop().create_future()
        self.writer.write(json.dumps({"id": number, **asked}).encode() + b"\n")
        await self.writer.drain()
        return _read(await waiting)


_channels = {}


async def _ask(asked):
    loop = asyncio.get_running_loop()
    if loop not in _channels:
        _channels[loop] = asyncio.ensure_future(_Channel().open())
    return await (await _channels[loop]).ask(asked)
