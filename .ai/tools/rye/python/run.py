"""Run Python code in a fresh process and return its output, exit code and whether it succeeded.

The working directory is the project. Where a person has approved it, its modules can be imported, and the
interpreter is that of the project where it has one. The code has no standard input. What it leaves in the background ends with the call.
Output that is too long loses its middle. Code that runs out of time, or that a signal ended, has a negative
exit code: -1, or minus the signal.
"""

import os
import selectors
import signal
import subprocess
import sys
import time

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "run"
__executor_id__ = "rye/core/runtimes/python_function_runtime"
__category__ = "rye/python"
__runs_given_code__ = True
__tags__ = ["python", "code", "script", "snippet"]

PERMISSIONS = {"project": "write", "net": "any", "uses": ["git", "cache", "terminal"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "code": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1048576,
            "description": "Python code. What it prints is what comes back.",
        },
        "arguments": {
            "type": "array",
            "items": {"type": "string", "maxLength": 65536, "pattern": "^[^\\u0000]*$"},
            "maxItems": 100,
            "default": [],
            "description": "What sys.argv holds behind its first element.",
        },
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 3600,
            "default": 120,
            "description": "Seconds until the code is ended.",
        },
    },
    "required": ["code"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "exit_code": {"type": "integer"},
        "success": {"type": "boolean"},
        "truncated": {"const": True, "description": "There only when output was left out."},
    },
    "required": ["stdout", "stderr", "exit_code", "success"],
}

# A little longer than code may take, and room for its output when every byte of it needs an escape.
CONFIG = {"timeout": 3630, "max_output": 4194304}

ANNOTATIONS = {
    "title": "Run Python code",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}

EXAMPLES = [
    {
        "description": (
            "Calculate something with a few lines of Python. Execute a Python script. Do some maths or "
            "statistics. Convert or parse data with code. Try out a snippet."
        ),
        "parameters": {"code": "print(6 * 7)"},
        "expect": {"data": {"stdout": "42\n", "stderr": "", "exit_code": 0, "success": True}},
    },
    {
        "description": (
            "Count how often a word is in a file of the project. Analyse a table with Python. Import a "
            "module of the project and test it."
        ),
        "parameters": {
            "code": "import sys\nprint(open('a.txt').read().count(sys.argv[1]))",
            "arguments": ["o"],
        },
        "files": {"a.txt": "to be or not to be\n"},
        "expect": {"contains": {"stdout": "4\n"}},
    },
    {
        "description": "Run code that raises an exception, and see the traceback.",
        "parameters": {"code": "raise ValueError('no')"},
        "expect": {"code": "tool_failed"},
    },
]

# The code comes on standard input, which is at its end then. Modules of the project are found last, so that
# none of them stands in for one of Python. A traceback begins in the code, and shows its lines.
RUNNER = """
def begin():
    import sys
    code = sys.stdin.buffer.read()
    def show(kind, error, trace):
        import linecache, traceback
        lines = code.decode("utf-8", "replace").splitlines(True)
        linecache.cache["<snippet>"] = (len(code), None, lines, "<snippet>")
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        traceback.print_exception(kind, error, trace)
    sys.excepthook = show
    sys.path[:] = filter(None, [*sys.path, sys.argv[1]])
    sys.argv[:] = ["<snippet>", *sys.argv[2:]]
    return compile(code, "<snippet>", "exec")
exec(globals().pop("begin")(), globals())
"""

KEPT_BYTES = 256 * 1024
"""How much of each stream is kept, half of it from the beginning and half from the end."""

PIPE_BYTES = 1024 * 1024
"""How much a pipe holds at most."""

CHUNK_BYTES = 64 * 1024
NO_EXIT_CODE = -1


class Output:
    """The beginning and the end of what comes through one pipe."""

    def __init__(self, pipe):
        self.pipe = pipe
        self.head, self.tail, self.omitted = bytearray(), bytearray(), 0
        os.set_blocking(pipe.fileno(), False)

    def take(self):
        """Take what is there; false at the end, and when there is nothing."""
        chunk = self.pipe.read(CHUNK_BYTES)
        room = KEPT_BYTES // 2 - len(self.head)
        self.head += (chunk or b"")[:room]
        self.tail += (chunk or b"")[room:]
        surplus = max(0, len(self.tail) - KEPT_BYTES // 2)
        self.omitted += surplus
        del self.tail[:surplus]
        return bool(chunk)

    def take_what_is_left(self):
        """Take what was written by now; who goes on writing in the background is not waited for."""
        for _ in range(PIPE_BYTES // CHUNK_BYTES):
            if not self.take():
                return

    @property
    def text(self):
        """What was kept, with a mark where something is missing."""
        if not self.omitted:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = (kept.decode("utf-8", "replace") for kept in (self.head, self.tail))
        return f"{head}\n[… {self.omitted} bytes omitted …]\n{tail}"


def execute(params, project_path):
    """Run the code; its output and how it ended."""
    importable = "" if os.environ.get("RYE_WORKING_DIRECTORY") else project_path or os.getcwd()
    process = subprocess.Popen(
        [sys.executable, "-s", "-B", "-c", RUNNER, importable, *params["arguments"]],
        env={name: text for name, text in os.environ.items() if name != "RYE_RESULT_FD"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    stdout, stderr = Output(process.stdout), Output(process.stderr)
    try:
        signal.signal(signal.SIGTERM, give_up)
        ended = follow(process, params["code"].encode(), (stdout, stderr), params["timeout"])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except GivenUp:
        os.killpg(process.pid, signal.SIGKILL)
        hand_over(stdout, stderr)
        raise SystemExit(128 + signal.SIGTERM) from None
    if not ended:
        os.killpg(process.pid, signal.SIGKILL)
    exit_code = process.wait()
    for output in (stdout, stderr):
        output.take_what_is_left()
    words = stderr.text
    if not ended:
        between = "" if words.endswith("\n") or not words else "\n"
        words = f"{words}{between}Code timed out after {params['timeout']} seconds"
        exit_code = NO_EXIT_CODE
    result = {"stdout": stdout.text, "stderr": words, "exit_code": exit_code, "success": exit_code == 0}
    return result | ({"truncated": True} if stdout.omitted or stderr.omitted else {})


class GivenUp(Exception):
    """The caller has given the call up, or allowed it less time than the code has."""


def give_up(*_):
    """Leave whatever is waited for, once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise GivenUp


def hand_over(stdout, stderr):
    """Write what the code had said by now as it is: nobody expects a result any more."""
    for output, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
        output.take_what_is_left()
        stream.buffer.write(output.text.encode())
        stream.flush()


def follow(process, code, outputs, timeout):
    """Give the code, and read until the process ends, not until its output does; whether in time."""
    deadline = time.monotonic() + timeout
    ending = os.pidfd_open(process.pid)
    os.set_blocking(process.stdin.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(ending, selectors.EVENT_READ)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        for output in outputs:
            selector.register(output.pipe, selectors.EVENT_READ, output)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fd == ending:
                    return True
                if key.fileobj is process.stdin:
                    code = give(process.stdin, code)
                    if not code:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                elif not key.data.take():
                    selector.unregister(key.fileobj)
    return False


def give(pipe, code):
    """Write what there is room for; what is left."""
    try:
        return code[pipe.write(code) or 0 :]
    except BrokenPipeError:
        return b""
