"""The end of a sandbox, and of one side of a connection: what has been sent before it arrives, as without a broker between."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from egress_world import NEEDS_ROOT, PUBLIC, PYTHON, https
from egress_world import harness, inside, internet, world  # noqa: F401 (fixtures)
from kept_sandbox import eventually
from test_egress import brokers_below, read
from test_egress_live import kept  # noqa: F401 (fixture)

pytestmark = NEEDS_ROOT
RATE, MUCH = 300_000, 3_000_000

# Nothing is left unread: a program that leaves an answer unread resets its connection, here and anywhere.
SEND = """
import os, socket, sys
s = socket.create_connection(("api.example.com", 7004), timeout=60)
assert s.recv(10) == b"bye\\n" and s.recv(10) == b""
s.sendall(bytes(int(sys.argv[1])))
os._exit(0)
"""


def counted(internet):
    """What the server has got, or the error that its reading has ended with."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = [f.get("bytes", f.get("error")) for f in internet.seen() if f["kind"] == "counted" or f["kind"] == "broken" and f["port"] == 7004]
        if found:
            return found[0]
    raise AssertionError("the server has seen no end")


def bytes_out(events):
    return sum(int(e.split("out=")[1].split()[0]) for e in events if e.startswith("close "))


def test_what_a_command_has_sent_before_its_end_arrives_although_the_rate_holds_it_back(harness):
    """Half of it is over the rate: it is still inside when the program is gone."""
    code, out, events = harness.run(PYTHON, "-c", SEND, str(RATE * 3 // 2), rules=["api.example.com:7004"], options=["-l", f"rate={RATE}"])
    assert code == 0, out
    assert counted(harness.internet) == RATE * 3 // 2 == bytes_out(events)


def test_a_longer_drain_lets_a_slower_peer_have_it_all(harness):
    """Three seconds of it; two would not do: below."""
    code, out, events = harness.run(PYTHON, "-c", SEND, str(RATE * 4), rules=["api.example.com:7004"],
                                    options=["-l", f"rate={RATE}", "-l", "drain=60000000000"])
    assert code == 0, out
    assert counted(harness.internet) == RATE * 4 == bytes_out(events)


def test_what_is_cut_at_the_end_does_not_arrive(harness):
    """The control: the same, where the broker is told to drop it."""
    code, out, events = harness.run(PYTHON, "-c", SEND, str(MUCH), rules=["api.example.com:7004"], options=["-c", "-l", f"rate={RATE}"])
    assert code == 0, out
    assert "reset" in counted(harness.internet) and bytes_out(events) < MUCH


def test_the_end_is_not_put_off_for_ever_and_what_is_missing_is_no_quiet_end(harness):
    code, out, events = harness.run(PYTHON, "-c", SEND, str(MUCH), rules=["api.example.com:7004"], options=["-l", f"rate={RATE}"])
    assert code == 0, out
    assert "reset" in counted(harness.internet) and bytes_out(events) < MUCH and events[-1] == "ended 0"


@pytest.mark.parametrize("drain", ["0s", "1s"])
def test_the_result_says_how_much_of_what_was_sent_is_lost(inside, drain):
    policy = inside.policy(extends=["tool"], network={"egress": [https("api.example.com", [7004])],
                                                      "limits": {"rate": RATE, "drain": drain}})
    _, events, end = inside.events(PYTHON, "-c", SEND, str(MUCH), policy=policy)
    egress = end["usage"]["egress"]
    assert end["status"] == "success" and "reset" in counted(inside.internet)
    assert egress["undelivered"] > 0 and egress["bytes_out"] + egress["undelivered"] >= MUCH
    assert [e["undelivered"] for e in events if e["event"] == "close"] == [egress["undelivered"]]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_broker_that_does_not_live_to_the_end_is_told_of(inside, number):
    """The command has ended well and is gone; what it had sent is lost with the broker."""
    policy = inside.policy(extends=["tool"], network={"egress": [https("api.example.com", [7004])],
                                                      "limits": {"rate": RATE // 30, "drain": "60s" if number == signal.SIGKILL else "0s"}})
    stands = "import time; time.sleep(1000)" if number == signal.SIGSTOP else "import os; os._exit(0)"
    code = SEND.replace("os._exit(0)", f"print('sent', flush=True)\n{stands}")
    argv = inside.argv(PYTHON, "-c", code, str(MUCH // 4), policy=policy, options=["--stream"])
    process = inside.spawn(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    lines = iter(map(json.loads, process.stdout))
    assert next(line for line in lines if line["type"] == "stdout")["data"] == "sent\n"
    broker, = brokers_below(process.pid)
    if number == signal.SIGKILL:
        eventually(lambda: living_children(process.pid) == [broker], "the command doesn't end")
    os.kill(broker, number)
    if number == signal.SIGSTOP:
        process.terminate()
    end = list(lines)[-1]
    process.communicate(timeout=60)
    assert end["type"] == "exit" and "egress" in end["missing"], end


def living_children(pid):
    """Without those that have ended and wait for their parent to look at them: they have no memory any more."""
    every = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in every if read(pathlib.Path(f"/proc/{child}/cmdline"))]


def test_a_run_ends_when_what_it_has_sent_is_on_its_way(inside):
    done = inside.python(SEND, "1000000", policy=inside.reach(https("api.example.com", [7004])))
    assert done["status"] == "success", done
    assert counted(inside.internet) == 1000000 == done["usage"]["egress"]["bytes_out"]
    assert "undelivered" not in done["usage"]["egress"]


def test_a_connection_that_is_left_open_holds_no_run_up(inside):
    """The other end never reads and never ends; there is nothing to wait for."""
    code = """
import os, socket
s = [socket.create_connection(("api.example.com", 7001), timeout=60) for _ in range(20)]
for one in s: one.sendall(b"x" * 100)
os._exit(0)
"""
    done = inside.python(code, policy=inside.reach(https("api.example.com", [7001])))
    assert done["status"] == "success" and done["usage"]["egress"]["bytes_out"] == 2000
    assert inside.internet.bytes_seen((PUBLIC, 7001), 2000) == 2000


HOLD = """
import socket, time
s = socket.create_connection(("api.example.com", 7001), timeout=60)
s.sendall(b"x" * 1000)
print(len(s.recv(5)), flush=True)
time.sleep(600)
"""


def hold_one(sandbox):
    process = sandbox.inside.spawn(sandbox.argv("exec", sandbox.name, "--", PYTHON, "-c", HOLD), stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"5\n"
    return process


def billed(sandbox):
    rows = json.loads(sandbox.verb("stats", "--by", "tenant", "--json").stdout)["rows"]
    return [(row["value"], row["egress_bytes_out"], row["egress_bytes_in"]) for row in rows]


def test_what_a_stopped_sandbox_had_open_is_in_its_bill(kept):
    """What a connection has taken is known when it ends: with the sandbox at the latest."""
    sandbox = kept(https("api.example.com", [7001]), options=["--label", "tenant=a"])
    process = hold_one(sandbox)
    assert sandbox.verb("rm", "--force", sandbox.name).returncode == 0
    process.communicate(timeout=60)
    assert billed(sandbox) == [("a", 1000, 5)]


def test_a_connection_that_is_open_is_billed_and_stays_billed_when_its_supervisor_is_killed(kept):
    sandbox = kept(https("api.example.com", [7001]), options=["--label", "tenant=a"])
    process = hold_one(sandbox)
    assert billed(sandbox) == [("a", 1000, 5)]
    os.kill(json.loads(sandbox.verb("show", sandbox.name, "--json").stdout)["supervisor"], signal.SIGKILL)
    process.communicate(timeout=60)
    assert billed(sandbox) == [("a", 1000, 5)]


def test_the_last_datagram_leaves(inside):
    code = """
import os, socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"last words", (socket.gethostbyname("api.example.com"), 7003))
os._exit(0)
"""
    policy = inside.reach({"host": "api.example.com", "ports": [7003], "protocol": "udp"})
    assert inside.python(code, policy=policy)["status"] == "success"
    assert inside.internet.bytes_seen((PUBLIC, 7003), 10) == 10


def test_an_answer_that_comes_with_a_reset_is_read(harness):
    """The server answers and resets while the program still sends: the answer is there first, and then the error."""
    code = """
import socket
for _ in range(100):
    s = socket.create_connection(("api.example.com", 7005), timeout=60)
    try:
        while True: s.sendall(b"x" * 65536)
    except (BrokenPipeError, ConnectionResetError): pass
    print(s.recv(10))
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:7005"])
    assert out == "b'no\\n'\n" * 100
