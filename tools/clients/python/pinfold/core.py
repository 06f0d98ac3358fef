"""What both clients do, said once and without moving a byte: client.py moves them and waits, aio.py awaits.

An Exchange is one request and what its last message means; a Channel takes bytes and gives messages; Pipes are the streams of
a command that runs on; Idle keeps the connections that nobody uses.
"""
from __future__ import annotations

import collections
import contextlib
import os
import socket
import threading
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from . import protocol
from .errors import PinfoldError, gone
from .results import ExecResult, exec_result, started
from .spec import SandboxSpec, made_up_name, up_arguments, up_environment

T = TypeVar("T")
Data = Union[str, bytes]
READ = 256 * 1024
IDLE_CONNECTIONS = 8
LASTING = ("wait", "stop", "kill")  # answered at an end, whenever that is


def as_bytes(data: Data) -> bytes:
    return data.encode() if isinstance(data, str) else data


def in_memory(data: Data) -> int:
    """A descriptor that reads these bytes."""
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(as_bytes(data))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@dataclass(frozen=True)
class Exchange(Generic[T]):
    """`last`: the key of the message that ends it, which `read` makes the answer of; `at_once`: nothing is waited for but
    the supervisor itself."""

    request: Mapping[str, Any]
    last: str
    read: Callable[[Mapping[str, Any]], T]
    stdin: Optional[Data] = None
    at_once: bool = False


def _facts(message: Mapping[str, Any]) -> Dict[str, Any]:
    return dict(message["ok"])


def _nothing(_: Mapping[str, Any]) -> None:
    return None


def asking(verb: str, **fields: Any) -> Exchange[Dict[str, Any]]:
    return Exchange({"verb": verb, **_given(fields)}, "ok", _facts, at_once=verb not in LASTING)


def telling(verb: str, **fields: Any) -> Exchange[None]:
    return Exchange({"verb": verb, **_given(fields)}, "ok", _nothing, at_once=verb not in LASTING)


def _given(fields: Mapping[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def signalling(number: protocol.Signal, exec_id: Optional[int]) -> Exchange[None]:
    return telling("signal", signal=protocol.number_of(number), exec=exec_id)


def renewing(idle: Optional[float], lifetime: Optional[float]) -> Exchange[None]:
    return Exchange(protocol.renew_request(idle, lifetime), "ok", _nothing, at_once=True)


def stopping(grace: Optional[float]) -> Exchange[None]:
    return telling("stop", grace_ms=None if grace is None else protocol.milliseconds(grace))


def executing(command: protocol.Command, *, stdin: Optional[Data], check: bool, **options: Any) -> Exchange[ExecResult]:
    def read(message: Mapping[str, Any]) -> ExecResult:
        result = exec_result(message["result"], message["exec"])
        return result.check() if check else result

    request = {**protocol.exec_request(command, **options), "output": "capture", "stdin": stdin is not None}
    return Exchange(request, "result", read, stdin)


def detaching(command: protocol.Command, *, interactive: bool, **options: Any) -> Exchange[int]:
    request = {**protocol.exec_request(command, **options), "detach": True, "interactive": interactive}
    return Exchange(request, "exec", started)


def starting(command: protocol.Command, *, tty: Optional[Tuple[int, int]], **options: Any) -> Dict[str, Any]:
    """The request of a command that runs on."""
    request = protocol.exec_request(command, **options)
    if tty is not None:
        request.update(tty=True, rows=tty[0], columns=tty[1])
    return request


def shell_command(script: str) -> List[str]:
    return ["sh", "-c", script]


def writing(path: str) -> List[str]:
    return ["sh", "-c", 'cat >"$1"', "sh", path]


def reading(path: str) -> List[str]:
    return ["cat", "--", path]


def whole(result: ExecResult, path: str) -> bytes:
    if result.truncated:
        raise PinfoldError("exhausted", f"'{path}' is larger than the policy lets out", hint="use copy_out()")
    return result.stdout_bytes


@dataclass(frozen=True)
class Creation:
    """The name of a new sandbox, and how the command is called for it."""

    name: str
    is_made_up: bool
    arguments: List[str]
    environment: Mapping[str, str]

    def is_orphan(self, error: BaseException) -> bool:
        """It may have come to be just when its maker was interrupted. One that was named could be somebody else's, older."""
        return self.is_made_up and not isinstance(error, PinfoldError)


def creating(spec: Optional[SandboxSpec], fields: Mapping[str, Any]) -> Creation:
    wanted = SandboxSpec(**fields) if spec is None else spec
    name = wanted.name or made_up_name()
    return Creation(name, not wanted.name, up_arguments(wanted, name), up_environment(wanted))


class Channel:
    """One connection's messages, with one request on its way at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._decoder = protocol.Decoder()
        self._messages: Deque[Mapping[str, Any]] = collections.deque()

    def feed(self, data: bytes) -> None:
        """Some more bytes; none: the other side has hung up."""
        if not data:
            raise gone(self.name)
        self._messages.extend(self._decoder.feed(data))

    def next(self) -> Optional[Mapping[str, Any]]:
        """The next message that is whole already; a refusal is raised."""
        return protocol.answer(self._messages.popleft()) if self._messages else None


def rights_of(fds: Sequence[int]) -> "List[Tuple[int, int, bytes]]":
    data = b"".join(fd.to_bytes(4, "little") for fd in fds)
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, data)] if fds else []


class Pipes:
    """The descriptors of a command that runs on: `theirs` go with the request, and are closed when it has been sent."""

    def __init__(self, request: Dict[str, Any], stdin: Union[bool, Data], tty: bool) -> None:
        self.ours: Dict[str, int] = {}
        self.theirs: List[int] = []
        try:
            if stdin is True:
                given, self.ours["stdin"] = os.pipe()
                self.theirs.append(given)
            elif stdin is not False:
                self.theirs.append(in_memory(stdin))
            request["stdin"] = stdin is not False
            for name in ("stdout",) if tty else ("stdout", "stderr"):
                self.ours[name], given = os.pipe()
                self.theirs.append(given)
                request[name] = True
        except BaseException:
            self.close_theirs()
            self.close_ours()
            raise

    def close_theirs(self) -> None:
        for fd in self.theirs:
            os.close(fd)
        self.theirs = []

    def close_ours(self) -> None:
        for fd in self.ours.values():
            os.close(fd)
        self.ours = {}


class Running:
    """What is known of a command that runs on, from its messages."""

    def __init__(self) -> None:
        self.exec_id = 0
        self.missed = 0  # records that were gone from the log before they could be read: of attach() alone
        self.result: Optional[Mapping[str, Any]] = None

    def begin(self, message: Mapping[str, Any]) -> None:
        self.exec_id = message["exec"]
        self.result = message.get("result")  # it never ran

    def note(self, message: Mapping[str, Any]) -> bool:
        """False: it is the answer to something else that was asked."""
        if "ok" in message:
            return False
        if "result" in message:
            self.result = message["result"]
        self.missed += message.get("records", 0)
        return True

    def signalling(self, number: protocol.Signal) -> Dict[str, Any]:
        return {"verb": "signal", "exec": self.exec_id, "signal": protocol.number_of(number)}

    def ending(self) -> Dict[str, Any]:
        return {"verb": "end", "exec": self.exec_id}

    def resizing(self, rows: int, columns: int) -> Dict[str, Any]:
        return {"verb": "resize", "exec": self.exec_id, "rows": rows, "columns": columns}


class Held(Channel):
    """A channel with its socket, which the clients read and write in their own ways."""

    def __init__(self, state: str, name: str, answer: float = protocol.ANSWER) -> None:
        super().__init__(name)
        self.answer = answer  # seconds for what is answered at once
        self.overdue = False  # an answer may still come, to something that nobody asks any more
        self._owner = os.getpid()
        self.socket = protocol.connect(state, name)

    @property
    def is_closed(self) -> bool:
        return self.socket.fileno() < 0

    def is_dead(self) -> bool:
        """The supervisor closes connections that are idle when there are too many."""
        try:
            return not self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """For a child too that was forked meanwhile, and holds it; in such a child for itself alone."""
        if os.getpid() == self._owner:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


C = TypeVar("C", bound=Held)


class Idle(Generic[C]):
    """Connections that nobody uses. Several threads may take and give. After a fork those of before are the parent's: two
    processes that read from one would have each other's answers."""

    def __init__(self) -> None:
        self._renew([])

    def _renew(self, foreign: List[C]) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()  # that of before may have been held by a thread that isn't here
        self._held: List[C] = []
        for connection in foreign:
            connection.close()

    def _own(self) -> None:
        if self._owner != os.getpid():
            self._renew(self._held)

    def take(self) -> Optional[C]:
        self._own()
        while True:
            with self._lock:
                if not self._held:
                    return None
                connection = self._held.pop()
            if not connection.is_dead():
                return connection
            connection.close()

    def give(self, connection: C) -> None:
        self._own()
        with self._lock:
            if len(self._held) < IDLE_CONNECTIONS:
                self._held.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        self._own()
        with self._lock:
            held, self._held = self._held, []
        for connection in held:
            connection.close()
