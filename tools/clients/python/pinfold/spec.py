"""What a sandbox is to be."""
from __future__ import annotations

import math
import os
import secrets as random
from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Sequence, Union

from .errors import InvalidRequest

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class SandboxSpec:
    """Every field but `name` is a request below the policy: a field that asks for more is refused, never narrowed.

    memory: bytes, or text such as "512MiB". cpus: 1.5 is one and a half processors. timeout: seconds that each command
    may take. idle_timeout, lifetime: seconds until the sandbox ends by itself. workspace_mode: "rw", "ro" or "cow" (copy
    on write; on_exit: "discard", "keep" or "merge"). egress: "HOST:PORT". publish: "PORT" or "PORT=PLACE", of what the
    policy publishes; show() says where. secrets: "NAME", "NAME:env=VARIABLE" or "NAME:file". secret_values: values of
    the caller's own by logical name, handed over in the environment of the command that makes the sandbox, never in its
    arguments.
    """

    name: Optional[str] = None
    policy: Optional[Path] = None
    site: Optional[Path] = None
    image: Optional[str] = None
    bundle: Optional[Path] = None
    workspace: Optional[Path] = None
    workspace_mode: str = "rw"
    on_exit: Optional[str] = None
    env: Mapping[str, str] = field(default_factory=dict)
    memory: Union[int, str, None] = None
    cpus: Optional[float] = None
    pids: Optional[int] = None
    timeout: Optional[float] = None
    idle_timeout: Optional[float] = None
    lifetime: Optional[float] = None
    egress: Sequence[str] = ()
    publish: Sequence[str] = ()
    secrets: Sequence[str] = ()
    secret_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    tty: bool = False


def made_up_name() -> str:
    return f"s-{random.token_hex(8)}"


def seconds(value: float) -> str:
    """As the command line writes a time; zero would mean no time at all."""
    if not 0 < value < math.inf:
        raise InvalidRequest("invalid", f"a time of {value} seconds is none", hint="leave it out for no limit")
    return f"{max(1, round(value * 1000))}ms"


def _workspace(spec: SandboxSpec) -> Optional[str]:
    if spec.workspace is None:
        return None
    if spec.workspace_mode not in ("rw", "ro", "cow"):
        raise InvalidRequest("invalid", f"'{spec.workspace_mode}' is no mode of a workspace", hint="rw, ro or cow")
    folder = os.path.abspath(os.fspath(spec.workspace))
    return folder if spec.workspace_mode == "rw" else f"{folder}:{spec.workspace_mode}"


def _options(spec: SandboxSpec) -> List[str]:
    single = {
        "--policy": None if spec.policy is None else os.fspath(spec.policy),
        "--site": None if spec.site is None else os.fspath(spec.site),
        "--image": spec.image,
        "--workspace": _workspace(spec),
        "--memory": None if spec.memory is None else str(spec.memory),
        "--cpus": None if spec.cpus is None else repr(spec.cpus),
        "--pids": None if spec.pids is None else str(spec.pids),
    }
    options = [f"{option}={value}" for option, value in single.items() if value is not None]
    options += [f"--egress={rule}" for rule in spec.egress]
    options += [f"--publish={port}" for port in spec.publish]
    options += [f"--secret={secret}" for secret in spec.secrets]
    return options + [f"--secret-from-env={key}={variable(key)}" for key in spec.secret_values]


def pairs(option: str, given: Mapping[str, Optional[str]]) -> List[str]:
    """None: the name alone. A name with a '=' would be another name with another value."""
    for name in given:
        if "=" in name:
            raise InvalidRequest("invalid", f"'{name}' is no name for '--{option}': it has a '='")
    return [f"--{option}={name}" if value is None else f"--{option}={name}={value}" for name, value in given.items()]


def up_arguments(spec: SandboxSpec, name: str) -> List[str]:
    """The command line of `pinfold up`, without the program."""
    single = {
        "--bundle": None if spec.bundle is None else os.fspath(spec.bundle),
        "--on-exit": spec.on_exit,
        "--timeout": None if spec.timeout is None else seconds(spec.timeout),
        "--idle-timeout": None if spec.idle_timeout is None else seconds(spec.idle_timeout),
        "--lifetime": None if spec.lifetime is None else seconds(spec.lifetime),
    }
    arguments = ["up", "--json", *_options(spec)]
    arguments += [f"{option}={value}" for option, value in single.items() if value is not None]
    arguments += pairs("env", spec.env) + pairs("label", spec.labels)
    if spec.tty:
        arguments.append("--tty")
    return [*arguments, "--", name]


OF_TOOLS = ("policy", "site", "image", "workspace", "workspace_mode", "memory", "cpus", "pids", "egress", "secrets")


def tool_arguments(spec: SandboxSpec) -> List[str]:
    """The command line of `pinfold tool serve`. What a call says for itself (labels, variables, time) isn't said here."""
    plain = SandboxSpec()
    for name in SandboxSpec.__dataclass_fields__:
        if name not in (*OF_TOOLS, "secret_values") and getattr(spec, name) != getattr(plain, name):
            raise InvalidRequest("invalid", f"'{name}' isn't said for all tool calls", pointer=f"/{name}")
    return ["tool", "serve", *_options(spec)]


def variable(secret: str) -> str:
    """Where a secret's value stands in the environment of the command."""
    return "PINFOLD_CLIENT_SECRET_" + secret.encode().hex()


def up_environment(spec: SandboxSpec) -> Mapping[str, str]:
    return {variable(key): value for key, value in spec.secret_values.items()}
