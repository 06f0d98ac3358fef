"""Many connections, slow ones, ones that lead nowhere, and resolvers that lie."""
import subprocess
import time

from egress_world import NEEDS_ROOT, PUBLIC, PYTHON, SECOND, ZONE
from egress_world import harness, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT


def memory_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def test_ten_thousand_connections_come_and_go(harness):
    code = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
place, good = socket.getaddrinfo("api.example.com", 7002, socket.AF_INET, socket.SOCK_STREAM)[0][4], 0
for batch in range(20):
    held = []
    for _ in range(500):
        s = socket.socket(); s.setblocking(False); s.connect_ex(place); held.append(s)
    for s in held:
        s.settimeout(30)
        good += s.recv(10) == b"hello\\n"
    for s in held: s.close()
print(good)
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7002"], options=["-l", "at-once=12000"], timeout=200)
    assert out == "10000\n", [e for e in events if not e.startswith(("connect", "close"))][:20]
    opened = sum(int(e.split("times=")[1].split()[0]) for e in events if e.startswith("connect "))
    closed = sum(int(e.split("times=")[1].split()[0]) for e in events if e.startswith("close "))
    assert opened == closed == 10000  # past the rate of records they are added up, and none is lost


def test_a_thousand_held_connections_take_less_than_64_kib_each(harness):
    code = """
import socket, sys
place = socket.getaddrinfo("api.example.com", 7002, socket.AF_INET, socket.SOCK_STREAM)[0][4]
held = [socket.create_connection(place, timeout=60) for _ in range(1 if sys.argv[1] == "few" else 1000)]
for s in held: s.recv(10)
print("held", flush=True)
sys.stdin.read()
"""
    resident = {}
    for how in ("few", "many"):
        process = harness.start(PYTHON, "-c", code, how, rules=["api.example.com:7002"], stdin=subprocess.PIPE)
        assert process.stdout.readline() == b"held\n"
        resident[how] = memory_of(harness.wait_for(process, "broker ").split()[1])
        process.communicate(timeout=60)
    each = (resident["many"] - resident["few"]) / 999
    assert each < 64, f"{each:.1f} KiB"


def test_slow_heads_are_given_up_and_hold_up_nobody(harness):
    code = """
import socket, threading, time
def slow(port, results):
    s = socket.create_connection(("api.example.com", port), timeout=100)
    start = time.monotonic()
    try:
        s.sendall(b"\\x16\\x03\\x01\\x40\\x00" if port == 443 else b"GET / HTTP/1.1\\r\\n")
        while True:
            s.sendall(b"\\x01" if port == 443 else b"X-A: b\\r\\n")
            time.sleep(0.5)
    except OSError:
        results.append(time.monotonic() - start > 15)
results = []
threads = [threading.Thread(target=slow, args=(port, results)) for port in (443, 80) for _ in range(50)]
for t in threads: t.start()
time.sleep(2)
quick = socket.create_connection(("api.example.com", 7002), timeout=100).recv(10)
print(quick, len(results))  # while they all go on
for t in threads: t.join()
print(len(results), all(results))
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:80", "api.example.com:443", "api.example.com:7002"], timeout=200)
    assert out.splitlines() == ["b'hello\\n' 0", "100 True"], out
    assert harness.internet.bytes_to(harness.internet.seen(), (PUBLIC, 80), (PUBLIC, 443)) == 0


def test_a_black_hole_is_passed_by_where_there_is_another_way(harness):
    """The first address of the name swallows everything; the second one answers."""
    net = ["ip", "netns", "exec", harness.internet.net]
    subprocess.run([*net, "nft", "add table ip hole; add chain ip hole in { type filter hook input priority 0; }; "
                    f"add rule ip hole in ip daddr {SECOND} tcp dport 7002 drop"], check=True)
    try:
        harness.internet.ask(zone={**ZONE, "hole.example.com": [SECOND, PUBLIC], "only.example.com": [SECOND]})
        code = """
import socket, sys
print(socket.create_connection(("hole.example.com", 7002), timeout=100).recv(10), flush=True)
s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 4)  # its kernel gives up after 31 seconds, ours a second earlier
try: s.connect((socket.gethostbyname("only.example.com"), 7002)); print("?")
except OSError as error: print(type(error).__name__, flush=True)
sys.stdin.read()
"""
        process = harness.start(PYTHON, "-c", code, rules=["*.example.com:7002"], stdin=subprocess.PIPE)
        assert [process.stdout.readline() for _ in range(2)] == [b"b'hello\\n'\n", b"TimeoutError\n"]
        failed = harness.wait_for(process, "fail")
        process.communicate(timeout=60)
    finally:
        subprocess.run([*net, "nft", "delete table ip hole"], check=True)
    assert "only.example.com" in failed and "errno=110" in failed


def test_the_other_end_may_end_its_half_first(harness):
    code = """
import socket
s = socket.create_connection(("api.example.com", 7004), timeout=60)
print(s.recv(10), s.recv(10))
for _ in range(64): s.sendall(bytes(65536))
s.close()
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:7004"])
    assert out == "b'bye\\n' b''\n"
    until, counted = time.monotonic() + 30, []
    while not counted and time.monotonic() < until:
        counted = [f.get("bytes", f.get("error")) for f in harness.internet.seen() if f["kind"] == "counted" or f["kind"] == "broken" and f["port"] == 7004]
    assert counted == [64 * 65536]


def test_a_poisoned_answer_changes_no_name(harness):
    harness.internet.ask(zone={**ZONE, "poison.example.com": [PUBLIC], "www.example.com": [PUBLIC]})
    code = """
import socket
for name in ("poison.example.com", "www.example.com", "api.example.com"):
    print(socket.create_connection((name, 7002), timeout=60).recv(10))
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["*.example.com:7002"])
    assert out == "b'hello\\n'\n" * 3, out
    assert {e.split()[3] for e in events if e.startswith("connect ")} == {PUBLIC}


def test_a_name_without_a_time_to_live_is_asked_for_each_time_and_screened_each_time(harness):
    harness.internet.ask(zone={**ZONE, "turn.example.com": [[PUBLIC], ["10.66.0.1"], [PUBLIC], ["169.254.169.254"], ["127.0.0.1"]]})
    code = """
import socket
for _ in range(5):
    try: print(socket.create_connection(("turn.example.com", 7002), timeout=60).recv(10))
    except OSError: print("refused")
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["turn.example.com:7002"])
    assert out.splitlines()[0] == "b'hello\\n'" and out.splitlines()[-1] == "refused", out
    reached = {(f["to"], f["port"]) for f in harness.internet.seen() if f["kind"] == "packet" and f["port"] == 7002}
    assert reached == {(PUBLIC, 7002)}
