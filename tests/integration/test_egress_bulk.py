"""Transfers at full speed, which the broker passes on without looking at them: whole, counted, bounded, and ended like any other."""
import os
import pathlib
import subprocess
import time

import pytest

from egress_world import NEEDS_ROOT, PYTHON
from egress_world import harness, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT

# `transfer` sends so many megabytes, then reads so many; the ends of both halves are their ends.
BULK = """
import hashlib, os, random, socket, sys
def megabytes(count):
    block = random.Random(7).randbytes(1 << 20)
    for i in range(count):
        turn = i * 4099 % len(block)
        yield block[turn:] + block[:turn]
def digest_of(blocks):
    digest = hashlib.sha256()
    for one in blocks: digest.update(one)
    return digest.hexdigest()
def transfer(sent, wanted, urgent=False):
    s = socket.create_connection(("api.example.com", 7006), timeout=60)
    s.sendall(b"%8d" % wanted)
    for one in megabytes(sent):
        s.sendall(one)
        if urgent: s.send(b"!", socket.MSG_OOB)
    s.shutdown(socket.SHUT_WR)
    got = b""
    while len(got) < 76: got += s.recv(76 - len(got)) or sys.exit("cut short")
    digest, total = hashlib.sha256(), 0
    while data := s.recv(1 << 20): digest.update(data); total += len(data)
    assert total == wanted << 20 and digest.hexdigest() == digest_of(megabytes(wanted)), (total, wanted)
    return got[:64].decode(), int(got[64:])
"""


def pipes_of(pid):
    """How many ends of pipes it has; one may go while we look."""
    links = []
    for one in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(one))
        except FileNotFoundError:
            continue
    return sum(link.startswith("pipe:") for link in links)


def until(fact, seconds=60):
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.02)


def total(events, word):
    return sum(int(e.split(word)[1].split()[0]) for e in events if e.startswith("close "))


def test_it_arrives_whole_both_ways_and_is_counted_to_the_byte(harness):  # noqa: F811
    code = BULK + """
found, size = transfer(40, 40)
print(size == 40 << 20 and found == digest_of(megabytes(40)))
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7006"])
    assert out == "True\n"
    assert (total(events, "out="), total(events, "in=")) == (8 + (40 << 20), 76 + (40 << 20))


def test_it_stays_in_the_kernel_and_what_it_took_is_given_back(harness):  # noqa: F811
    """One pipe is kept for whoever is next; those of connections that are cut with something in them are gone."""
    code = BULK + """
while sys.stdin.readline().strip() == "more":
    transfer(20, 20)
    print("done", flush=True)
held = [socket.create_connection(("api.example.com", 7008), timeout=60) for _ in range(20)]
for s in held: s.settimeout(0)
sent, left = dict.fromkeys(held, 0), set(held)
while left:  # until the peer has read what it reads, and nobody takes any more
    for s in list(left):
        try: sent[s] += s.send(bytes(1 << 20))
        except BlockingIOError: sent[s] < 5_000_000 or left.discard(s)
print("held", flush=True)
for s in held:
    s.settimeout(60)
    try:
        while True: s.sendall(bytes(1 << 20))
    except (BrokenPipeError, ConnectionResetError): pass
print("cut", flush=True)
sys.stdin.readline()
"""
    requests, ours = os.pipe()
    process = harness.start(PYTHON, "-c", code, rules=["api.example.com:7006-7008"], stdin=subprocess.PIPE, requests=requests)
    os.close(requests)
    try:
        def say(word):
            process.stdin.write(word + b"\n")
            process.stdin.flush()

        def more():
            say(b"more")
            assert process.stdout.readline() == b"done\n"
            return pipes_of(broker)

        broker = int(harness.wait_for(process, "broker ").split()[1])
        harness.wait_for(process, "ready")
        before = pipes_of(broker)
        until(lambda: more() == before + 2)
        say(b"enough")
        assert process.stdout.readline() == b"held\n"
        assert pipes_of(broker) <= before + 2 * 9  # eight with something in them, and the spare one
        os.write(ours, b"replace api.example.com:7006\n")
        assert process.stdout.readline() == b"cut\n"
        until(lambda: pipes_of(broker) == before + 2)
        say(b"")
        assert process.wait(60) == 0
    finally:
        os.close(ours)
        process.kill()
        process.communicate()


def test_urgent_data_in_the_middle_holds_nothing_up(harness):  # noqa: F811
    """An urgent byte is not part of what is read, here as without a broker; where two meet, the first one is."""
    code = BULK + "print(40 << 20 <= transfer(40, 1, urgent=True)[1] <= (40 << 20) + 40)\n"
    _, out, _ = harness.run(PYTHON, "-c", code, rules=["api.example.com:7006"])
    assert out == "True\n"


def test_a_reset_in_the_middle_of_it_is_passed_on_and_harms_nobody(harness):  # noqa: F811
    code = BULK + """
for _ in range(20):
    s = socket.create_connection(("api.example.com", 7007), timeout=60)
    try:
        while True: s.sendall(bytes(1 << 20))
    except (BrokenPipeError, ConnectionResetError): print("reset")
print(transfer(1, 1)[1])
"""
    _, out, events = harness.run(PYTHON, "-c", code, rules=["api.example.com:7006-7007"])
    assert out == "reset\n" * 20 + "1048576\n"
    assert sum(e.startswith("close ") for e in events) == 21


@pytest.mark.parametrize("way", ["out", "in"])
def test_a_budget_ends_it(harness, way):  # noqa: F811
    """To the byte, although much more is read at once."""
    code = BULK + """
try: print(transfer(*((100, 1) if sys.argv[1] == "out" else (1, 100)))[1])
except (BrokenPipeError, ConnectionResetError): print("reset")
"""
    _, out, events = harness.run(PYTHON, "-c", code, way, rules=["api.example.com:7006"], options=["-l", f"{way}=20000000"])
    assert out == "reset\n" and any(e.startswith("refuse budget") for e in events)
    assert total(events, f"{way}=") == 20_000_000
