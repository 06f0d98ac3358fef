"""The same tool calls for asyncio. Cancelling a run() ends its call."""
from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Dict, Mapping, Optional

from .program import Program, unavailable
from .spec import Path, SandboxSpec, tool_arguments, up_environment
from .tool import ToolResult, answer_of, call_line, cancel_line, ended, tool_result

LINE = 64 * 1024 * 1024  # of one answer


class ToolSandbox:
    """Calls functions of tools, each in a sandbox that the runtime chooses: see `reuse` in docs/tool.md.

    As the plain one. Cancelling a run() ends its call. The server belongs to the event loop that has started it: another
    loop's first call starts another.
    """

    def __init__(
        self,
        spec: Optional[SandboxSpec] = None,
        *,
        program: Optional[Path] = None,
        state: Optional[Path] = None,
        **fields: Any,
    ) -> None:
        self.program = Program(program, state)
        self._spec = SandboxSpec(**fields) if spec is None else spec
        self._arguments = tool_arguments(self._spec)
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._server: Optional[asyncio.subprocess.Process] = None
        self._starting: Optional["asyncio.Future[asyncio.subprocess.Process]"] = None
        self._listener: Optional["asyncio.Task[None]"] = None
        self._waiting: Dict[int, "asyncio.Future[Mapping[str, Any]]"] = {}
        self._last = 0

    def _own(self) -> None:
        """What belongs to a loop that is gone would be waited for without an end."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._server is not None and self._server.stdin is not None:
            with contextlib.suppress(OSError):
                self._server.stdin.get_extra_info("pipe").close()  # so that it ends: its loop can't do it any more
        self._loop, self._server, self._starting, self._listener, self._waiting = loop, None, None, None, {}

    async def _start(self) -> asyncio.subprocess.Process:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._spawn())
        return await asyncio.shield(self._starting)

    async def _spawn(self) -> asyncio.subprocess.Process:
        try:
            server = await asyncio.create_subprocess_exec(
                *self.program.argv(self._arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=self.program.environment(up_environment(self._spec)),
                limit=LINE,
            )
        except OSError as error:
            self._starting = None
            raise unavailable(self.program.path, error) from error
        self._server = server
        self._listener = asyncio.ensure_future(self._listen(server))
        return server

    async def _listen(self, server: asyncio.subprocess.Process) -> None:
        assert server.stdout is not None
        try:
            async for line in server.stdout:
                number, answer = answer_of(line)
                waiting = self._waiting.pop(number, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except ValueError:  # the half of an answer, or one beyond LINE: what comes behind it can't be told apart
            with contextlib.suppress(ProcessLookupError):
                server.kill()
        await server.wait()
        left, self._waiting, self._starting = self._waiting, {}, None
        for waiting in left.values():
            if not waiting.done():
                waiting.set_exception(ended())

    async def run(
        self,
        source: str,
        name: Optional[str] = None,
        args: Optional[Mapping[str, Any]] = None,
        *,
        reuse: Optional[str] = "fingerprint",
        **fields: Any,
    ) -> ToolResult:
        """One call, with the fields of the plain run()."""
        call = {"language": "python", "source": source, "name": name, "args": args, "reuse": reuse, **fields}
        self._own()
        server = await self._start()
        assert server.stdin is not None
        self._last += 1
        number = self._last
        waiting: "asyncio.Future[Mapping[str, Any]]" = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            server.stdin.write(call_line(number, call))
            await server.stdin.drain()
            return tool_result(await waiting)
        except asyncio.CancelledError:
            server.stdin.write(cancel_line(number))
            raise
        except (BrokenPipeError, ConnectionResetError):
            raise ended() from None

    async def close(self) -> None:
        """Ends the calls that still run."""
        self._own()
        if self._starting is None or self._listener is None:
            return
        server = await self._starting
        assert server.stdin is not None
        server.stdin.close()
        await self._listener

    async def __aenter__(self) -> "ToolSandbox":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
