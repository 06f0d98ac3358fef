"""What can go wrong, as types. Each error has the fields of pinfold's own: kind, message, pointer, hint."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

if TYPE_CHECKING:
    from .results import ExecResult


class PinfoldError(Exception):
    """`pointer` says where to look (a file, a JSON pointer, a path), `hint` how to mend it; either may be empty."""

    def __init__(
        self, kind: str, message: str, pointer: str = "", hint: str = "", others: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(kind, message, pointer, hint, tuple(others))
        self.kind, self.message, self.pointer, self.hint = kind, message, pointer, hint
        self.others = tuple(others)

    def __str__(self) -> str:
        where = f"{self.pointer}: " if self.pointer else ""
        remedy = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.message}{remedy}"


class SandboxUnavailable(PinfoldError):
    """There is no runtime here, or the host can't give what was asked for."""


class SandboxNotFound(PinfoldError):
    """No sandbox, or no command, of this name."""


class SandboxExists(PinfoldError):
    """The name is taken."""


class SandboxBusy(PinfoldError):
    """It is paused, starting or ending."""


class SandboxExhausted(PinfoldError):
    """There is no room for one more, or the supervisor doesn't answer."""


class SandboxGone(PinfoldError):
    """It ended while it was being used."""


class PolicyRefused(PinfoldError):
    """The policy, or the site above it, doesn't grant this."""


class InvalidRequest(PinfoldError):
    """What was asked for can't be meant."""


class ExecFailed(PinfoldError):
    """A command didn't succeed, and `check` was asked for."""

    def __init__(self, result: "ExecResult") -> None:
        super().__init__("failed", f"the command ended with {result.status}, exit code {result.exit_code}")
        self.result = result

    def __reduce__(self) -> Any:
        return (type(self), (self.result,))


KINDS = {
    "unsupported": SandboxUnavailable,
    "not_found": SandboxNotFound,
    "exists": SandboxExists,
    "busy": SandboxBusy,
    "exhausted": SandboxExhausted,
    "refused": PolicyRefused,
    "usage": InvalidRequest,
    "syntax": InvalidRequest,
    "invalid": InvalidRequest,
}


def closed() -> PinfoldError:
    return PinfoldError("usage", "the process was closed, which ends its command", hint="wait() before close()")


def no_input() -> PinfoldError:
    return PinfoldError("usage", "this command has no standard input", hint="start it with stdin=True")


def input_closed() -> PinfoldError:
    return PinfoldError("system", "the command takes no more input", hint="it has ended, or closed its standard input")


def from_json(error: Mapping[str, Any]) -> PinfoldError:
    kind = str(error.get("kind", "internal"))
    return KINDS.get(kind, PinfoldError)(
        kind,
        str(error.get("message", "")),
        str(error.get("pointer") or ""),
        str(error.get("hint") or ""),
        error.get("others") or (),
    )


def unanswered(name: str) -> SandboxExhausted:
    hint = f"'pinfold kill {name}' ends it in any case"
    return SandboxExhausted("exhausted", f"the supervisor of '{name}' doesn't answer", hint=hint)


def gone(name: str) -> SandboxGone:
    return SandboxGone("system", f"the sandbox '{name}' has gone", hint=f"'pinfold show {name}' says why")
