"""Under which terms a rule lets a connection out: budgets, what is looked into, how a refused name is answered."""
import json

import pytest

from egress_world import CONNECT, NEEDS_ROOT, PYTHON, https
from egress_world import harness, inside, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT

HELLO = """
import socket, ssl, sys
def fetch(port, name):
    context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("api.example.com", port), timeout=60) as raw:
        with context.wrap_socket(raw, server_hostname=name) as s:
            s.sendall(b"GET /secure HTTP/1.1\\r\\nHost: api.example.com\\r\\n\\r\\n")
            return s.recv(1000).split(b"\\r\\n\\r\\n")[1].decode()
def plain(port):
    with socket.create_connection(("api.example.com", port), timeout=60) as raw:
        raw.sendall(b"GET / HTTP/1.1\\r\\nHost: api.example.com\\r\\n\\r\\n")
        raw.recv(100)  # a TLS server says nothing to it: whether it has come is in the events
for what, call in (("own", lambda: fetch(443, "api.example.com")), ("other", lambda: fetch(443, "www.example.com")),
                   ("none", lambda: fetch(443, None)), ("plain", lambda: plain(443))):
    try: print(what, call())
    except OSError: print(what, "refused")
"""


@pytest.mark.parametrize("terms, passes", [
    ({}, "own"), ({"accept": ["no-name"]}, "own none"), ({"accept": ["plain-text"]}, "own plain"),
    ({"accept": ["encrypted-hello"]}, "own"), ({"inspect": "none"}, "own other none plain"),
    ({"inspect": "http"}, "plain")], ids=str)
def test_what_a_rule_lets_pass_where_tls_is_expected(inside, terms, passes):
    policy = inside.reach({**https("api.example.com"), **terms})
    out, events, _ = inside.events(PYTHON, "-c", HELLO, policy=policy)
    lines = dict(line.split() for line in out.splitlines())
    passed = {what for what, result in lines.items() if what != "plain" and result != "refused"}
    if not any(e["event"] == "refuse" and e["reason"] == "not-tls" for e in events):
        passed.add("plain")
    assert passed == set(passes.split()), (lines, events)


ENCRYPTED = """
import socket, struct
def hello(name, inner):
    def ext(kind, data): return struct.pack("!HH", kind, len(data)) + data
    sni = struct.pack("!HBH", len(name) + 3, 0, len(name)) + name
    extensions = ext(0, sni) + (ext(0xfe0d, b"\\0" * 40) if inner else b"")
    body = b"\\3\\3" + b"r" * 32 + b"\\0" + b"\\0\\2\\x13\\1" + b"\\1\\0" + struct.pack("!H", len(extensions)) + extensions
    message = b"\\1" + len(body).to_bytes(3, "big") + body
    return b"\\x16\\3\\1" + struct.pack("!H", len(message)) + message
for name, inner in ((b"api.example.com", False), (b"api.example.com", True), (b"public.example.net", True)):
    with socket.create_connection(("api.example.com", 443), timeout=60) as s:
        s.sendall(hello(name, inner))
        try: print(name.decode(), inner, "passed" if s.recv(100) else "closed")
        except OSError: print(name.decode(), inner, "refused")
"""


@pytest.mark.parametrize("accept, second", [([], "refused"), (["encrypted-hello"], "passed")])
def test_a_hello_inside_a_hello_passes_only_where_a_rule_says_so_and_with_the_outer_name(inside, accept, second):
    policy = inside.reach({**https("api.example.com"), "accept": accept})
    lines = inside.python(ENCRYPTED, policy=policy)["stdout"].splitlines()
    assert lines == ["api.example.com False passed", f"api.example.com True {second}", "public.example.net True refused"]


def test_tls_and_http_can_be_asked_for_on_any_port(inside):
    policy = inside.reach({**https("api.example.com", [7000]), "inspect": "tls"},
                          {**https("api.example.com", [7002]), "inspect": "http"})
    code = """
import socket
for port, data in ((7000, b"not tls at all"), (7002, b"GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n")):
    s = socket.create_connection(("api.example.com", port), timeout=60)
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        while more := s.recv(1000): print(port, more[:12])
        print(port, "ended")
    except OSError: print(port, "reset")
"""
    out, events, end = inside.events(PYTHON, "-c", code, policy=policy)
    reasons = [(e["port"], e["reason"]) for e in events if e["event"] == "refuse"]
    assert reasons == [(7000, "not-tls"), (7002, "http-host")], out
    assert inside.internet.bytes_to(inside.internet.seen()) == 0


def many(host, count, port=7002):
    return f"""
import socket
for i in range({count}):
    try: print(socket.create_connection(("{host}", {port}), timeout=60).recv(100).decode().strip())
    except OSError: print("reset")
"""


def test_a_budget_is_shared_by_its_rules_and_binds_no_other(inside):
    rules = [{**https("api.example.com", [7002]), "budget": "b"}, {**https("www.example.com", [7002]), "budget": "b"},
             https("chain.example.com", [7002])]
    policy = inside.policy(extends=["tool"], network={"egress": rules, "budgets": [{"name": "b", "connections_total": 3}]})
    code = many("api.example.com", 2) + many("www.example.com", 2) + many("chain.example.com", 3)
    out, events, end = inside.events(PYTHON, "-c", code, policy=policy)
    assert out.split() == ["hello"] * 3 + ["reset"] + ["hello"] * 3
    refusals = {(e["host"], e["reason"]) for e in events if e["event"] == "refuse"}  # of both families, perhaps
    assert refusals == {("www.example.com", "budget")}
    assert end["usage"]["egress"]["denied"] >= 1 and end["usage"]["egress"]["allowed"] == 6


def test_bytes_of_a_budget_end_the_connection_and_the_rest_goes_on(inside):
    policy = inside.policy(extends=["tool"], network={
        "egress": [{**https("api.example.com", [80]), "budget": "small"}, https("www.example.com", [80])],
        "budgets": [{"name": "small", "bytes_in": "64KiB"}]})
    script = "curl -sS -o /dev/null -w '%{size_download}\\n' http://api.example.com/bytes/1000000; " \
             "curl -sS -o /dev/null -w '%{size_download}\\n' http://www.example.com/bytes/1000000"
    done = inside.json("sh", "-c", script, policy=policy)
    first, second = (int(line) for line in done["stdout"].splitlines())
    assert first < 400000 and second == 1000000
    assert done["usage"]["egress"]["denied"] >= 1


@pytest.mark.parametrize("limit", ["idle", "lifetime"])
def test_a_connection_ends_that_is_idle_or_old(inside, limit):
    policy = inside.policy(extends=["tool"], network={"egress": [https("api.example.com", [7002])], "limits": {limit: "1s"}})
    code = """
import socket, time
while True:
    start = time.monotonic()
    s = socket.create_connection(("api.example.com", 7002), timeout=60)
    try: s.recv(100)
    except ConnectionResetError: continue  # on a busy machine it may be old before its first word is read
    try: s.recv(1)
    except ConnectionResetError: print("reset", time.monotonic() - start > 0.5)
    break
"""
    out, events, _ = inside.events(PYTHON, "-c", code, policy=policy)
    assert out == "reset True\n"
    assert {e["reason"] for e in events if e["event"] == "refuse"} == {"budget"}


def test_connections_at_once_are_counted_while_they_are_open(inside):
    policy = inside.policy(extends=["tool"], network={"egress": [https("api.example.com", [7002])], "limits": {"connections": 2}})
    code = """
import socket, time
def one():
    try:
        s = socket.create_connection(("api.example.com", 7002), timeout=60)
        print(s.recv(100).decode().strip())
        return s
    except ConnectionError: return None
held = [one() for _ in range(3)]
print("reset" if held[2] is None else "?")
held.pop(0).close()
while one() is None: time.sleep(0.05)  # until the broker has seen that end
"""
    assert inside.python(code, policy=policy)["stdout"].split() == ["hello", "hello", "reset", "hello"]


RCODE = """
import socket, struct
m = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\\4nope\\7example\\3com\\0" + struct.pack("!HH", 1, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); s.connect(("9.9.9.9", 53)); s.send(m)
print(s.recv(600)[3] & 15)
"""


@pytest.mark.parametrize("word, code", [("nxdomain", "3"), ("refused", "5")])
def test_a_name_that_no_rule_allows_is_answered_as_the_policy_says(inside, word, code):
    policy = inside.policy(extends=["tool"], network={"egress": [https("api.example.com")], "unknown_names": word})
    assert inside.python(RCODE, policy=policy)["stdout"].strip() == code
    assert inside.internet.seen() == []


def test_a_request_has_the_terms_of_the_rule_that_grants_it(inside):
    policy = inside.policy(extends=["tool"], network={
        "egress": [{**https("*.example.com", [7002]), "budget": "b"}], "budgets": [{"name": "b", "connections_total": 1}]})
    code = many("api.example.com", 1) + many("www.example.com", 1)
    done = inside.json(PYTHON, "-c", code, policy=policy,
                       options=["--egress", "api.example.com:7002", "--egress", "www.example.com:7002"])
    assert done["stdout"].split() == ["hello", "reset"]


def test_a_wildcard_over_a_public_suffix_is_refused_wherever_it_is_asked_for(inside):
    bad = inside.run("true", policy=inside.reach(https("*.co.uk")))
    assert bad.returncode == 125 and b"public suffix" in bad.stderr
    asked = inside.run("true", policy=inside.reach(https("api.example.com")), options=["--egress", "*.com:443"])
    assert asked.returncode == 125 and b"public suffix" in asked.stderr


def test_terms_survive_the_way_through_a_bundle(inside):
    policy = inside.policy(extends=["tool"], network={
        "egress": [{**https("api.example.com"), "accept": ["plain-text"], "budget": "b"}],
        "budgets": [{"name": "b", "connections_total": 5}], "limits": {"lifetime": "1h"}, "unknown_names": "refused"})
    done = inside.call([*inside.identity(), inside.program, "bundle", "export", "--policy", policy, inside.home / "exported",
                        "--", "true"])
    assert done.returncode == 0, done.stderr
    block = json.loads((inside.home / "exported/config.json").read_text())["pinfold"]
    rule, = block["egress"]
    assert rule["accept"] == ["plain-text"] and rule["budget"] == "b" and block["unknownNames"] == "refused"
    assert block["egressBudgets"] == [{"name": "b", "connectionsTotal": 5}] or block["egressBudgets"][0]["connectionsTotal"] == 5
    assert block["egressLimits"]["lifetimeNs"] == 3600 * 10**9 and block["egressLimits"]["connections"] == 1024


def test_connect_refuses_at_once(inside):
    out = inside.python(CONNECT, "api.example.com:7001", policy=inside.reach(https("api.example.com", [7002])))["stdout"]
    assert out == "api.example.com:7001 ConnectionRefusedError\n"
