"""Kills, failing calls and crowds at every place of pinfold-oci's own lifecycle: the next `delete --force` clears it all.

The places are counted from a trace of a clean call: strace kills the process there, or lets the call fail. PINFOLD_SWEEP_STRIDE=1
takes every place, the tests each sixth. Names (K1, K3) are those of docs/attacks.md.
"""
import collections
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

from oci_world import oci  # noqa: F401 (fixture)

if shutil.which("strace") is None:
    pytest.skip("needs strace", allow_module_level=True)
STRIDE = int(os.environ.get("PINFOLD_SWEEP_STRIDE", "12"))
CROWD = int(os.environ.get("PINFOLD_CROWD", "300"))
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def places(trace):
    seen, found = collections.Counter(), []
    for line in trace.splitlines():
        match = re.match(r"([a-z_0-9]+)\(", line)
        if match and match[1] not in ("exit_group", "execve"):
            seen[match[1]] += 1
            found.append((match[1], seen[match[1]]))
    return found


def sweep(oci, tmp_path, words, stride=STRIDE):  # noqa: F811
    """(call, occurrence) of a clean run of one verb, each `stride`th."""
    out = tmp_path / "trace"
    subprocess.run(["strace", "-o", out, *oci.argv(*words)], check=True, **QUIET)
    return places(out.read_text())[::stride]


def groups(name):
    return [os.path.join(folder, name) for folder, folders, _ in os.walk("/sys/fs/cgroup") if folder.endswith("/pinfold-oci") and name in folders]


def of_the_test(mark):
    left = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                left.append((entry / "comm").read_text().strip())
        except OSError:
            continue
    return left


def is_clear(oci, name, mark):  # noqa: F811
    done = oci.call("delete", "--force", name)
    assert done.returncode == 0, done
    assert not (oci.root / name).exists() and groups(name) == []
    deadline = time.monotonic() + 60
    while left := of_the_test(mark):
        assert time.monotonic() < deadline, left
        time.sleep(0.005)


def traced(oci, call, effect, number, words, mark, **more):  # noqa: F811
    """strace injects only into calls that it traces."""
    env = {**os.environ, "PINFOLD_FAULT": mark.decode()}
    argv = ["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{effect}:when={number}", *oci.argv(*words)]
    return subprocess.run(argv, check=False, env=env, timeout=60, **{**QUIET, **more})


VERBS = ["create", "start", "exec", "kill", "delete", "run", "pause", "update"]


def prepare(oci, verb, folder, name):  # noqa: F811
    """What has to be there before the verb; its words."""
    if verb in ("create", "run"):
        return [verb, "--bundle", folder, name]
    oci.ok("create", "--bundle", folder, name, **QUIET)
    if verb in ("exec", "kill", "pause", "update"):
        oci.ok("start", name, **QUIET)
    return {"start": ["start", name], "exec": ["exec", name, "true"], "kill": ["kill", name, "KILL"], "delete": ["delete", "--force", name],
            "pause": ["pause", name], "update": ["update", "--pids-limit", "9", name]}[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_K1_a_kill_at_any_call_of_a_verb_leaves_what_delete_clears(oci, tmp_path, verb):  # noqa: F811
    folder, name, mark = oci.bundle(*(["true"] if verb == "run" else ["sleep", "100"])), oci.name(), f"k{os.getpid()}-{verb}".encode()
    listed = sweep(oci, tmp_path, prepare(oci, verb, folder, name))
    assert len(listed) > 60 // STRIDE
    is_clear(oci, name, mark)
    killed = 0
    for call, number in listed:
        words = prepare(oci, verb, folder, name)
        killed += traced(oci, call, "signal=KILL", number, words, mark).returncode == -signal.SIGKILL
        try:
            is_clear(oci, name, mark)
        except AssertionError as error:
            raise AssertionError(f"killed at {call} {number}") from error
    assert killed > len(listed) * 0.6, (killed, len(listed))  # the others ask less often, or later, than the call that was traced


WALLS = "busybox grep -E '^(Cap|NoNewPrivs|Seccomp|Uid)' /proc/self/status; ls -ld /proc/keys; (echo 1 >/proc/sys/kernel/msgmax) 2>/dev/null && echo open; ulimit -n; pwd"


@pytest.mark.parametrize("error", ["ENOSPC", "EMFILE", "ENOMEM", "EIO", "EPERM"])
def test_K3_a_failing_call_means_refusal_or_the_same_walls(oci, tmp_path, error):  # noqa: F811
    """EINTR, which is to be repeated, is what signals bring: see the crowds below."""
    folder = oci.bundle("/bin/sh", "-c", WALLS, root__readonly=False, linux__seccomp={"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"}]}, linux__resources={"pids": {"limit": 50}})
    name, mark = oci.name(), f"e{os.getpid()}-{error}".encode()
    sane = oci.call("run", "--bundle", folder, name).stdout
    assert b"Seccomp:\t2" in sane and b"open" not in sane
    refused = same = 0
    for call, number in sweep(oci, tmp_path, ["run", "--bundle", folder, name], STRIDE * 2):
        if call in ("wait4", "exit", "rt_sigreturn", "munmap", "mmap", "brk", "close", "capget"):
            continue # a failing one of these is no fault of the world's; whoever can't ask for its capabilities gives none
        done = traced(oci, call, f"error={error}", number, ["run", "--bundle", folder, name], mark, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.stdout in (b"", sane), (call, number, done.stdout)
        refused, same = refused + (done.stdout == b""), same + (done.stdout == sane)
        try:
            is_clear(oci, name, mark)
        except AssertionError as wrong:
            raise AssertionError(f"{error} at {call} {number}: {done.stderr}") from wrong
    assert refused > 5 and same > 5, (refused, same)


def answer_of(oci, name, process):
    """An exec that a pause overtook waits for somebody's resume, and the crowd waits for it."""
    for _ in range(24):
        try:
            return process.communicate(timeout=5)[1]
        except subprocess.TimeoutExpired:
            subprocess.run(oci.argv("resume", name), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.kill()
    return process.communicate()[1]


def test_K7_a_crowd_of_all_verbs_about_one_name_ends_clear(oci):  # noqa: F811
    """Every answer is one that the verb has; at the end nothing is left, and the name is free."""
    folder, name, rng, answers = oci.bundle("sleep", "100"), oci.name(), random.Random(7), collections.Counter()
    verbs = [["create", "--bundle", str(folder), name], ["start", name], ["kill", name, "KILL"], ["kill", "--all", name, "TERM"], ["delete", name],
             ["delete", "--force", name], ["exec", name, "true"], ["state", name], ["pause", name], ["resume", name], ["ps", "--format", "json", name],
             ["update", "--pids-limit", "60", name], ["events", "--stats", name]]
    known = re.compile(r"does not exist|already exists|not running|already running|has stopped|not stopped|already finished|not paused|cannot exec|is not running|"
                       r"container not|no such process|was removed|paused|in no cgroup|no cgroup controller|stopped|no such device|set the limit|closed|broken pipe|gone|in use|died|ended|connection|thawed while it froze", re.I)
    alive = []

    def has_had_its_turns():
        return answers["create", 0] > CROWD // 200 and answers["start", 0] > 0 and answers["exec", 0] + answers["exec", 255] > 0

    for round in itertools.count():
        if round >= CROWD and (has_had_its_turns() or round == 20 * CROWD):
            break
        verb = rng.choice(verbs)
        alive.append((verb, subprocess.Popen(oci.argv(*verb), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL if verb[0] == "create" else subprocess.PIPE, text=True)))
        if len(alive) >= 12:
            done_verb, process = alive.pop(0)
            said = answer_of(oci, name, process)
            answers[done_verb[0], process.returncode] += 1
            assert process.returncode in (0, 1, 137, 143, 255), (done_verb, process.returncode, said)
            assert process.returncode in (0, 137, 143) or done_verb[0] == "create" or known.search(said), (done_verb, said)
    for _, process in alive:
        answer_of(oci, name, process)
    assert has_had_its_turns(), answers
    oci.ok("delete", "--force", name)
    assert groups(name) == []
    oci.ok("create", "--bundle", folder, name, **QUIET)
    assert json.loads(oci.ok("state", name).stdout)["status"] == "created"


SIGNALS = {"TERM twice": ([signal.SIGTERM] * 2, 7), "HUP": ([signal.SIGHUP], 7), "INT": ([signal.SIGINT], 7), "PIPE": ([signal.SIGPIPE, signal.SIGTERM], 7),
           "CHLD storm": ([signal.SIGCHLD] * 200 + [signal.SIGTERM], 7), "TERM to the deaf": ([signal.SIGTERM], 137)}


@pytest.mark.parametrize("what", SIGNALS)
def test_K14_a_signal_to_a_run_in_the_foreground_reaches_the_container_and_nothing_is_left(oci, what):  # noqa: F811
    """Also one that comes the moment that the container is up."""
    numbers, code = SIGNALS[what]
    trap = "" if code == 137 else "trap 'exit 7' HUP INT TERM; "
    folder, name = oci.bundle("/bin/sh", "-c", f"{trap}echo up; while :; do sleep 0.02; done"), oci.name()
    for _ in range(20):
        process = subprocess.Popen(oci.argv("run", "--bundle", folder, name), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = process.stdout.readline()
        assert line == b"up\n", process.communicate()
        for number in numbers:
            process.send_signal(number)
        process.communicate(timeout=60)
        assert process.returncode == code and not (oci.root / name).exists() and groups(name) == [], process.returncode


@pytest.mark.parametrize("delay_ms", range(0, 40, 4))
def test_K14_a_signal_to_a_run_that_is_just_being_made_leaves_nothing_alive(oci, delay_ms):  # noqa: F811
    folder, name = oci.bundle("sleep", "1000"), oci.name()
    process = subprocess.Popen(oci.argv("run", "--bundle", folder, name), **QUIET)
    time.sleep(delay_ms / 1000)
    process.terminate()
    process.wait(60)
    deadline = time.monotonic() + 60
    while b'"status": "stopped"' not in (done := oci.call("state", name)).stdout and done.returncode == 0:
        assert time.monotonic() < deadline, done
        time.sleep(0.01)


def test_K14_a_reader_that_has_gone_ends_nothing_half(oci):  # noqa: F811
    for verb in (["list"], ["state"], ["ps", "--format", "json"], ["events", "--stats"], ["features"], ["spec"]):
        name = oci.names[0] if oci.names else oci.start("sleep", "100")
        read, write = os.pipe()
        os.close(read)
        words = [*verb, *([name] if verb[0] in ("state", "ps", "events") else ["--bundle", str(oci.home)] if verb == ["spec"] else [])]
        done = subprocess.run(oci.argv(*words), stdin=subprocess.DEVNULL, stdout=write, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(write)
        assert done.returncode in (0, 1, -13), done
        assert oci.state(name)["status"] == "running"
