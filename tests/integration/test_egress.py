"""Egress by host name: what an allowed name reaches, and that nothing else leaves."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from egress_world import CONNECT, NEEDS_ROOT, PUBLIC, PYTHON, SECOND, SIX, ZONE, https
from egress_world import harness, inside, internet, world  # noqa: F401 (fixtures)
from kept_sandbox import eventually

pytestmark = NEEDS_ROOT


# --- names and ports ------------------------------------------------------------------------------------------------


def test_a_listed_name_is_reached_on_its_port_and_nothing_else_is(inside):
    policy = inside.reach(https("api.example.com", [80, 7002]))
    out, events, end = inside.events("curl", "-sS", "http://api.example.com/there", policy=policy)
    assert out == "/there" and end["usage"]["egress"]["allowed"] == 1 and "egress" not in end["missing"]
    assert end["usage"]["egress"]["cpu_ms"] >= 0 and end["usage"]["egress"]["bytes_in"] > 6 and end["usage"]["egress"]["bytes_out"] > 20
    assert [e["event"] for e in events] == ["ready", "name", "connect", "close"]
    assert events[2]["address"] == PUBLIC and events[2]["rule"] == "api.example.com:80,7002"
    inside.internet.seen()
    refused = ["www.example.com:80", "api.example.com:7000", f"{PUBLIC}:80", f"{SECOND}:80", f"{SIX}:80", "10.66.0.1:80",
               "169.254.169.254:80", "192.0.2.1:80", "100.64.0.1:80", "224.0.0.1:80"]
    done = inside.python(CONNECT, *refused, policy=policy)
    for line in done["stdout"].splitlines():
        assert line.split()[1] not in ("answered", "closed"), line
    assert len(done["stdout"].splitlines()) == len(refused)
    assert done["usage"]["egress"]["allowed"] == 0 and done["usage"]["egress"]["denied"] >= 7
    assert [f for f in inside.internet.seen() if f["kind"] != "broken"] == []


def test_without_a_list_there_is_no_way_out_and_no_broker(inside):
    out, events, end = inside.events(PYTHON, "-c", CONNECT, f"{PUBLIC}:80", "api.example.com:80", policy=inside.policy())
    assert "answered" not in out and events == []
    assert inside.internet.seen() == []


@pytest.mark.skipif(not shutil.which("strace"), reason="not installed: strace")
def test_an_empty_list_costs_no_system_call_of_egress(inside, tmp_path):
    """By what a traced run calls: no broker is started and no netlink socket made; with a list both are."""
    calls = {}
    for name, rules in (("without", []), ("with", [https("api.example.com", [80])])):
        path, policy = tmp_path / name, inside.policy(extends=["tool"], network={"egress": rules})
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=execve,socket", "-o", path, *inside.argv("true", policy=policy)],
                       env=inside.environment(), check=True)
        text = path.read_text()
        calls[name] = [word in text for word in ("pinfold-broker", "AF_NETLINK", "AF_INET")]
    assert calls == {"without": [False] * 3, "with": [True] * 3}


def test_a_wildcard_covers_what_is_below_and_a_refusal_beats_it(inside):
    policy = inside.reach(https("*.example.com", [7002]), https("*.files.example.org", [7002]),
                          deny=[{"host": "www.example.com"}])
    places = ["api.example.com:7002", "a.files.example.org:7002", "www.example.com:7002", "example.com:7002",
              "files.example.org:7002"]
    out = inside.python(CONNECT, *places, policy=policy)["stdout"].splitlines()
    assert [line.split()[1] == "answered" for line in out] == [True, True, False, False, False]


def test_a_request_narrows_the_list_and_never_widens_it(inside):
    policy = inside.reach(https("api.example.com", [7002]), https("six.example.com", [7002]))
    out = inside.json(PYTHON, "-c", CONNECT, "api.example.com:7002", "six.example.com:7002", policy=policy,
                      options=["--egress", "six.example.com:7002"])["stdout"].splitlines()
    assert [line.split()[1] == "answered" for line in out] == [False, True]
    refused = inside.run("true", policy=policy, options=["--egress", "www.example.com:7002"])
    assert refused.returncode == 125 and b"www.example.com" in refused.stderr


def test_cidr_rules_open_addresses_that_are_dialled_as_they_are(inside):
    policy = inside.reach({"cidr": "10.66.0.0/24", "ports": [7002]}, {"cidr": "2001:db8::/64", "ports": [7002]})
    places = ["10.66.0.1:7002", f"{SIX}:7002", "10.66.0.1:80", f"{PUBLIC}:7002"]
    out = inside.python(CONNECT, *places, policy=policy)["stdout"].splitlines()
    assert [line.split()[1] == "answered" for line in out] == [True, True, False, False]


# --- names that lead elsewhere ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["private", "meta", "loop", "mapped", "nat64", "sixto4", "zero", "cgnat", "own", "ula", "multi",
                                  "evilchain"])
def test_an_allowed_name_never_leads_to_an_address_that_is_not_public(harness, name):
    _, out, events = harness.run(PYTHON, "-c", CONNECT, f"{name}.example.com:7002", rules=["*.example.com:7002"])
    assert "answered" not in out and "closed" not in out
    refusals = [e for e in events if e.startswith(("refuse address-class", "refuse host-address"))]
    assert refusals and all(f"{name}.example.com" in line for line in refusals)
    facts = harness.internet.seen()
    assert harness.internet.bytes_to(facts) == 0 and not [f for f in facts if f["kind"] == "packet" and f["to"] != "192.0.2.53"]


@pytest.mark.parametrize("range, opened", [("10.66.0.0/24", True), ("10.0.0.0/8", True), ("8.0.0.0/5", False), ("0.0.0.0/0", False)])
def test_a_cidr_rule_within_its_block_opens_such_an_address_for_a_name(harness, range, opened):
    _, out, _ = harness.run(PYTHON, "-c", CONNECT, "private.example.com:7002", rules=["private.example.com:7002", f"{range}:7002"])
    assert ("answered" in out) == opened


NEAR = ["10.66.0.1", "169.254.169.254", "100.64.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255", "192.168.0.1", "168.63.129.16",
        "2001:db8::1", "fd00::1", "64:ff9b::a42:1", "2002:a42:1::", "::a42:1", "4000::1"]
SEND = """
import socket, sys
for place in sys.argv[1:]:
    family, to = (socket.AF_INET6 if ":" in place else socket.AF_INET), (place, 7003)
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.settimeout(60)
        try:
            s.connect(to); s.send(b"out"); print(place, "answered" if s.recv(9) else "closed")
        except OSError as error: print(place, type(error).__name__)
"""


@pytest.mark.parametrize("code, port, options", [(CONNECT, 7002, ["-a"]), (SEND, 7003, ["-a", "-u"])], ids=["tcp", "udp"])
def test_a_range_of_all_addresses_is_that_of_the_public_ones(harness, code, port, options):
    """Neither what a program dials nor what a name leads to is near the host, or the host."""
    udp = "-u" in options
    protocol = "/udp" if udp else ""
    rules = [f"0.0.0.0/0:{port}{protocol}", f"[::/0]:{port}{protocol}", f"*.example.com:{port}{protocol}"]
    names = [f"{name}.example.com" for name in ("private", "meta", "cgnat", "own", "ula", "nat64", "sixto4")]
    ends = [place if udp else f"{place}:{port}" for place in [*NEAR, *names, PUBLIC]]
    harness.internet.seen()
    _, out, events = harness.run(PYTHON, "-c", code, *ends[:-1], rules=rules, options=options)
    assert len(out.splitlines()) == len(ends) - 1 and "answered" not in out and "closed" not in out, out
    facts = harness.internet.seen()
    assert harness.internet.bytes_to(facts) == 0 and not [f for f in facts if f["kind"] == "packet" and f["to"] != "192.0.2.53"], facts
    own = [line for line in events if " 192.0.2.1 " in line]
    assert own and all(line.startswith("refuse host-address") for line in own), events
    _, out, events = harness.run(PYTHON, "-c", code, ends[1], ends[-1], rules=rules, options=options)
    assert [line.split()[1] == "answered" for line in out.splitlines()] == [False, True], out
    assert [line.split()[3] for line in events if line.startswith("connect")] == [PUBLIC]


def test_of_mixed_answers_only_the_public_one_is_dialled(harness):
    _, out, events = harness.run(PYTHON, "-c", CONNECT, "mixed.example.com:7002", rules=["mixed.example.com:7002"])
    assert "answered" in out
    assert [e.split()[3] for e in events if e.startswith("connect")] == [PUBLIC]


def test_a_name_with_hundreds_of_addresses_is_reached(harness):
    _, out, events = harness.run(PYTHON, "-c", CONNECT, "crowd.example.com:7002", "api.example.com:7002", rules=["*.example.com:7002"])
    assert out == "crowd.example.com:7002 answered\napi.example.com:7002 answered\n" and events[-1] == "ended 0", events


def test_a_chain_of_names_is_followed_to_a_public_end(harness):
    _, out, _ = harness.run(PYTHON, "-c", CONNECT, "chain.example.com:7002", rules=["chain.example.com:7002"])
    assert "answered" in out


def test_a_name_that_is_rebound_is_screened_at_each_connect(harness):
    _, out, events = harness.run(PYTHON, "-c", CONNECT, *["rebind.example.com:7002"] * 2, rules=["rebind.example.com:7002"])
    assert [line.split()[1] == "answered" for line in out.splitlines()] == [True, False]
    assert any(e.startswith("refuse address-class rebind.example.com 127.0.0.1") for e in events)


def test_a_host_with_both_families_is_reached_by_either(harness):
    for name in ("six.example.com", "both.example.com"):
        _, out, _ = harness.run(PYTHON, "-c", CONNECT, f"{name}:7002", rules=[f"{name}:7002"])
        assert "answered" in out


# --- questions -------------------------------------------------------------------------------------------------------

DIG = """
import socket, struct, sys
def ask(server, name, kind, tcp=False):
    message = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(
        bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\\0" + struct.pack("!HH", kind, 1)
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(60)
    s.connect((server, 53))
    s.sendall(struct.pack("!H", len(message)) + message if tcp else message)
    answer = s.recv(2000)[2 if tcp else 0:]
    return answer[3] & 15, struct.unpack("!H", answer[6:8])[0], s.getpeername()[0]
for server in ("127.0.0.53", "8.8.8.8", "192.0.2.53", "2001:4860:4860::8888", "::1"):
    for tcp in (False, True):
        print(server, tcp, ask(server, "api.example.com", 1, tcp)[:2], ask(server, "aPi.example.com", 28, tcp)[:2],
              ask(server, "api.example.com", 65, tcp)[:2], ask(server, "nope.example.com", 1, tcp)[:2])
"""


def test_every_resolver_answers_from_the_rules_and_asks_nobody_for_an_address(harness):
    _, out, events = harness.run(PYTHON, "-c", DIG, rules=["api.example.com:443"])
    lines = out.splitlines()
    assert len(lines) == 10, out
    for line in lines:
        assert line.endswith("(0, 1) (0, 1) (0, 0) (3, 0)"), line
    asked = {(f["name"], f["type"]) for f in harness.internet.seen() if f["kind"] == "question"}
    assert asked == {("api.example.com", 65)}  # which only the name's own servers know
    assert any(e.startswith("refuse not-listed nope.example.com") for e in events)


def test_data_in_questions_does_not_leave(harness):
    code = """
import socket
for i in range(300):
    try: socket.getaddrinfo(f"{i:060x}.data.example.com", 443)
    except OSError: pass
    try: socket.getaddrinfo(f"{i:060x}.evil.test", 443)
    except OSError: pass
"""
    _, _, events = harness.run(PYTHON, "-c", code, rules=["*.example.com:443"], options=["-l", "names=50"])
    assert [f for f in harness.internet.seen() if f["kind"] in ("question", "packet")] == []
    assert sum(e.startswith("name ") for e in events) == 50
    assert any(e.startswith("refuse budget") for e in events)


def test_a_synthetic_address_has_its_name(harness):
    _, out, _ = harness.run(PYTHON, "-c", "import socket; print(socket.gethostbyaddr(socket.gethostbyname('api.example.com'))[0])",
                            rules=["api.example.com:443"])
    assert out == "api.example.com\n"


# --- TLS and HTTP ----------------------------------------------------------------------------------------------------


def test_https_works_and_another_name_in_the_hello_does_not(inside):
    policy = inside.reach(https("api.example.com"), https("www.example.com", [80]))
    copy = inside.home / "ca.pem"
    shutil.copy(inside.internet.certificate, copy)
    pem = copy.read_text()
    code = """
import socket, ssl, sys
context = ssl.create_default_context(cadata=sys.argv[1])
def fetch(name):
    with socket.create_connection(("api.example.com", 443), timeout=60) as raw:
        context.check_hostname = False
        with context.wrap_socket(raw, server_hostname=name) as s:
            s.sendall(b"GET /secure HTTP/1.1\\r\\nHost: api.example.com\\r\\n\\r\\n")
            return s.recv(1000).split(b"\\r\\n\\r\\n")[1].decode()
for name in ("api.example.com", "API.Example.com", "www.example.com", "evil.test", None):
    try: print(name, fetch(name))
    except OSError as error: print(name, "refused")
with socket.create_connection(("api.example.com", 443), timeout=60) as raw:
    raw.sendall(b"GET / HTTP/1.1\\r\\nHost: api.example.com\\r\\n\\r\\n")
    try: print("plain", raw.recv(100))
    except OSError: print("plain refused")
"""
    done = inside.python(code, pem, policy=policy)
    assert done["stdout"].splitlines() == ["api.example.com /secure", "API.Example.com /secure", "www.example.com refused",
                                           "evil.test refused", "None refused", "plain refused"], done
    assert sum(f["kind"] == "tls" and f["bytes"] > 0 for f in inside.internet.seen()) == 2


def test_a_hello_in_pieces_is_read_as_one(harness):
    code = """
import socket, ssl, time
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
tls = context.wrap_bio(i, o, server_hostname="api.example.com")
try: tls.do_handshake()
except ssl.SSLWantReadError: pass
s = socket.create_connection(("api.example.com", 443)); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for byte in o.read():
    s.sendall(bytes([byte]))
print(s.recv(3).hex())
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:443"])
    assert out == "160303\n"


def test_each_request_of_a_connection_is_for_the_host_that_was_dialled(harness):
    code = """
import socket, sys
s = socket.create_connection(("api.example.com", 80), timeout=60)
for host in ("api.example.com", "API.EXAMPLE.COM:80", "evil.test"):
    s.sendall(b"GET /%s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % (host.encode(), host.encode()))
    try: print(s.recv(1000).split(b"\\r\\n\\r\\n")[1].decode())
    except (OSError, IndexError): print("refused")
s = socket.create_connection(("api.example.com", 80), timeout=60)
s.sendall(b"GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n")
print(s.recv(1000).split(b"\\r\\n")[0].decode())
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:80"])
    assert out.splitlines() == ["/api.example.com", "/API.EXAMPLE.COM:80", "refused", "HTTP/1.1 400 Bad Request"]
    heads = [f["head"] for f in harness.internet.seen() if f["kind"] == "request"]
    assert len(heads) == 2 and not any("evil" in head for head in heads)
    assert sum(e.startswith("refuse http-host") for e in events) >= 1


# --- connections -----------------------------------------------------------------------------------------------------


def test_both_halves_of_a_connection_end_on_their_own(harness):
    code = """
import socket
s = socket.create_connection(("api.example.com", 7000))
s.sendall(b"q" * 20_000_000); s.shutdown(socket.SHUT_WR)
print(s.recv(9).decode())
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:7000"])
    assert out == "20000000:\n"


def test_large_answers_arrive_whole(inside):
    policy = inside.reach(https("api.example.com", [80]))
    done = inside.json("sh", "-c", "curl -sS http://api.example.com/bytes/30000000 | wc -c", policy=policy)
    assert done["stdout"].strip() == "30000000" and done["usage"]["egress"]["bytes_in"] >= 30000000


ERRNO = """
import errno, socket, sys
for place in sys.argv[1:]:
    host, port = place.rsplit(":", 1)
    for family in (socket.AF_INET, socket.AF_INET6):
        s = socket.socket(family)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)  # given up after three seconds
        try: s.connect(socket.getaddrinfo(host, int(port), family)[0][4]); print(place, "connected")
        except OSError as error: print(place, errno.errorcode[error.errno])
"""


def test_connect_fails_as_the_network_says(inside):
    """The way to each host is broken on the side of pinfold's own host."""
    inside.internet.ask(zone={**ZONE, "nowhere.example.com": [], "nobody.example.com": ["192.0.2.77"], "silent.example.com": ["192.0.2.79"]})
    table, route = (["nsenter", f"--net=/run/netns/{inside.internet.host}", *words] for words in (["nft"], ["ip", "route"]))
    subprocess.run([*table, "add table ip broken; add chain ip broken out { type filter hook postrouting priority 0; }; "
                    "add rule ip broken out ip daddr 192.0.2.79 drop"], check=True)
    subprocess.run([*route, "add", "unreachable", "192.0.2.77/32"], check=True)
    try:
        places = ["api.example.com:9999", "nobody.example.com:80", "nowhere.example.com:80", "api.example.com:7002", "www.example.com:80",
                  "silent.example.com:80"]
        policy = inside.reach(https("api.example.com", [9999, 7002]), https("nobody.example.com", [80]), https("nowhere.example.com", [80]),
                              https("silent.example.com", [80]), https("www.example.com", [443]))
        out, events, _ = inside.events(PYTHON, "-c", ERRNO, *places, policy=policy)
    finally:
        subprocess.run([*route, "del", "unreachable", "192.0.2.77/32"], check=True)
        subprocess.run([*table, "delete table ip broken"], check=True)
    expected = ["ECONNREFUSED", "EHOSTUNREACH", "EHOSTUNREACH", "connected", "ECONNREFUSED", "ETIMEDOUT"]
    assert out.splitlines() == [f"{place} {word}" for place, word in zip(places, expected) for _ in range(2)]
    assert {e["host"] for e in events if e["event"] == "fail"} >= {"api.example.com", "nobody.example.com", "nowhere.example.com"}
    assert {e["reason"] for e in events if e["event"] == "refuse"} == {"port"}


def test_a_peer_that_never_reads_holds_up_nobody_else(harness):
    code = """
import socket, threading
stuck = socket.create_connection(("api.example.com", 7001)); stuck.setblocking(False)
try:
    while True: stuck.send(b"z" * 65536)
except BlockingIOError: pass
for _ in range(20):
    s = socket.create_connection(("api.example.com", 7002), timeout=60); assert s.recv(10) == b"hello\\n"; s.close()
print("fine")
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:7001-7002"])
    assert out == "fine\n"


def test_a_thousand_connections_are_held_and_the_next_one_is_refused(harness):
    code = """
import socket, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = []
for _ in range(1000):
    s = socket.create_connection(("api.example.com", 7002), timeout=60); assert s.recv(10) == b"hello\\n"; held.append(s)
try: print(socket.create_connection(("api.example.com", 7002), timeout=60).recv(10))
except ConnectionRefusedError: print("refused")
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7002"], options=["-l", "at-once=1000"])
    assert out == "refused\n"
    assert any(e.startswith("refuse budget api.example.com") for e in events)
    count = lambda kind: sum(int(e.split("times=")[1].split()[0]) for e in events if e.startswith(kind))
    assert (count("connect "), count("close ")) == (1000, 1000)


def test_budgets_of_bytes_close_the_connection(harness):
    _, out, events = harness.run("sh", "-c", "curl -sS http://api.example.com/bytes/9000000 | wc -c", rules=["api.example.com:80"],
                                 options=["-l", "in=1000000"])
    assert 1000000 <= int(out.split()[-1]) < 9000000 or "curl" in out
    assert any(e.startswith("refuse budget") for e in events)


def test_a_rate_is_kept(harness):
    started = time.monotonic()
    _, out, _ = harness.run("sh", "-c", "curl -sS http://api.example.com/bytes/3000000 | wc -c", rules=["api.example.com:80"],
                            options=["-l", "rate=1000000"])
    assert out.strip() == "3000000" and time.monotonic() - started > 1.5


def test_new_rules_cut_what_they_forbid(harness):
    code = """
import socket, sys
s = socket.create_connection(("api.example.com", 7002)); print(s.recv(10), flush=True)
sys.stdin.readline()
try: print(s.recv(10))
except ConnectionResetError: print("cut")
t = socket.create_connection(("www.example.com", 7002)); print(t.recv(10))
"""
    read, write = os.pipe()
    process = harness.start(PYTHON, "-uc", code, rules=["api.example.com:7002"], options=["-a"], requests=read,
                            stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"b'hello\\n'\n"
    os.write(write, b"replace www.example.com:7002\n")
    harness.wait_for(process, "replaced")
    out = process.communicate(b"\n", timeout=60)[0]
    os.close(write)
    os.close(read)
    assert out == b"cut\nb'hello\\n'\n"


# --- UDP -------------------------------------------------------------------------------------------------------------


def test_udp_reaches_what_a_rule_names_and_nothing_else(inside):
    code = """
import socket
def ask(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)  # a refusal is told at once
    try:
        s.connect((host, port)); s.send(b"ping"); return s.recv(100)
    except OSError as error: return "refused"
print(ask("api.example.com", 7003), ask("api.example.com", 7004), ask("203.0.113.5", 7003))
"""
    policy = inside.reach({"host": "api.example.com", "ports": [7003], "protocol": "udp"})
    done = inside.python(code, policy=policy)
    assert done["stdout"] == "b'echo:ping' refused refused\n", done
    assert {(f["to"], f["port"]) for f in inside.internet.seen() if f["kind"] == "packet" and f["to"] != "192.0.2.53"} == {(PUBLIC, 7003)}


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_a_named_resolver_is_asked_itself(harness, protocol):
    """By its name or its address; any other one, and it by the other protocol, is the broker."""
    code = DIG.split("for server")[0] + f"""
for server in (socket.gethostbyname('resolver.example.com'), '192.0.2.53', '192.0.2.54', '127.0.0.1'):
    print(*(ask(server, 'www.example.com', 1, tcp)[:2] for tcp in ({protocol == 'tcp'}, {protocol != 'tcp'})))
"""
    harness.internet.ask(zone={**ZONE, "resolver.example.com": ["192.0.2.53"]})
    rules = [f"resolver.example.com:53/{protocol}", f"192.0.2.53/32:53/{protocol}"]
    _, out, events = harness.run(PYTHON, "-c", code, rules=rules, options=["-u", "-a"])
    assert out.splitlines() == ["(0, 1) (3, 0)"] * 2 + ["(3, 0) (3, 0)"] * 2, (out, events)
    assert {e.split()[5] for e in events if e.startswith("connect allowed")} == {protocol}, events


# --- the broker itself -----------------------------------------------------------------------------------------------


def test_the_broker_stands_behind_walls_of_its_own(harness):
    process = harness.start("sleep", "20", rules=["api.example.com:443"])
    pid = int(harness.wait_for(process, "broker").split()[1])
    harness.wait_for(process, "ready")
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert status["CapEff"] == status["CapPrm"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert status["Uid"].split()[0] != "0" and status["Threads"] == "1"
    assert os.listdir(f"/proc/{pid}/root") == []
    own = lambda ns: os.readlink(f"/proc/{pid}/ns/{ns}") != os.readlink(f"/proc/self/ns/{ns}")
    assert own("user") and own("mnt") and own("ipc")
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
    assert "Max core file size        1                    1" in limits
    kinds = {os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{pid}/fd")}
    assert kinds <= {"socket", "anon_inode", "/memfd", "/dev/null"}, kinds
    process.terminate()
    process.communicate()


@pytest.fixture(params=["uring", "epoll"])
def inside_each_loop(request, inside):
    """As root and as an ordinary user, and with each loop of the supervisor; the broker has its own, on epoll."""
    inside.io = request.param
    return inside


def test_each_loop_hands_on_all_that_the_broker_tells(inside_each_loop):
    inside = inside_each_loop
    places = ["api.example.com:7002"] * 3 + ["api.example.com:81", "evil.test:7002"] * 2
    out, events, last = inside.events(PYTHON, "-c", CONNECT, *places, policy=inside.reach(https("api.example.com", [7002])))
    assert out.count("answered") == 3 and out.count("rror") == 4, out
    kinds = [event["event"] for event in events]
    assert kinds[0] == "ready" and kinds.count("connect") == kinds.count("close") and "refuse" in kinds
    usage = last["usage"]["egress"]
    assert usage["allowed"] == 3 and usage["denied"] >= 4 and usage["bytes_in"] == 18 and usage["bytes_out"] > 0
    assert "egress" not in last["missing"]


def test_a_dead_broker_closes_the_network_and_the_result_says_so(inside_each_loop):
    inside = inside_each_loop
    code = """
import socket, sys, time
s = socket.create_connection(("api.example.com", 7001)); print(s.recv(5), flush=True)
place = s.getpeername()[0], 7002  # its name can't be asked for any more
for _ in range(1200):
    try:
        if not s.send(b"x"): break
    except OSError: print("closed"); break
    time.sleep(0.05)
try: socket.create_connection(place, timeout=60); print("open")
except ConnectionRefusedError: print("refused")
"""
    policy = inside.reach(https("api.example.com", [7001, 7002]))
    process = inside.spawn(inside.argv(PYTHON, "-uc", code, policy=policy, options=["--stream"]), stdout=subprocess.PIPE,
                           stdin=subprocess.DEVNULL)
    lines = []
    for line in process.stdout:
        lines.append(json.loads(line))
        if lines[-1].get("event") == "connect":
            for pid in brokers_below(process.pid):
                os.kill(pid, signal.SIGKILL)
    process.wait(60)
    out = "".join(line["data"] for line in lines if line["type"] == "stdout")
    assert out.endswith("closed\nrefused\n"), out
    assert "egress" in lines[-1]["missing"]


def brokers_below(pid):
    """The brokers among all that a process has started."""
    found = []
    for child in map(int, read(pathlib.Path(f"/proc/{pid}/task/{pid}/children")).split()):
        found += [child] if read(pathlib.Path(f"/proc/{child}/comm")) == "pinfold-broker\n" else brokers_below(child)
    return found


def test_nothing_is_left_behind(inside):
    policy = inside.reach(https("api.example.com", [7002]))
    inside.python(CONNECT, "api.example.com:7002", policy=policy)
    network = os.stat(f"/run/netns/{inside.internet.host}").st_ino  # other tests have brokers of their own
    eventually(lambda: not [p for p in pathlib.Path("/proc").glob("[0-9]*/comm") if read(p) == "pinfold-broker\n" and is_in(p.parent, network)],
               "a broker outlives its run")


def read(path):
    try:
        return path.read_text()
    except OSError:  # it has ended
        return ""


def is_in(process, network):
    """Of a process that has ended nobody can say that any more."""
    try:
        return os.stat(process / "ns/net").st_ino == network
    except OSError:
        return False
