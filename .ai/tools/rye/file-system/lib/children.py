"""Work that can be ended at any moment, in processes of its own: an exploding pattern needs that.

Each function runs in a fork and hands back what `marshal` can hold. One that is not done in time is killed
with all others. What needs but one process can do `in_time`: looking for an expression ends for a signal, unless
its lines are very long.
"""

import marshal
import os
import select
import time

from answers import Refusal

__all__ = ["TooLate", "in_time", "kill", "processors", "read_until", "results_of"]

MAX_PROCESSES = 8
CHUNK_BYTES = 1 << 16


class TooLate(Refusal):
    """Nothing came of it in time."""

    def __init__(self):
        hint = "name a smaller directory or a glob; repetitions in each other, as in (a+)+, take for ever"
        super().__init__("expected to be done in time, found that it takes longer", hint)


def processors():
    """How many processes are worth while."""
    return min(MAX_PROCESSES, len(os.sched_getaffinity(0)))


def in_time(function, deadline):
    """What a function returns, in this process."""
    import signal

    def ring(_number, _frame):
        raise TooLate

    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TooLate
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return function()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def results_of(functions, deadline):
    """What each function returns, in their order."""
    children = {}
    try:
        for function in functions:
            reader, process = started(function)
            children[reader] = process
        documents = read_until(list(children), deadline)
    except BaseException:
        for process in children.values():
            kill(process)
        raise
    finally:
        for reader, process in children.items():
            os.close(reader)
            os.waitpid(process, 0)
    try:
        return [marshal.loads(document) for document in documents]
    except (EOFError, ValueError, TypeError):
        raise Refusal("expected an answer of a process, found that it ended without", "try again") from None


def kill(process):
    """End a process that has not been waited for."""
    import signal

    os.kill(process, signal.SIGKILL)


def started(function):
    """A function in a process of its own: where to read what it returns, and its pid."""
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return reader, process
    try:
        os.close(reader)
        with open(writer, "wb") as stream:
            stream.write(marshal.dumps(function()))
    finally:
        os._exit(0)


def read_until(readers, deadline):
    """All that comes from some descriptors, each to its end; TooLate when that is not before the deadline."""
    found = {reader: bytearray() for reader in readers}
    poll = select.poll()
    for reader in readers:
        poll.register(reader, select.POLLIN)
    left = len(readers)
    while left:
        seconds = deadline - time.monotonic()
        ready = poll.poll(max(0, seconds) * 1000) if seconds > 0 else []
        if not ready:
            raise TooLate
        for reader, _ in ready:
            chunk = os.read(reader, CHUNK_BYTES)
            found[reader] += chunk
            if not chunk:
                poll.unregister(reader)
                left -= 1
    return [bytes(found[reader]) for reader in readers]
