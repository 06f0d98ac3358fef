"""The plain client: every call waits for its answer. Handles may be used by several threads at once."""
from __future__ import annotations

import array
import collections
import json
import os
import selectors
import socket
import subprocess
import threading
import time
from typing import Any, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import protocol
from .errors import PinfoldError, SandboxGone, from_json, gone
from .program import Program, checked, copy_place, host_place, list_arguments, log_arguments, remove_arguments
from .results import ExecResult, LogRecord, exec_result, log_record, started
from .spec import Path, SandboxSpec, made_up_name, up_arguments, up_environment

Data = Union[str, bytes]
READ = 256 * 1024
IDLE_CONNECTIONS = 8


def as_bytes(data: Data) -> bytes:
    return data.encode() if isinstance(data, str) else data


def in_memory(data: Data) -> int:
    """A descriptor that reads these bytes."""
    fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(as_bytes(data))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class Connection:
    """One connection to a supervisor, with one request on its way at a time."""

    def __init__(self, state: str, name: str) -> None:
        self.name = name
        self.socket = protocol.connect(state, name)
        self._decoder = protocol.Decoder()
        self._messages: Deque[Mapping[str, Any]] = collections.deque()

    def send(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        data = protocol.pack(request)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            sent = self.socket.sendmsg([data], rights)
            self.socket.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            raise gone(self.name) from None

    def feed(self) -> None:
        """Waits for some more bytes."""
        try:
            data = self.socket.recv(READ)
        except ConnectionResetError:
            data = b""
        if not data:
            raise gone(self.name)
        self._messages.extend(self._decoder.feed(data))

    def next(self) -> Optional[Mapping[str, Any]]:
        """The next message that is whole already."""
        return protocol.answer(self._messages.popleft()) if self._messages else None

    def receive(self) -> Mapping[str, Any]:
        while (message := self.next()) is None:
            self.feed()
        return message

    def close(self) -> None:
        self.socket.close()


class Process:
    """A command that runs. Iterating gives ("stdout" or "stderr", bytes) as they come, until both have ended.

    Leaving the `with` block, or close(), ends the command's whole tree if it still runs.
    """

    def __init__(self, connection: Connection, request: Dict[str, Any], stdin: Union[bool, Data], tty: bool) -> None:
        self.exec_id = 0
        self.missed = 0  # records that were gone from the log before they could be read: of attach() alone
        self._connection, self._result = connection, None  # type: Tuple[Connection, Optional[Mapping[str, Any]]]
        self._kept: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        self._chunks: Deque[Tuple[str, bytes]] = collections.deque()
        self._selector = selectors.DefaultSelector()
        self._ours: Dict[str, int] = {}
        theirs: List[int] = []
        try:
            self._open(request, stdin, tty, theirs)
            connection.send(request, theirs)
            started = connection.receive()
        except BaseException:
            self.close()
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        self.exec_id = started["exec"]
        self._result = started.get("result")  # it never ran

    def _open(self, request: Dict[str, Any], stdin: Union[bool, Data], tty: bool, theirs: List[int]) -> None:
        if stdin is True:
            reading, self._ours["stdin"] = os.pipe()
            os.set_blocking(self._ours["stdin"], False)
            theirs.append(reading)
        elif stdin is not False:
            theirs.append(in_memory(stdin))
        request["stdin"] = stdin is not False
        for name in ("stdout",) if tty else ("stdout", "stderr"):
            self._ours[name], writing = os.pipe()
            theirs.append(writing)
            request[name] = True
            self._selector.register(self._ours[name], selectors.EVENT_READ, name)

    def _read(self, name: str) -> None:
        data = os.read(self._ours[name], READ)
        if data:
            self._chunks.append((name, data))
            return
        self._selector.unregister(self._ours[name])
        os.close(self._ours.pop(name))

    def _has_output(self) -> bool:
        return "stdout" in self._ours or "stderr" in self._ours

    def __iter__(self) -> Iterator[Tuple[str, bytes]]:
        while self._chunks or self._has_output():
            while not self._chunks and self._has_output():
                for key, _ in self._selector.select():
                    self._read(key.data)
            while self._chunks:
                yield self._chunks.popleft()

    def write(self, data: Data) -> None:
        """To its standard input. What it prints meanwhile is kept, so that neither side waits for ever."""
        left = memoryview(as_bytes(data))
        fd = self._ours["stdin"]
        self._selector.register(fd, selectors.EVENT_WRITE, "stdin")
        try:
            while left:
                for key, _ in self._selector.select():
                    if key.data == "stdin":
                        left = left[os.write(fd, left) :]
                    else:
                        self._read(key.data)
        finally:
            self._selector.unregister(fd)

    def close_stdin(self) -> None:
        fd = self._ours.pop("stdin", None)
        if fd is not None:
            os.close(fd)

    def wait(self, timeout: Optional[float] = None) -> ExecResult:
        """Its end, with the output that wasn't iterated over. TimeoutError leaves it running."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self.close_stdin()
        while self._has_output():
            ready = self._selector.select(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"command {self.exec_id} still runs")
            for key, _ in ready:
                self._read(key.data)
        while self._result is None:
            self._await_result(deadline)
        while self._chunks:
            name, data = self._chunks.popleft()
            self._kept[name].append(data)
        return exec_result(self._result, self.exec_id, [b"".join(self._kept[name]) for name in ("stdout", "stderr")])

    def _await_result(self, deadline: Optional[float]) -> None:
        self._connection.socket.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
        try:
            message = self._connection.next()
            if message is None:
                self._connection.feed()
            else:
                self._note(message)
        except socket.timeout:
            raise TimeoutError(f"command {self.exec_id} still runs") from None
        finally:
            self._connection.socket.settimeout(None)

    def _note(self, message: Mapping[str, Any]) -> None:
        self._result = message.get("result")
        self.missed += message.get("records", 0)

    def _ask(self, request: Dict[str, Any]) -> None:
        self._connection.send(request)
        while True:
            message = self._connection.receive()
            if "ok" in message:
                return
            self._note(message)

    def signal(self, number: protocol.Signal) -> None:
        self._ask({"verb": "signal", "exec": self.exec_id, "signal": protocol.number_of(number)})

    def kill(self) -> None:
        """SIGKILL to all of its tree."""
        self._ask({"verb": "end", "exec": self.exec_id})

    def resize(self, rows: int, columns: int) -> None:
        self._ask({"verb": "resize", "exec": self.exec_id, "rows": rows, "columns": columns})

    def close(self) -> None:
        self._selector.close()
        for fd in self._ours.values():
            os.close(fd)
        self._ours = {}
        self._connection.close()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SandboxHandle:
    """One kept sandbox. The handle holds connections, the sandbox lives without it; close() lets them go."""

    def __init__(self, client: "SandboxClient", name: str) -> None:
        self.client, self.name = client, name
        self._lock = threading.Lock()
        self._idle: List[Connection] = []

    def __repr__(self) -> str:
        return f"SandboxHandle({self.name!r})"

    def _take(self) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return Connection(self.client.program.state, self.name)

    def _give(self, connection: Connection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def _exchange(self, request: Mapping[str, Any], fds: Sequence[int], last: str) -> Mapping[str, Any]:
        """Up to the message that has this key. The connection ends with a request that was cut short."""
        connection = self._take()
        try:
            connection.send(request, fds)
            message = connection.receive()
            while last not in message:
                message = connection.receive()
        except PinfoldError as error:
            if isinstance(error, SandboxGone):
                connection.close()
            else:
                self._give(connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._give(connection)
        return message

    def _call(self, request: Mapping[str, Any]) -> Any:
        return self._exchange(request, (), "ok")["ok"]

    def exec(
        self,
        command: protocol.Command,
        *,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        secrets: Sequence[str] = (),
        frames: Optional[str] = None,
        timeout: Optional[float] = None,
        stdin: Optional[Data] = None,
        check: bool = False,
    ) -> ExecResult:
        """Runs a command to its end. Interrupted (by any exception), its whole tree is ended."""
        request = protocol.exec_request(
            command, env=env, cwd=cwd, timeout=timeout, user=user, secrets=secrets, frames=frames
        )
        request.update(output="capture", stdin=stdin is not None)
        fds = [] if stdin is None else [in_memory(stdin)]
        try:
            message = self._exchange(request, fds, "result")
        finally:
            for fd in fds:
                os.close(fd)
        result = exec_result(message["result"], message["exec"])
        return result.check() if check else result

    def shell(self, script: str, **options: Any) -> ExecResult:
        """A script for `sh`, with the options of exec()."""
        return self.exec(["sh", "-c", script], **options)

    run_shell = shell

    def run_python(self, source: str, args: Sequence[str] = (), **options: Any) -> ExecResult:
        """A program for the sandbox's python3, with the options of exec()."""
        command, stdin = protocol.python_command(source, args)
        if stdin is not None:
            options["stdin"] = stdin
        return self.exec(command, **options)

    def start(
        self,
        command: protocol.Command,
        *,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
        secrets: Sequence[str] = (),
        frames: Optional[str] = None,
        timeout: Optional[float] = None,
        stdin: Union[bool, Data] = False,
        tty: Optional[Tuple[int, int]] = None,
    ) -> Process:
        """A command that runs on. stdin: bytes, or True for write(). tty: (rows, columns) of a terminal of its own."""
        request = protocol.exec_request(
            command, env=env, cwd=cwd, timeout=timeout, user=user, secrets=secrets, frames=frames
        )
        if tty is not None:
            request.update(tty=True, rows=tty[0], columns=tty[1])
        return Process(Connection(self.client.program.state, self.name), request, stdin, tty is not None)

    def attach(
        self, exec_id: Optional[int] = None, *, since: Optional[int] = None, stdin: bool = False
    ) -> Process:
        """The output of a command that runs or has ended, from a record of the log on, without a loss; without a number of
        the last one that runs. Its input too, where it was started as interactive. Closing this ends nothing."""
        request = protocol.attach_request(exec_id, since)
        return Process(Connection(self.client.program.state, self.name), request, stdin, False)

    def detach(self, command: protocol.Command, *, interactive: bool = False, **options: Any) -> int:
        """Starts a command that outlives this client; its number, for attach(), wait(), signal() and logs(). interactive:
        its standard input stays open, for attach()."""
        request = {**protocol.exec_request(command, **options), "detach": True, "interactive": interactive}
        return started(self._exchange(request, (), "exec"))

    def show(self) -> Dict[str, Any]:
        """What it is and does: state, policy, image, labels, running commands."""
        return dict(self._call({"verb": "show"}))

    def stats(self) -> Dict[str, Any]:
        return dict(self._call({"verb": "stats"}))

    def pause(self) -> None:
        self._call({"verb": "pause"})

    def resume(self) -> None:
        self._call({"verb": "resume"})

    def renew(self, *, idle: Optional[float] = None, lifetime: Optional[float] = None) -> None:
        """New times until it ends by itself, in seconds: since its last use, and from now on."""
        self._call(protocol.renew_request(idle, lifetime))

    def signal(self, number: protocol.Signal, exec_id: Optional[int] = None) -> None:
        """To one command, or to every process."""
        of = {} if exec_id is None else {"exec": exec_id}
        self._call({"verb": "signal", "signal": protocol.number_of(number), **of})

    def wait(self, exec_id: Optional[int] = None) -> Mapping[str, Any]:
        """How a command (status, exit_code, signal), or the sandbox itself (why), has ended."""
        of = {} if exec_id is None else {"exec": exec_id}
        return dict(self._call({"verb": "wait", **of}))

    def stop(self, grace: Optional[float] = None) -> None:
        """SIGTERM, and SIGKILL after the grace; returns when nothing is left of it but its log."""
        of = {} if grace is None else {"grace_ms": protocol.milliseconds(grace)}
        self._end({"verb": "stop", **of})

    def kill(self) -> None:
        self._end({"verb": "kill"})

    def _end(self, request: Mapping[str, Any]) -> None:
        try:
            self._call(request)
        except SandboxGone:
            pass
        self.close()

    def remove(self, force: bool = True) -> None:
        """With what is left of it. Without `force`, SandboxBusy while it lives."""
        self.close()
        self.client.remove(self.name, force=force)

    def logs(
        self,
        *,
        since: Optional[int] = None,
        tail: Optional[int] = None,
        exec_id: Optional[int] = None,
        grep: Optional[str] = None,
        follow: bool = False,
    ) -> Iterator[LogRecord]:
        """What commands have printed, alive or not; `since` is the last number that was seen. With `follow`, until it ends."""
        program, arguments = self.client.program, log_arguments(self.name, since, tail, exec_id, grep, follow)
        reader = subprocess.Popen(
            program.argv(arguments),
            env=program.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert reader.stdout is not None and reader.stderr is not None
        try:
            for line in reader.stdout:
                yield self._record(line)
            checked(subprocess.CompletedProcess([], reader.wait(), b"", reader.stderr.read()), arguments)
        finally:
            reader.kill()
            reader.wait()
            reader.stdout.close()
            reader.stderr.close()

    @staticmethod
    def _record(line: bytes) -> LogRecord:
        record = json.loads(line)
        if "error" in record:
            raise from_json(record["error"])
        return log_record(record)

    def copy_in(self, source: Path, target: str) -> None:
        """A file or a tree of the host's, to an absolute path inside."""
        self._copy(host_place(source), copy_place(self.name, target))

    def copy_out(self, source: str, target: Path) -> None:
        self._copy(copy_place(self.name, source), host_place(target))

    def _copy(self, source: str, target: str) -> None:
        arguments = ["cp", "--json", "--", source, target]
        checked(self.client.program.call(arguments), arguments)

    def write_file(self, path: str, data: Data) -> None:
        """By a command inside, so by the sandbox's own user and rights."""
        self.exec(["sh", "-c", 'cat >"$1"', "sh", path], stdin=data, check=True)

    def read_file(self, path: str) -> bytes:
        """Whole, or an error: within the policy's limit of standard output."""
        result = self.exec(["cat", "--", path], check=True)
        if result.truncated:
            raise PinfoldError("exhausted", f"'{path}' is larger than the policy lets out", hint="use copy_out()")
        return result.stdout_bytes

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> "SandboxHandle":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *_: object) -> None:
        """Removes the sandbox: `with client.create(...) as sandbox:` leaves nothing behind."""
        try:
            self.remove()
        except PinfoldError:
            if kind is None:
                raise


class SandboxClient:
    """Makes, finds and removes kept sandboxes. SandboxUnavailable where there is no runtime.

    program: the command (else PINFOLD, else `pinfold` on PATH). state: the state directory (else as the command has it).
    """

    def __init__(self, program: Optional[Path] = None, state: Optional[Path] = None) -> None:
        self.program = Program(program, state)

    def create(self, spec: Optional[SandboxSpec] = None, **fields: Any) -> SandboxHandle:
        """A new sandbox, of a SandboxSpec or of its fields."""
        spec = SandboxSpec(**fields) if spec is None else spec
        name = spec.name or made_up_name()
        arguments = up_arguments(spec, name)
        checked(self.program.call(arguments, up_environment(spec)), arguments)
        return SandboxHandle(self, name)

    def get(self, name: str) -> SandboxHandle:
        """One that lives; SandboxNotFound otherwise."""
        handle = SandboxHandle(self, name)
        handle.show()
        return handle

    def list(self, labels: Optional[Mapping[str, Optional[str]]] = None) -> List[Dict[str, Any]]:
        """Those with all these labels (None: any value), alive or ended: what show() tells of each."""
        arguments = list_arguments(labels)
        found: List[Dict[str, Any]] = json.loads(checked(self.program.call(arguments), arguments))
        return found

    def remove(self, name: str, force: bool = True) -> None:
        arguments = remove_arguments(name, force)
        checked(self.program.call(arguments), arguments)
