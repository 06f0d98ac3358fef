"""The control socket's messages, and where the socket is. No bytes are moved here. Source: docs/kept.md."""
from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal as signals
import socket
import stat
import struct
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Union

from .errors import (
    InvalidRequest,
    PolicyRefused,
    SandboxGone,
    SandboxNotFound,
    SandboxUnavailable,
    from_json,
    unanswered,
)

VERSION = 1
ANSWER = 30.0  # seconds for what is answered at once
CONNECT = 5
REPLY_MAX = 3 * 1024**3
SOURCE_MAX = 100 * 1024  # an argument has 128 KiB at most: longer sources go in by standard input

NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

Command = Union[str, Sequence[str]]
Signal = Union[int, str, signals.Signals]


def pack(message: Mapping[str, Any]) -> bytes:
    text = json.dumps({"pinfold": VERSION, "id": 1, **message}, separators=(",", ":")).encode()
    return len(text).to_bytes(4, "big") + text


class Decoder:
    """Bytes as they come, messages as they are whole."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[Dict[str, Any]]:
        self._bytes += data
        while len(self._bytes) >= 4:
            size = int.from_bytes(self._bytes[:4], "big")
            if size > REPLY_MAX:
                raise SandboxGone("syntax", f"a message of {size} bytes is too long")
            if len(self._bytes) < 4 + size:
                return
            text = bytes(self._bytes[4 : 4 + size])
            del self._bytes[: 4 + size]
            yield json.loads(text)


def answer(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message, unless it is a refusal."""
    if "error" in message:
        raise from_json(message["error"])
    return message


def arguments(command: Command) -> List[str]:
    if isinstance(command, (str, bytes)):
        raise InvalidRequest("invalid", "a command is a list of arguments", hint="run_shell() takes text")
    given = [os.fspath(part) for part in command]
    if not all(isinstance(part, str) and "\0" not in part for part in given):
        raise InvalidRequest("invalid", "an argument is text without a zero byte", pointer="/args")
    return given


def milliseconds(seconds: float) -> int:
    if not 0 <= seconds < math.inf:
        raise InvalidRequest("invalid", f"{seconds} is no time")
    return max(1, round(seconds * 1000))


def number_of(signal: Signal) -> int:
    if isinstance(signal, str):
        name = signal if signal.startswith("SIG") else f"SIG{signal}"
        try:
            return int(signals.Signals[name])
        except KeyError:
            raise InvalidRequest("invalid", f"'{signal}' is no signal") from None
    return int(signal)


def exec_request(
    command: Command,
    *,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[str] = None,
    timeout: Optional[float] = None,
    user: Optional[str] = None,
    secrets: Sequence[str] = (),
    frames: Optional[str] = None,
) -> Dict[str, Any]:
    request: Dict[str, Any] = {"verb": "exec", "args": arguments(command)}
    if secrets:
        request["secrets"] = list(secrets)
    if frames is not None:
        request["frames"] = frames
    if env:
        request["env"] = dict(env)
    if cwd is not None:
        request["cwd"] = cwd
    if timeout is not None:
        request["timeout_ms"] = milliseconds(timeout)
    if user is not None:
        request["user"] = user
    return request


def attach_request(exec_id: Optional[int], since: Optional[int]) -> Dict[str, Any]:
    request: Dict[str, Any] = {"verb": "attach"}
    if exec_id is not None:
        request["exec"] = exec_id
    if since is not None:
        request["since"] = since
    return request


def renew_request(idle: Optional[float], lifetime: Optional[float]) -> Dict[str, Any]:
    request: Dict[str, Any] = {"verb": "renew"}
    if idle is not None:
        request["idle_ms"] = milliseconds(idle)
    if lifetime is not None:
        request["lifetime_ms"] = milliseconds(lifetime)
    return request


def python_command(source: str, args: Sequence[str]) -> "tuple[List[str], Optional[bytes]]":
    """The command, and its standard input where the source is too long to be an argument."""
    if len(source.encode()) <= SOURCE_MAX:
        return ["python3", "-c", source, *args], None
    return ["python3", "-", *args], source.encode()


def find_program(named: Union[str, "os.PathLike[str]", None]) -> str:
    wanted = os.fspath(named) if named is not None else os.environ.get("PINFOLD", "pinfold")
    found = shutil.which(wanted)
    if found is None:
        raise SandboxUnavailable(
            "unsupported", f"there is no program '{wanted}'", hint="install pinfold, or name it in PINFOLD"
        )
    return found


def state_folder(named: Union[str, "os.PathLike[str]", None]) -> str:
    """As the command chooses it: PINFOLD_STATE, /run/pinfold for root, else the user's runtime directory, else /tmp."""
    chosen = os.fspath(named) if named is not None else os.environ.get("PINFOLD_STATE")
    if chosen:
        return chosen
    uid, runtime = os.geteuid(), os.environ.get("XDG_RUNTIME_DIR", "")
    if uid == 0:
        return "/run/pinfold"
    if runtime.startswith("/") and os.path.isdir(runtime) and os.stat(runtime).st_uid == uid:
        return os.path.join(runtime, "pinfold")
    return f"/tmp/pinfold-{uid}"


def _open_folder(state: str, name: str) -> int:
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    outer = os.open(state, flags)
    try:
        facts = os.fstat(outer)
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077:
            raise PolicyRefused("refused", f"the state directory '{state}' is another's, or open to others")
        return os.open(f"sandboxes/{name}", flags, dir_fd=outer)
    finally:
        os.close(outer)


def connect(state: str, name: str) -> socket.socket:
    """A blocking connection to the sandbox's supervisor, which lets in at once, or is stopped and has its queue full."""
    if not NAME.fullmatch(name) or ".." in name:
        raise InvalidRequest("invalid", f"'{name[:70]}' is no name of a sandbox")
    try:
        folder = _open_folder(state, name)
    except (FileNotFoundError, NotADirectoryError):
        raise SandboxNotFound("not_found", f"there is no sandbox '{name}'") from None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", CONNECT, 0))
        connection.connect(f"/proc/self/fd/{folder}/control")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 0))
    except BlockingIOError:
        connection.close()
        raise unanswered(name) from None
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        hint = f"'pinfold rm {name}' removes what is left of it"
        raise SandboxNotFound("not_found", f"the sandbox '{name}' has ended", hint=hint) from None
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection
