"""Kept sandboxes and tool calls of pinfold.

Plain:    from pinfold import SandboxClient
asyncio:  from pinfold.aio import SandboxClient

Both have the same classes with the same methods; docs/clients.md describes them.
"""
from .client import Process, SandboxClient, SandboxHandle
from .errors import (
    ExecFailed,
    InvalidRequest,
    PinfoldError,
    PolicyRefused,
    SandboxBusy,
    SandboxExhausted,
    SandboxExists,
    SandboxGone,
    SandboxNotFound,
    SandboxUnavailable,
)
from .results import ExecResult, LogRecord, Usage
from .spec import SandboxSpec
from .tool import ToolFailed, ToolResult, ToolSandbox

__all__ = [
    "ExecFailed",
    "ExecResult",
    "InvalidRequest",
    "LogRecord",
    "PinfoldError",
    "PolicyRefused",
    "Process",
    "SandboxBusy",
    "SandboxClient",
    "SandboxExhausted",
    "SandboxExists",
    "SandboxGone",
    "SandboxHandle",
    "SandboxNotFound",
    "SandboxSpec",
    "SandboxUnavailable",
    "ToolFailed",
    "ToolResult",
    "ToolSandbox",
    "Usage",
]
