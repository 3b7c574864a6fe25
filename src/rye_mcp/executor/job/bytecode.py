"""Compiles verified sources in the background, keeps the bytecode in memory, and puts it into snapshots.

Sources go to the interpreter of the run through its standard input, bytecode comes back through its
standard output. Compiling never makes a run fail or wait. The rules are in
`docs/architecture/execution.md`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
import os
import re
import shutil
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Final

import anyio

from lilux import _loops
from lilux._dataclasses import dataclass
from lilux.primitives.errors import ToolExecutionError
from lilux.primitives.subprocess import Halves, ProcessSpec, SubprocessPrimitive
from rye_mcp.executor.chain.files import BundledFile, BundledFiles

__all__ = ["BEGINS_AFTER_S", "Background", "Bytecode", "BytecodeStore"]

MAX_KEPT_BYTES: Final = 64 << 20
"""How many bytes of bytecode a store keeps."""

MAX_SOURCE_BYTES: Final = 16 << 20
"""How many bytes of sources are compiled at once; of more, none."""

MIN_SOURCE_BYTES: Final = 2048
"""Of fewer bytes no bytecode is kept: to write it for each call takes longer than to compile them."""

_MAX_ANSWER_BYTES: Final = 64 << 20
_TIMEOUT_S: Final = 60.0
_SOURCE = ".py"
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*t?")
_TAG = re.compile(r"[a-z0-9-]{1,32}")

_COMPILER: Final = """
import base64, importlib.util, json, marshal, sys

def compiled(text):
    source = base64.b64decode(text)
    try:
        code = compile(source, "<module>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ""
    head = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    return base64.b64encode(head + marshal.dumps(code)).decode()

modules = [compiled(text) for text in json.load(sys.stdin)]
json.dump({"tag": sys.implementation.cache_tag, "modules": modules}, sys.stdout)
"""
"""The program for the interpreter: it imports no module and runs no source."""

_Interpreter = tuple[str, int, int, int, int]
"""A file: another one, or the same after an upgrade, is another interpreter."""


@dataclass(frozen=True, slots=True)
class Bytecode:
    """Compiled modules, by the paths in a snapshot that an interpreter looks for them at."""

    files: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One compiled module, and the name of its bytecode files; empty for other files."""

    tag: str
    content: bytes


class BytecodeStore:
    """The bytecode that a process keeps."""

    def __init__(
        self,
        may_run: Callable[[str], bool],
        *,
        max_bytes: int = MAX_KEPT_BYTES,
        min_source_bytes: int = MIN_SOURCE_BYTES,
    ) -> None:
        """`may_run` says of the real file of an interpreter whether it may be started unconfined."""
        self._may_run = may_run
        self._kept: OrderedDict[tuple[_Interpreter, str], _Compiled] = OrderedDict()
        self._size = 0
        self._max_bytes = max_bytes
        self._min_source_bytes = min_source_bytes
        self._under_way: set[tuple[_Interpreter, str]] = set()

    def known(self, carried: BundledFiles, process: Halves) -> Bytecode | None:
        """Return the known bytecode of a run, to be added to its snapshot; None without any."""
        modules = self._modules(carried, process)
        interpreter = self._interpreter(process) if modules else None
        if interpreter is None:
            return None
        files: dict[str, bytes] = {}
        for module in modules:
            compiled = self._kept.get((interpreter, module.digest))
            if compiled is not None and compiled.content:
                self._kept.move_to_end((interpreter, module.digest))
                files[_place(module, compiled.tag)] = compiled.content
        return Bytecode(files) if files else None

    def lacks(self, carried: BundledFiles, process: Halves) -> bool:
        """Whether there is anything that `learn` would compile."""
        return bool(self._missing(carried, process)[1])

    async def learn(self, carried: BundledFiles, process: Halves) -> None:
        """Compile what a run that went well has imported, as far as it is not known."""
        interpreter, missing = self._missing(carried, process)
        if interpreter is None or not missing:
            return
        self._under_way |= missing.keys()
        try:
            compiled = await _compile(interpreter[0], list(missing.values()))
        finally:
            self._under_way -= missing.keys()
        for key, each in zip(missing, compiled, strict=False):
            self._keep(key, each)

    def _missing(
        self, carried: BundledFiles, process: Halves
    ) -> tuple[_Interpreter | None, Mapping[tuple[_Interpreter, str], bytes]]:
        """Return the sources of a run without known bytecode, unless they are too large."""
        modules = self._modules(carried, process)
        interpreter = self._interpreter(process) if modules else None
        if interpreter is None:
            return None, {}
        known = self._kept.keys() | self._under_way
        keys = {(interpreter, module.digest): module.content for module in modules}
        missing = {key: content for key, content in keys.items() if key not in known}
        return interpreter, missing if sum(map(len, missing.values())) <= MAX_SOURCE_BYTES else {}

    def _modules(self, carried: BundledFiles, process: Halves) -> Sequence[BundledFile]:
        """The modules of a run, if there is enough to compile."""
        modules = _modules(carried, process)
        return modules if sum(len(each.content) for each in modules) >= self._min_source_bytes else ()

    def _interpreter(self, process: Halves) -> _Interpreter | None:
        """The interpreter that will run, if this process may start it; None when nothing is to be compiled.

        It is the real file: beside a link, a tool may have written what makes Python load its code.
        """
        path = _program_of(process)
        if path is None or not self._may_run(path):
            return None
        try:
            found = os.stat(path)  # noqa: PTH116
        except OSError:
            return None
        return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _keep(self, key: tuple[_Interpreter, str], compiled: _Compiled) -> None:
        self._kept[key] = compiled
        self._size += len(compiled.content)
        while self._size > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest.content)


def _modules(carried: BundledFiles, process: Halves) -> Sequence[BundledFile]:
    """The files that a run imports, as opposed to the one that is started."""
    if not _PYTHON.fullmatch(process.runtime.command.rpartition("/")[2]):
        return ()
    arguments = chain(process.runtime.args, process.call.args)
    script = next((each for each in arguments if not each.startswith("-")), "")
    is_started = script.endswith(f"/{carried.tool.relative}")
    candidates = carried.files[1:] if is_started else carried.files
    return [file for file in candidates if file.relative.endswith(_SOURCE)]


def _program_of(process: Halves) -> str | None:
    """The real file of what will run."""
    runtime = process.runtime
    path: str | None = runtime.command
    if "/" not in runtime.command:
        path = shutil.which(runtime.command, path=runtime.search_path or runtime.env.get("PATH"))
    real = os.path.realpath(path) if path is not None and os.path.isabs(path) else ""  # noqa: PTH117
    return real if _PYTHON.fullmatch(real.rpartition("/")[2]) else None


def _place(module: BundledFile, tag: str) -> str:
    directory, _, name = module.relative.rpartition("/")
    return f"{directory}/__pycache__/{name.removesuffix(_SOURCE)}.{tag}.pyc"


async def _compile(interpreter: str, sources: Sequence[bytes]) -> Sequence[_Compiled]:
    """Each source compiled, in this order; nothing at all when that does not work here."""
    spec = ProcessSpec(
        command=interpreter,
        args=["-I", "-S", "-B", "-c", _COMPILER],
        cwd="/",
        env={},
        input=json.dumps([base64.b64encode(each).decode() for each in sources]).encode(),
        timeout=_TIMEOUT_S,
        max_output=_MAX_ANSWER_BYTES,
    )
    try:
        result = await SubprocessPrimitive().run(spec)
    except ToolExecutionError:
        return ()
    if not result.success or result.truncated:
        return ()
    try:
        return list(_read(json.loads(result.stdout), len(sources)))
    except (ValueError, RecursionError, binascii.Error):
        return ()


def _read(answer: Any, count: int) -> Iterator[_Compiled]:
    """The modules of an answer; ValueError for an invalid one."""
    tag, modules = (answer.get("tag"), answer.get("modules")) if isinstance(answer, dict) else (None, None)
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise ValueError("expected the tag of an interpreter")
    if not isinstance(modules, list) or len(modules) != count:
        raise ValueError("expected a module for each source")
    for module in modules:
        yield _Compiled(tag, base64.b64decode(str(module), validate=True))


BEGINS_AFTER_S: Final = 0.1
"""How much later it begins."""

_logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[object]]


class Background:
    """The background work of one executor, in each event loop that it was used from."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[Hashable, int], tuple[anyio.CancelScope, anyio.Event]] = {}
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Work, *, after: float | None = None) -> None:
        """Do this a moment later; `after` is in seconds."""
        delay = BEGINS_AFTER_S if after is None else after
        self._count += 1
        key = (_loops.running(), self._count)
        scope, is_over = self._under_way[key] = anyio.CancelScope(), anyio.Event()

        async def done() -> None:
            try:
                with scope:
                    await anyio.sleep(delay)
                    await work()
            except Exception:
                _logger.exception("work in the background has failed")
            finally:
                self._under_way.pop(key, None)
                is_over.set()

        trio = sys.modules.get("trio")
        if trio is not None and trio.lowlevel.in_trio_task():
            trio.lowlevel.spawn_system_task(done)
            return
        task = asyncio.get_running_loop().create_task(done())
        self._tasks.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)

    async def wait(self) -> None:
        """Wait until all that was started in this event loop is over."""
        for _, is_over in self._here():
            await is_over.wait()

    async def close(self) -> None:
        """End what is under way in this event loop."""
        here = self._here()
        for scope, _ in here:
            scope.cancel()
        for _, is_over in here:
            await is_over.wait()

    def _here(self) -> list[tuple[anyio.CancelScope, anyio.Event]]:
        running = _loops.running()
        return [each for (loop, _), each in self._under_way.items() if loop == running]
