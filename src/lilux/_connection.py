"""One open connection to a supervisor: requests out, events in, each event to the call that waits for it.

The event loop calls `readable` and `writable` when the socket is ready; a caller of a `Call` waits for
its `done`. The rules are in docs/architecture/lilux.md.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import time
from array import array
from collections.abc import Callable, Collection
from typing import Final

from lilux import _protocol as protocol
from lilux._calls import Call, refusal
from lilux._frames import FrameDecoder
from lilux._loops import Loop
from lilux.primitives.errors import ConfigurationError, SupervisorError

__all__ = ["Connection"]

READ_SIZE: Final = 4 * 1024
"""Bytes that are read at once, a few events: between them the loop has its turn, however many runs end."""

LARGEST_READ: Final = 64 * 1024
"""Bytes that are read at once when a frame has begun that is larger."""

LOOK_EVERY_S: Final = 5.0
"""How often calls are looked at that are due at some time."""


class Connection:
    """A socket to a supervisor, watched by the event loop. Once it is closed, `error` says why.

    `end` ends the supervisor by force; it is called when a call is overdue. That is looked at every so often.
    """

    def __init__(
        self,
        sock: socket.socket,
        loop: Loop,
        end: Callable[[], None],
        *,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        sock.setblocking(False)
        self._end = end
        self._look_every_s = look_every_s
        self._looks = False
        self.hello: protocol.Hello | None = None
        self.greeted = loop.flag()
        self.error: SupervisorError | None = None
        self._socket = sock
        self._ids = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._decoder = FrameDecoder()
        self._outgoing = bytearray()
        self._passing: list[_Passing] = []
        self._incoming = memoryview(bytearray(LARGEST_READ))
        self._loop = loop
        self._watch = loop.watch(sock.fileno(), self)

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls that have not finished."""
        return tuple(self._calls.values())

    def begin(
        self,
        call: Call,
        request: protocol.Request,
        payload: bytes | memoryview = b"",
        descriptors: Collection[int] = (),
    ) -> None:
        """Send a request; `call` gets its events from now on. Copies of `descriptors` go along with it."""
        call.connection, call.id = self, next(self._ids)
        self.send(request, call.id, payload, descriptors=descriptors)
        if self.error is not None:
            self._finish(call, _lost(self.error))
            return
        self._calls[call.id] = call
        self.expect(call)

    def expect(self, call: Call) -> None:
        """End the supervisor if the last event has not come when it is due."""
        if call.due is not None and not self._looks:
            self._look_later()

    def send(
        self,
        request: protocol.Request,
        id: int,
        payload: bytes | memoryview = b"",
        *,
        at_once: bool = False,
        descriptors: Collection[int] = (),
    ) -> None:
        """Send a frame: at once when nothing else is under way, else with those of this round of the loop."""
        frame = protocol.encode(request, id, payload)
        if self.error is not None or self._loop.is_over():
            return
        if descriptors:
            self._passing.append(_Passing(len(self._outgoing), _copies(descriptors)))
        if (at_once or not self._calls) and not self._outgoing:
            frame = frame[self._transmit(frame) :]
        if frame and not self._outgoing:
            self._watch.call_soon(self._flush)
        self._outgoing += frame

    def forget(self, call: Call) -> None:
        """Nobody waits for this call any more."""
        self._calls.pop(call.id, None)

    def close(self, error: SupervisorError) -> None:
        """Close the socket; calls that are not finished end with `error` as the reason."""
        if self.error is not None:
            return
        self.error = error
        self._watch.stop()
        self._socket.close()
        self._outgoing.clear()
        self._let_go(len(self._passing))
        calls, self._calls = self._calls, {}
        if not self._loop.is_over():  # else nobody can be woken any more
            for call in calls.values():
                self._finish(call, _lost(error))
            self.greeted.set()

    def give_up(self, error: SupervisorError) -> None:
        """The supervisor does not do what it should: end it by force, and the connection with it."""
        if self.error is None:
            self._end()
            self.close(error)

    def shut_down(self) -> None:
        """Tell both ends that nothing follows. Safe from any thread, and after the loop is over."""
        with contextlib.suppress(OSError):  # it is closed already
            self._socket.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Close this process's copies of descriptors and touch nothing else: for the child of a fork."""
        self._socket.close()
        self._let_go(len(self._passing))

    def readable(self) -> None:
        """Take what the supervisor has sent."""
        try:
            size = self._socket.recv_into(self._incoming, self._read_size())
            if not size:
                self._decoder.finish()
                raise SupervisorError("the supervisor has closed the connection", code="lost")
            for header, payload in self._decoder.feed(self._incoming[:size]):
                self._dispatch(protocol.parse_event(header), payload)
        except BlockingIOError:
            return
        except OSError as exc:
            self.close(SupervisorError(f"the connection to the supervisor broke: {exc}", code="lost"))
        except SupervisorError as exc:
            self.close(exc)

    def _look_later(self) -> None:
        self._looks = True
        self._watch.call_later(self._look_every_s, self._look)

    def _look(self) -> None:
        self._looks = False
        dues = [call.due for call in self._calls.values() if call.due is not None]
        if dues and min(dues) <= time.monotonic():
            self.give_up(SupervisorError("the supervisor did not answer in time and was ended", code="lost"))
        elif dues:
            self._look_later()

    def _read_size(self) -> int:
        return min(LARGEST_READ, max(READ_SIZE, self._decoder.missing()))

    def writable(self) -> bool:
        """Send what is waiting; True when something still is."""
        del self._outgoing[: self._transmit(self._outgoing)]
        return bool(self._outgoing)

    def _flush(self) -> None:
        if self.error is None and self.writable():
            self._watch.want_write()

    def _transmit(self, data: bytes | bytearray) -> int:
        try:
            if not self._passing:
                return self._socket.send(data, socket.MSG_NOSIGNAL)
            return self._transmit_with_descriptors(memoryview(data))
        except BlockingIOError:
            return 0
        except OSError:
            return len(data)  # the other end is gone: reading will find the end, and why

    def _transmit_with_descriptors(self, data: memoryview) -> int:
        """Send `data` up to the next frame with descriptors, or that frame; return the number of bytes."""
        passing, following = self._passing[0], self._passing[1:2]
        if passing.at:
            sent = self._socket.send(data[: passing.at], socket.MSG_NOSIGNAL)
        else:
            end = following[0].at if following else len(data)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", passing.copies))
            try:
                sent = self._socket.sendmsg([data[:end]], [rights], socket.MSG_NOSIGNAL)
            except OSError as exc:
                if exc.errno == errno.ETOOMANYREFS:  # too many are under way, until the supervisor takes them
                    return 0
                raise
            self._let_go(1)
        for later in self._passing:
            later.at -= sent
        return sent

    def _let_go(self, count: int) -> None:
        """Close the copies of the first so many frames."""
        for passing in self._passing[:count]:
            for copy in passing.copies:
                os.close(copy)
        del self._passing[:count]

    def _dispatch(self, event: protocol.Event, payload: bytes) -> None:
        if isinstance(event, protocol.Hello):
            self.hello = event
            self.greeted.set()
            return
        if event.id is None:
            raise refusal(event)
        call = self._calls.get(event.id)
        if call is not None and call.handle(event, payload):
            self.forget(call)
            call.done.set()

    @staticmethod
    def _finish(call: Call, error: SupervisorError) -> None:
        call.fail(error)
        call.done.set()


class _Passing:
    """Copies of descriptors that go out with the byte at this place of what is waiting to be sent."""

    __slots__ = ("at", "copies")

    def __init__(self, at: int, copies: list[int]) -> None:
        self.at = at
        self.copies = copies


def _copies(descriptors: Collection[int]) -> list[int]:
    copies: list[int] = []
    for descriptor in descriptors:
        try:
            copies.append(os.dup(descriptor))
        except OSError as exc:
            for copy in copies:
                os.close(copy)
            found = f"found {descriptor}: {exc.strerror}"
            raise ConfigurationError(f"expected open descriptors, {found}", field="descriptors") from exc
    return copies


def _lost(reason: SupervisorError) -> SupervisorError:
    lost = SupervisorError(f"the run was lost with its supervisor: {reason}", code="lost")
    lost.__cause__ = lost.cause = reason
    return lost
