"""The same client for asyncio. Cancelling an exec() ends the command's whole tree."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
from typing import Any, AsyncIterator, Awaitable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import core, protocol
from .aio_tool import ToolSandbox as ToolSandbox
from .core import READ, Data, T, as_bytes
from .errors import PinfoldError, SandboxGone, closed, from_json, gone, input_closed, no_input, unanswered
from .program import (
    Program,
    copy_place,
    host_place,
    kill_arguments,
    list_arguments,
    log_arguments,
    output_of,
    remove_arguments,
    unavailable,
)
from .results import ExecResult, LogRecord, exec_result, log_record
from .spec import Path, SandboxSpec


class Connection(core.Held):
    """One connection to a supervisor, with one request on its way at a time."""

    def __init__(self, state: str, name: str, answer: float) -> None:
        super().__init__(state, name, answer)  # a local socket whose server accepts at once
        self.socket.setblocking(False)

    async def send(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        data = protocol.pack(request)
        try:
            sent = self.socket.sendmsg([data], core.rights_of(fds))
            await asyncio.get_running_loop().sock_sendall(self.socket, data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            await self.receive()  # it may have said why it hung up
            raise gone(self.name) from None

    async def wait(self) -> None:
        """For some more bytes."""
        try:
            data = await asyncio.get_running_loop().sock_recv(self.socket, READ)
        except ConnectionResetError:
            data = b""
        self.feed(data)

    async def receive(self) -> Mapping[str, Any]:
        while (message := self.next()) is None:
            await self.wait()
        return message

    async def answered(self, answer: Awaitable[T]) -> T:
        """One that is given at once."""
        try:
            return await asyncio.wait_for(answer, self.answer)
        except asyncio.TimeoutError:
            self.overdue = True
            raise unanswered(self.name) from None

    async def exchange(self, exchange: core.Exchange[T], fds: Sequence[int]) -> Mapping[str, Any]:
        """Up to its last message."""
        await self.send(exchange.request, fds)
        while exchange.last not in (message := await self.receive()):
            pass
        return message


async def _reader_of(fd: int) -> "Tuple[asyncio.StreamReader, asyncio.ReadTransport]":
    reader = asyncio.StreamReader(limit=READ)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0))
    return reader, transport


async def _writer_of(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    file = os.fdopen(fd, "wb", 0)
    transport, writing = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, file)
    return asyncio.StreamWriter(transport, writing, None, loop)


class Process:
    """A command that runs. `async for` gives ("stdout" or "stderr", bytes) as they come, until both have ended.

    Leaving the `async with` block, or close(), ends the command's whole tree if it still runs.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._running = connection, core.Running()
        self._readers: Dict[str, asyncio.StreamReader] = {}
        self._transports: List[asyncio.BaseTransport] = []
        self._reading: "Dict[asyncio.Future[bytes], str]" = {}
        self._chunks: Deque[Tuple[str, bytes]] = collections.deque()
        self._kept: Dict[str, List[bytes]] = {"stdout": [], "stderr": []}
        self._stdin: Optional[asyncio.StreamWriter] = None
        self._answers: "asyncio.Queue[Mapping[str, Any]]" = asyncio.Queue()
        self._result: "asyncio.Future[Mapping[str, Any]]" = asyncio.get_running_loop().create_future()
        self._listener: Optional["asyncio.Task[None]"] = None

    @property
    def exec_id(self) -> int:
        return self._running.exec_id

    @property
    def missed(self) -> int:
        """Records that were gone from the log before they could be read: of attach() alone."""
        return self._running.missed

    @classmethod
    async def start(
        cls, connection: Connection, request: Dict[str, Any], stdin: Union[bool, Data], tty: bool
    ) -> "Process":
        process = cls(connection)
        try:
            pipes = core.Pipes(request, stdin, tty)
            try:
                await process._open(pipes)
                await connection.send(request, pipes.theirs)
            finally:
                pipes.close_theirs()
            process._running.begin(await connection.receive())
        except BaseException:
            process.close()
            raise
        process._settle()
        process._listener = asyncio.ensure_future(process._listen())
        return process

    async def _open(self, pipes: core.Pipes) -> None:
        try:
            for name in list(pipes.ours):
                fd = pipes.ours.pop(name)
                if name == "stdin":
                    self._stdin = await _writer_of(fd)
                else:
                    self._readers[name], transport = await _reader_of(fd)
                    self._transports.append(transport)
                    self._read_on(name)
        finally:
            pipes.close_ours()

    def _settle(self) -> None:
        if self._running.result is not None and not self._result.done():
            self._result.set_result(self._running.result)

    async def _listen(self) -> None:
        try:
            while not self._result.done():
                message = await self._connection.receive()
                if not self._running.note(message):
                    self._answers.put_nowait(message)
                self._settle()
        except PinfoldError as error:
            if isinstance(error, SandboxGone) and not self._result.done():
                self._result.set_exception(error)
            else:
                self._answers.put_nowait({"error": error})
                self._listener = asyncio.ensure_future(self._listen())

    def _read_on(self, name: str) -> None:
        self._reading[asyncio.ensure_future(self._readers[name].read(READ))] = name

    async def _read(self) -> Optional[Tuple[str, bytes]]:
        """What comes next, or None at the end of both. A read outlives who waited for it and was cancelled: it is the next
        one's, so that nothing is lost."""
        while self._reading:
            await asyncio.wait(list(self._reading), return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in self._reading if task.done()]:
                name, data = self._reading.pop(task), task.result()
                if data:
                    self._read_on(name)
                    return name, data
        return None

    async def __aiter__(self) -> AsyncIterator[Tuple[str, bytes]]:
        while (chunk := self._chunks.popleft() if self._chunks else await self._read()) is not None:
            yield chunk

    async def write(self, data: Data) -> None:
        """To its standard input; waits while the command doesn't take it."""
        if self._stdin is None:
            raise no_input()
        try:
            self._stdin.write(as_bytes(data))
            await self._stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise input_closed() from None

    def close_stdin(self) -> None:
        if self._stdin is not None:
            self._stdin.close()
            self._stdin = None

    async def wait(self) -> ExecResult:
        """Its end, with the output that wasn't iterated over. Cancelling the wait leaves it running."""
        if self._result.cancelled():
            raise closed()
        self.close_stdin()
        while (chunk := await self._read()) is not None:
            self._chunks.append(chunk)
        result = await asyncio.shield(self._result)
        while self._chunks:
            name, data = self._chunks.popleft()
            self._kept[name].append(data)
        return exec_result(result, self.exec_id, [b"".join(self._kept[name]) for name in ("stdout", "stderr")])

    async def _ask(self, request: Mapping[str, Any]) -> None:
        """Whether its end or the answer comes first, nothing is left to wait for."""
        if self._connection.is_closed:
            raise closed()
        await self._connection.send(request)
        answer = asyncio.ensure_future(self._answers.get())
        first = asyncio.wait({answer, self._result}, return_when=asyncio.FIRST_COMPLETED)
        try:
            await self._connection.answered(first)
        finally:
            answer.cancel()
        if answer.done() and not answer.cancelled() and "error" in answer.result():
            raise answer.result()["error"]

    async def signal(self, number: protocol.Signal) -> None:
        await self._ask(self._running.signalling(number))

    async def kill(self) -> None:
        """SIGKILL to all of its tree."""
        await self._ask(self._running.ending())

    async def resize(self, rows: int, columns: int) -> None:
        await self._ask(self._running.resizing(rows, columns))

    def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        if not self._result.done():
            self._result.cancel()
        elif not self._result.cancelled():
            self._result.exception()  # nobody need have asked for it
        self.close_stdin()
        for task in self._reading:
            task.cancel()
        self._reading = {}
        for transport in self._transports:
            transport.close()
        self._connection.close()

    async def __aenter__(self) -> "Process":
        return self

    async def __aexit__(self, *_: object) -> None:
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

    async def _run(self, exchange: core.Exchange[T]) -> T:
        """Up to its last message. The connection ends with a request that was cut short."""
        connection = self._idle.take() or self._connect()
        fds = [] if exchange.stdin is None else [core.in_memory(exchange.stdin)]
        try:
            answer = connection.exchange(exchange, fds)
            message = await (connection.answered(answer) if exchange.at_once else answer)
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

    async def exec(
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
        """Runs a command to its end."""
        options = dict(env=env, cwd=cwd, user=user, secrets=secrets, frames=frames, timeout=timeout)
        return await self._run(core.executing(command, stdin=stdin, check=check, **options))

    async def shell(self, script: str, **options: Any) -> ExecResult:
        """A script for `sh`, with the options of exec()."""
        return await self.exec(core.shell_command(script), **options)

    run_shell = shell

    async def run_python(self, source: str, args: Sequence[str] = (), **options: Any) -> ExecResult:
        """A program for the sandbox's python3, with the options of exec()."""
        command, stdin = protocol.python_command(source, args)
        if stdin is not None:
            options["stdin"] = stdin
        return await self.exec(command, **options)

    async def start(
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
        return await Process.start(self._connect(), request, stdin, tty is not None)

    async def attach(
        self, exec_id: Optional[int] = None, *, since: Optional[int] = None, stdin: bool = False
    ) -> Process:
        """The output of a command that runs or has ended, from a record of the log on, without a loss; without a number of
        the last one that runs. Its input too, where it was started as interactive. Closing this ends nothing."""
        return await Process.start(self._connect(), protocol.attach_request(exec_id, since), stdin, False)

    async def detach(self, command: protocol.Command, *, interactive: bool = False, **options: Any) -> int:
        """Starts a command that outlives this client; its number, for attach(), wait(), signal() and logs(). interactive:
        its standard input stays open, for attach()."""
        return await self._run(core.detaching(command, interactive=interactive, **options))

    async def show(self) -> Dict[str, Any]:
        """What it is and does: state, policy, image, labels, running commands."""
        return await self._run(core.asking("show"))

    async def stats(self) -> Dict[str, Any]:
        return await self._run(core.asking("stats"))

    async def pause(self) -> None:
        await self._run(core.telling("pause"))

    async def resume(self) -> None:
        await self._run(core.telling("resume"))

    async def renew(self, *, idle: Optional[float] = None, lifetime: Optional[float] = None) -> None:
        """New times until it ends by itself, in seconds: since its last use, and from now on."""
        await self._run(core.renewing(idle, lifetime))

    async def signal(self, number: protocol.Signal, exec_id: Optional[int] = None) -> None:
        """To one command, or to every process."""
        await self._run(core.signalling(number, exec_id))

    async def wait(self, exec_id: Optional[int] = None) -> Dict[str, Any]:
        """How a command (status, exit_code, signal), or the sandbox itself (why), has ended."""
        return await self._run(core.asking("wait", exec=exec_id))

    async def stop(self, grace: Optional[float] = None) -> None:
        """SIGTERM, and SIGKILL after the grace; returns when nothing is left of it but its log."""
        await self._end(core.stopping(grace))

    async def kill(self) -> None:
        """At once, whatever its supervisor does: as the command does it."""
        self.close()
        await self.client.call(kill_arguments(self.name))

    async def _end(self, exchange: core.Exchange[None]) -> None:
        try:
            await self._run(exchange)
        except SandboxGone:
            pass
        self.close()

    async def remove(self, force: bool = True) -> None:
        """With what is left of it. Without `force`, SandboxBusy while it lives."""
        self.close()
        await self.client.remove(self.name, force=force)

    async def logs(
        self,
        *,
        since: Optional[int] = None,
        tail: Optional[int] = None,
        exec_id: Optional[int] = None,
        grep: Optional[str] = None,
        follow: bool = False,
    ) -> AsyncIterator[LogRecord]:
        """What commands have printed, alive or not; `since` is the last number that was seen. With `follow`, until it ends."""
        arguments = log_arguments(self.name, since, tail, exec_id, grep, follow)
        reader = await self.client.spawn(arguments, limit=1024 * 1024)
        assert reader.stdout is not None and reader.stderr is not None
        try:
            async for line in reader.stdout:
                record = json.loads(line)
                if "error" in record:
                    raise from_json(record["error"])
                yield log_record(record)
            output_of(arguments, await reader.wait(), b"", await reader.stderr.read())
        finally:
            if reader.returncode is None:
                reader.kill()
                await reader.wait()

    async def copy_in(self, source: Path, target: str) -> None:
        """A file or a tree of the host's, to an absolute path inside."""
        await self.client.call(["cp", "--json", "--", host_place(source), copy_place(self.name, target)])

    async def copy_out(self, source: str, target: Path) -> None:
        await self.client.call(["cp", "--json", "--", copy_place(self.name, source), host_place(target)])

    async def write_file(self, path: str, data: Data) -> None:
        """By a command inside, so by the sandbox's own user and rights."""
        await self.exec(core.writing(path), stdin=data, check=True)

    async def read_file(self, path: str) -> bytes:
        """Whole, or an error: within the policy's limit of standard output."""
        return core.whole(await self.exec(core.reading(path), check=True), path)

    def close(self) -> None:
        self._idle.clear()

    async def __aenter__(self) -> "SandboxHandle":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], *_: object) -> None:
        """Removes the sandbox: `async with await client.create(...) as sandbox:` leaves nothing behind."""
        try:
            await self.remove()
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

    async def spawn(
        self, arguments: Sequence[str], more: Mapping[str, str] = {}, limit: int = 65536
    ) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self.program.argv(arguments),
                env=self.program.environment(more),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=limit,
            )
        except (OSError, ValueError) as error:
            raise unavailable(self.program.path, error) from error

    async def call(self, arguments: Sequence[str], more: Mapping[str, str] = {}) -> bytes:
        process = await self.spawn(arguments, more)
        try:
            out, err = await process.communicate()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        return output_of(arguments, process.returncode, out, err)

    async def create(self, spec: Optional[SandboxSpec] = None, **fields: Any) -> SandboxHandle:
        """A new sandbox, of a SandboxSpec or of its fields. Cancelled, none is left whose name nobody has."""
        new = core.creating(spec, fields)
        try:
            await self.call(new.arguments, new.environment)
        except BaseException as error:
            if new.is_orphan(error):
                with contextlib.suppress(PinfoldError):
                    await self.remove(new.name)
            raise
        return SandboxHandle(self, new.name)

    async def get(self, name: str) -> SandboxHandle:
        """One that lives; SandboxNotFound otherwise."""
        handle = SandboxHandle(self, name)
        await handle.show()
        return handle

    async def list(self, labels: Optional[Mapping[str, Optional[str]]] = None) -> List[Dict[str, Any]]:
        """Those with all these labels (None: any value), alive or ended: what show() tells of each."""
        found: List[Dict[str, Any]] = json.loads(await self.call(list_arguments(labels)))
        return found

    async def remove(self, name: str, force: bool = True) -> None:
        await self.call(remove_arguments(name, force))
