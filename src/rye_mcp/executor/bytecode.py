"""Bytecode of verified sources: compiled by this program, kept in its memory, put into snapshots.

Rules:

- What a Python tool of several files imports is compiled after a first run that went well, by the very
  interpreter of that run, in a process of its own. The verified bytes go in through its standard input, the
  bytecode comes back through its standard output: nothing compiled is ever read from a file, so nobody's tool
  can have written it.
- It is kept by the interpreter's file and the SHA256 of the source. A source of other bytes has no bytecode,
  and neither has another interpreter, or the same after an upgrade.
- It is used without a look at the source again (PEP 552, unchecked): both are in a snapshot. The interpreter
  puts the path of the source into what it loads, so tracebacks tell where it is now.
- A script that is started has no use for it, only modules do: the tool counts when something else imports it.
- To compile is never a reason for a run to fail, nor to wait. What cannot be compiled is not tried again.
- Together at most 64 MiB are kept; what was not used for longest goes first.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import shutil
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lilux.primitives.errors import ToolExecutionError
from lilux.primitives.subprocess import ProcessSpec, SubprocessPrimitive
from rye_mcp.executor.dependencies import Carried, CarriedFile

__all__ = ["Bytecode", "BytecodeStore"]

MAX_KEPT_BYTES: Final = 64 << 20
"""How many bytes of bytecode a store keeps."""

MAX_SOURCE_BYTES: Final = 16 << 20
"""How many bytes of sources are compiled at once; of more, none."""

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
"""What the interpreter is told to do: no module of it is imported, nothing of a source is run."""

_Interpreter = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Bytecode:
    """Compiled modules, by the paths in a snapshot that an interpreter looks for them at."""

    files: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One compiled module, and what its interpreter calls files of its bytecode; empty when it is none."""

    tag: str
    content: bytes


class BytecodeStore:
    """The bytecode that a process keeps."""

    def __init__(self, *, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._kept: OrderedDict[tuple[_Interpreter, str], _Compiled] = OrderedDict()
        self._size = 0
        self._max_bytes = max_bytes
        self._under_way: set[tuple[_Interpreter, str]] = set()

    def known(self, carried: Carried, spec: ProcessSpec) -> Bytecode | None:
        """What there is for a run, to be added to its snapshot; None for nothing."""
        modules = _modules(carried, spec)
        interpreter = _interpreter(spec) if modules else None
        if interpreter is None:
            return None
        files: dict[str, bytes] = {}
        for module in modules:
            compiled = self._kept.get((interpreter, module.digest))
            if compiled is not None and compiled.content:
                self._kept.move_to_end((interpreter, module.digest))
                files[_place(module, compiled.tag)] = compiled.content
        return Bytecode(files) if files else None

    def lacks(self, carried: Carried, spec: ProcessSpec) -> bool:
        """Whether there is anything that `learn` would compile."""
        return bool(self._missing(carried, spec)[1])

    async def learn(self, carried: Carried, spec: ProcessSpec) -> None:
        """Compile what a run that went well has imported, as far as it is not known."""
        interpreter, missing = self._missing(carried, spec)
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
        self, carried: Carried, spec: ProcessSpec
    ) -> tuple[_Interpreter | None, Mapping[tuple[_Interpreter, str], bytes]]:
        """What is not known yet of a run, unless it is too much."""
        modules = _modules(carried, spec)
        interpreter = _interpreter(spec) if modules else None
        if interpreter is None:
            return None, {}
        known = self._kept.keys() | self._under_way
        keys = {(interpreter, module.digest): module.content for module in modules}
        missing = {key: content for key, content in keys.items() if key not in known}
        return interpreter, missing if sum(map(len, missing.values())) <= MAX_SOURCE_BYTES else {}

    def _keep(self, key: tuple[_Interpreter, str], compiled: _Compiled) -> None:
        self._kept[key] = compiled
        self._size += len(compiled.content)
        while self._size > self._max_bytes:
            _, oldest = self._kept.popitem(last=False)
            self._size -= len(oldest.content)


def _modules(carried: Carried, spec: ProcessSpec) -> Sequence[CarriedFile]:
    """The files that a run imports, as opposed to the one that is started."""
    if not _PYTHON.fullmatch(spec.command.rpartition("/")[2]):
        return ()
    script = next((each for each in spec.args if not each.startswith("-")), "")
    is_started = script.endswith(f"/{carried.tool.relative}")
    candidates = carried.files[1:] if is_started else carried.files
    return [file for file in candidates if file.relative.endswith(_SOURCE)]


def _interpreter(spec: ProcessSpec) -> _Interpreter | None:
    """The file that will run: another one, or the same after an upgrade, is another interpreter."""
    path: str | None = spec.command
    if "/" not in spec.command:
        path = shutil.which(spec.command, path=spec.search_path or spec.env.get("PATH"))
    try:
        found = os.stat(path) if path is not None and os.path.isabs(path) else None  # noqa: PTH116, PTH117
    except OSError:
        return None
    if path is None or found is None:
        return None
    return path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _place(module: CarriedFile, tag: str) -> str:
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
    """The modules of an answer; ValueError when it is none."""
    tag, modules = (answer.get("tag"), answer.get("modules")) if isinstance(answer, dict) else (None, None)
    if not isinstance(tag, str) or not _TAG.fullmatch(tag):
        raise ValueError("expected the tag of an interpreter")
    if not isinstance(modules, list) or len(modules) != count:
        raise ValueError("expected a module for each source")
    for module in modules:
        yield _Compiled(tag, base64.b64decode(str(module), validate=True))
