"""How the `pinfold` command is called where there is no sandbox yet to talk to."""
from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import protocol
from .errors import InvalidRequest, PinfoldError, SandboxUnavailable, from_json
from .spec import Path, pairs


class Program:
    """The command, and the state directory that it works in."""

    def __init__(self, program: Optional[Path] = None, state: Optional[Path] = None) -> None:
        self.path = protocol.find_program(program)
        self.state = protocol.state_folder(state)

    def argv(self, arguments: Sequence[str]) -> List[str]:
        return [self.path, *arguments]

    def environment(self, more: Mapping[str, str]) -> Dict[str, str]:
        return {**os.environ, "PINFOLD_STATE": self.state, **more}

    def call(
        self, arguments: Sequence[str], more: Mapping[str, str] = {}, stdin: Optional[bytes] = None
    ) -> "subprocess.CompletedProcess[bytes]":
        given: Dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        try:
            return subprocess.run(self.argv(arguments), env=self.environment(more), capture_output=True, **given)
        except (OSError, ValueError) as error:
            raise unavailable(self.path, error) from error


def unavailable(path: str, error: Union[OSError, ValueError]) -> PinfoldError:
    """ValueError: a text that no argument and no variable can be."""
    if isinstance(error, OSError):
        return SandboxUnavailable("unsupported", f"can't run '{path}': {error.strerror}")
    return InvalidRequest("invalid", "a text has a zero byte, or half a character")


def output_of(arguments: Sequence[str], code: Optional[int], out: bytes, err: bytes) -> bytes:
    """What the command printed; or its error, from JSON or from its one line, as an exception."""
    if code == 0:
        return out
    try:
        error = json.loads(out)["error"]
    except (ValueError, KeyError, TypeError):
        text = err.decode(errors="replace").strip() or f"'{arguments[0]}' ended with {code}"
        raise PinfoldError("system", text) from None
    raise from_json(error)


def checked(done: "subprocess.CompletedProcess[bytes]", arguments: Sequence[str]) -> bytes:
    return output_of(arguments, done.returncode, done.stdout, done.stderr)


def list_arguments(labels: Optional[Mapping[str, Optional[str]]]) -> List[str]:
    return ["ls", "--json", *pairs("label", labels or {})]


def log_arguments(
    name: str, since: Optional[int], tail: Optional[int], exec_id: Optional[int], grep: Optional[str], follow: bool
) -> List[str]:
    given = {"since": since, "tail": tail, "exec": exec_id, "grep": grep}
    options = [f"--{option}={value}" for option, value in given.items() if value is not None]
    return ["logs", "--json", *options, *(["--follow"] if follow else []), "--", name]


def remove_arguments(name: str, force: bool) -> List[str]:
    return ["rm", "--json", *(["--force"] if force else []), "--", name]


def kill_arguments(name: str) -> List[str]:
    return ["kill", "--json", "--", name]


def copy_place(name: str, path: str) -> str:
    return f"{name}:{path}"


def host_place(path: Path) -> str:
    """Absolute, so that no part of it is taken for the name of a sandbox."""
    return os.path.abspath(os.fspath(path))
