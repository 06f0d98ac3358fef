"""Ten thousand connections at the same time: what the limits make of them, and what is left for the neighbours."""
import resource
import subprocess

import pytest

from egress_world import NEEDS_ROOT, PYTHON
from egress_world import harness, internet, world  # noqa: F401 (fixtures)
from test_egress_storms import memory_of

pytestmark = NEEDS_ROOT

# A server that can hold them all: the small internet's own has a thread for each.
GREETER = """
import resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
server = socket.create_server(("", 7010), backlog=4096); server.setblocking(False)
poll, held = select.epoll(), {}
poll.register(server, select.EPOLLIN)
print("up", flush=True)
while True:
    for fd, _ in poll.poll():
        if fd == server.fileno():
            try:
                while True:
                    one, _ = server.accept(); one.setblocking(False); held[one.fileno()] = one
                    poll.register(one, select.EPOLLIN); one.send(b"hello\\n")
            except OSError: pass
            continue
        data = b""
        try: data = held[fd].recv(100); data and held[fd].send(data)
        except OSError: pass
        if not data: held.pop(fd).close()
"""
CROWD = """
import resource, select, socket, sys
want = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
place = socket.getaddrinfo("api.example.com", 7010, socket.AF_INET, socket.SOCK_STREAM)[0][4]
poll, waiting, held, cut, other = select.epoll(), {}, [], 0, 0
for _ in range(want):
    s = socket.socket(); s.setblocking(False); s.connect_ex(place)
    waiting[s.fileno()] = s; poll.register(s, select.EPOLLIN | select.EPOLLRDHUP)
while waiting:
    for fd, _ in poll.poll(30) or [(None, 0)]:
        if fd is None: other, waiting = len(waiting), {}; break
        s = waiting.pop(fd); poll.unregister(fd)
        try: said = s.recv(10)
        except OSError: said = None  # refused, reset, or without a descriptor for its name unreachable
        if said == b"hello\\n": held.append(s)
        elif said is None: cut += 1; s.close()
        else: other += 1
print(len(held), cut, other, flush=True)
sys.stdin.readline()
alive = 0
for s in held:
    s.setblocking(True); s.settimeout(60)
    try: s.sendall(b"x"); alive += s.recv(1) == b"x"
    except OSError: pass
print(alive, flush=True)
sys.stdin.readline()
"""
ONE = """
import socket
for _ in range(20):
    s = socket.create_connection(("api.example.com", 7010), timeout=60)
    assert s.recv(10) == b"hello\\n"
print("served")
"""


@pytest.fixture
def greeter(internet):  # noqa: F811
    process = subprocess.Popen(["nsenter", f"--net=/run/netns/{internet.net}", PYTHON, "-c", GREETER], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def gather(harness, want, *options):  # noqa: F811
    process = harness.start(PYTHON, "-c", CROWD, str(want), rules=["api.example.com:7010"], options=options, stdin=subprocess.PIPE)
    line = process.stdout.readline()
    held, cut, other = map(int, line.split()) if line else pytest.fail(harness.wait_for(process, ""))
    return process, int(harness.wait_for(process, "broker ").split()[1]), held, cut, other


def go_on(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def test_ten_thousand_at_once_are_cut_to_what_is_allowed_and_harm_nobody(harness, greeter, tmp_path):  # noqa: F811
    process, broker, held, cut, other = gather(harness, 10000, "-l", "at-once=1024")
    assert (held, cut, other) == (1024, 10000 - 1024, 0)
    assert memory_of(broker) < 64 * 1024  # what was refused has left nothing behind
    aside = tmp_path / "aside"
    aside.mkdir()
    _, out, _ = type(harness)(harness.internet, aside).run(PYTHON, "-c", ONE, rules=["api.example.com:7010"])
    assert out == "served\n"
    go_on(process)
    assert process.stdout.readline() == b"1024\n"  # those that were let in never noticed
    process.communicate(timeout=60)
    text = harness.folder.joinpath("events").read_text()
    assert "refuse" in text and "budget" in text and len(text) < 200_000  # told, and told in few words


def test_as_many_as_the_descriptors_allow_are_held_at_once(harness, greeter):  # noqa: F811
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    want = 10000 if most > 20100 else (most - 200) // 2  # each takes the broker two
    process, broker, held, cut, other = gather(harness, want, "-l", "at-once=12000")
    assert (held, cut, other) == (want, 0, 0)
    each = memory_of(broker) / want
    assert each < 16, f"{each:.1f} KiB"
    go_on(process)
    assert process.stdout.readline() == b"%d\n" % want
    process.communicate(timeout=60)


def test_without_descriptors_nothing_is_lost_that_is_there(harness, greeter):  # noqa: F811
    """More than the broker can have descriptors for: those beyond wait or are refused, and the others go on."""
    process = harness.start(PYTHON, "-c", CROWD.replace("poll.poll(30)", "poll.poll(4)"), "500", rules=["api.example.com:7010"],
                            options=["-l", "at-once=12000"], stdin=subprocess.PIPE, prefix=["prlimit", "--nofile=600:600"])
    held, cut, other = map(int, process.stdout.readline().split())
    assert held + cut + other == 500 and 100 <= held < 300, (held, cut, other)
    go_on(process)
    assert process.stdout.readline() == b"%d\n" % held
    process.communicate(timeout=60)
