"""UDP for rules that name it: what a program hears of refusals, and what budgets make of answers."""
from egress_world import NEEDS_ROOT, PUBLIC, PYTHON, SIX
from egress_world import harness, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT

UDP = """
import errno, socket, sys
def connected(host, port, family=socket.AF_UNSPEC):
    family, _, _, _, place = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)[0]
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(60); s.connect(place)
    return s
def told(*place):
    "What a connected socket hears when it has sent: an answer, or an error. Never nothing."
    s = connected(*place)
    s.send(b"x")
    try: return s.recv(100)
    except OSError as error: return errno.errorcode[error.errno]
"""


def test_a_refused_datagram_and_one_to_nobody_are_told_to_who_has_sent_it(harness):
    code = UDP + """
for place in (("api.example.com", 7003), ("api.example.com", 7009, socket.AF_INET), ("api.example.com", 7009, socket.AF_INET6),
              ("own.example.com", 7003, socket.AF_INET), ("nowhere.example.com", 7003, socket.AF_INET), (sys.argv[1], 7003), (sys.argv[2], 7003), ("api.example.com", 7008, socket.AF_INET)):
    print(told(*place))
"""
    _, out, events = harness.run(PYTHON, "-c", code, PUBLIC, SIX, options=["-u"],
                                 rules=["api.example.com:7003/udp", "own.example.com:7003/udp", "nowhere.example.com:7003/udp", "api.example.com:7008/udp"])
    assert out.split() == ["b'echo:x'", "EHOSTUNREACH", "EACCES", *["EHOSTUNREACH"] * 3, "EACCES", "ECONNREFUSED"], out
    assert {e.split()[1] for e in events if e.startswith("refuse")} == {"port", "host-address", "not-listed"}


def test_datagrams_that_are_sent_together_all_leave_although_the_name_has_to_be_asked_for(harness):
    code = UDP + """
s = connected("api.example.com", 7003)
for i in range(20): s.send(b"%d" % i)
print(sorted(int(s.recv(100)[5:]) for _ in range(20)) == list(range(20)))
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:7003/udp"], options=["-u"])
    assert out == "True\n"


def test_datagrams_of_any_size_go_and_come_whole(harness):
    """Answered with five bytes more: the largest that a packet of IPv4, and one of IPv6 on a loopback, has room for."""
    code = UDP + """
import os
for family, most in (socket.AF_INET, 65507), (socket.AF_INET6, 65488):
    s = connected("api.example.com", 7003, family)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    for size in 0, 1, 1472, 1473, 65000, 65001, most - 5:
        data = os.urandom(size)
        s.send(data)
        assert s.recv(70000) == b"echo:" + data, (family, size)
print("whole")
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7003/udp"], options=["-u"])
    assert out == "whole\n" and not [e for e in events if e.startswith("refuse")], (out, events)


def test_what_a_rule_names_at_port_53_gets_datagrams_of_any_size(harness):
    """They come by the way of the questions, which are small."""
    code = UDP + """
s = connected("192.0.2.53", 53)
name = b"\\3www\\7example\\3com\\0"
s.send(b"\\0\\7\\1\\0\\0\\1" + bytes(4) + b"\\0\\1" + name + b"\\0\\1\\0\\1" + b"\\0\\0\\x29\\4\\xd0" + bytes(4) + b"\\5\\x28\\0\\x0c\\5\\x24" + bytes(1316))
print(s.recv(600)[-4:].hex())
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["192.0.2.53/32:53/udp"], options=["-u", "-a"])
    assert out == "c000020a\n" and not [e for e in events if e.startswith("refuse")], (out, events)  # of that resolver, and not of the broker


def test_a_budget_holds_for_what_comes_back_although_nothing_more_is_sent(harness):
    code = UDP + """
s, total = connected("api.example.com", 7003), 0
s.send(b"flood")
while True:  # the error overtakes what waits to be read
    try: total += len(s.recv(2000))
    except BlockingIOError: break
    except OSError as error:
        print(errno.errorcode[error.errno])
        s.setblocking(False)
print(total)
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7003/udp"], options=["-u", "-l", "in=20000"])
    assert out == "EHOSTUNREACH\n20000\n"
    assert any(e.startswith("refuse budget") for e in events)


def test_a_flow_that_is_older_than_its_budget_ends_with_a_word(harness):
    code = UDP + """
s = connected("api.example.com", 7003)
s.send(b"x")
try:
    while True: s.recv(100)  # the answer, where it is quick enough
except OSError as error: print(errno.errorcode[error.errno])
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7003/udp"], options=["-u", "-l", "lifetime=500000000"])
    assert out == "EHOSTUNREACH\n"
    assert [e.split()[1] for e in events if e.startswith("refuse")] == ["budget"], events


def test_without_a_budget_all_of_it_comes_back(harness):
    """The control."""
    code = UDP + """
s, total = connected("api.example.com", 7003), 0
s.send(b"flood")
while not (data := s.recv(2000)).startswith(b"echo"): total += len(data)
print(total)
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:7003/udp"], options=["-u"])
    assert out == "40000\n"
