"""Kept sandboxes: up, exec, logs and the others, as their callers see them."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import pty
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest

from kept_sandbox import DEADLINE, Kept, eventually, kept, kept_by_root, message, paced, reply  # noqa: F401 (fixtures)

def test_a_sandbox_keeps_files_between_commands(kept):
    kept.up("work")
    assert kept.exec("work", "sh", "-c", "echo kept > /tmp/file").returncode == 0
    assert kept.exec("work", "cat", "/tmp/file").stdout == b"kept\n"


@pytest.mark.parametrize("command, code", [
    (["true"], 0), (["false"], 1), (["sh", "-c", "exit 255"], 255), (["sh", "-c", "kill -TERM $$"], 128 + 15),
    (["/etc/passwd"], 126), (["no-such-program"], 127)])
def test_exit_codes_of_exec_are_the_contract(kept, command, code):
    kept.up("work")
    assert kept.exec("work", *command).returncode == code


def test_exec_in_what_is_not_there_says_so(kept):
    done = kept.exec("nothing", "true")
    assert done.returncode == 125 and b"there is no sandbox 'nothing'" in done.stderr
    assert kept.exec("../etc", "true").returncode == 125


def test_a_name_is_given_once_and_follows_the_pattern(kept):
    kept.up("work")
    again = kept.call("up", "work", "--policy", kept.pinfold.policy())
    assert again.returncode == 125 and b"rm work" in again.stderr
    for name in ["a/b", "..", "-x", "", "x" * 64, "a\nb"]:
        assert kept.call("up", "--", name).returncode == 125


def test_a_request_beyond_the_policy_makes_no_sandbox(kept):
    done = kept.call("up", "work", "--policy", kept.pinfold.policy(resources={"memory": "64MiB"}), "--memory", "1GiB", "--json")
    assert done.returncode == 125 and json.loads(done.stdout)["error"]["kind"] == "refused"
    assert kept.list() == []


def test_each_command_has_its_own_environment_and_directory(kept):
    kept.up("work", "--env", "BASE=1")
    done = kept.exec("work", "sh", "-c", "echo $BASE $MINE; pwd", options=["--env", "MINE=2", "--cwd", "/usr"])
    assert done.stdout == b"1 2\n/usr\n"
    assert kept.exec("work", "sh", "-c", "echo $BASE $MINE").stdout == b"1\n"


def test_a_variable_that_is_given_twice_is_refused(kept):
    kept.up("work")
    done = kept.exec("work", "true", options=["--env", "A=1", "--env", "B=1", "--env", "A=2"])
    assert done.returncode == 125 and b"--env 'A' is given twice" in done.stderr


def test_a_variable_that_the_policy_refuses_is_refused(kept):
    kept.up("work")
    done = kept.exec("work", "true", options=["--env", "LD_PRELOAD=/tmp/x.so"])
    assert done.returncode == 125 and b"LD_PRELOAD" in done.stderr


def test_a_policy_that_is_changed_beneath_a_kept_sandbox_changes_nothing_for_it(kept):
    """The control is a sandbox that is made by the changed file."""
    path = kept.pinfold.policy(environment={"set": {"WHO": "first"}})
    kept.ok("up", "work", "--policy", path)
    before = kept.show("work")
    with open(path) as file:
        policy = json.load(file)
    policy |= {"environment": {"set": {"WHO": "second"}, "refuse": []}}
    with open(path, "w") as file:
        json.dump(policy, file)
    assert kept.exec("work", "true", options=["--env", "LD_AUDIT=x"]).returncode == 125
    assert kept.exec("work", "sh", "-c", "echo $WHO").stdout == b"first\n"
    assert kept.show("work")["fingerprint"] == before["fingerprint"]
    kept.ok("up", "other", "--policy", path)
    assert kept.exec("other", "sh", "-c", "echo $WHO $MINE", options=["--env", "LD_MINE=x", "--env", "MINE=1"]).stdout == b"second 1\n"
    assert kept.show("other")["fingerprint"] != before["fingerprint"]


def test_a_time_limit_ends_one_command_and_not_the_sandbox(kept):
    kept.up("work", resources={"wall_time": "30s"})
    started = time.monotonic()
    result = kept.json("work", "sleep", "60", options=["--timeout", "300ms"])
    assert result["status"] == "timeout" and result["exit_code"] == 124 and time.monotonic() - started < 25
    assert kept.exec("work", "true").returncode == 0
    assert kept.exec("work", "true", options=["--timeout", "60s"]).returncode == 125


def test_output_over_its_limit_is_cut_and_said_to_be(kept):
    kept.up("work", resources={"stdout": "64KiB"})
    result = kept.json("work", "sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x")
    assert len(result["stdout"]) == 65536 and result["truncated"]["stdout"]
    assert any(r["kind"] == "cut" and r["facts"]["stream"] == "stdout" for r in kept.records("work"))


def test_running_out_of_memory_is_told_of_the_command_that_did(kept_by_root):
    kept_by_root.up("work", resources={"memory": "64MiB", "swap": 0})
    result = kept_by_root.python("work", "x = bytearray(500_000_000)")
    assert (result["status"], result["exit_code"]) == ("memory", 137)
    assert kept_by_root.exec("work", "true").returncode == 0


def test_what_a_command_leaves_behind_is_gone_before_its_result(kept_by_root):
    kept_by_root.up("work")
    kept_by_root.exec("work", "sh", "-c", "setsid sleep 4321 & setsid sh -c 'sleep 4322; true' & echo started")
    eventually(lambda: not command_groups(kept_by_root), "its cgroup is left")
    listing = "import glob\nfor p in glob.glob('/proc/[0-9]*/cmdline'): print(open(p).read().replace(chr(0), ' '))"
    assert "432" not in kept_by_root.python("work", listing)["stdout"]


def command_groups(kept):
    return {group for group in kept.pinfold.groups() if group.name.startswith("command-")}


def test_commands_that_share_a_cgroup_are_counted_apart(kept_by_root):
    """One after the other, on v1: nothing of a command is in the figures of the next, or in its limit of CPU time."""
    kept_by_root.up("work", resources={"cpu_time": "900ms"})
    kept_by_root.exec("work", "true")
    busy = "import time\nx = bytearray(b'x') * (64 << 20)\ndel x\nwhile time.process_time() < 0.3: pass"
    for _ in range(3):
        heavy, light = kept_by_root.python("work", busy)["usage"], kept_by_root.json("work", "true")["usage"]
        assert heavy["cpu_ms"] >= 290 and heavy["memory_peak_bytes"] > 64 << 20
        assert light["cpu_ms"] < 290 and light["memory_peak_bytes"] < 16 << 20
    assert kept_by_root.json("work", "sh", "-c", "sleep 0 & sleep 0 & wait; true")["usage"]["pids_peak"] != 1
    assert kept_by_root.json("work", "true")["usage"]["pids_peak"] <= 1
    assert len(command_groups(kept_by_root)) <= 3  # one, in three hierarchies


def test_a_command_never_gets_the_cgroup_of_one_that_was_killed(kept_by_root):
    """On v1 nobody can fork there any more."""
    kept_by_root.up("work")
    for _ in range(3):
        killed = kept_by_root.ok("exec", "work", "--detach", "--", "sleep", "1000").strip()
        with kept_by_root.connect("work") as client:
            client.sendall(message(verb="end", exec=int(killed)))
            assert reply(client)["ok"] == {}
        assert kept_by_root.call("wait", "work", killed).returncode == 128 + 9
        assert kept_by_root.exec("work", "sh", "-c", "/bin/true; /bin/true; exit 3").returncode == 3
        assert kept_by_root.exec("work", "/nonexistent").returncode == 127


def test_commands_side_by_side_never_share_a_cgroup(kept_by_root):
    """What is ended is the tree of one alone; and what is kept of their groups is bounded."""
    kept_by_root.up("work")
    for _ in range(2):
        running = [kept_by_root.pinfold.spawn(kept_by_root.argv("exec", "work", "--stdin", "-", "--", "sh", "-c", "read line; exit 3"),
                                              stdin=subprocess.PIPE) for _ in range(6)]
        eventually(lambda: len(kept_by_root.show("work")["execs"]) == 6, "they don't run")
        with kept_by_root.connect("work") as client:
            client.sendall(message(verb="end", exec=kept_by_root.show("work")["execs"][0]["exec"]))
            assert reply(client)["ok"] == {}
        eventually(lambda: sum(process.poll() is not None for process in running) == 1, "one has to end")
        codes = []
        for process in running:
            process.stdin.close()
            codes.append(process.wait(30))
        assert sorted(codes) == [3] * 5 + [137]
    eventually(lambda: len(command_groups(kept_by_root)) <= 4 * 3, "their groups are left")


def test_ending_one_command_leaves_the_others(kept_by_root):
    kept_by_root.up("work")
    first = kept_by_root.ok("exec", "work", "--detach", "--", "sleep", "4321").strip()
    second = kept_by_root.ok("exec", "work", "--detach", "--", "sh", "-c", "sleep 1; exit 7").strip()
    with kept_by_root.connect("work") as client:
        client.sendall(message(verb="end", exec=int(first)))
        assert reply(client)["ok"] == {}
    assert kept_by_root.call("wait", "work", first).returncode == 128 + 9
    assert kept_by_root.call("wait", "work", second).returncode == 7


def test_a_command_that_is_ended_while_it_waits_or_starts_is_told_to_have_ended(kept_by_root):
    """Before init has heard of it, and before it is anywhere where it could be killed."""
    kept_by_root.up("work")
    supervisor = kept_by_root.show("work")["supervisor"]
    init = int(pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0])
    with kept_by_root.connect("work") as client, kept_by_root.connect("work") as other:
        def seen(state):
            return [one["exec"] for one in kept_by_root.show("work")["execs"] if one["state"] == state]

        other.sendall(message(verb="pause", hold=True))
        assert reply(other)["ok"] == {}
        client.sendall(message(verb="exec", args=["sleep", "1000"], output="capture"))
        eventually(lambda: seen("queued"), "it doesn't wait")
        other.sendall(message(verb="end", exec=seen("queued")[0]))
        assert reply(other)["ok"] == {}
        assert "before it began" in reply(client)["result"]["error"]["message"]
        other.sendall(message(verb="resume"))
        assert reply(other)["ok"] == {}
        os.kill(init, signal.SIGSTOP)
        client.sendall(message(verb="exec", args=["sleep", "1000"], output="capture"))
        eventually(lambda: seen("starting"), "it doesn't start")
        other.sendall(message(verb="end", exec=seen("starting")[0]))
        assert reply(other)["ok"] == {}
        os.kill(init, signal.SIGCONT)
        assert reply(client)["event"] == "started"
        assert reply(client)["result"]["signal"] == "SIGKILL"


def test_streams_of_many_commands_at_once_are_never_mixed(kept):
    kept.up("work", resources={"pids": 256, "stdout": "4MiB"})
    source = "import sys,hashlib\nt=sys.argv[1].encode()\nfor i in range(2000): sys.stdout.buffer.write(t*40+b'\\n')"

    def one(number):
        tag = hashlib.sha256(str(number).encode()).hexdigest()[:8]
        result = kept.json("work", "/usr/bin/python3", "-c", source, tag)
        return result["stdout"] == (tag * 40 + "\n") * 2000

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(32)))
    streams = {}
    for record in kept.records("work"):
        if record["kind"] == "stdout":
            streams.setdefault(record["exec"], []).append(record["data"])
    assert streams and all(len(set("".join(parts).split("\n")) - {""}) <= 2 for parts in streams.values())


def test_input_comes_from_a_file_or_the_caller(kept, tmp_path):
    kept.up("work")
    (tmp_path / "text").write_bytes(b"from a file")
    assert kept.exec("work", "cat").stdout == b""
    assert kept.exec("work", "cat", options=["--stdin", str(tmp_path / "text")]).stdout == b"from a file"
    assert kept.exec("work", "cat", options=["--stdin", "-"], input=b"x" * 300000).stdout == b"x" * 300000


def test_a_terminal_has_a_size_that_follows_the_callers(kept):
    kept.up("work")
    master, slave = pty.openpty()
    import fcntl, termios
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
    child = kept.pinfold.spawn(kept.argv("exec", "work", "--tty", "--", "sh", "-c", "stty size; while [ \"$(stty size)\" = '33 99' ]; do sleep 0.05; done; stty size; read line; echo got $line"),
                               stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    while b"33 99" not in seen:
        seen += os.read(master, 4096)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 111, 0, 0))
    os.kill(child.pid, signal.SIGWINCH)
    while b"44 111" not in seen:
        seen += os.read(master, 4096)
    os.write(master, b"word\r")
    while b"got word" not in seen:
        seen += os.read(master, 4096)
    assert child.wait(DEADLINE) == 0
    os.close(master)


def test_a_signal_to_the_caller_reaches_the_command(kept):
    kept.up("work")
    child = kept.pinfold.spawn(kept.argv("exec", "work", "--", "sh", "-c", "trap 'echo caught; exit 9' TERM; echo ready; while :; do sleep 0.1; done"),
                               stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signal.SIGTERM)
    assert child.stdout.read() == b"caught\n" and child.wait(DEADLINE) == 9


def test_a_caller_that_is_killed_takes_its_command_with_it(kept_by_root):
    kept_by_root.up("work")
    child = kept_by_root.pinfold.spawn(kept_by_root.argv("exec", "work", "--", "sh", "-c", "echo ready; sleep 4321"), stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    child.kill()
    child.wait()
    eventually(lambda: kept_by_root.show("work")["execs"] == [], "the command goes on")


def test_a_detached_command_outlives_its_caller_and_can_be_waited_for(kept):
    kept.up("work")
    number = kept.ok("exec", "work", "--detach", "--", "sh", "-c", "sleep 0.3; echo late; exit 5").strip()
    assert kept.call("wait", "work", number).returncode == 5
    assert kept.call("wait", "work", number).returncode == 5
    assert [r["data"] for r in kept.records("work", "--exec", number) if r["kind"] == "stdout"] == ["late\n"]


def test_records_are_numbered_without_gaps_and_resume_from_a_number(kept):
    kept.up("work")
    for word in ["one", "two", "three"]:
        kept.exec("work", "sh", "-c", f"echo {word}; echo {word} >&2")
    records = kept.records("work")
    assert [r["seq"] for r in records] == list(range(1, len(records) + 1))
    assert kept.records("work", "--since", str(records[3]["seq"])) == records[4:]
    assert kept.records("work", "--tail", "2") == records[-2:]
    assert kept.call("logs", "work").stdout == b"one\ntwo\nthree\n"


def test_following_a_log_ends_with_the_sandbox(kept):
    kept.up("work")
    reader = kept.pinfold.spawn(kept.argv("logs", "work", "--follow"), stdout=subprocess.PIPE)
    kept.exec("work", "echo", "first")
    assert reader.stdout.readline() == b"first\n"
    kept.exec("work", "echo", "second")
    kept.ok("stop", "work")
    assert reader.stdout.read() == b"second\n" and reader.wait(DEADLINE) == 0


def test_a_log_that_is_full_forgets_its_oldest_part_and_says_so(kept):
    kept.up("work", resources={"stdout": "32MiB"})
    kept.exec("work", "sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' x")
    records = kept.records("work")
    assert records[0]["seq"] > 1 and any(r["kind"] == "cut" and r["facts"].get("records", 0) > 0 for r in records)
    folder = kept.pinfold.state / "sandboxes/work"
    assert sum((folder / name).stat().st_size for name in ["log.0", "log.1"]) <= 2 * 4 * 1024 * 1024 + 131072


def test_control_characters_are_escaped_on_a_terminal(kept):
    kept.up("work")
    kept.exec("work", "printf", r"\033]0;title\007plain\n")
    master, slave = pty.openpty()
    child = kept.pinfold.spawn(kept.argv("logs", "work"), stdout=slave, stderr=slave)
    os.close(slave)
    seen = b""
    with contextlib.suppress(OSError):  # EIO: all of it has been read, and nobody is there any more
        while part := os.read(master, 4096):
            seen += part
    assert child.wait(DEADLINE) == 0
    os.close(master)
    assert b"\x1b" not in seen and b"\\x1b" in seen and b"plain" in seen


def test_a_paused_sandbox_stands_still_and_goes_on(kept_by_root):
    kept_by_root.up("work")
    kept_by_root.ok("exec", "work", "--detach", "--", "sh", "-c", "while :; do echo tick; sleep 0.02; done")
    eventually(lambda: kept_by_root.show("work")["log_sequence"] > 5, "nothing ticks")
    kept_by_root.ok("pause", "work")
    before = kept_by_root.show("work")
    time.sleep(0.3)
    after = kept_by_root.show("work")
    assert before["state"] == "paused" and after["log_sequence"] - before["log_sequence"] <= 1
    refused = kept_by_root.exec("work", "true")
    assert refused.returncode == 125 and b"paused" in refused.stderr
    kept_by_root.ok("resume", "work")
    eventually(lambda: kept_by_root.show("work")["log_sequence"] > after["log_sequence"] + 3, "it stays frozen")


def test_a_paused_sandbox_can_be_killed(kept_by_root):
    kept_by_root.up("work")
    kept_by_root.ok("exec", "work", "--detach", "--", "sleep", "4321")
    kept_by_root.ok("pause", "work")
    kept_by_root.ok("kill", "work")
    assert kept_by_root.list()[0]["state"] == "ended"


def test_stop_leaves_nothing_but_the_log_and_rm_takes_that(kept):
    kept.up("work")
    kept.exec("work", "echo", "words")
    kept.ok("stop", "work")
    assert kept.list()[0]["state"] == "ended" and kept.show("work")["end"] == {"why": "stopped", "cleared": True}
    assert kept.call("logs", "work").stdout == b"words\n"
    assert kept.exec("work", "true").returncode == 125
    assert [g for g in kept.pinfold.groups() if g.name.isdigit()] == []
    assert kept.call("rm", "work").returncode == 0 and kept.list() == []


def test_a_living_sandbox_is_not_removed_by_mistake(kept):
    kept.up("work")
    done = kept.call("rm", "work")
    assert done.returncode == 125 and b"alive" in done.stderr
    assert kept.exec("work", "true").returncode == 0


def test_stop_asks_before_it_kills(kept):
    kept.up("work")
    kept.ok("exec", "work", "--detach", "--", "sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: "ready" in kept.ok("logs", "work"), "the command doesn't start")
    kept.ok("stop", "work", "--grace", "60s")
    assert "bye" in kept.ok("logs", "work")


def test_if_the_supervisor_is_killed_the_sandbox_dies_and_its_log_stays(kept):
    kept.up("work")
    kept.ok("exec", "work", "--detach", "--", "sh", "-c", "echo before; sleep 4321")
    eventually(lambda: "before" in kept.ok("logs", "work"), "the command doesn't start")
    os.kill(kept.show("work")["supervisor"], signal.SIGKILL)
    eventually(lambda: kept.list()[0]["state"] == "ended", "it is listed as alive")
    assert kept.call("logs", "work").stdout == b"before\n"
    assert kept.exec("work", "true").returncode == 125
    kept.up("other")
    assert kept.exec("other", "true").returncode == 0
    claimed = [byte for byte in (kept.pinfold.state / "slots").read_bytes() if byte]
    assert len(claimed) == 1, "the dead one's slot is still claimed"


def test_if_init_is_killed_whoever_waits_is_told(kept_by_root):
    kept_by_root.up("work")
    child = kept_by_root.pinfold.spawn(kept_by_root.argv("exec", "work", "--", "sh", "-c", "echo ready; sleep 4321"), stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\n"
    supervisor = kept_by_root.show("work")["supervisor"]
    inits = open(f"/proc/{supervisor}/task/{supervisor}/children").read().split()
    os.kill(int(inits[0]), signal.SIGKILL)
    assert child.wait(DEADLINE) == 128 + 9
    eventually(lambda: kept_by_root.list()[0]["state"] == "ended", "it is listed as alive")


def test_an_idle_sandbox_ends_and_a_used_one_does_not(kept):
    def used_and_left(span):
        name = f"work{span}"
        kept.up(name, "--idle-timeout", f"{3 * span}s")
        last, codes, in_time = time.monotonic(), [], True
        for _ in range(3):  # longer than that together
            time.sleep(1.2 * span)
            codes.append(kept.exec(name, "true").returncode)
            in_time, last = in_time and time.monotonic() - last < 3 * span, time.monotonic()
        assert codes == [0] * 3 or not in_time
        eventually(lambda: kept.show(name)["state"] == "ended", "it never ends", 5 * DEADLINE)
        assert kept.show(name)["end"]["why"] == "idle"
        return in_time

    paced(used_and_left)


def test_a_lifetime_ends_a_sandbox_whatever_it_does(kept):
    kept.up("work", "--lifetime", "300ms")
    eventually(lambda: kept.list()[0]["state"] == "ended", "it never ends")
    assert kept.show("work")["end"]["why"] == "lifetime"


def test_labels_choose_what_is_listed_and_come_with_results(kept):
    kept.up("one", "--label", "tenant=a")
    kept.up("two", "--label", "tenant=b")
    assert [s["name"] for s in kept.list("--label", "tenant=b")] == ["two"]
    assert kept.json("one", "true")["labels"] == {"tenant": "a"}


@pytest.mark.parametrize("bytes_sent", [
    b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x05hello", message(verb="exec"), message(verb="nonsense"),
    message(verb="exec", args=["true"], stdout=True), message(verb="exec", args=["true"], wrong=1),
    message(verb="signal", exec=99, signal=9), message(verb="end", exec=4294967295), struct.pack(">I", 100) + b"half"])
def test_a_hostile_client_harms_nobody_else(kept, bytes_sent):
    kept.up("work")
    with kept.connect("work") as client:
        client.sendall(bytes_sent)
        assert kept.exec("work", "echo", "alive").stdout == b"alive\n"


def test_clients_that_never_read_or_never_finish_block_nobody(kept):
    kept.up("work", resources={"stdout": "16MiB"})
    silent = [kept.connect("work") for _ in range(20)]
    for client in silent[:10]:
        client.sendall(b"\x00")
    for client in silent[10:]:
        client.setblocking(False)
        try:
            for _ in range(20000):
                client.send(message(verb="show"))
        except BlockingIOError:
            pass
    slow = kept.pinfold.spawn(kept.argv("exec", "work", "--", "sh", "-c", "head -c 8000000 /dev/zero"), stdout=subprocess.PIPE)
    started = time.monotonic()
    assert kept.exec("work", "echo", "alive").stdout == b"alive\n" and time.monotonic() - started < 25
    assert len(slow.stdout.read()) == 8000000 and slow.wait(DEADLINE) == 0
    for client in silent:
        client.close()


def test_descriptors_that_were_not_announced_are_refused(kept):
    kept.up("work")
    with kept.connect("work") as client:
        text = message(verb="exec", args=["true"])
        socket.send_fds(client, [text], [0, 1, 2])
        assert reply(client)["error"]["kind"] == "invalid"
        client.sendall(message(verb="exec", args=["true"], output="capture"))
        assert reply(client)["event"] == "started" and reply(client)["result"]["exit_code"] == 0


def test_a_detached_command_that_cannot_start_is_told(kept):
    kept.up("work")
    done = kept.exec("work", "no-such-program", options=["--detach"])
    assert done.returncode == 127 and b"no-such-program" in done.stderr


def lend(kept, name):
    """A connection that has become a descriptor, and its number."""
    client = kept.connect(name)
    client.sendall(message(verb="lend"))
    return client, reply(client)["ok"]["lent"]


def test_a_connection_that_is_lent_is_a_descriptor(kept):
    kept.up("work")
    (stdin, first), (stdout, second) = lend(kept, "work"), lend(kept, "work")
    with kept.connect("work") as client:
        client.sendall(message(verb="exec", args=["tr", "a-z", "A-Z"], stdin=True, stdout=True, lent=[first, second]))
        assert reply(client)["event"] == "started"
        stdin.sendall(b"hello" * 100000)
        stdin.shutdown(socket.SHUT_WR)
        assert stdout.makefile("rb").read() == b"HELLO" * 100000
        assert reply(client)["result"]["exit_code"] == 0


def test_an_input_that_was_lent_and_has_ended_can_still_be_taken(kept):
    """Whoever writes and ends it before the command is asked for need not wait for anybody."""
    kept.up("work")
    stdin, number = lend(kept, "work")
    stdin.sendall(b"hello")
    stdin.shutdown(socket.SHUT_WR)
    with kept.connect("work") as client:
        for _ in range(20):  # the supervisor has been around meanwhile
            client.sendall(message(verb="show"))
            assert "ok" in reply(client)
        client.sendall(message(verb="exec", args=["cat"], stdin=True, lent=[number], output="capture"))
        assert reply(client)["event"] == "started" and reply(client)["result"]["stdout"] == "hello"


def test_what_is_lent_is_taken_once_and_ends_with_its_client(kept):
    kept.up("work")
    (used, first), (gone, second) = lend(kept, "work"), lend(kept, "work")
    gone.close()
    eventually(lambda: kept.show("work")["clients"] == 2, "the connection stays")
    with kept.connect("work") as client:
        client.sendall(message(verb="exec", args=["true"], stdin=True, stdout=True, lent=[first, first]))
        assert reply(client)["error"]["pointer"] == "/lent/1"
        for number in (first, second, 0, 77):
            client.sendall(message(verb="exec", args=["true"], stdout=True, lent=[number]))
            assert reply(client)["error"]["pointer"] == "/lent/0"
        client.sendall(message(verb="exec", args=["true"], stdin=True, lent=[]))
        assert reply(client)["error"]["kind"] == "invalid"
    assert used.recv(1) == b""


def test_the_caller_s_private_files_are_copied_and_then_are_the_sandbox_s(kept_by_root):
    kept_by_root.up("work")
    private = kept_by_root.pinfold.home / "private"
    private.mkdir(mode=0o700)
    (private / "file").write_text("mine\n")
    os.chmod(private / "file", 0o600)
    kept_by_root.ok("cp", str(private), "work:/tmp/copy")
    done = kept_by_root.exec("work", "sh", "-c", "cat /tmp/copy/file; stat -c %u /tmp/copy /tmp/copy/file; id -u")
    assert done.stdout.split() == [b"mine", *[done.stdout.split()[-1]] * 3]


def test_files_and_trees_are_copied_in_and_out(kept, tmp_path):
    kept.up("work")
    source = kept.pinfold.home / "tree"
    (source / "sub").mkdir(parents=True)
    (source / "sub/file").write_bytes(bytes(range(256)) * 1000)
    (source / "run").write_text("#!/bin/sh\necho ran\n")
    os.chmod(source / "run", 0o755)
    for path in [source, source / "sub", source / "sub/file", source / "run"]:
        os.chown(path, kept.pinfold.uid, kept.pinfold.uid)
    kept.ok("cp", str(source), "work:/tmp")
    assert kept.exec("work", "/tmp/tree/run").stdout == b"ran\n"
    assert kept.exec("work", "sh", "-c", "echo more >> /tmp/tree/sub/file").returncode == 0, "it isn't the sandbox user's"
    target = kept.pinfold.home / "back"
    kept.ok("cp", "work:/tmp/tree", str(target))
    assert (target / "sub/file").read_bytes() == bytes(range(256)) * 1000 + b"more\n"
    assert os.access(target / "run", os.X_OK)


def test_no_link_is_followed_out_of_a_sandbox_or_out_of_its_root(kept):
    kept.up("work")
    kept.exec("work", "sh", "-c", "mkdir /tmp/t; ln -s /etc/shadow /tmp/t/link; mkfifo /tmp/t/pipe; echo plain > /tmp/t/file; ln -s /etc /tmp/dir")
    target = kept.pinfold.home / "out"
    done = kept.call("cp", "work:/tmp/t", str(target))
    assert done.returncode == 0 and sorted(p.name for p in target.iterdir()) == ["file"] and b"2 links" in done.stderr
    assert kept.call("cp", "work:/tmp/dir/hostname", str(kept.pinfold.home / "x")).returncode == 125
    assert kept.call("cp", "work:/tmp/t/../../../../etc/hostname", str(kept.pinfold.home / "x")).returncode == 125
    secret = kept.pinfold.home / "secret"
    secret.write_text("mine")
    os.chown(secret, kept.pinfold.uid, kept.pinfold.uid)
    kept.exec("work", "sh", "-c", "ln -s /etc/passwd /tmp/trap; ln -s / /tmp/root")
    assert kept.call("cp", str(secret), "work:/tmp/trap").returncode == 125
    assert kept.call("cp", str(secret), "work:/tmp/root/tmp/x").returncode == 125
    assert kept.show("work")["state"] == "running"


def test_a_copy_is_bounded_whatever_size_a_file_claims(kept):
    kept.up("work")
    kept.exec("work", "truncate", "-s", "1T", "/tmp/huge")
    done = kept.call("cp", "--limit", "1MiB", "work:/tmp/huge", str(kept.pinfold.home / "huge"))
    assert done.returncode == 125 and b"more bytes" in done.stderr
    assert (kept.pinfold.home / "huge").stat().st_size <= 1 << 20


def test_holes_stay_holes_whichever_way_they_are_copied(kept):
    """They count like bytes, but take no room and no time."""
    kept.up("work", filesystem={"tmp": "8MiB"})
    there, back = kept.pinfold.home / "there", kept.pinfold.home / "back"
    with open(there, "wb") as file:
        for place, data in ((0, b"first"), (1 << 29, b"middle"), ((1 << 30) - 1, b"l")):
            file.seek(place)
            file.write(data)
        file.truncate((1 << 30) + 12345)
    os.chmod(there, 0o644)
    kept.ok("cp", str(there), "work:/tmp/inside")
    kept.ok("cp", "work:/tmp/inside", str(back))
    for path in (there, back):
        facts = path.stat()
        assert facts.st_size == (1 << 30) + 12345 and facts.st_blocks * 512 < 1 << 20
        with open(path, "rb") as file:
            read = [(file.seek(place), file.read(8).rstrip(b"\0")) for place in (0, 1 << 29, (1 << 30) - 1, 12345)]
        assert read == [(0, b"first"), (1 << 29, b"middle"), ((1 << 30) - 1, b"l"), (12345, b"")]


def test_a_copy_that_does_not_fit_says_of_which_file(kept):
    kept.up("work", filesystem={"tmp": "1MiB"})
    tree = kept.pinfold.home / "tree"
    tree.mkdir(mode=0o755)
    (tree / "big\n").write_bytes(b"x" * (2 << 20))
    done = kept.call("cp", str(tree), "work:/tmp/tree")
    assert done.returncode == 125 and b"copy 'big\\n': write: No space left" in done.stderr, done.stderr


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_directory_that_can_not_be_read_to_its_end_is_no_end_of_it(kept_by_root):
    """Half of a tree would be taken for the whole, and half of the sandboxes for all."""
    kept = kept_by_root
    kept.up("work")
    tree = kept.pinfold.home / "tree"
    tree.mkdir(mode=0o755)
    for number in range(3):
        (tree / f"file{number}").write_text("")
    for argv in (kept.argv("cp", str(tree), "work:/tmp/tree"), kept.argv("ls")):
        failing = ["-e", "trace=getdents64", "-e", "inject=getdents64:error=EIO:when=2+"]
        done = kept.pinfold.call(["strace", "-o", "/dev/null", *failing, *argv])
        assert done.returncode == 125 and b"read a directory: " in done.stderr and b"EIO" in done.stderr, (argv, done)


def test_a_hold_ends_with_its_connection_and_commands_wait_for_that(kept_by_root):
    kept_by_root.up("work")
    with kept_by_root.connect("work") as holder, kept_by_root.connect("work") as other:
        holder.sendall(message(verb="pause", hold=True))
        assert reply(holder)["ok"] == {}
        other.sendall(message(verb="exec", args=["true"]))
        other.settimeout(0.3)
        with pytest.raises(TimeoutError):
            other.recv(1)
        other.settimeout(DEADLINE)
        holder.close()
        assert reply(other)["event"] == "started" and reply(other)["result"]["exit_code"] == 0


def test_what_is_just_being_made_can_be_removed(kept):
    policy = kept.pinfold.policy()
    for delay in range(20):
        making = kept.pinfold.spawn(kept.argv("up", "work", "--policy", policy), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay / 2000)
        removed = kept.call("rm", "--force", "work")
        assert removed.returncode == 0 or b"no sandbox" in removed.stderr, removed.stderr
        making.wait(DEADLINE)
        kept.call("rm", "--force", "work")
    assert kept.list() == []


def test_output_that_cannot_be_written_is_never_a_success(kept):
    """Of a command, of who attaches, and of the verbs that look; the log has it."""
    kept.up("work", "--label", "tenant=a")
    number = kept.ok("exec", "work", "--detach", "--", "echo", "detached").strip()
    kept.ok("wait", "work", number)
    for verb in (["exec", "work", "--", "echo", "words"], ["exec", "--json", "work", "--", "echo", "words"],
                 ["exec", "--stream", "work", "--", "echo", "words"], ["attach", "work", number], ["logs", "work"], ["logs", "--json", "work"],
                 ["ls"], ["ls", "--json"], ["show", "work"], ["stats", "work"], ["stats", "--by", "tenant"], ["wait", "--json", "work", number]):
        with open("/dev/full", "wb") as full:
            process = kept.pinfold.spawn(kept.argv(*verb), stdout=full, stderr=subprocess.PIPE)
            said = process.communicate(timeout=DEADLINE)[1]
        assert process.returncode == 125, (verb, process.returncode, said)
        assert said.startswith(b"pinfold: ") or {"--json", "--stream"} & {*verb}, (verb, said)
    assert kept.ok("logs", "work").count("words\n") == 3


def test_who_follows_a_log_ends_with_its_reader(kept):
    kept.up("work")
    kept.ok("exec", "work", "--", "echo", "words")
    follower = kept.pinfold.spawn(kept.argv("logs", "--follow", "work"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert follower.stdout.readline() == b"words\n"
    follower.stdout.close()
    assert follower.wait(DEADLINE) == 128 + signal.SIGPIPE
    follower.stderr.close()
