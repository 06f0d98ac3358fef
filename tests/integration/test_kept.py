"""Kept sandboxes: up, exec, logs and the others, as their callers see them."""
import concurrent.futures
import contextlib
import hashlib
import json
import os
import pathlib
import pty
import signal
import struct
import subprocess
import time

import pytest

from kept_sandbox import DEADLINE, eventually, kept, kept_by_root, message, paced, reply  # noqa: F401 (fixtures)


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


def test_what_the_protocol_can_not_say_is_refused_and_not_left_out(kept):
    kept.up("work")
    for option in ("--cwd", "--user", "--secret"):
        done = kept.exec("work", "true", options=[option, b"/\xff"])
        assert done.returncode == 125 and b"isn't UTF-8" in done.stderr, (option, done)
    done = kept.call("egress", "work", "--add", b"\xff:443")
    assert done.returncode == 125 and b"isn't UTF-8" in done.stderr, done


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


def test_a_detached_command_that_cannot_start_is_told(kept):
    kept.up("work")
    done = kept.exec("work", "no-such-program", options=["--detach"])
    assert done.returncode == 127 and b"no-such-program" in done.stderr


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
