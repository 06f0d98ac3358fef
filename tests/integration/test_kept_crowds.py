"""Clients of a kept sandbox that are many, slow, dead, hostile or somebody else's: the others get what they ask for."""
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import time

import pytest

from kept_sandbox import DEADLINE, eventually, kept, kept_by_root, message, reply  # noqa: F401 (fixtures)

CONNECTIONS, SHARE = 512, 384  # of all clients, and of one process: runtime/kept/parts.h

# Connects so often, sends the same on each connection, awaits an answer on each where it is to, and says so; then stays until its input
# ends.
CROWD = """
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
os.chdir(sys.argv[1])
kept = []
for _ in range(int(sys.argv[2])):
    one = socket.socket(socket.AF_UNIX)
    one.connect("control")
    try:
        one.sendall(bytes.fromhex(sys.argv[3]))
    except OSError:
        pass
    kept.append(one)
for one in kept if sys.argv[4] else []:
    try:
        one.recv(1)  # the answer to its last message, or its end
    except OSError:
        pass
print("here", flush=True)
sys.stdin.read()
"""


def folder_of(kept, name):
    return str(kept.pinfold.state / "sandboxes" / name)


class Crowd:
    """A process with many connections."""

    def __init__(self, kept, name, count, sends=b"", answered=False):
        argv = ["/usr/bin/python3", "-c", CROWD, folder_of(kept, name), str(count), sends.hex(), "yes" if answered else ""]
        self.process = kept.pinfold.spawn(argv,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"here\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


class Waiting(Crowd):
    """Each waits for the end of the sandbox. The supervisor has heard all of them: it has answered what they have said after that."""

    def __init__(self, kept, name, count):
        super().__init__(kept, name, count, message(verb="wait") + message(verb="stats"), answered=True)


def is_closed(client):
    return bool(select.select([client], [], [], 0)[0]) and client.recv(1) == b""


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) * 1024


def ticks_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))


ASK = """
import os, socket, sys
os.chdir(sys.argv[1])
client = socket.socket(socket.AF_UNIX)
client.settimeout(60)
client.connect("control")
print("connected")
try:
    client.sendall(bytes.fromhex(sys.argv[2]))
    print("answered" if client.recv(1) else "hung up")
except (BrokenPipeError, ConnectionResetError):
    print("hung up")
"""


def test_another_user_is_not_answered_even_where_every_mode_lets_it_in(kept_by_root):
    """The owner asks with the same program: whoever is let in is answered."""
    kept_by_root.up("work")
    path = kept_by_root.pinfold.state / "sandboxes/work/control"
    opened = [kept_by_root.pinfold.state, path.parent.parent, path.parent]
    argv = ["/usr/bin/python3", "-c", ASK, folder_of(kept_by_root, "work"), message(verb="show").hex()]
    try:
        for folder in opened:
            os.chmod(folder, 0o755)
        os.chmod(path, 0o777)
        other = subprocess.run(argv, capture_output=True, text=True, user=61234, group=61234, extra_groups=[])
        owner = subprocess.run(argv, capture_output=True, text=True)
    finally:
        for folder in opened:
            os.chmod(folder, 0o700)
    assert owner.stdout.split("\n")[:2] == ["connected", "answered"], owner.stderr
    assert other.stdout.split("\n")[:2] == ["connected", "hung up"], other.stderr


def test_the_modes_alone_keep_another_user_out(kept_by_root):
    kept_by_root.up("work")
    argv = ["/usr/bin/python3", "-c", ASK, folder_of(kept_by_root, "work"), message(verb="show").hex()]
    other = subprocess.run(argv, capture_output=True, text=True, user=61234, group=61234, extra_groups=[])
    assert "connected" not in other.stdout and "PermissionError" in other.stderr


@pytest.mark.parametrize("sends", [b"", b"\x00\x00", struct.pack(">I", 1000) + b"half", message(verb="show"), message(verb="lend")],
                         ids=["nothing", "half a length", "half a message", "a request and no more", "what is never taken"])
def test_a_thousand_idle_clients_keep_nobody_out(kept, sends):
    kept.up("work")
    with Crowd(kept, "work", 600, sends), Crowd(kept, "work", 600, sends):
        assert kept.show("work")["clients"] <= CONNECTIONS + 1
        for word in (b"one\n", b"two\n"):
            assert kept.exec("work", "echo", word.decode().strip()).stdout == word
        kept.ok("stop", "work")


def test_the_connection_that_has_been_silent_longest_makes_room(kept):
    kept.up("work")
    with kept.connect("work") as first, kept.connect("work") as second, kept.connect("work") as waiting:
        for client in (first, second):
            client.sendall(message(verb="stats"))
            reply(client)
        waiting.sendall(message(verb="wait"))
        first.sendall(message(verb="stats"))
        reply(first)
        with Crowd(kept, "work", SHARE - 1), Crowd(kept, "work", CONNECTIONS - SHARE - 2):
            assert kept.show("work")["clients"] == CONNECTIONS
            eventually(lambda: is_closed(second), "the one that has been silent longest stays")
            assert not is_closed(first) and not is_closed(waiting)
            kept.ok("stop", "work")
        assert reply(waiting)["ok"]["why"] == "stopped"  # it was owed that


def test_whoever_has_asked_and_is_not_heard_yet_makes_no_room(kept):
    """The newcomer is there first, and the one that has been silent longest asks before anybody is let in."""
    kept.up("work")
    with kept.connect("work") as first:
        first.sendall(message(verb="show"))
        supervisor = reply(first)["ok"]["supervisor"]
        stats = message(verb="stats")
        with Crowd(kept, "work", SHARE, stats, answered=True), Crowd(kept, "work", CONNECTIONS - SHARE - 1, stats, answered=True):
            os.kill(supervisor, signal.SIGSTOP)
            try:
                eventually(lambda: state_of(supervisor) == "T", "the supervisor isn't stopped")
                newcomer = kept.connect("work")
                first.sendall(stats)
            finally:
                os.kill(supervisor, signal.SIGCONT)
            with newcomer:
                assert "ok" in reply(first)
                newcomer.sendall(stats)
                assert "ok" in reply(newcomer)


def test_one_process_that_waits_everywhere_leaves_room_for_others(kept):
    kept.up("work")
    with Waiting(kept, "work", CONNECTIONS + 50):
        assert kept.show("work")["clients"] == SHARE + 1
        assert kept.exec("work", "echo", "alive").stdout == b"alive\n"


def test_where_everybody_waits_the_next_one_is_told(kept):
    kept.up("work")
    with Waiting(kept, "work", SHARE), Waiting(kept, "work", CONNECTIONS - SHARE):
        done = kept.exec("work", "true", options=["--json"])
        assert done.returncode == 125
        assert b'"exhausted"' in done.stdout and b"clients of this sandbox wait" in done.stdout
    eventually(lambda: kept.exec("work", "true").returncode == 0, "their room isn't given back")


def test_commands_and_waits_are_shared_between_processes(kept):
    kept.up("work", resources={"pids": 1024})
    with kept.connect("work") as client:
        client.sendall(b"".join(message(verb="wait", id=i + 1) for i in range(800)))
        refused = reply(client)
        assert refused["id"] == 769 and refused["error"]["kind"] == "exhausted"
        assert kept.exec("work", "echo", "alive").stdout == b"alive\n"


def test_messages_that_never_end_take_no_more_memory_than_they_may(kept_by_root):
    kept_by_root.up("work")
    supervisor = kept_by_root.show("work")["supervisor"]
    before = memory_of(supervisor)
    half = struct.pack(">I", 4 << 20) + b" " * ((4 << 20) - 1)
    clients = [kept_by_root.connect("work") for _ in range(40)]  # 160 MiB
    for client in clients:
        try:
            client.sendall(half)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert memory_of(supervisor) - before < 80 << 20
    assert sum(map(is_closed, clients)) >= 20 and not is_closed(clients[-1])
    clients[-1].sendall(b" ")  # the newest has lost nothing
    assert reply(clients[-1])["error"]["kind"] == "syntax"
    assert kept_by_root.exec("work", "echo", "alive").stdout == b"alive\n"
    for client in clients:
        client.close()


def test_a_supervisor_without_descriptors_neither_spins_nor_locks_out(kept_by_root):
    """Descriptors that come with half a message fill its table; who is owed nothing goes."""
    kept_by_root.up("work")
    supervisor = kept_by_root.show("work")["supervisor"]
    limit = len(os.listdir(f"/proc/{supervisor}/fd")) + 100
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (limit, limit))
    hoard = []
    for _ in range(60):
        client = kept_by_root.connect("work")
        socket.send_fds(client, [b"\x00"], [0, 1, 2])
        hoard.append(client)
    assert kept_by_root.exec("work", "echo", "alive").stdout == b"alive\n"
    for client in hoard:
        client.close()


def test_where_descriptors_are_all_in_use_the_next_one_is_told_and_nobody_spins(kept_by_root):
    kept_by_root.up("work")
    supervisor = kept_by_root.show("work")["supervisor"]
    used = len(os.listdir(f"/proc/{supervisor}/fd"))
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (used + 100,) * 2)
    with Waiting(kept_by_root, "work", 100):
        assert b"no descriptors left" in kept_by_root.exec("work", "true").stderr
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (used, used + 100))  # now accept(2) itself fails
        with kept_by_root.connect("work") as unheard:
            before = ticks_of(supervisor)
            time.sleep(1)
            assert ticks_of(supervisor) - before < 30, "it asks again and again"  # of 100
            assert not is_closed(unheard)
        resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (used + 100,) * 2)
    eventually(lambda: kept_by_root.exec("work", "true").returncode == 0, "nobody is let in any more")


def test_a_handle_whose_connection_was_given_up_takes_another(kept):
    kept.up("work")
    with kept.connect("work") as client:
        with Crowd(kept, "work", SHARE), Crowd(kept, "work", CONNECTIONS - SHARE):
            eventually(lambda: is_closed(client), "it is the oldest, and stays")
    assert kept.exec("work", "true", timeout=DEADLINE).returncode == 0
