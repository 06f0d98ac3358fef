"""The resolver that programs see: HTTPS records, odd questions, and the programs that ask."""
import shutil

import pytest

from egress_world import NEEDS_ROOT, PUBLIC, PYTHON, ZONE
from egress_world import harness, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT


def param(key, value):
    return key.to_bytes(2, "big") + len(value).to_bytes(2, "big") + value


def record(priority, target, *params):
    name = b"".join(bytes([len(p)]) + p.encode() for p in target.split(".") if p) + b"\0"
    return "https:" + (priority.to_bytes(2, "big") + name + b"".join(params)).hex()


ALPN, PORT = param(1, b"\2h3\2h2"), param(3, (8443).to_bytes(2, "big"))
HINTS = param(4, bytes([10, 66, 0, 1])) + param(5, b"secret key") + param(6, bytes(16))
RECORDS = {
    "api.example.com": [PUBLIC, record(1, "", ALPN, PORT, HINTS)],
    "alias.example.com": [record(0, "api.example.com")],
    "evil.example.com": [record(0, "evil.test"), record(1, "evil.test", ALPN), record(1, "", param(3, b"\0\x16"))],
    "chain.example.com": ["cname:cdn.example.net"], "cdn.example.net": [record(1, "", param(1, b"\2h2"))],
    "silent.example.com": [PUBLIC], "noise.example.com": [PUBLIC],
    "many.example.com": [record(i, "a" * 60 + "." + "b" * 60 + ".example.com", ALPN) for i in range(1, 7)],
}
WIRE = """
import socket, struct, sys, time
def message(name, kind, tail=b"", qclass=1, flags=0x100, counts=(1, 0, 0, 0)):
    question = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".") if p) + b"\\0" + struct.pack("!HH", kind, qclass)
    return struct.pack("!HHHHHH", 7, flags, *counts) + question * min(counts[0], 2) + tail
def ask(message, tcp=False, server="9.9.9.9", timeout=60):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM); s.settimeout(timeout); s.connect((server, 53))
    s.sendall(struct.pack("!H", len(message)) + message if tcp else message)
    try: answer = s.recv(5000)
    except TimeoutError: return None
    if tcp and answer:
        while len(answer) < 2 + int.from_bytes(answer[:2], "big"): answer += s.recv(5000)
    return answer[2:] if tcp else answer
def facts(answer): # rcode, answers, TC, AD
    return answer and (answer[3] & 15, struct.unpack("!H", answer[6:8])[0], answer[2] >> 1 & 1, answer[3] >> 5 & 1)
OPT = b"\\0\\0\\x29\\x10\\0\\0\\0\\x80\\0\\0\\0"  # 4096 bytes, DO
"""


@pytest.mark.skipif(not shutil.which("dig"), reason="not installed: dig")
def test_https_records_of_a_name_are_what_the_rules_let_stand(harness):
    harness.internet.ask(zone={**ZONE, **RECORDS})
    script = "for n in api alias evil chain silent noise; do echo $n $(dig +short +tries=1 +time=60 @9.9.9.9 $n.example.com HTTPS); done"
    _, out, _ = harness.run("sh", "-c", script, rules=["*.example.com:443", "*.example.com:8443"])
    assert out.splitlines() == ['api 1 . alpn="h2" port=8443', "alias 0 api.example.com.", "evil", 'chain 1 . alpn="h2"', "silent", "noise"]
    asked = {f["name"] for f in harness.internet.seen() if f["kind"] == "question" and f["type"] == 65}
    assert asked == {f"{n}.example.com" for n in ("api", "alias", "evil", "chain", "silent", "noise")}


def test_http_3_and_ports_are_told_of_where_a_rule_opens_them(harness):
    harness.internet.ask(zone={**ZONE, **RECORDS})
    code = WIRE + "print(ask(message('api.example.com', 65)).hex())"
    for rules, has_record, has_h3 in ((["api.example.com:8443", "api.example.com:8443/udp"], True, True), (["api.example.com:8443"], True, False),
                                      (["api.example.com:443"], False, False)):
        _, out, _ = harness.run(PYTHON, "-c", code, rules=rules)
        answer = bytes.fromhex(out)
        assert (answer[7] == 1, b"\2h3" in answer) == (has_record, has_h3), (rules, out)
        assert bytes([10, 66, 0, 1]) not in answer and b"secret" not in answer


def test_no_question_of_another_kind_leaves(harness):
    harness.internet.ask(zone={**ZONE, **RECORDS})
    code = WIRE + """
for kind in (2, 5, 6, 15, 16, 33, 35, 43, 48, 52, 99, 250, 251, 252, 253, 254, 255, 256, 257, 65280):
    print(facts(ask(message("api.example.com", kind))), facts(ask(message("evil.test", kind))))
print(facts(ask(message("evil.test", 65))), facts(ask(message("_8443._https.api.example.com", 65))))
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:443"])
    assert set(out.splitlines()) == {"(0, 0, 0, 0) (3, 0, 0, 0)", "(3, 0, 0, 0) (3, 0, 0, 0)"}, out
    assert [f for f in harness.internet.seen() if f["kind"] in ("question", "packet")] == []


def test_odd_messages_are_refused_and_hold_up_nobody(harness):
    harness.internet.ask(zone={**ZONE, **RECORDS})
    code = WIRE + """
good = message("api.example.com", 1)
rows = {
    "edns and do": message("api.example.com", 1, OPT, counts=(1, 0, 0, 1)), "chaos": message("version.bind", 16, qclass=3),
    "any class": message("api.example.com", 1, qclass=255), "no question": message("api.example.com", 1, counts=(0, 0, 0, 0)),
    "two questions": message("api.example.com", 1, counts=(2, 0, 0, 0)), "notify": message("api.example.com", 6, flags=0x2000),
    "update": message("api.example.com", 6, flags=0x2800), "iquery": message("api.example.com", 1, flags=0x0800),
    "an answer": message("api.example.com", 1, flags=0x8180), "a loop": good[:12] + b"\\xc0\\x0c\\0\\1\\0\\1", "short": good[:11], "cut": good[:-3],
    "a label too long": good[:12] + b"\\x7f" + b"a" * 100 + b"\\0\\0\\1\\0\\1", "ad and cd": message("api.example.com", 1, flags=0x0130),
    "truncated": message("api.example.com", 1, flags=0x0300), "not asked to recurse": message("api.example.com", 1, flags=0),
    "long": message("api.example.com", 1, OPT[:-2] + struct.pack("!HHH", 3004, 12, 3000) + bytes(3000), counts=(1, 0, 0, 1)),
}
for name, row in rows.items():
    wait = 0.5 if name in ("an answer", "short") else 60  # those are answered by nobody
    print(name, facts(ask(row, timeout=wait)), facts(ask(row, tcp=True, timeout=wait)) or None)
print(facts(ask(good)), facts(ask(good, tcp=True)))
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:443"])
    good, format_error, refused, unknown = "(0, 1, 0, 0)", "(1, 0, 0, 0)", "(5, 0, 0, 0)", "(4, 0, 0, 0)"
    expected = {"edns and do": good, "chaos": refused, "any class": refused, "no question": format_error, "two questions": format_error,
                "notify": unknown, "update": unknown, "iquery": unknown, "an answer": None, "a loop": format_error, "short": None,
                "cut": format_error, "a label too long": format_error, "ad and cd": good, "truncated": good, "not asked to recurse": good, "long": good}
    assert out.splitlines() == [*(f"{name} {answer} {answer}" for name, answer in expected.items()), f"{good} {good}"]
    assert [f for f in harness.internet.seen() if f["kind"] in ("question", "packet")] == []


def test_what_a_datagram_has_no_room_for_comes_by_a_stream(harness):
    harness.internet.ask(zone={**ZONE, **RECORDS})
    code = WIRE + """
q = message("many.example.com", 65)
small, whole, wide = ask(q), ask(q, tcp=True), ask(message("many.example.com", 65, OPT, counts=(1, 0, 0, 1)))
print(len(small) <= 512, facts(small)[2], facts(whole)[1:3], len(wide) <= 1232, facts(wide)[1:3])
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["*.example.com:443"])
    assert out == "True 1 (6, 0) True (6, 0)\n"


def test_of_too_many_streams_those_that_wait_for_an_answer_stay(harness):
    harness.internet.ask(zone={**ZONE, **RECORDS})
    code = WIRE + """
def receive(s):
    answer = b""
    while len(answer) < 2 or len(answer) < 2 + int.from_bytes(answer[:2], "big"):
        more = s.recv(1 if len(answer) < 2 else 2 + int.from_bytes(answer[:2], "big") - len(answer))
        if not more: return None
        answer += more
    return answer[2:]
def stream(*questions):
    s = socket.create_connection(("9.9.9.9", 53), timeout=60)
    for q in questions: s.sendall(struct.pack("!H", len(q)) + q)
    return s
def ended(s):
    try: return s.recv(1) == b""
    except ConnectionResetError: return True
waits = stream(message("silent.example.com", 65), message("api.example.com", 1))
print(facts(receive(waits)))  # of the second one: the first is taken
idle = [stream() for i in range(40)]
print([ended(s) for s in idle[:9]].count(True), facts(receive(waits)))
print(facts((idle[-1].sendall(struct.pack("!H", len(q := message("api.example.com", 1))) + q), receive(idle[-1]))[1]))
"""
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["*.example.com:443"])
    assert out.splitlines() == ["(0, 1, 0, 0)", "9 (0, 0, 0, 0)", "(0, 1, 0, 0)"], out


def test_a_resolver_that_says_nothing_delays_an_empty_answer_and_nobody_else(harness):
    harness.internet.ask(zone={**ZONE, **RECORDS})
    code = WIRE + """
waiting, begun = [], time.monotonic()
for i in range(200):  # more than are asked for at once
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(("9.9.9.9", 53)); s.send(message("silent.example.com", 65)); waiting.append(s)
gone = socket.create_connection(("9.9.9.9", 53)); q = message("silent.example.com", 65); gone.sendall(struct.pack("!H", len(q)) + q); gone.close()
print(facts(ask(message("api.example.com", 1), timeout=60)), end=" ")
in_time = time.monotonic() - begun < 1.5  # the others wait for two seconds; a machine that is slower than that shows nothing here
waiting[0].setblocking(False)
try: waiting[0].recv(600); print("late" if in_time else "while they wait")
except BlockingIOError: print("while they wait")
for s in waiting: s.settimeout(60)
print({facts(s.recv(600)) for s in waiting})
print(facts(ask(message("api.example.com", 1), tcp=True, timeout=60)))
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["*.example.com:443"])
    assert out.splitlines() == ["(0, 1, 0, 0) while they wait", "{(0, 0, 0, 0)}", "(0, 1, 0, 0)"], (out, events)
    assert len([f for f in harness.internet.seen() if f["kind"] == "question" and f["type"] == 65]) <= 130
