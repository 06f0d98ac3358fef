"""What comes back."""
from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

from .errors import ExecFailed, PinfoldError, from_json


@dataclass(frozen=True)
class Usage:
    """Of the command's own tree, from the kernel's counters."""

    wall_ms: int = 0
    cpu_ms: int = 0
    memory_peak_bytes: int = 0
    pids_peak: int = 0
    egress: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ExecResult:
    """How a command ended.

    status: success, error, timeout, memory, output, killed or refused. stdout, stderr: text; where either is no UTF-8,
    U+FFFD stands for what isn't, and stdout_bytes, stderr_bytes have what was written. truncated: some of it is missing;
    truncated_streams says of which stream. error: why it couldn't be started.
    """

    status: str
    exit_code: int
    signal: Optional[str]
    stdout: str
    stderr: str
    stdout_bytes: bytes = field(repr=False)
    stderr_bytes: bytes = field(repr=False)
    truncated_streams: Mapping[str, bool]
    usage: Usage
    exec_id: int
    sandbox: str
    fingerprint: str
    labels: Mapping[str, str]
    missing: Sequence[str]
    result: Any = None
    frames: Sequence[Mapping[str, Any]] = ()
    error: Optional[PinfoldError] = None

    @property
    def ok(self) -> bool:
        return self.status == "success"

    @property
    def truncated(self) -> bool:
        return any(self.truncated_streams.values())

    def check(self) -> "ExecResult":
        """Itself, or ExecFailed (the error that kept it from starting, where there is one)."""
        if self.ok:
            return self
        raise self.error if self.error is not None else ExecFailed(self)


@dataclass(frozen=True)
class LogRecord:
    """One record of a sandbox's log. kind: stdout, stderr (then `data` is bytes), start, end, cut or gap (`facts`)."""

    kind: str
    seq: int
    t_ns: int
    exec_id: int
    data: bytes = b""
    facts: Mapping[str, Any] = field(default_factory=dict)


def usage_of(json: Mapping[str, Any]) -> Usage:
    return Usage(**{key: json[key] for key in Usage.__dataclass_fields__ if key in json})


def decode(encoding: Optional[str], text: Optional[str]) -> bytes:
    if encoding == "base64":
        return base64.b64decode(text or "")
    return (text or "").encode()


def exec_result(json: Mapping[str, Any], exec_id: int, streams: Optional[Sequence[bytes]] = None) -> ExecResult:
    """`streams`: what was read from the command's own output, where it isn't in the result."""
    out, err = streams or (decode(json.get("encoding"), json.get(name)) for name in ("stdout", "stderr"))
    return ExecResult(
        status=json["status"],
        exit_code=json["exit_code"],
        signal=json.get("signal"),
        stdout=out.decode(errors="replace"),
        stderr=err.decode(errors="replace"),
        stdout_bytes=out,
        stderr_bytes=err,
        truncated_streams=json.get("truncated") or {},
        usage=usage_of(json.get("usage") or {}),
        exec_id=exec_id,
        sandbox=json.get("sandbox", ""),
        fingerprint=json.get("fingerprint", ""),
        labels=json.get("labels") or {},
        missing=json.get("missing") or (),
        result=json.get("result"),
        frames=json.get("frames") or (),
        error=from_json(json["error"]) if json.get("error") else None,
    )


def started(message: Mapping[str, Any]) -> int:
    """The number of a detached command, or the error that kept it from starting."""
    if "result" in message:
        exec_result(message["result"], message["exec"]).check()
    number: int = message["exec"]
    return number


def log_record(json: Mapping[str, Any]) -> LogRecord:
    facts: Union[Mapping[str, Any], None] = json.get("facts")
    if json["kind"] == "gap":
        facts = {"records": json["records"]}
    return LogRecord(
        kind=json["kind"],
        seq=json.get("seq", 0),
        t_ns=json.get("t_ns", 0),
        exec_id=json.get("exec", 0),
        data=decode(json.get("encoding"), json.get("data")),
        facts=facts or {},
    )
