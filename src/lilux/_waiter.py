"""A Python interpreter that waits: it reads its call, takes over its settings, and runs the script.

This text is given to interpreters of tools, of any version from 3.8 on, and imports nothing of this package.
From its call on everything is as if the interpreter had been started as `python SCRIPT ARGUMENT…`.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import time

if sys.argv[2:3] == ["typed"]:  # never: what the annotations name takes long to import
    import types
    from typing import Any

CALL = 20
"""Where a call is read."""


def text_of(value: str | dict[str, str]) -> str:
    """A text of a call; one that is no UTF-8 travels in base64."""
    if isinstance(value, str):
        return value
    import binascii

    return os.fsdecode(binascii.a2b_base64(value["b64"]))


def read_call() -> dict[str, Any]:
    """The call, once it has come; without one there is nothing to do."""
    text = read_all(CALL)
    os.close(CALL)
    if not text:
        os._exit(0)
    call: dict[str, Any] = json.loads(text)
    return call


def take_on(call: dict[str, Any]) -> None:
    """Become the process of the call: its directory, its environment, its arguments."""
    env = {name: text_of(value) for name, value in call["env"].items()}
    if not call["stdin"]:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    set_environment({**STARTED, **env})
    time.tzset()
    if any(env.get(name) != GIVEN.get(name) for name in FOR_THE_LOCALE):
        set_locale()
    if call["cwd"] is not None:
        enter(text_of(call["cwd"]))
    arguments = [text_of(each) for each in call["args"]]
    options = sys.orig_argv[1 : sys.orig_argv.index("-c")] if hasattr(sys, "orig_argv") else []
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.orig_argv[0], *options, *arguments]
    sys.argv[:] = arguments
    find_modules(env, arguments[0])


def set_environment(env: dict[str, str]) -> None:
    """Exactly these variables, and the locale that an interpreter chooses where it finds none."""
    os.environ.clear()
    for name in sorted(env, key=os.fsencode):
        os.environ[name] = env[name]
    found = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"
    if COERCED is not None and found in ("C", "POSIX") and not env.get("LC_ALL"):
        os.environ["LC_CTYPE"] = COERCED


def environment() -> dict[str, str]:
    """The variables that this process was started with."""
    with open("/proc/self/environ", "rb") as file:
        pairs = [os.fsdecode(each).partition("=") for each in file.read().split(b"\0") if each]
    return {name: value for name, _, value in pairs}


def set_locale() -> None:
    """As an interpreter does when it starts."""
    import _locale

    try:
        _locale.setlocale(_locale.LC_CTYPE, "")
    except Exception:  # locale.Error; as in an interpreter, the locale stays what it is
        return


def enter(directory: str) -> None:
    """Change to the directory of the call."""
    try:
        os.chdir(directory)
    except OSError as exc:
        sys.stderr.write(f"lilux: cannot change to the working directory: {exc}\n")
        sys.exit(1)


def find_modules(env: dict[str, str], script: str) -> None:
    """Where modules are looked for: in the script's directory, on PYTHONPATH, and where they were before."""
    isolated = getattr(sys.flags, "safe_path", False) or sys.flags.isolated
    if sys.path[:1] == [""]:
        del sys.path[0]
    own = "" if sys.flags.ignore_environment else env.get("PYTHONPATH", "")
    entries = [os.path.abspath(entry) for entry in own.split(os.pathsep)] if own else []
    new = [entry for entry in dict.fromkeys(entries) if entry not in sys.path]
    sys.path[:0] = new if isolated else [os.path.dirname(real_path(script)), *new]


def real_path(path: str) -> str:
    """The path without links. The kernel is asked, which takes two calls and not one for each directory."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(path)
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return os.path.realpath(path)
    finally:
        os.close(descriptor)
    is_plain = found.startswith("/") and not found.endswith(" (deleted)")
    return found if is_plain else os.path.realpath(path)


def code_of(script: str) -> types.CodeType:
    """The code of a script."""
    try:
        source = contents(script)
        known = KNOWN.get(source)
        if known is not None:
            return named(known, script)
    except OSError as exc:
        sys.stderr.write(
            f"{sys.executable}: can't open file {script!r}: [Errno {exc.errno}] {exc.strerror}\n"
        )
        sys.exit(2)
    return compile(source, script, "exec", dont_inherit=True)


def named(code: types.CodeType, script: str) -> types.CodeType:
    """The same code, of this file: as for a module whose bytecode was made elsewhere."""
    import _imp

    getattr(_imp, "_fix_co_filename")(code, script)  # noqa: B009 - private to importlib
    return code


def contents(path: str) -> bytes:
    """The bytes of a file, without the objects of a stream."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_all(descriptor)
    finally:
        os.close(descriptor)


def read_all(descriptor: int) -> bytes:
    """Everything up to the end."""
    pieces: list[bytes] = []
    while True:
        piece = os.read(descriptor, 1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def run(script: str) -> None:
    """Run the script as `__main__`; an exception ends in its traceback, which begins in the script."""
    import signal

    loader = sys.modules["_frozen_importlib_external"].SourceFileLoader
    names = sys.modules["__main__"].__dict__
    names.clear()
    names.update(
        __name__="__main__",
        __doc__=None,
        __package__=None,
        __loader__=loader("__main__", script),
        __spec__=None,
        __builtins__=builtins,
        __file__=script,
        __cached__=None,
    )
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    try:
        exec(code_of(script), names)
    except SystemExit:
        raise
    except BaseException as exc:
        trace = exc.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<lilux>":
            trace = trace.tb_next
        sys.excepthook(type(exc), exc.with_traceback(trace), trace)
        if isinstance(exc, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(1)


# --- a zygote -------------------------------------------------------------------

CLONE_PARENT = 0x00008000
CLONE_SETTID = 0x01000000 | 0x00200000  # and clear it at the end, for the C library
NAMESPACES = {"pid": 0x20000000, "mnt": 0x00020000, "ipc": 0x08000000}
CLONE = {"x86_64": 56, "aarch64": 220}
LANDLOCK_RESTRICT_SELF = 446
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_GET_TID_ADDRESS = 4, 24, 40
MEASURE_EVERY = 64
REHEARSALS = 10
"""So often an interpreter runs code before it makes it faster."""
NEEDED = ("atexit", "fcntl", "gc", "io", "signal")
"""What everything forked would import: here it is imported once."""


class Zygote:
    """An interpreter that has imported what it was told, and is forked for each call.

    It has one thread and knows nothing of any call. What it forks is a child of its own parent, the keeper.
    """

    def __init__(self, preload: list[str], scripts: list[str]) -> None:
        import _socket
        import ctypes
        import fcntl
        import importlib

        self.duplicate = fcntl.fcntl, fcntl.F_DUPFD_CLOEXEC
        self.ctypes = ctypes
        self.libc = ctypes.PyDLL(None, use_errno=True)
        self.libc.syscall.argtypes = [ctypes.c_long] * 6
        self.syscall, self.prctl = self.libc.syscall, self.libc.prctl
        api = ctypes.pythonapi
        self.before, self.in_parent, self.in_child = (
            api.PyOS_BeforeFork,
            api.PyOS_AfterFork_Parent,
            api.PyOS_AfterFork_Child,
        )
        self.number = CLONE[os.uname().machine]
        self.control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, CALL)
        self.scope = _socket.SOL_SOCKET, _socket.SCM_RIGHTS
        self.space = _socket.CMSG_SPACE(32 * 4)
        self.flags = _socket.MSG_CMSG_CLOEXEC
        self.umask = os.umask(0o77)
        os.umask(self.umask)
        self.tid = self.place_of_tid()
        self.forks = 0
        if sys.path[:1] == [""]:
            del sys.path[0]  # nothing is imported from where it was started
        for name in (*NEEDED, *preload):
            importlib.import_module(name)
        for source in scripts:
            text = source.encode()
            KNOWN[text] = compile(text, PLACEHOLDER, "exec", dont_inherit=True)
        open_streams()  # like those of every call, they are pipes
        self.modules: dict[str, None] = dict.fromkeys(MODULES)
        self.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        require_one_thread()

    def place_of_tid(self) -> int:
        """Where the C library keeps the number of its thread, which a fork has to change."""
        address = self.ctypes.c_void_p()
        failed = self.libc.prctl(PR_GET_TID_ADDRESS, self.ctypes.byref(address), 0, 0, 0)
        import _thread  # `threading` would have work to do in each fork

        if failed or self.ctypes.c_int.from_address(address.value or 0).value != _thread.get_native_id():
            sys.exit(
                "lilux: expected a C library that keeps the number of a thread where the kernel clears it"
            )
        return address.value or 0

    def serve(self) -> dict[str, Any] | None:
        """Fork when it is asked to. Returns in what was forked."""
        import gc

        for _ in range(REHEARSALS):
            rehearse()
        gc.collect()
        self.trim()
        gc.freeze()
        gc.disable()
        self.say(None)
        while True:
            text, ancillary, _, _ = self.control.recvmsg(1 << 16, self.space, self.flags)
            if not text:
                os._exit(0)
            order: dict[str, Any] = json.loads(text)
            passed = []
            for level, kind, data in ancillary:
                if (level, kind) == self.scope:
                    passed += memoryview(data[: len(data) & ~3]).cast("i").tolist()
            pid = self.fork(order, passed)
            if not pid:
                gc.enable()
                self.arrive(order, passed)
                return order
            for descriptor in passed:
                os.close(descriptor)
            self.forks += 1
            self.say(pid)

    def trim(self) -> None:
        """Give back memory that is free: each fork copies where it is. Not every C library can."""
        trim = getattr(self.libc, "malloc_trim", None)
        if trim is not None:
            trim(0)

    def say(self, pid: int | None) -> None:
        """Tell the keeper who was forked, and how much memory this takes."""
        if self.forks % MEASURE_EVERY == 0:
            self.memory = memory_kb()
            self.arrived = json.dumps({"pid": None, "memory_kb": self.memory}).encode()
        word = self.arrived if pid is None else b'{"pid": %d, "memory_kb": %d}' % (pid, self.memory)
        self.control.send(word)

    def fork(self, order: dict[str, Any], passed: list[int]) -> int:
        """As `os.fork`, but the child is one of this process's parent."""
        require_one_thread()
        if order["in_cell"]:
            self.enter(passed[-3], "pid")
        flags = CLONE_PARENT | CLONE_SETTID | 17  # SIGCHLD
        fourth, fifth = (0, self.tid) if self.number == CLONE["aarch64"] else (self.tid, 0)
        self.before()
        pid: int = self.syscall(self.number, flags, 0, 0, fourth, fifth)
        if pid:
            self.in_parent()
        else:
            self.in_child()
        if pid < 0:
            raise OSError(self.ctypes.get_errno(), "clone")
        return pid

    def enter(self, descriptor: int, kind: str) -> None:
        """Enter a namespace; a namespace of processes holds only for children."""
        if self.libc.setns(descriptor, NAMESPACES[kind]):
            raise OSError(self.ctypes.get_errno(), f"setns {kind}")

    def arrive(self, order: dict[str, Any], passed: list[int]) -> None:
        """In what was forked: a session, namespaces and descriptors of its own, and no power left over."""
        os.setsid()
        if order["in_cell"]:
            self.enter(passed[-2], "mnt")
            self.enter(passed[-1], "ipc")
            self.give_up(order["keep"])
            if order["in_walls"] and self.syscall(LANDLOCK_RESTRICT_SELF, passed[-4], 0, 0, 0, 0):
                raise OSError(self.ctypes.get_errno(), "landlock")
        os.umask(self.umask)
        self.place(order["places"], passed)
        self.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        renew_randomness()
        if not order["awaited"]:
            rehearse()

    def give_up(self, keep: int) -> None:
        """Keep these capabilities and no others, also for whatever is executed."""
        for number in range(64):
            if not keep >> number & 1 and self.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
                break
        word = self.ctypes.c_uint32
        header = (word * 2)(0x20080522, 0)
        low, high = keep & 0xFFFFFFFF, keep >> 32
        if self.libc.capset(header, (word * 6)(low, low, 0, high, high, 0)):
            raise OSError(self.ctypes.get_errno(), "capset")

    def place(self, places: list[int], passed: list[int]) -> None:
        """Put each descriptor at its number, tell the keeper, and close all others."""
        duplicate, above = self.duplicate
        moved = [duplicate(descriptor, above, 64) for descriptor in passed[: len(places)]]
        control = duplicate(CALL, above, 64)
        for place, descriptor in zip(places, moved):  # noqa: B905 - not before 3.10
            os.dup2(descriptor, place)
        low = 0
        for place in places:
            if low < place:  # an empty range would be taken for an endless one
                os.closerange(low, place)
            low = place + 1
        self.control.detach()
        os.write(control, self.arrived)
        self.syscall(436, low, 0xFFFFFFFF, 0, 0, 0)  # close_range


def rehearse() -> None:
    """Do what every call does, to no effect, so that the interpreter has at hand what it looks up for it.

    In what was forked, this is what copies the pages that the call will write, while there is no call yet. A
    call that waits already gains nothing by it.
    """
    kept = [*sys.argv], [*sys.path], [*getattr(sys, "orig_argv", ())]
    call = json.loads(
        json.dumps({"args": [os.devnull], "env": {"PYTHONPATH": "/"}, "stdin": True, "cwd": "/"})
    )
    take_on(call)
    code_of(os.devnull)
    for code in KNOWN.values():
        named(code, PLACEHOLDER)
    external = sys.modules["_frozen_importlib_external"]
    loader = external.SourceFileLoader("lilux", os.devnull)
    external.cache_from_source(os.devnull)
    loader.source_to_code(loader.get_data(os.devnull), os.devnull)
    json.dumps({}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    with open(1, "wb", closefd=False):
        flushed()
    sys.argv[:], sys.path[:] = kept[:2]
    if kept[2]:
        sys.orig_argv[:] = kept[2]


def require_one_thread() -> None:
    """A fork copies only one thread, and leaves the locks of all others as they are."""
    threads = os.stat("/proc/self/task").st_nlink - 2  # a directory for each, beside "." and ".."
    if threads != 1:
        sys.exit(
            f"lilux: expected one thread in a zygote, found {threads}: something that it imports starts them"
        )


def memory_kb() -> int:
    """Memory of this process in KiB, shared pages in proportion."""
    with open("/proc/self/smaps_rollup", "rb") as file:
        for line in file:
            if line.startswith(b"Pss:"):
                return int(line.split()[1])
    return 0


def renew_randomness() -> None:
    """Seed all random generators again; every fork would have the same state otherwise."""
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_add(os.urandom(32), 32.0)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if "tempfile" in sys.modules:
        setattr(sys.modules["tempfile"], "_name_sequence", None)  # noqa: B010


def open_streams() -> None:
    """The standard streams as an interpreter makes them when it starts, with what was chosen then."""
    import io

    for number, name, mode in [(0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")]:
        old = getattr(sys, f"__{name}__")
        unbuffered = mode == "w" and old.write_through
        binary: Any = open(number, f"{mode}b", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115 - for as long as the process lives
        stream: Any = io.TextIOWrapper(
            binary,
            old.encoding,
            old.errors,
            "\n",
            line_buffering=not unbuffered and (number == 2 or binary.isatty()),
            write_through=unbuffered,
        )
        (binary if unbuffered else binary.raw).name = f"<{name}>"
        stream.mode = mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def finish(code: int, known: dict[str, None]) -> None:
    """End as an interpreter does, but leave alone what the zygote had imported: that would take longest."""
    import atexit

    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()
        own = modules_since(known)
        collect()
        for module in own:
            clear(getattr(module, "__dict__", {}))
        del own
        collect()
    finally:
        os._exit(code if flushed() else 120)


def modules_since(known: dict[str, None]) -> list[Any]:
    """The modules that the call has imported, the last one first, and then its script.

    The others are not looked at: to hold the name of each for a moment would copy the pages of all of them.
    """
    last, own = next(reversed(known)), []
    for name in reversed(MODULES):
        if name == last:
            break
        if name not in known:
            own.append(MODULES[name])
    return [*own, MODULES["__main__"]] if "__main__" in MODULES else own


def collect() -> None:
    """Collect all garbage. Where nothing has grown old, the young objects are all of them, and less work."""
    import gc

    has_generations = sys.version_info < (3, 14)
    gc.collect(1 if has_generations and not gc.get_objects(generation=2) else 2)


def clear(names: dict[str, Any]) -> None:
    """As an interpreter does it: first what is private, then the rest, but for the built-in functions."""
    for is_private in (True, False):
        for name in [*names]:
            if name != "__builtins__" and name.startswith("_") is is_private:
                names[name] = None


def flushed() -> bool:
    """Whether what was written has gone out."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception as exc:
            if stream is sys.stdout:
                sys.stderr.write(f"Exception ignored in: {stream!r}\n{type(exc).__name__}: {exc}\n")
                sys.stderr.flush()
                return False
    return True


def exit_code(error: SystemExit) -> int:
    """Return the exit code of a process in which this was raised."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1


# --- what to do -----------------------------------------------------------------

FOR_THE_LOCALE = ("LC_ALL", "LC_CTYPE", "LANG", "LOCPATH")
"""Variables that say which locale an interpreter has, in which it starts."""
GIVEN = environment()
COERCED = None if "LC_CTYPE" in GIVEN else os.environ.get("LC_CTYPE")
STARTED = {name: value for name, value in os.environ.items() if name != "LC_CTYPE" or COERCED is None}
"""The variables at the start, with those that a .pth file or `sitecustomize` has set."""
MODULES = sys.modules
"""Those of the interpreter, whatever a tool puts in their place."""
KNOWN: dict[bytes, types.CodeType] = {}
"""The code of scripts that were known before, by their source."""
PLACEHOLDER = "<known>"

if sys.argv[2] == "call":
    take_on(read_call())
    run(sys.argv[0])
else:
    zygote = Zygote(**json.loads(sys.argv[3]))
    zygote.serve()
    modules = zygote.modules
    del zygote
    take_on(read_call())
    try:
        run(sys.argv[0])
    except SystemExit as exc:
        finish(exit_code(exc), modules)
    finish(0, modules)
