"""Floods of questions: what they cost the sandbox that sends them, its other names, and its neighbours."""
import os
import pathlib
import signal
import subprocess
import time

from egress_world import NEEDS_ROOT, PYTHON
from egress_world import harness, internet, world  # noqa: F401 (fixtures)
from test_egress_storms import memory_of

pytestmark = NEEDS_ROOT

ASK = """
import socket, struct, sys, time
def question(i, name): return struct.pack("!HHHHHH", i & 0xffff, 0x100, 1, 0, 0, 0) + b"".join(
    bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\\0" + struct.pack("!HH", 1, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(30); s.connect(("9.9.9.9", 53))
def flood(names):
    "Asks for all, some at a time, so that no answer is lost; how many have an address."
    found, waiting = 0, 0
    for i, name in enumerate(names):
        s.send(question(i, name)); waiting += 1
        if waiting == 50 or i == len(names) - 1:
            for _ in range(waiting): found += s.recv(600)[7]
            waiting = 0
    return found
def greeted(host): return socket.create_connection((host, 7002), timeout=60).recv(10)
"""


def times(events, *start):
    return sum(int(e.split("times=")[1].split()[0]) for e in events if e.startswith(start))


def test_a_flood_of_names_that_no_rule_allows_is_answered_counted_and_goes_nowhere(harness):
    code = ASK + """
print(flood([f"{i:050x}.evil.test" for i in range(20000)]), greeted("api.example.com"))
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7002"], timeout=200)
    assert out == "0 b'hello\\n'\n"
    assert times(events, "refuse not-listed") == 20000 and len(events) < 5000, events[-5:]
    assert not [e for e in events if '"::"' in e]  # a sum names nothing that a rule could allow
    assert {f["name"] for f in harness.internet.seen() if f["kind"] == "question"} == {"api.example.com"}


def test_a_flood_of_questions_leaves_the_neighbour_served(harness, tmp_path):
    code = ASK + """
print("flooding", flush=True)
while True: flood([f"{i:050x}.example.com" for i in range(1000)])
"""
    flooding = harness.start(PYTHON, "-c", code, rules=["*.example.com:7002"])
    try:
        assert flooding.stdout.readline() == b"flooding\n"
        neighbour = type(harness)(harness.internet, tmp_path / "neighbour")
        neighbour.folder.mkdir()
        calm = ASK + "print([greeted('api.example.com') for _ in range(20)].count(b'hello\\n'))"
        _, out, _ = neighbour.run(PYTHON, "-c", calm, rules=["api.example.com:7002"], timeout=100)
        assert out == "20\n" and flooding.poll() is None
    finally:
        flooding.kill()
        flooding.communicate()


def test_names_below_a_wildcard_use_up_neither_memory_nor_the_names_that_rules_spell_out(harness):
    """Without limits of the policy's: those of the broker itself hold."""
    code = ASK + """
first = socket.gethostbyname("first.example.com")
print(flood([f"{i:060x}." + ("x" * 60 + ".") * 2 + "example.com" for i in range(20000)]), flush=True)
print(greeted("a.files.example.org"), socket.gethostbyname("first.example.com") == first, flush=True)
sys.stdin.read()
"""
    process = harness.start(PYTHON, "-c", code, rules=["*.example.com:7002", "a.files.example.org:7002"],
                            options=["-l", "names=1000000", "-l", "names-rate=1000000000"], stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"8191\n"  # and the first
        assert process.stdout.readline() == b"b'hello\\n' True\n"
        assert memory_of(harness.wait_for(process, "broker ").split()[1]) < 32 * 1024
    finally:
        process.stdin.close()
        process.wait(60)
    assert {f["name"] for f in harness.internet.seen() if f["kind"] == "question"} == {"a.files.example.org"}


def test_new_names_below_a_wildcard_come_at_the_rate_of_the_policy_and_others_at_once(harness):
    code = ASK + """
start = time.monotonic()
names = [f"{i:050x}.example.com" for i in range(2000)]
found, spent = flood(names), time.monotonic() - start
print(100 <= found <= 200 + 100 * spent + 1, flood(names[:100]), greeted("a.files.example.org"))
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["*.example.com:7002", "a.files.example.org:7002"], timeout=100)
    assert out == "True 100 b'hello\\n'\n"
    assert times(events, "refuse budget") > 0


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_loops_that_ask_cost_the_host_half_a_processor_at_most(harness):
    """After the first half of a second, and what the broker takes to start. Without the bound it has all of a processor, where there
    is one to have: test_egress_effort.c holds what the bound is made of."""
    code = ASK + """
import os
good, bad = [(socket.gethostbyname("api.example.com"), port) for port in (7002, 7003)]
def connect(place):
    with socket.socket() as s: s.connect_ex(place)
def ask(): s.send(question(0, "x.evil.test"))
def send(s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM)): s.sendto(b"x", ("192.0.2.11", 7003))
loops = ask, send, lambda: connect(good), lambda: connect(bad)
do = loops[2 * (os.fork() > 0) + (os.fork() > 0)]
while True: do()
"""
    start = time.monotonic()
    flooding = harness.start(PYTHON, "-c", code, rules=["api.example.com:7002", "192.0.2.10/32:7003/udp"], options=["-u"], start_new_session=True)
    try:
        pid = int(harness.wait_for(flooding, "broker ").split()[1])
        while time.monotonic() < start + 4:
            time.sleep(0.1)
        spent, passed = cpu_of(pid), time.monotonic() - start
    finally:
        os.killpg(flooding.pid, 9)
        flooding.communicate()
    kinds = {" ".join(e.split()[:2]) for e in flooding.events.read_text().splitlines()}
    assert spent < 0.8 + passed * 0.55 and kinds >= {"connect allowed", "refuse not-listed", "refuse port"}, (spent, passed, kinds)


def test_questions_that_there_is_no_time_for_are_counted(harness):
    """The broker is stopped: its socket holds some hundreds."""
    code = ASK + """
print("ready", flush=True); sys.stdin.readline()
for _ in range(5000): s.send(question(0, "x.evil.test"))
print("sent", flush=True); sys.stdin.readline()
s.close()
print(greeted("api.example.com"), flush=True)
"""
    asking = harness.start(PYTHON, "-c", code, rules=["api.example.com:7002"], stdin=subprocess.PIPE)
    assert asking.stdout.readline() == b"ready\n"
    pid = int(harness.wait_for(asking, "broker ").split()[1])
    try:
        os.kill(pid, signal.SIGSTOP)
        asking.stdin.write(b"\n")
        asking.stdin.flush()
        assert asking.stdout.readline() == b"sent\n"
    finally:
        os.kill(pid, signal.SIGCONT)
    out = asking.communicate(b"\n", timeout=60)[0]
    assert out == b"b'hello\\n'\n"
    events = asking.events.read_text().splitlines()
    lost = times([e for e in events if " 53 udp " in e], "refuse budget")
    looked_up = 2 * 5  # by both families, and as often again as a resolver asks: these may be lost, too
    assert lost > 0 and lost + times(events, "refuse not-listed") <= 5000 + looked_up, events
