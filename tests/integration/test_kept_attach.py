"""Attaching to what runs in a kept sandbox; its log; longer lives."""
import json
import os
import pty
import signal
import socket
import subprocess
import time

import pytest

from kept_sandbox import DEADLINE, eventually, kept, kept_by_root, message, paced, reply  # noqa: F401 (fixtures)


def detached(kept, name, *command, options=()):
    return kept.exec(name, *command, options=["--detach", *options]).stdout.decode().strip()


def send(client, data, *fds):
    socket.send_fds(client, [data[:1]], list(fds))
    client.sendall(data[1:])


def test_output_resumes_from_a_record_and_ends_with_the_commands_end(kept):
    kept.up("work")
    number = detached(kept, "work", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done; exit 7")
    first = kept.call("attach", "work", number)
    assert first.stdout == b"".join(b"line %d\n" % i for i in range(1, 6)) and first.returncode == 7
    records = [json.loads(line) for line in kept.call("attach", "--json", "work", number).stdout.splitlines()]
    third = [record for record in records if record["kind"] == "stdout"][2]
    rest = kept.call("attach", "--since", str(third["seq"]), "work", number)
    assert rest.stdout == b"line 4\nline 5\n" and rest.returncode == 7


def test_both_streams_come_as_they_were_written(kept):
    kept.up("work")
    number = detached(kept, "work", "sh", "-c", "echo out; echo err >&2")
    done = kept.call("attach", "work", number)
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_two_who_attach_see_the_same_and_the_slow_one_holds_up_nobody(kept):
    kept.up("work", resources={"stdout": "64MiB"})
    number = detached(kept, "work", "sh", "-c", "sleep 0.3; head -c 3000000 /dev/zero | tr '\\0' x; echo end")
    slow = kept.connect("work")
    reading, writing = os.pipe()
    send(slow, message(verb="attach", exec=int(number), stdout=True), writing)
    os.close(writing)
    assert reply(slow)["event"] == "attached"
    both = [kept.pinfold.spawn(kept.argv("attach", "work", number), stdout=subprocess.PIPE) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert outputs[0] == outputs[1] == b"x" * 3000000 + b"end\n"
    data = b""
    while part := os.read(reading, 1 << 20):
        data += part
    assert data == outputs[0] and reply(slow)["result"]["exit_code"] == 0
    os.close(reading)


def test_input_that_was_kept_open_is_typed_to_by_one_at_a_time(kept):
    kept.up("work")
    number = detached(kept, "work", "cat", options=["--interactive"])
    first = kept.pinfold.spawn(kept.argv("attach", "--stdin", "-", "work", number), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first.stdin.write(b"one\n")
    first.stdin.flush()
    assert first.stdout.readline() == b"one\n"
    busy = kept.call("attach", "--stdin", "-", "work", number)
    assert busy.returncode == 125 and b"somebody else" in busy.stderr
    first.send_signal(signal.SIGINT)  # it leaves, and the command goes on
    assert first.wait(DEADLINE) == 0
    second = kept.call("attach", "--stdin", "-", "work", number, input=b"two\n")
    assert second.stdout == b"one\ntwo\n" and second.returncode == 0


def test_an_input_that_can_not_be_read_is_no_end_of_it(kept):
    """Neither of a command, which is ended, nor of what somebody attached types, which is told; the next one types on."""
    kept.up("work")
    number = detached(kept, "work", "cat", options=["--interactive"])
    with open("/proc/self/mem", "rb") as broken:
        ran = kept.pinfold.spawn(kept.argv("exec", "--json", "--stdin", "-", "work", "--", "sh", "-c", "cat; echo end"), stdin=broken, stdout=subprocess.PIPE)
        result = json.loads(ran.communicate(timeout=DEADLINE)[0])
        typed = kept.pinfold.spawn(kept.argv("attach", "--stdin", "-", "work", number), stdin=broken, stderr=subprocess.PIPE)
        told = typed.communicate(timeout=DEADLINE)[1]
    assert (result["status"], result["stdout"]) == ("killed", "") and "EIO" in result["error"]["message"], result
    assert typed.returncode == 125 and b"read the command's input: " in told and b"(EIO)" in told
    assert kept.call("attach", "--stdin", "-", "work", number, input=b"two\n").stdout == b"two\n"


def test_a_command_without_an_input_of_its_own_cannot_be_typed_to(kept):
    kept.up("work")
    number = detached(kept, "work", "sleep", "60")
    done = kept.call("attach", "--stdin", "-", "work", number)
    assert done.returncode == 125 and b"--interactive" in done.stderr


def test_what_is_not_there_cannot_be_attached_to(kept):
    kept.up("work")
    assert b"no command runs" in kept.call("attach", "work").stderr
    assert kept.call("attach", "work", "9").returncode == 125


def test_a_python_prompt_is_held_left_and_found_again(kept):
    kept.up("work", tty=True)
    number = detached(kept, "work", "/usr/bin/python3", "-q", options=["--tty"])

    def session(typed, wanted, leave=b"\x10\x11"):
        master, slave = pty.openpty()
        process = kept.pinfold.spawn(kept.argv("attach", "work"), stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        os.write(master, typed)
        seen, until = b"", time.monotonic() + DEADLINE
        while wanted not in seen and time.monotonic() < until:
            seen += os.read(master, 65536)
        assert wanted in seen, seen
        os.write(master, leave)
        try:
            while os.read(master, 65536):
                pass
        except OSError:
            pass
        os.close(master)
        return process.wait(DEADLINE)
    assert session(b"x = 6 * 7\nprint('x is', x)\n", b"x is 42") == 0
    assert session(b"print('still', x)\n", b"still 42") == 0
    assert session(b"import sys\nprint('b' + 'ye')\n", b"bye", leave=b"sys.exit(5)\n") == 5
    assert [e["exec"] for e in kept.show("work")["execs"]] == [] and number == "1"


def test_a_client_that_is_killed_leaves_a_detached_command_and_finds_it_again(kept):
    kept.up("work")
    number = detached(kept, "work", "sh", "-c", "i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.02; done")
    seen, since = [], 0
    while len(seen) < 40:
        process = kept.pinfold.spawn(kept.argv("attach", "--json", "--since", str(since), "work", number), stdout=subprocess.PIPE)
        for _ in range(5):
            line = process.stdout.readline()
            if not line:
                break
            record = json.loads(line)
            since = record["seq"]
            if record["kind"] == "stdout":
                seen += record["data"].split()
        process.kill()
        process.wait()
        process.stdout.close()
    assert seen == [str(i) for i in range(40)]


def test_a_gap_is_told_to_who_comes_too_late(kept):
    kept.up("work", resources={"stdout": "64MiB"})
    number = detached(kept, "work", "sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' y")
    kept.call("wait", "work", number, timeout=60)
    late = kept.call("attach", "work", number)
    assert b"records are gone" in late.stderr and 1 << 20 < len(late.stdout) < 10 << 20 and set(late.stdout) == {ord("y")}


def test_grep_chooses_records_of_output(kept):
    kept.up("work")
    for word in ("warning: a", "fine", "error: b"):  # a record each
        kept.exec("work", "echo", word)
    assert kept.ok("logs", "work", "--grep", "^(warning|error):") == "warning: a\nerror: b\n"
    assert [r["data"] for r in kept.records("work", "--grep", "fi.e")] == ["fine\n"]
    assert kept.call("logs", "work", "--grep", "(").returncode == 125


def test_a_life_is_renewed(kept):
    def renewed(span):
        kept.up("work", "--idle-timeout", f"{600 * span}ms", "--lifetime", "1h")
        last, alive, in_time = time.monotonic(), True, True
        for options in [()] * 6 + [("--idle-timeout", "1h")]:
            time.sleep(0.2 * span)
            alive = kept.call("renew", "work", *options).returncode == 0 and alive
            in_time, last = in_time and time.monotonic() - last < 0.6 * span, time.monotonic()
        if in_time:
            time.sleep(0.8 * span)
            assert alive and kept.show("work")["state"] == "running"
        else:
            kept.ok("rm", "--force", "work")
        return in_time

    paced(renewed)
    kept.ok("renew", "work", "--lifetime", "50ms")
    eventually(lambda: kept.list()[0]["state"] == "ended", "the lifetime is over")
    assert kept.show("work")["end"]["why"] == "lifetime"


@pytest.mark.parametrize("fields", [{"output": "capture"}, {"output": "stream"}, {"since": -1}, {"args": ["x"]}])
def test_a_wrong_request_to_attach_is_refused(kept, fields):
    kept.up("work")
    client = kept.connect("work")
    client.sendall(message(verb="attach", exec=1, **fields))
    assert reply(client)["error"]["kind"] == "invalid"
