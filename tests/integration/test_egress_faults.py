"""Failing calls of the broker at every place: nothing leaves that the rules don't name, the program inside gets an answer or an
error, and a broker that has ended says so.

The places are those of a traced clean run, as in test_faults.py; the tests take some, PINFOLD_SWEEP_STRIDE=1 all.
"""
import os
import shutil

import pytest

from conftest import build_directory
from egress_world import NEEDS_ROOT, PUBLIC, PYTHON
from egress_world import harness, internet, world  # noqa: F401 (fixtures)
from test_faults import places

pytestmark = [NEEDS_ROOT, pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")]
STRIDE = int(os.environ.get("PINFOLD_SWEEP_STRIDE", "29"))
ERRORS = ["ENOMEM", "EMFILE", "EIO", "EAGAIN", "EINTR", "ENOSPC", "EPERM"]
RULES = ["api.example.com:7002", "192.0.2.10/32:7003/udp", "*.files.example.org:7002"]

# What is allowed and what isn't, by each way; whatever fails, it goes on.
TRY = """
import socket
socket.setdefaulttimeout(4)
def tried(what, *arguments):
    try: return what(*arguments)
    except OSError as error: return error
def greeted(host, port):
    with socket.create_connection((host, port)) as s: return s.recv(10)
def answered(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.10", port)); s.send(b"x"); return s.recv(100)
def asked(name):
    question = b"\\0\\1\\1\\0\\0\\1" + bytes(6) + b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\\0\\0\\1\\0\\1"
    with socket.create_connection(("9.9.9.9", 53)) as s: s.sendall(bytes([0, len(question)]) + question); return s.recv(600)
good = [tried(greeted, "api.example.com", 7002), tried(answered, 7003), tried(asked, "a.files.example.org")]
bad = [tried(*to) for to in ((greeted, "api.example.com", 7004), (greeted, "www.example.com", 7002), (greeted, "203.0.113.5", 7002),
                             (answered, 7009), (greeted, "data.evil.test", 7002))]
assert all(isinstance(one, OSError) for one in bad), bad
print(sum(not isinstance(one, OSError) for one in good), good)
"""


def wrapped(folder, *options):
    """A broker that strace starts; what it has inherited is the broker's."""
    script, trace = folder / "broker", folder / "trace"
    argv = ["strace", "-o", str(trace), *options, str(build_directory() / "tools/pinfold-broker/pinfold-broker")]
    script.write_text(f"#!{PYTHON} -ISE\nimport os\nos.execvpe('strace', {argv!r}, {{'PATH': {os.environ['PATH']!r}, **os.environ}})\n")
    script.chmod(0o755)
    return script, trace


def attempt(harness, *options):
    script, trace = wrapped(harness.folder, *options)
    code, out, events = harness.run(PYTHON, "-c", TRY, rules=RULES, options=["-u", "-a"], broker=script, timeout=100)
    facts = harness.internet.seen()
    reached = {(fact["to"], fact["port"]) for fact in facts if fact["kind"] == "packet" and fact["to"] != "192.0.2.53"
               and fact["protocol"] in (6, 17)}  # not what a kernel says of a datagram that finds nobody
    asked = {fact["name"] for fact in facts if fact["kind"] == "question"}
    assert reached <= {(PUBLIC, 7002), (PUBLIC, 7003)} and asked <= {"api.example.com"}, (reached, asked)
    return code, out, events, trace.read_text() if trace.exists() else ""


def stands(trace):
    """What has to stand before a broker may say that it serves."""
    calls = ("capset(", "prctl(PR_SET_NO_NEW_PRIVS", "setresuid(", "prctl(PR_SET_DUMPABLE")
    lines = trace.splitlines()
    filtered = any(line.startswith("seccomp(SECCOMP_SET_MODE_FILTER") and line.endswith(" = 0") for line in lines)
    return filtered and all(any(line.startswith(call) and line.endswith(" = 0") for line in lines) for call in calls)


def judged(place, name, number, code, out, events, trace):
    """What is wrong with the end of this attempt; None: nothing."""
    if "SIGSYS" in trace:
        return "the filter has ended it, and nothing has failed"
    is_ready = any(event.startswith("ready") for event in events)
    has_ended = not events or events[-1] != "ended 0"
    told = any(event.split()[0] in ("fail", "refuse", "fault") and "www.example.com" not in event for event in events)
    if "(INJECTED)" not in trace and len([one for one in places(trace) if one[0] == name]) >= number:
        return "nothing has failed"
    if is_ready and not stands(trace):
        return "it serves without its walls"
    if code != 0 and (code != 125 or is_ready):
        return "the program has found a way, or none of its own ends"
    if code == 0 and not out.startswith("3 ") and not has_ended and not told:
        return "nobody says what has failed"
    return None


def test_a_call_of_the_broker_that_fails_opens_nothing_and_a_broker_that_ends_says_so(harness):
    code, out, events, trace = attempt(harness)
    assert code == 0 and out.startswith("3 ") and events[-1] == "ended 0" and stands(trace), (out, events)
    listed = [place for place in places(trace) if place[0] not in ("exit_group", "geteuid")]  # which never fail
    served, wrong = 0, []
    for at, (name, number) in list(enumerate(listed))[::STRIDE]:
        place = f"{name}:error={ERRORS[at % len(ERRORS)]}:when={number}"
        code, out, events, trace = attempt(harness, "-e", f"inject={place}:syscall=getppid")
        served += out.startswith("3 ")
        fault = judged(place, name, number, code, out, events, trace)
        if fault is not None:
            wrong.append((place, fault, code, out, events))
    assert len(listed) > 150 and served > 0 and not wrong, wrong
