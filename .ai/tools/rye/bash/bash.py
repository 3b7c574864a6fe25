"""Run a command with bash and return its output, exit code and whether it succeeded.

What the command leaves behind in the background ends with the call. Output that is too long loses its middle. A
command that runs out of time, or that a signal ended, has a negative exit code: -1, or minus the signal.
"""

import json
import os
import select
import signal
import sys
import time

__version__ = "1.0.0"
__tool_type__ = "python"
__tool_name__ = "bash"
__executor_id__ = "rye/core/runtimes/python_script_runtime"
__category__ = "rye/bash"
__runs_given_code__ = True
__tags__ = ["shell", "command", "terminal"]

PERMISSIONS = {"project": "write", "net": "any", "uses": ["git", "cache", "terminal"]}

CONFIG_SCHEMA = {
    "type": "object",
    "properties": {
        "command": {
            "type": "string",
            "minLength": 1,
            "pattern": "^[^\\u0000]*$",
            "description": "The command line for bash.",
        },
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 3600,
            "default": 120,
            "description": "Seconds until the command is ended.",
        },
        "cwd": {
            "type": "string",
            "minLength": 1,
            "pattern": "^[^\\u0000]*$",
            "default": ".",
            "description": "The working directory: the project, or a directory in it.",
        },
    },
    "required": ["command"],
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

# A little longer than a command may take, and room for its output when every byte of it needs an escape.
CONFIG = {"timeout": 3630, "max_output": 4194304}

ANNOTATIONS = {
    "title": "Run a command",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}

EXAMPLES = [
    {
        "description": (
            "Run a shell command and see its output. Execute a script or a build in the terminal. "
            "Count files with a pipe of two commands."
        ),
        "parameters": {"command": "ls *.txt | wc -l"},
        "files": {"a.txt": "", "b.txt": ""},
        "expect": {"contains": {"stdout": "2", "exit_code": 0, "success": True}},
    },
    {
        "description": (
            "Run the test suite, and see whether it fails. Install the dependencies from the command "
            "line."
        ),
        "parameters": {"command": "ls ../missing; exit 3", "timeout": 600, "cwd": "backend"},
        "files": {"backend/main.c": ""},
        "expect": {"code": "tool_failed"},
    },
]

DEFAULTS = {
    name: each["default"] for name, each in CONFIG_SCHEMA["properties"].items() if "default" in each
}

KEPT_BYTES = 256 * 1024
"""How much of each stream is kept, half of it from the beginning and half from the end."""

CHUNK_BYTES = 64 * 1024
PIPE_BYTES = 1024 * 1024
"""How much a pipe holds at most."""

NO_EXIT_CODE = -1


class Output:
    """The beginning and the end of what a command writes to one pipe."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def read(self):
        """Take what is there; false at the end, and when there is nothing."""
        try:
            chunk = os.read(self.reader, CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._total += len(chunk)
        room = KEPT_BYTES // 2 - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[: -KEPT_BYTES // 2]
        return bool(chunk)

    def read_what_is_left(self):
        """Take what was written by now; who goes on writing in the background is not waited for."""
        for _ in range(PIPE_BYTES // CHUNK_BYTES):
            if not self.read():
                return

    @property
    def omitted(self):
        """How many bytes were left out."""
        return self._total - len(self._head) - len(self._tail)

    @property
    def text(self):
        """What was kept, with a mark where something is missing."""
        if not self.omitted:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (kept.decode("utf-8", "replace") for kept in (self._head, self._tail))
        return f"{head}\n[… {self.omitted} bytes omitted …]\n{tail}"


def run(command, timeout, cwd):
    """The result of a command. It is over when bash is, whatever still holds its output open."""
    stdout, stderr = Output(), Output()
    os.chdir(cwd)
    process = start(command, stdout.writer, stderr.writer)
    for output in (stdout, stderr):
        os.close(output.writer)
    try:
        signal.signal(signal.SIGTERM, give_up)
        ended = read_until_end(process, {stdout.reader: stdout, stderr.reader: stderr}, timeout)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    except GivenUp:
        os.killpg(process, signal.SIGKILL)
        hand_over(stdout, stderr)
        raise SystemExit(128 + signal.SIGTERM) from None
    if not ended:
        os.killpg(process, signal.SIGKILL)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    for output in (stdout, stderr):
        output.read_what_is_left()
    result = answer(stdout.text, stderr.text, exit_code)
    if not ended:
        between = "" if stderr.text.endswith("\n") or not stderr.text else "\n"
        words = f"{stderr.text}{between}Command timed out after {timeout} seconds"
        result = answer(stdout.text, words, NO_EXIT_CODE)
    return result | ({"truncated": True} if stdout.omitted or stderr.omitted else {})


class GivenUp(Exception):
    """The caller has given the call up, or allowed it less time than the command has."""


def give_up(*_):
    """Leave whatever is waited for, once."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise GivenUp


def hand_over(stdout, stderr):
    """Write what a command had said by now as it is: nobody expects a result any more."""
    for output, stream in ((stdout, sys.stdout), (stderr, sys.stderr)):
        output.read_what_is_left()
        stream.buffer.write(output.text.encode())
        stream.flush()


def start(command, stdout, stderr):
    """Start bash in a process group of its own; its pid.

    It does not get the descriptor for results: what a command writes there would pass for the result itself.
    """
    environment = {**os.environ}
    descriptor = environment.pop("RYE_RESULT_FD", None)
    if descriptor is not None:
        os.set_inheritable(int(descriptor), False)
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
    ]
    arguments = ["bash", "-c", command]
    # Python itself ignores these two signals, and bash would inherit that.
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]
    return os.posix_spawnp(
        "bash", arguments, environment, file_actions=streams, setpgroup=0, setsigdef=defaults
    )


def read_until_end(process, outputs, timeout):
    """Read until the process ends, and say whether it did so in time."""
    deadline = time.monotonic() + timeout
    ending = os.pidfd_open(process)
    poll = select.poll()
    for descriptor in (ending, *outputs):
        poll.register(descriptor, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            if descriptor == ending:
                return True
            if not outputs[descriptor].read():
                poll.unregister(descriptor)
    return False


def directory_in(project, cwd):
    """The working directory; None when it is not in the project, or not there."""
    root = os.path.realpath(project or ".")
    found = os.path.realpath(os.path.join(root, cwd))
    inside = found == root or found.startswith(root.rstrip("/") + "/")
    return found if inside and os.path.isdir(found) else None


def answer(stdout, stderr, exit_code):
    """The result in its one form."""
    return {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, "success": exit_code == 0}


def main(arguments):
    """Print the result of the command in `--params`."""
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    params, project = DEFAULTS | json.loads(options["--params"]), options["--project-path"]
    directory = directory_in(project, params["cwd"])
    if directory is None:
        problem = f"expected a directory in the project as cwd, found {params['cwd']}"
        result = answer("", problem, NO_EXIT_CODE)
    else:
        result = run(params["command"], params["timeout"], directory)
    sys.stdout.buffer.write(json.dumps(result, ensure_ascii=False).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
