"""What the tests of kept sandboxes share: the verbs, and the protocol of the control socket."""
import json
import os
import socket
import struct
import time

import pytest

DEADLINE = 60  # of what is over in a moment on a machine that has nothing else to do


class Kept:
    """The verbs of kept sandboxes, for one user; whatever is still there is removed at the end."""

    def __init__(self, pinfold):
        self.pinfold = pinfold

    def argv(self, verb, *arguments):
        return [str(self.pinfold.program), verb, *arguments]

    def call(self, verb, *arguments, **kwargs):
        return self.pinfold.call(self.argv(verb, *arguments), **kwargs)

    def ok(self, verb, *arguments, **kwargs):
        done = self.call(verb, *arguments, **kwargs)
        assert done.returncode == 0, (verb, arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode()

    def up(self, name, *options, **policy):
        self.ok("up", name, "--policy", self.pinfold.policy(**policy), *options)
        return name

    def exec(self, name, *command, options=(), **kwargs):
        return self.call("exec", name, *options, "--", *command, **kwargs)

    def json(self, name, *command, options=(), **kwargs):
        return json.loads(self.exec(name, *command, options=["--json", *options], **kwargs).stdout)

    def python(self, name, source, **kwargs):
        return self.json(name, "/usr/bin/python3", "-c", source, **kwargs)

    def show(self, name):
        return json.loads(self.ok("show", name, "--json"))

    def records(self, name, *options):
        return [json.loads(line) for line in self.ok("logs", name, "--json", *options).splitlines()]

    def list(self, *options):
        return json.loads(self.ok("ls", "--json", *options))

    def connect(self, name):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(DEADLINE)
        folder = os.open(self.pinfold.state / "sandboxes" / name, os.O_PATH)
        client.connect(f"/proc/self/fd/{folder}/control")
        os.close(folder)
        return client

    def close(self):
        for sandbox in self.list():
            removed = self.call("rm", "--force", sandbox["name"])
            # a pool removes what it replaces itself, between our look and our call
            assert removed.returncode == 0 or b"there is no sandbox" in removed.stderr, removed.stderr


@pytest.fixture
def kept(pinfold):
    kept = Kept(pinfold)
    yield kept
    kept.close()


@pytest.fixture
def kept_by_root(as_root):
    kept = Kept(as_root)
    yield kept
    kept.close()


def gone(pid):
    """Whether a process has ended; nobody may have taken its end yet."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def paced(attempt, spans=(1, 4, 16, 64)):
    """For what has to happen within a span of time that is itself under test: `attempt(span)` says whether this machine has kept to
    it; if not, what came out says nothing and a longer span is tried."""
    assert any(attempt(span) for span in spans), "this machine keeps no pace"


def eventually(condition, what, within=DEADLINE):
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.01)


def message(**fields):
    text = json.dumps({"pinfold": 1, "id": 1, **fields}).encode()
    return struct.pack(">I", len(text)) + text


def reply(client):
    def exactly(size):
        data = b""
        while len(data) < size:
            part = client.recv(size - len(data))
            assert part, "the supervisor hung up"
            data += part
        return data
    return json.loads(exactly(struct.unpack(">I", exactly(4))[0]))
