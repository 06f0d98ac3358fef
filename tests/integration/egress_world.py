"""What the egress tests share: a small internet of their own, and sandboxes in front of it.

The servers live in a network namespace behind a veth pair, in which a recorder sees every packet; a second namespace is
the "host" of pinfold, so that the machine's own network is never touched.
"""
import ctypes
import itertools
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

import pytest

from conftest import Pinfold, USER, build_directory, make_home, opened

NUMBERS = itertools.count()
HERE = pathlib.Path(__file__).parent
PYTHON = "/usr/bin/python3"
PUBLIC, SECOND, SIX = "192.0.2.10", "203.0.113.5", "2001:db8::10"
ZONE = {
    "api.example.com": [PUBLIC], "www.example.com": [PUBLIC], "a.files.example.org": [SECOND], "six.example.com": [SIX],
    "both.example.com": [SIX, PUBLIC],
    "private.example.com": ["10.66.0.1"], "meta.example.com": ["169.254.169.254"], "loop.example.com": ["127.0.0.1"],
    "mapped.example.com": ["::ffff:127.0.0.1"], "nat64.example.com": ["64:ff9b::a9fe:a9fe"],
    "sixto4.example.com": ["2002:7f00:1::"], "zero.example.com": ["0.0.0.0"], "cgnat.example.com": ["100.64.0.1"],
    "own.example.com": ["192.0.2.1"], "ula.example.com": ["fd00::1"], "multi.example.com": ["224.0.0.1"],
    "mixed.example.com": ["10.66.0.1", PUBLIC, "127.0.0.1"],
    "chain.example.com": ["cname:other.example.net"], "other.example.net": [PUBLIC],
    "evilchain.example.com": ["cname:inner.example.net"], "inner.example.net": ["10.66.0.1"],
    "crowd.example.com": [SECOND] * 700,
    "rebind.example.com": [[PUBLIC], ["127.0.0.1"]],
}

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="the test network needs root")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Internet:
    """Two namespaces: `host`, in which pinfold runs, and `net` with the servers."""

    def __init__(self, folder, *left):
        """`left`: ports that other servers will have."""
        number = next(NUMBERS)  # each test file makes one of its own
        self.host, self.net = f"pinhost{os.getpid()}-{number}", f"pinnet{os.getpid()}-{number}"
        self.certificate = folder / "ca.pem"
        key = self.key = folder / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", self.certificate, "-days", "2", "-subj", "/CN=api.example.com", "-addext",
                        "subjectAltName=DNS:api.example.com,DNS:www.example.com,DNS:git.example.com,DNS:*.files.example.org"],
                       check=True, capture_output=True)
        os.chmod(self.certificate, 0o644)
        self.resolv = folder / "resolv.conf"
        self.resolv.write_text("nameserver 192.0.2.53\noptions timeout:1 attempts:1\n")
        os.chmod(self.resolv, 0o644)
        self.make()
        self.process = subprocess.Popen(["nsenter", f"--net=/run/netns/{self.net}", PYTHON, HERE / "egress_internet.py",
                                         self.certificate, key, *left], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.marker, self.marks = self.open_marker(), 0

    def make(self):
        for name in (self.host, self.net):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.host, "link", "add", "out", "type", "veth", "peer", "name", "in", "netns", self.net)
        ip("-n", self.host, "address", "add", "192.0.2.1/32", "dev", "out")
        ip("-n", self.host, "address", "add", "2001:db8::1/64", "dev", "out", "nodad")
        ip("-n", self.net, "address", "add", "2001:db8::10/64", "dev", "in", "nodad")
        for address in (PUBLIC, SECOND, "192.0.2.53", "10.66.0.1", "169.254.169.254", "100.64.0.1"):
            ip("-n", self.net, "address", "add", f"{address}/32", "dev", "in")
        for name, device in ((self.host, "out"), (self.net, "in")):
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "route", "add", "default", "dev", device)
        ip("-n", self.host, "-6", "route", "add", "default", "dev", "out")

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def open_marker(self):
        """A socket in the host's namespace, which only the thread that makes it enters."""
        def make():
            with open(f"/run/netns/{self.host}", "rb") as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) == 0:
                    made.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))

        made = []
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        return made[0]

    def seen(self, within=60):
        """All that the recorder has seen by now: it is behind a datagram that is sent now, and again should it be lost. Servers
        may need a moment longer."""
        time.sleep(0.05)
        self.marks += 1
        seen, until = [], time.monotonic() + within
        while True:
            self.marker.sendto(str(self.marks).encode(), (PUBLIC, 9))
            answer = self.ask(seen=True, mark=self.marks)
            seen += answer["seen"]
            if answer["all"]:
                return seen
            assert time.monotonic() < until, "the recorder sees nothing"

    def bytes_seen(self, place, size):
        """Waits until so much has reached it; what has, otherwise."""
        total, until = 0, time.monotonic() + 30
        while total < size and time.monotonic() < until:
            total += self.bytes_to(self.seen(), place)
        return total

    def bytes_to(self, facts, *places):
        """Payload that reached anything but the resolver; with places, only those (address, port)."""
        return sum(f["payload"] for f in facts if f["kind"] == "packet" and f["to"] != "192.0.2.53"
                   and (not places or (f["to"], f["port"]) in places))

    def close(self):
        self.marker.close()
        self.process.stdin.close()
        self.process.wait(60)
        for name in (self.host, self.net):
            subprocess.run(["ip", "netns", "delete", name], check=False)


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("internet")
    for path in [folder, *folder.parents]:
        if path == pathlib.Path("/tmp"):
            break
        os.chmod(path, 0o755)
    internet = Internet(folder)
    yield internet
    internet.close()


@pytest.fixture
def internet(world):
    world.ask(zone=ZONE)
    world.seen()
    return world


class Inside(Pinfold):
    """`pinfold run` in the namespace of the test's host."""

    def __init__(self, internet, programs, home, uid):
        super().__init__(programs, home, uid)
        self.internet = internet

    def environment(self, **extra):
        return super().environment(PINFOLD_RESOLV_CONF=str(self.internet.resolv),
                                   **extra)

    def argv(self, *arguments, **kwargs):
        return ["nsenter", f"--net=/run/netns/{self.internet.host}", *self.identity(), *super().argv(*arguments, **kwargs)]

    def identity(self):
        return ["setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups"] if self.rootless else []

    def spawn(self, argv, env=None, **kwargs):
        return subprocess.Popen(argv, env=env or self.environment(), **kwargs)

    def reach(self, *rules, deny=()):
        return self.policy(extends=["tool"], network={"egress": list(rules), "deny": list(deny)})

    def events(self, *arguments, policy):
        done = self.run(*arguments, policy=policy, options=["--stream"])
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        out = "".join(line["data"] for line in lines if line["type"] in ("stdout", "stderr"))
        return out, [line for line in lines if line["type"] == "egress"], lines[-1]


@pytest.fixture(params=["root", "user"])
def inside(request, internet, programs, tmp_path):
    yield from opened(Inside(internet, programs, make_home(tmp_path), 0 if request.param == "root" else USER))


class Harness:
    """The broker alone: a program in its network, without the rest of a sandbox."""

    def __init__(self, internet, folder):
        self.internet, self.folder = internet, folder

    def start(self, *arguments, rules=(), options=(), requests=None, prefix=(), broker=None, **kwargs):
        build = build_directory()
        path = self.folder / "events"  # a file: nobody has to read it for the program to go on
        write = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def move():
            os.dup2(write, 3)
            if requests is not None:
                os.dup2(requests, 4)

        argv = [*prefix, "nsenter", f"--net=/run/netns/{self.internet.host}", build / "tests/unit/egress_harness",
                broker or build / "tools/pinfold-broker/pinfold-broker", *options, *rules, "--", *arguments]
        env = {"PATH": os.environ["PATH"], "PINFOLD_RESOLV_CONF": str(self.internet.resolv), "EGRESS_HARNESS_PID": "1"}
        process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, close_fds=False,
                                   preexec_fn=move, **kwargs)
        os.close(write)
        process.events = path
        return process

    def wait_for(self, process, start):
        """The first event that begins so."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for line in process.events.read_text().splitlines():
                if line.startswith(start):
                    return line
            time.sleep(0.01)
        raise AssertionError(f"no event {start}: {process.events.read_text()}")

    def run(self, *arguments, timeout=120, **kwargs):
        process = self.start(*arguments, **kwargs)
        try:
            out = process.communicate(timeout=timeout)[0].decode()
        finally:
            process.kill()
        return process.returncode, out, process.events.read_text().splitlines()


@pytest.fixture
def harness(internet, tmp_path):
    return Harness(internet, tmp_path)


def https(host, ports=(443,)):
    return {"host": host, "ports": list(ports)}


CONNECT = """
import socket, sys
for place in sys.argv[1:]:
    host, port = place.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), timeout=60) as s:
            s.sendall(b"GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n")
            data = s.recv(100)
            print(place, "answered" if data else "closed")
    except OSError as error:
        print(place, type(error).__name__)
"""
