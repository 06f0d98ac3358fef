"""Tool calls: one function of untrusted source, its arguments in, its value out. Source: docs/tool.md."""
from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from .errors import PinfoldError, SandboxGone, from_json
from .program import Program, unavailable
from .results import Usage, usage_of
from .spec import Path, SandboxSpec, tool_arguments, up_environment


class ToolFailed(PinfoldError):
    """The function didn't return, and check() was asked for."""

    def __init__(self, result: "ToolResult") -> None:
        failure = result.func_return if isinstance(result.func_return, Mapping) else {}
        super().__init__(str(failure.get("type", result.status)), str(failure.get("message", "the call failed")))
        self.result = result

    def __reduce__(self) -> Any:
        return (type(self), (self.result,))


@dataclass(frozen=True)
class ToolResult:
    """status: success, error, timeout, memory, output or killed. func_return: the value; without success an object with
    type, message and traceback. stdout, stderr: lists of lines."""

    status: str
    func_return: Any
    agent_state: Any
    stdout: Sequence[str]
    stderr: Sequence[str]
    sandbox_config_fingerprint: str
    usage: Usage
    notes: Sequence[str]
    exit_code: int
    whole: Mapping[str, Any] = field(repr=False)

    @property
    def ok(self) -> bool:
        return self.status == "success"

    def check(self) -> "ToolResult":
        if self.ok:
            return self
        raise ToolFailed(self)


def call_line(number: int, call: Mapping[str, Any]) -> bytes:
    given = {key: value for key, value in call.items() if value is not None}
    return json.dumps({"id": number, "call": given}, separators=(",", ":")).encode() + b"\n"


def cancel_line(number: int) -> bytes:
    return json.dumps({"id": f"cancel-{number}", "cancel": number}).encode() + b"\n"


def answer_of(line: bytes) -> Tuple[int, Mapping[str, Any]]:
    """The number of its call, 0 for none's; ValueError where the server ended in the middle of it."""
    answer = json.loads(line)
    return answer["id"] if isinstance(answer["id"], int) else 0, answer


def tool_result(answer: Mapping[str, Any]) -> ToolResult:
    if "error" in answer:
        raise from_json(answer["error"])
    result: Mapping[str, Any] = answer["result"]
    return ToolResult(
        status=result["status"],
        func_return=result["func_return"],
        agent_state=result["agent_state"],
        stdout=result["stdout"],
        stderr=result["stderr"],
        sandbox_config_fingerprint=result["sandbox_config_fingerprint"],
        usage=usage_of(result["usage"]),
        notes=result["notes"],
        exit_code=answer["exit_code"],
        whole=result,
    )


def ended() -> SandboxGone:
    return SandboxGone("system", "the server of tool calls has ended")


class ToolSandbox:
    """Calls functions of tools, each in a sandbox that the runtime chooses: see `reuse` in docs/tool.md.

    What holds for all calls is a SandboxSpec or its fields (policy, image, memory, egress, secrets, …). The server of the
    calls is started with the first one and ends with close(). May be used by several threads at once.
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
        self._server: Optional["subprocess.Popen[bytes]"] = None
        self._begin()

    def _begin(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()  # of what follows
        self._writing = threading.Lock()  # apart: a server that is busy with its answers reads later
        if self._server is not None and self._server.stdin is not None and not self._server.stdin.closed:
            null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(null, self._server.stdin.fileno(), inheritable=False)  # its end, and what is still to be flushed
            os.close(null)
        self._server = None
        self._listener: Optional[threading.Thread] = None
        self._waiting: Dict[int, "Future[Mapping[str, Any]]"] = {}
        self._last = 0

    def _own(self) -> None:
        """After a fork the server is the parent's: its answers would be taken for those of calls with the same number."""
        if self._owner != os.getpid():
            self._begin()

    def _start(self) -> "subprocess.Popen[bytes]":
        if self._server is None:
            environment = self.program.environment(up_environment(self._spec))
            try:
                self._server = subprocess.Popen(
                    self.program.argv(self._arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
                )
            except OSError as error:
                raise unavailable(self.program.path, error) from error
            self._listener = threading.Thread(target=self._listen, args=(self._server,), daemon=True)
            self._listener.start()
        return self._server

    def _listen(self, server: "subprocess.Popen[bytes]") -> None:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                number, answer = answer_of(line)
                with self._lock:
                    waiting = self._waiting.pop(number, None)
                if waiting is not None:
                    waiting.set_result(answer)
        except ValueError:  # the half of an answer: what comes behind it can't be told apart
            server.kill()
        with self._lock:
            left, self._waiting = self._waiting, {}
            self._server = None if self._server is server else self._server
        for waiting in left.values():
            waiting.set_exception(ended())

    def _send(self, server: "subprocess.Popen[bytes]", line: bytes) -> None:
        assert server.stdin is not None
        try:
            with self._writing:
                server.stdin.write(line)
                server.stdin.flush()
        except (BrokenPipeError, ValueError):  # ValueError: closed by us
            raise ended() from None

    def run(
        self,
        source: str,
        name: Optional[str] = None,
        args: Optional[Mapping[str, Any]] = None,
        *,
        language: str = "python",
        json_schema: Optional[Mapping[str, Any]] = None,
        call: Optional[str] = None,
        agent_id: Optional[str] = None,
        project_id: Optional[str] = None,
        tool_id: Optional[str] = None,
        agent_state: Any = None,
        agent_state_encoding: Optional[str] = None,
        env: Optional[Mapping[str, Mapping[str, Optional[str]]]] = None,
        labels: Optional[Mapping[str, str]] = None,
        timeout: Union[float, str, None] = None,
        pip_requirements: Optional[Sequence[str]] = None,
        npm_requirements: Optional[Sequence[str]] = None,
        organisation: Optional[str] = None,
        configuration: Optional[str] = None,
        privileged: Optional[bool] = None,
        reuse: Optional[str] = "fingerprint",
    ) -> ToolResult:
        """One call; the fields are those of docs/tool.md. Interrupted (by any exception), it is ended. What the request or
        the policy forbids is an exception; what the function does is a ToolResult."""
        given = {key: value for key, value in locals().items() if key != "self"}
        waiting: "Future[Mapping[str, Any]]" = Future()
        self._own()
        with self._lock:
            server = self._start()
            self._last += 1
            number = self._last
            self._waiting[number] = waiting
        try:
            self._send(server, call_line(number, given))
            return tool_result(waiting.result())
        except PinfoldError:
            raise
        except BaseException:
            self._send(server, cancel_line(number))
            raise
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def close(self) -> None:
        """Ends the calls that still run."""
        self._own()
        with self._lock:
            server, listener = self._server, self._listener
        if server is None or listener is None:
            return
        assert server.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # of what it hasn't read
            server.stdin.close()
        server.wait()
        listener.join()  # only then the next call has another server

    def __enter__(self) -> "ToolSandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
