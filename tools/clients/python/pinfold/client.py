"""The plain client: every call waits for its answer. Handles may be used by several threads at once."""
from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import socket
import subprocess
import time
from typing import Any, Deque, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import core, protocol
from .core import READ, Data, T, as_bytes
from .errors import PinfoldError, SandboxGone, closed, from_json, gone, input_closed, no_input, unanswered
from .program import (
    Program,
    checked,
    copy_place,
    host_place,
    kill_arguments,
    list_arguments,
    log_arguments,
    remove_arguments,
)
from .results import ExecResult, LogRecord, exec_result, log_record
from .spec import Path, SandboxSpec


class Connection(core.Held):
    """One connection to a supervisor, with one request on its way at a time."""

    @contextlib.contextmanager
    def within(self, seconds: Optional[float]) -> Iterator[None]:
        """What is sent and received meanwhile takes no longer."""
        self.socket.settimeout(seconds)
        try:
            yield
        except socket.timeout:
            self.overdue = True
            raise unanswered(self.name) from None
        finally:
            self.socket.settimeout(None)

    def send(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        data = protocol.pack(request)
        try:
            sent = self.socket.sendmsg([data], core.rights_of(fds))
            self.socket.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            self.receive()  # it may have said why it hung up
            raise gone(self.name) from None

    def wait(self) -> None:
        """For some more bytes."""
        try:
            data = self.socket.recv(READ)
        except ConnectionResetError:
            data = b""
        self.feed(data)

    def receive(self) -> Mapping[str, Any]:
        while (message := self.next()) is None:
            self.wait()
        return message


class Process:
    """A command that runs. Iterating gives ("stdout" or "stderr", bytes) as they come, until both have ended.

    Leaving the `with` block, or close(), ends the command's whole tree if it still runs.
    """

    def __init__(self, connection: Connection, request: Dict[str, Any], stdin: Union[bool, Data], tty: bool) -> None:
        self._connection, self._running = connection, core.Running()
        self._kept: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        self._chunks: Deque[Tuple[str, bytes]] = collections.deque()
        self._selector = selectors.DefaultSelector()
        self._ours: Dict[str, int] = {}
        try:
            pipes = core.Pipes(request, stdin, tty)
            self._ours = pipes.ours
            try:
                connection.send(request, pipes.theirs)
            finally:
                pipes.close_theirs()
            self._running.begin(connection.receive())
        except BaseException:
            self.close()
            raise
        for name, fd in self._ours.items():
            if name == "stdin":
                os.set_blocking(fd, False)
            else:
                self._selector.register(fd, selectors.EVENT_READ, name)

    @property
    def exec_id(self) -> int:
        return self._running.exec_id

    @property
    def missed(self) -> int:
        """Records that were gone from the log before they could be read: of attach() alone."""
        return self._running.missed

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
        fd = self._ours.get("stdin")
        if fd is None:
            raise no_input()
        self._selector.register(fd, selectors.EVENT_WRITE, "stdin")
        try:
            while left:
                for key, _ in self._selector.select():
                    if key.data == "stdin":
                        left = left[os.write(fd, left) :]
                    else:
                        self._read(key.data)
        except BrokenPipeError:
            raise input_closed() from None
        finally:
            self._selector.unregister(fd)

    def close_stdin(self) -> None:
        fd = self._ours.pop("stdin", None)
        if fd is not None:
            os.close(fd)

    def wait(self, timeout: Optional[float] = None) -> ExecResult:
        """Its end, with the output that wasn't iterated over. TimeoutError leaves it running."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._running.result is None and self._connection.is_closed:
            raise closed()
        self.close_stdin()
        while self._has_output():
            ready = self._selector.select(None if deadline is None else max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"command {self.exec_id} still runs")
            for key, _ in ready:
                self._read(key.data)
        while self._running.result is None:
            self._await_result(deadline)
        while self._chunks:
            name, data = self._chunks.popleft()
            self._kept[name].append(data)
        return exec_result(self._running.result, self.exec_id, [b"".join(self._kept[name]) for name in ("stdout", "stderr")])

    def _await_result(self, deadline: Optional[float]) -> None:
        self._connection.socket.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
        try:
            message = self._connection.next()
            if message is None:
                self._connection.wait()
            else:
                self._running.note(message)
        except socket.timeout:
            raise TimeoutError(f"command {self.exec_id} still runs") from None
        finally:
            self._connection.socket.settimeout(None)

    def _ask(self, request: Mapping[str, Any]) -> None:
        if self._connection.is_closed:
            raise closed()
        with self._connection.within(self._connection.answer):
            self._connection.send(request)
            while self._running.note(self._connection.receive()):
                pass

    def signal(self, number: protocol.Signal) -> None:
        self._ask(self._running.signalling(number))

    def kill(self) -> None:
        """SIGKILL to all of its tree."""
        self._ask(self._running.ending())

    def resize(self, rows: int, columns: int) -> None:
        self._ask(self._running.resizing(rows, columns))

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
        self._idle: core.Idle[Connection] = core.Idle()

    def __repr__(self) -> str:
        return f"SandboxHandle({self.name!r})"

    def _connect(self) -> Connection:
        return Connection(self.client.program.state, self.name, self.client.answer_timeout)

    def _run(self, exchange: core.Exchange[T]) -> T:
        """Up to its last message. The connection ends with a request that was cut short."""
        connection = self._idle.take() or self._connect()
        fds = [] if exchange.stdin is None else [core.in_memory(exchange.stdin)]
        try:
            with connection.within(connection.answer if exchange.at_once else None):
                connection.send(exchange.request, fds)
                while exchange.last not in (message := connection.receive()):
                    pass
        except BaseException as error:
            if isinstance(error, PinfoldError) and not isinstance(error, SandboxGone) and not connection.overdue:
                self._idle.give(connection)
            else:
                connection.close()
            raise
        finally:
            for fd in fds:
                os.close(fd)
        self._idle.give(connection)
        return exchange.read(message)

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
        options = dict(env=env, cwd=cwd, user=user, secrets=secrets, frames=frames, timeout=timeout)
        return self._run(core.executing(command, stdin=stdin, check=check, **options))

    def shell(self, script: str, **options: Any) -> ExecResult:
        """A script for `sh`, with the options of exec()."""
        return self.exec(core.shell_command(script), **options)

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
        options = dict(env=env, cwd=cwd, user=user, secrets=secrets, frames=frames, timeout=timeout)
        request = core.starting(command, tty=tty, **options)
        return Process(self._connect(), request, stdin, tty is not None)

    def attach(
        self, exec_id: Optional[int] = None, *, since: Optional[int] = None, stdin: bool = False
    ) -> Process:
        """The output of a command that runs or has ended, from a record of the log on, without a loss; without a number of
        the last one that runs. Its input too, where it was started as interactive. Closing this ends nothing."""
        return Process(self._connect(), protocol.attach_request(exec_id, since), stdin, False)

    def detach(self, command: protocol.Command, *, interactive: bool = False, **options: Any) -> int:
        """Starts a command that outlives this client; its number, for attach(), wait(), signal() and logs(). interactive:
        its standard input stays open, for attach()."""
        return self._run(core.detaching(command, interactive=interactive, **options))

    def show(self) -> Dict[str, Any]:
        """What it is and does: state, policy, image, labels, running commands."""
        return self._run(core.asking("show"))

    def stats(self) -> Dict[str, Any]:
        return self._run(core.asking("stats"))

    def pause(self) -> None:
        self._run(core.telling("pause"))

    def resume(self) -> None:
        self._run(core.telling("resume"))

    def renew(self, *, idle: Optional[float] = None, lifetime: Optional[float] = None) -> None:
        """New times until it ends by itself, in seconds: since its last use, and from now on."""
        self._run(core.renewing(idle, lifetime))

    def signal(self, number: protocol.Signal, exec_id: Optional[int] = None) -> None:
        """To one command, or to every process."""
        self._run(core.signalling(number, exec_id))

    def wait(self, exec_id: Optional[int] = None) -> Dict[str, Any]:
        """How a command (status, exit_code, signal), or the sandbox itself (why), has ended."""
        return self._run(core.asking("wait", exec=exec_id))

    def stop(self, grace: Optional[float] = None) -> None:
        """SIGTERM, and SIGKILL after the grace; returns when nothing is left of it but its log."""
        self._end(core.stopping(grace))

    def kill(self) -> None:
        """At once, whatever its supervisor does: as the command does it."""
        self.close()
        arguments = kill_arguments(self.name)
        checked(self.client.program.call(arguments), arguments)

    def _end(self, exchange: core.Exchange[None]) -> None:
        try:
            self._run(exchange)
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
        self.exec(core.writing(path), stdin=data, check=True)

    def read_file(self, path: str) -> bytes:
        """Whole, or an error: within the policy's limit of standard output."""
        return core.whole(self.exec(core.reading(path), check=True), path)

    def close(self) -> None:
        self._idle.clear()

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
    answer_timeout: seconds that a supervisor has for what it answers at once; then SandboxExhausted.
    """

    def __init__(
        self, program: Optional[Path] = None, state: Optional[Path] = None, answer_timeout: float = protocol.ANSWER
    ) -> None:
        self.program = Program(program, state)
        self.answer_timeout = answer_timeout

    def create(self, spec: Optional[SandboxSpec] = None, **fields: Any) -> SandboxHandle:
        """A new sandbox, of a SandboxSpec or of its fields. Interrupted (by any exception), none is left whose name nobody has."""
        new = core.creating(spec, fields)
        try:
            checked(self.program.call(new.arguments, new.environment), new.arguments)
        except BaseException as error:
            if new.is_orphan(error):
                with contextlib.suppress(PinfoldError):
                    self.remove(new.name)
            raise
        return SandboxHandle(self, new.name)

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
