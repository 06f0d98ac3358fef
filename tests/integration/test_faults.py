"""Kills and failing calls at every place: no process outlives its run, and the next command finds nothing to clear.

The places are counted, not guessed: a clean run is traced, and every (system call, occurrence) of the supervisor and of the
process that builds the sandbox is a place where strace kills it, or lets the call fail.
"""
import collections
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import time

import pytest

PR_SET_CHILD_SUBREAPER, CLONE_NEWNS, MS_REC, MS_PRIVATE = 36, 0x20000, 0x4000, 0x40000
WITHIN_S = 1.0  # a sandbox is dead, and nothing of it runs
STRIDE = int(os.environ.get("PINFOLD_SWEEP_STRIDE", "4"))  # 1: every place; the tests take each fourth

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


@pytest.fixture
def orphanage():
    """Orphans of our children become ours, so that we see each process that outlives its run. The table of mounts is ours
    alone as well: what others mount meanwhile isn't seen."""
    libc = ctypes.CDLL(None, use_errno=True)
    ELDERS.clear()
    ELDERS.update(children_of(os.getpid()))
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    home, folder = os.open("/proc/self/ns/mnt", os.O_RDONLY), os.getcwd()
    if os.geteuid() == 0:
        assert libc.unshare(CLONE_NEWNS) == 0
        assert libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0
    yield
    if os.geteuid() == 0:
        assert libc.setns(home, CLONE_NEWNS) == 0
        os.chdir(folder)  # setns(2) goes to the root
    os.close(home)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


ELDERS = set()  # children that were there before the test: servers of other tests


def await_no_child(within=WITHIN_S):
    """Reaps until no child of the test's is left; the names of those that are there after the time."""
    deadline = time.monotonic() + within
    while True:
        alive = set(children_of(os.getpid())) - ELDERS
        for pid in list(alive):
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == pid:
                    alive.discard(pid)
            except ChildProcessError:
                alive.discard(pid)
        if not alive:
            return []
        if time.monotonic() > deadline:
            return [f"{open(f'/proc/{p}/comm').read().strip()}:{p}" for p in alive]
        time.sleep(0.002)


def mounts(pinfold):
    """Those of the host, but for the ones that other tests and engines make at the same time."""
    own, others = str(pinfold.home), ("/pytest-of-", "/containers/", "/containerd/", "/docker/", "/tmp/pin-")
    with open("/proc/self/mountinfo") as table:
        return [line for line in table if own in line or not any(name in line for name in others)]


def places(trace, of=None):
    """(call, occurrence) of one process in a trace; without `of` the trace has one process and no pids."""
    seen = collections.Counter()
    found = []
    for line in trace.splitlines():
        if of is not None:
            pid, _, line = line.partition(" ")
            if pid != of:
                continue
        match = re.match(r"\s*([a-z_0-9]+)\(", line)
        if match:
            seen[match[1]] += 1
            found.append((match[1], seen[match[1]]))
    return found[1:]  # the execve that starts it is strace's


def traced_processes(trace):
    return list(dict.fromkeys(line.split()[0] for line in trace.splitlines()))


def run_traced(pinfold, tmp_path, argv, *options, input=b"", follow=False):
    out = tmp_path / "trace"
    done = pinfold.call(["strace", *(["-f"] if follow else []), "-o", str(out), *options, *argv], input=input)
    return done, out.read_text()


def nothing_is_left(pinfold, before):
    alive = await_no_child()
    assert not alive, f"still there after {WITHIN_S} s: {alive}"
    pinfold.run("true")
    assert pinfold.leftovers() == []
    assert [mount for mount in mounts(pinfold) if mount not in before] == []  # a folder that others remove takes its mounts along


def scenarios(pinfold, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    yield pinfold.argv("true")
    yield pinfold.argv("sh", "-c", "echo a >b", options=["--json", "--workspace", f"{work}:cow", "--on-exit", "merge"])


@needs_strace
def test_a_kill_of_the_supervisor_at_any_call_leaves_nothing(as_root, orphanage, tmp_path):
    before, kills = mounts(as_root), 0
    as_root.run("true")  # the cache is warm
    for argv in scenarios(as_root, tmp_path):
        _, trace = run_traced(as_root, tmp_path, argv)
        listed = places(trace)
        assert len(listed) > 200
        for call, number in listed[::max(1, STRIDE - 1)]:
            if call == "exit_group":
                continue
            done = as_root.call(["strace", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}", *argv])
            kills += done.returncode == -signal.SIGKILL  # strace ends as what it traces: the others ran to their end
            try:
                nothing_is_left(as_root, before)
            except AssertionError as error:
                raise AssertionError(f"killed at {call} {number}") from error
    assert kills >= 200


def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [int(c) for c in children.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def born_inside(pid, inside=True):
    """Those of the children that are in a namespace of processes of their own: what is to be init. Or those that aren't: what
    begins the namespaces ahead of the plan."""
    found = []
    for child in children_of(pid):
        try:
            if (os.readlink(f"/proc/{child}/ns/pid") != os.readlink("/proc/self/ns/pid")) == inside:
                found.append(child)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def test_a_kill_of_what_begins_the_namespaces_is_no_loss(as_root, orphanage):
    before, draw = mounts(as_root), random.Random(3)
    for _ in range(40):
        process = as_root.spawn(as_root.argv("sh", "-c", "echo on"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not (begun := born_inside(process.pid, False)) and process.poll() is None:
            pass
        for pid in begun[:1]:
            time.sleep(draw.random() * 0.001)  # the moment is what is tested; nothing is waited for
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        assert process.communicate(timeout=60) == (b"on\n", b"") and process.returncode == 0
    nothing_is_left(as_root, before)


@needs_strace
@pytest.mark.parametrize("how", ["signal=KILL", "retval=1"])
def test_namespaces_that_are_not_begun_ahead_are_made_with_the_child(as_root, orphanage, how):
    """Nothing else in the run asks for its parent: the process is killed there, or finds another one than its own."""
    before, argv = mounts(as_root), as_root.argv("cat", "/proc/net/dev")
    expected = as_root.call(argv)
    done = as_root.call(["strace", "-f", "-o", "/dev/null", "-e", "trace=getppid", "-e", f"inject=getppid:{how}:when=1", *argv])
    assert (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, b"") and b"lo:" in done.stdout
    nothing_is_left(as_root, before)


def test_a_kill_of_what_is_to_be_init_at_any_moment_leaves_nothing(as_root, orphanage):
    """A signal that strace injects doesn't reach a PID 1: the moment of each kill is drawn instead."""
    before, draw = mounts(as_root), random.Random(2)
    told = collections.Counter()
    for _ in range(100):
        process = as_root.spawn(as_root.argv("sleep", "100"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not (made := born_inside(process.pid)) and process.poll() is None:
            pass
        time.sleep(draw.random() * 0.006)
        os.kill(made[0], signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (125, 137), err
        assert err.startswith(b"pinfold: ") and err.count(b"\n") == 1, err
        told[err] += 1
        nothing_is_left(as_root, before)
    assert len(told) > 1, told  # both while it was built and when it ran


def started(pinfold, script="echo on; exec sleep 100", **kwargs):
    process = pinfold.spawn(pinfold.argv("sh", "-c", script, **kwargs), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    return process


def test_a_kill_of_a_running_supervisor_takes_the_tree_with_it(pinfold, orphanage):
    before = mounts(pinfold)
    script = "trap '' TERM HUP INT; (setsid sleep 100 &); (setsid sh -c 'trap \"\" TERM; sleep 100' &); echo on; sleep 100"
    for _ in range(10):
        process = started(pinfold, script)
        process.kill()
        process.wait()
        process.stdout.close(), process.stderr.close()
        nothing_is_left(pinfold, before)


def test_a_kill_of_init_is_told_and_leaves_nothing(pinfold, orphanage):
    process = started(pinfold)
    (init,) = children_of(process.pid)
    os.kill(init, signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 137 and b"killed from outside" in err, (process.returncode, err)
    nothing_is_left(pinfold, mounts(pinfold))


def test_a_kill_of_the_command_is_its_exit_code(pinfold, orphanage):
    process = started(pinfold)
    (init,) = children_of(process.pid)
    (command,) = children_of(init)
    os.kill(command, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 137
    nothing_is_left(pinfold, mounts(pinfold))


def test_kills_at_random_moments_of_ten_runs_at_once_leave_nothing(pinfold, orphanage):
    before, draw = mounts(pinfold), random.Random(1)
    for _ in range(6):
        runs = [pinfold.spawn(pinfold.argv("sleep", "100"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(10)]
        for process in runs:
            time.sleep(draw.random() * 0.004)  # the moment is what is tested; nothing is waited for
            process.kill()
        for process in runs:
            process.wait()
        nothing_is_left(pinfold, before)


def test_a_stopped_supervisor_ends_its_run_when_it_goes_on(each_io):
    process = started(each_io, options=["--timeout", "300ms"])
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.6)  # longer than the run may last
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)
    assert process.returncode == 124


# ---- calls that fail --------------------------------------------------------------------------------------------------

PROBE = ("grep -E '^(Seccomp|NoNewPrivs|Cap|Uid|Gid|Groups|Sig)' /proc/self/status; cat /proc/self/limits; pwd; id;"
         "cut -d' ' -f4- /proc/self/mountinfo | sed 's/ - .*//'; ls /proc/self/fd; echo ready; read x")
LIMITS = ("memory.limit_in_bytes", "memory.max", "pids.max", "cpu.cfs_quota_us", "cpu.max")


def probe(pinfold, prefix, argv):
    """What a sandbox sees of its walls, and the limits of its group while it runs."""
    process = pinfold.spawn([*prefix, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seen, limits = [], {}
    for line in process.stdout:
        seen.append(line)
        if line == b"ready\n":
            for group in pinfold.groups():
                for name in LIMITS:
                    if group.name.isdigit() and (group / name).exists() and (group / "cgroup.procs").read_text():  # not what a killed one left
                        limits[name] = (group / name).read_text()
            break
    try:
        out, err = process.communicate(b"\n", timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError("it hangs") from None
    # a file of the host's that can't be looked at is mounted, not copied: it is read-only either way
    walls = (b"".join(line for line in seen if not re.match(rb"/etc/\S+ /etc/\S+ ro,nosuid,nodev,", line)), limits)
    # a shell whose sandbox is being killed may still say that it can't fork: that is its word, and no error of pinfold's
    return process.returncode, walls, out, re.sub(rb"(?m)^sh: .*\n", b"", err)


def lines(walls):
    return set(walls[0].splitlines())


ERRORS = ("ENOMEM", "EMFILE", "ENOSPC", "EIO", "EINTR", "EAGAIN", "EPERM")
# Calls whose failure changes nothing that is checked here, or which strace can't let fail without telling a lie
UNTOUCHED = {"exit_group", "brk", "execve", "exit", "vfork", "wait4", "rt_sigreturn", "restart_syscall", "arch_prctl", "set_tid_address",
             "close", "rt_sigaction", "rt_sigprocmask"}


@needs_strace
@pytest.mark.parametrize("whose", ["supervisor", "builder"])
def test_a_failing_call_means_refusal_or_the_same_walls(as_root, tmp_path, orphanage, whose):
    argv = as_root.argv("sh", "-c", PROBE, options=["--stdin", "-"])
    code, walls, _, _ = probe(as_root, [], argv)
    assert code == 0 and walls[0].endswith(b"ready\n") and walls[1]
    trace = tmp_path / "trace"
    probe(as_root, ["strace", "-f", "-o", str(trace)], argv)
    text = trace.read_text()
    supervisor = traced_processes(text)[0]
    (builder,) = {line.split()[0] for line in text.splitlines() if "pivot_root(" in line}
    listed = places(text, supervisor if whose == "supervisor" else builder)
    if whose == "builder":
        listed = listed[:listed.index(("execve", 1)) + 1] if ("execve", 1) in listed else listed
    tried = told = 0
    for place, (call, number) in list(enumerate(listed))[::STRIDE]:
        if call in UNTOUCHED:
            continue
        error = ERRORS[(place // STRIDE) % len(ERRORS)]
        follow = ["-f"] if whose == "builder" else []
        prefix = ["strace", *follow, "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}"]
        code, now, _, err = probe(as_root, prefix, argv)
        tried += 1
        what = (call, number, error, code, err)
        if code < 0 or whose == "builder" and err and not err.startswith(b"pinfold: "):
            assert code >= 0 or now[0] == b"", what  # libc gave up before main(); or it was the command's own call
            continue
        told += code != 0
        if code == 0:
            assert (lines(now), now[1]) == (lines(walls), walls[1]), (what, lines(now) ^ lines(walls))
        else:
            assert code in (124, 125, 141) and err.startswith(b"pinfold: ") and err.count(b"\n") == 1, what
            assert lines(now) <= lines(walls), (what, lines(now) - lines(walls))
    assert tried > 40 and told > 10
    nothing_is_left(as_root, mounts(as_root))


def test_a_state_directory_that_can_not_be_written_is_told_as_that(as_root):
    assert as_root.call(as_root.argv("true")).returncode == 0  # the slot table is there
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    done = as_root.call(["unshare", "-m", "sh", "-c", script, str(as_root.state), *as_root.argv("true")])
    assert done.returncode == 125 and b"EROFS" in done.stderr and done.stderr.endswith(b"name a place that can be written\n"), done
