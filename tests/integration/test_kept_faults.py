"""What a kept sandbox does when its supervisor's calls fail, when that stands still or is killed for want of memory, and where its
directory lies in an odd place; and what is left of a secret in memory.

The places of failing calls are those of a traced clean run, as in test_faults.py; the tests take some, PINFOLD_SWEEP_STRIDE=1 all.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess

import pytest

from kept_sandbox import DEADLINE, Kept, eventually, gone, kept, kept_by_root  # noqa: F401 (fixtures)
from test_faults import UNTOUCHED, places
from test_kept_books import Books, root_books  # noqa: F401 (fixture)
from test_kept_crowds import memory_of, ticks_of
from test_kept_sweeps import attached, ends, nothing_is_left

STRIDE = int(os.environ.get("PINFOLD_SWEEP_STRIDE", "9"))
ERRORS = ("ENFILE", "ENOMEM", "EMFILE", "ENOSPC", "EIO", "EINTR", "EAGAIN", "EPERM")
WALLS = ("grep -E '^(Seccomp|NoNewPrivs|Cap|Uid|Gid|Groups|Sig)' /proc/self/status; cat /proc/self/limits; pwd; id;"
         "cut -d' ' -f4- /proc/self/mountinfo | sed 's/ - .*//'; ls /proc/self/fd")
COMMAND = ["work", "--", "sh", "-c", WALLS]

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def walls(out):
    """A file of the host's that can't be looked at is mounted, not copied: it is read-only either way."""
    return {line for line in out.splitlines() if not re.match(rb"/etc/\S+ /etc/\S+ ro,nosuid,nodev,", line)}


def says_why(done):
    """In one line, among those of a command that had begun."""
    return sum(line.startswith(b"pinfold: ") for line in done.stderr.splitlines()) == 1


def is_refusal(done):
    return done.returncode == 125 and says_why(done)


def failing(listed, stride):
    """(strace's options, name) for every so many places, each with another error."""
    for turn, (call, number) in enumerate(listed[::stride]):
        error = ERRORS[turn % len(ERRORS)]
        if call not in UNTOUCHED:
            yield ["-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={number}"], f"{error} of {call} {number}"


@needs_strace
def test_a_failing_call_of_a_supervisor_means_refusal_or_the_same_walls(kept_by_root, tmp_path):
    """Of a command that it starts and ends. The walls of a looser policy are seen to be others."""
    kept = kept_by_root
    policy, looser = kept.pinfold.policy(), kept.pinfold.policy(extends=["build"], resources={"files": 2000})
    kept.ok("up", "work", "--policy", looser)
    loose = walls(kept.call("exec", *COMMAND).stdout)
    kept.ok("rm", "--force", "work")
    kept.ok("up", "work", "--policy", policy)
    sound = walls(kept.call("exec", *COMMAND).stdout)
    assert len(sound) > 30 and loose - sound and sound - loose
    tracer = attached(kept.show("work")["supervisor"], tmp_path / "trace")
    assert walls(kept.call("exec", *COMMAND).stdout) == sound
    ends(tracer)
    listed = places("execve()\n" + (tmp_path / "trace").read_text())
    tried = told = 0
    for options, what in failing(listed, STRIDE // 2 + 1):
        if not kept.list():
            kept.ok("up", "work", "--policy", policy)
        tracer = attached(kept.show("work")["supervisor"], tmp_path / "trace", *options)
        done = kept.call("exec", *COMMAND, timeout=120)
        ends(tracer)
        tried += 1
        told += done.returncode != 0
        assert walls(done.stdout) == sound if done.returncode == 0 else says_why(done) or done.returncode == 137, (what, done)
        assert walls(done.stdout) <= sound, what
        again = kept.call("exec", *COMMAND)
        if again.returncode == 0:
            assert walls(again.stdout) == sound, what
        else:
            assert is_refusal(again), (what, again)
            kept.ok("rm", "--force", "work")
    assert len(listed) > 30 and tried > 5 and told > 0, (len(listed), tried, told)
    nothing_is_left(kept)


@needs_strace
def test_a_failing_call_while_a_sandbox_is_made_means_refusal_or_the_same_walls(kept_by_root, tmp_path):
    """Of any process: each fails at its own nth call."""
    kept = kept_by_root
    argv = kept.argv("up", "work", "--policy", kept.pinfold.policy())
    log = tmp_path / "trace"
    assert kept.pinfold.call(argv).returncode == 0
    sound = walls(kept.call("exec", *COMMAND).stdout)
    kept.ok("rm", "--force", "work")

    def one(*options):
        """The tracer lets go of what it traces before a command runs, whose own calls would fail as well."""
        with open(tmp_path / "out", "w+b") as out:
            tracer = kept.pinfold.spawn(["strace", "-I", "2", "-f", "-o", str(log), *options, *argv], stdout=out, stderr=subprocess.STDOUT)
            eventually(lambda: tracer.poll() is not None or any("supervisor" in s for s in kept.list()), "neither up nor refused")
            tracer.terminate()
            tracer.wait(DEADLINE)
            done = kept.call("exec", *COMMAND, timeout=120)
            nothing_is_left(kept)
            out.seek(0)
            return out.read(), done

    one()
    text = log.read_text()
    pids = sorted(dict.fromkeys(line.split()[0] for line in text.splitlines()), key=lambda pid: -len(places(text, pid)))
    tried = told = 0
    for pid in pids[:3]:
        for options, what in failing(places(text, pid), STRIDE * 4):
            said, done = one(*options)
            tried += 1
            told += done.returncode != 0
            if done.returncode == 0:
                assert walls(done.stdout) == sound, (what, walls(done.stdout) ^ sound)
            else:
                assert is_refusal(done), (what, said, done)
    assert tried > 15 and told > 3, (tried, told)


# ---- a supervisor that stands still, or is killed ---------------------------------------------------------------------

def init_of(supervisor):
    with open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def flooding(kept):
    """Supervisor, and a process that writes without an end."""
    kept.up("work", resources={"stdout": "unlimited", "wall_time": "5m"})
    kept.ok("exec", "work", "--detach", "--", "yes", "a line of output that goes on and on")
    supervisor = kept.show("work")["supervisor"]
    with open(f"/proc/{init_of(supervisor)}/task/{init_of(supervisor)}/children", encoding="ascii") as file:
        return supervisor, int(file.read().split()[0])


def test_while_a_supervisor_stands_still_a_flood_waits_in_its_pipe(kept_by_root):
    """Nothing is kept that grows. Before and after that, the same command does go on."""
    supervisor, writer = flooding(kept_by_root)

    def goes_on():
        before = ticks_of(writer)
        eventually(lambda: ticks_of(writer) > before + 2, "the flood stands still")

    goes_on()
    os.kill(supervisor, signal.SIGSTOP)
    eventually(lambda: state_of(supervisor) == "T", "it isn't stopped")
    eventually(lambda: state_of(writer) == "S", "the flood goes on")  # its pipe is full, and nobody reads
    spent, memory = ticks_of(writer), memory_of(supervisor)
    for _ in range(200):
        assert state_of(writer) == "S" and ticks_of(writer) == spent and memory_of(supervisor) <= memory
    os.kill(supervisor, signal.SIGCONT)
    goes_on()
    assert memory_of(supervisor) < memory + (16 << 20)
    kept_by_root.ok("kill", "work")
    assert kept_by_root.show("work")["end"] == {"why": "killed", "cleared": True}


def memory_groups():
    """Where the process's own group of memory is, of version 1."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        own = {line.split(":")[1]: line.rstrip("\n").split(":", 2)[2] for line in file}
    for place in (f"/sys/fs/cgroup/memory{own.get('memory', '')}", "/sys/fs/cgroup/memory"):
        if "memory" in own and os.access(f"{place}/memory.limit_in_bytes", os.W_OK):
            return pathlib.Path(place)
    pytest.skip("there is no memory controller of cgroup v1 here")


@pytest.mark.parametrize("limit", ["4M", "200M"])
def test_a_supervisor_that_is_killed_for_want_of_memory_takes_its_sandbox_with_it(kept_by_root, limit):
    """Clients send it halves of messages, 40 MiB of them: where it may have that, it lives."""
    kept, group = kept_by_root, memory_groups() / f"pinfold-test-{os.getpid()}-{limit}"
    kept.up("work")
    kept.ok("exec", "work", "--detach", "--", "sleep", "4321")
    supervisor = kept.show("work")["supervisor"]
    init, clients = init_of(supervisor), [kept.connect("work") for _ in range(10)]
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(limit)
        (group / "cgroup.procs").write_text(str(supervisor))
        for client in clients:
            try:
                client.sendall(struct.pack(">I", 4 << 20) + b" " * ((4 << 20) - 1))
            except (BrokenPipeError, ConnectionResetError):
                pass
        if limit == "200M":
            assert kept.exec("work", "echo", "alive").stdout == b"alive\n"
        else:
            eventually(lambda: gone(supervisor) and gone(init), "somebody lives on")
            assert "oom_kill 1" in (group / "memory.oom_control").read_text()
        nothing_is_left(kept)
    finally:
        for client in clients:
            client.close()
        kept.call("rm", "--force", "work")
        eventually(lambda: not (group / "cgroup.procs").read_text(), "somebody stays in the group")
        group.rmdir()


# ---- where the directory lies -----------------------------------------------------------------------------------------

def test_the_path_of_a_socket_may_be_longer_than_an_address(kept):
    """An address has room for 108 bytes: all go by a descriptor. A program that takes the path itself fails."""
    deep = kept.pinfold.home / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True, mode=0o700)
    for folder in (deep.parent, deep):
        os.chown(folder, kept.pinfold.uid, kept.pinfold.uid)
    kept.pinfold.state = deep
    kept.up("work")
    assert len(str(deep / "sandboxes/work/control")) > 108
    with pytest.raises(OSError, match="too long"), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(deep / "sandboxes/work/control"))
    assert kept.exec("work", "echo", "words").stdout == b"words\n" and kept.ok("logs", "work") == "words\n"
    kept.ok("cp", "/etc/passwd", "work:/tmp/copied")
    kept.ok("rm", "--force", "work")
    assert kept.list() == []


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_where_nothing_can_be_written_no_sandbox_is_made(kept_by_root, how):
    """The state directory is a small tmpfs of the call's own; the same call in the same place, with room, makes one."""
    kept, state = kept_by_root, kept_by_root.pinfold.state
    up = " ".join(kept.argv("up", "work", "--policy", kept.pinfold.policy()))
    spoil = f"head -c 10M /dev/zero >{state}/fill 2>/dev/null" if how == "full" else f"mount -o remount,ro {state}"
    script = (f"mount -t tmpfs -o size=1m,mode=700 none {state} && {up} && {kept.pinfold.program} rm --force work && {{ {spoil}; }};"
              f" {up}; echo code $?; rm -f {state}/fill; {kept.pinfold.program} ls --json; {kept.pinfold.program} run -- true; echo then $?")
    done = kept.pinfold.call(["unshare", "-m", "sh", "-c", script])
    lines = done.stdout.decode().split("\n")
    assert lines[0] == "work" and "code 125" in lines, (done.stdout, done.stderr)
    assert done.stderr.startswith(b"pinfold: "), done.stderr
    if how == "full":  # what is left of it is a name, at most, that can be removed
        assert done.stdout.endswith(b"then 0\n"), (done.stdout, done.stderr)


# ---- what is left of a secret -----------------------------------------------------------------------------------------

def holds(pid, token):
    """The mappings of a process in which it is."""
    found = []
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as table, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in table:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            try:
                memory.seek(start)
                if token in memory.read(end - start):
                    found.append(line.strip())
            except (OSError, ValueError, OverflowError):  # [vvar] and the like
                pass
    return found


def test_a_value_that_is_used_no_more_is_in_no_memory(root_books):
    """64 values are known, to be masked: the first of 66 is wiped. The same search finds the last in the supervisor; init has none."""
    books, values = root_books, [f"value-{os.urandom(12).hex()}" for _ in range(66)]
    books.put("KEY", values[0])
    books.up("work", "--secret", "KEY", "--secret", "KEY:file", secrets=["KEY"])
    supervisor = books.show("work")["supervisor"]
    for turn, value in enumerate(values):
        books.put("KEY", value)
        far = "x" * (1000 if turn == 0 else 0)  # what comes later doesn't lie over it
        said = books.exec("work", "sh", "-c", f"echo \"{far}$KEY\"; cat /run/secrets/KEY").stdout
        assert said == f"{far}***\n***".encode(), turn
        if turn == 0:
            assert holds(supervisor, value.encode())
    assert holds(supervisor, values[-1].encode()) and not holds(supervisor, values[0].encode())
    assert [value for value in values if holds(init_of(supervisor), value.encode())] == []
