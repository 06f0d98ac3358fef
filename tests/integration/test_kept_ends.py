"""What ends a kept sandbox beside its verbs, and how it is told."""
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess

import pytest

from kept_sandbox import DEADLINE, eventually, gone, kept, kept_by_root  # noqa: F401 (fixtures)
from test_kept_books import Books, books, root_books  # noqa: F401 (fixtures)
from test_kept_crowds import CONNECTIONS, SHARE, Waiting, state_of


def test_a_stop_waits_no_longer_than_its_commands_live(kept):
    kept.up("work")
    kept.ok("exec", "work", "--detach", "--", "sleep", "4321")
    kept.ok("stop", "work", "--grace", "1h")  # the call itself is given a minute
    assert kept.show("work")["end"] == {"why": "stopped", "cleared": True}


@pytest.mark.parametrize("what", ["its directory", "its socket", "another file in its place"])
def test_a_sandbox_whose_directory_is_removed_ends_and_the_log_says_why(books, what):
    """Nobody could find it any more. Its neighbour, whose directory is left alone, lives on."""
    audit = {"record": ["lifecycle"]}
    for name in ("work", "beside"):
        books.up(name, audit=audit)
    books.ok("exec", "work", "--detach", "--", "sleep", "4321")
    supervisor, folder = books.show("work")["supervisor"], books.pinfold.state / "sandboxes/work"
    if what == "its directory":
        shutil.rmtree(folder)
    else:
        (folder / "control").unlink()
    if what == "another file in its place":
        (folder / "control").touch()
    eventually(lambda: gone(supervisor), "it lives on, and nobody can find it")
    ends = [record for record in books.audit() if record["event"] == "end"]
    assert [(end["sandbox"], end["data"]["why"]) for end in ends] == [("work", "its directory was removed")]
    assert books.events().count("exec-end") == 1
    assert books.exec("beside", "echo", "alive").stdout == b"alive\n"
    assert len({group.name for group in books.pinfold.groups() if group.name.isdigit()}) <= 1  # its neighbour's


def test_a_state_directory_that_is_removed_whole_leaves_no_process_and_no_group(root_books):
    books = root_books
    books.up("work", audit={"record": ["lifecycle"]})
    books.ok("exec", "work", "--detach", "--", "sleep", "4321")
    supervisor, groups = books.show("work")["supervisor"], books.pinfold.groups()
    assert [group for group in groups if group.name.isdigit()]
    shutil.rmtree(books.pinfold.state)
    eventually(lambda: gone(supervisor), "it lives on, and nobody can find it")
    assert books.audit()[-1]["event"] == "end" and books.audit()[-1]["data"]["why"] == "its directory was removed"
    assert [group for group in groups if group.name.isdigit() and group.exists()] == []
    for group in groups:
        if group.exists():
            group.rmdir()
    books.pinfold.state.mkdir(mode=0o700)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_supervisor_that_is_told_to_end_over_and_over_ends_its_sandbox_once(kept_by_root, number):
    kept_by_root.up("work")
    waiting = kept_by_root.pinfold.spawn(kept_by_root.argv("wait", "work"), stdout=subprocess.PIPE)
    kept_by_root.ok("exec", "work", "--detach", "--", "sh", "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: "ready" in kept_by_root.ok("logs", "work"), "the command doesn't start")
    supervisor = kept_by_root.show("work")["supervisor"]
    for _ in range(2000):  # more than one is taken on its own, and the last comes before the command's sleep is over
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor, number)
    eventually(lambda: gone(supervisor), "it doesn't end")
    assert waiting.wait(DEADLINE) == 0
    waiting.stdout.close()
    assert kept_by_root.show("work")["end"] == {"why": "its supervisor was told to end", "cleared": True}
    assert "bye" in kept_by_root.ok("logs", "work")


def test_a_second_stop_of_less_grace_hurries_the_first(kept_by_root):
    kept_by_root.up("work")
    kept_by_root.ok("exec", "work", "--detach", "--", "sh", "-c", "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: "ready" in kept_by_root.ok("logs", "work"), "the command doesn't start")
    first = kept_by_root.pinfold.spawn(kept_by_root.argv("stop", "work", "--grace", "1h"))
    eventually(lambda: "asked" in kept_by_root.ok("logs", "work"), "the command isn't asked")
    kept_by_root.ok("stop", "work", "--grace", "1s")
    assert first.wait(DEADLINE) == 0
    assert kept_by_root.ok("logs", "work").count("asked") == 1


def test_a_supervisor_takes_storms_of_signals_that_mean_nothing_to_it(kept_by_root):
    """SIGCHLD and SIGPIPE from outside, in thousands, while commands run: none is lost or mixed up."""
    kept_by_root.up("work")
    supervisor = kept_by_root.show("work")["supervisor"]
    storm = subprocess.Popen(["/usr/bin/python3", "-c", "import os, sys, signal\nwhile True:\n for n in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGWINCH,"
                              " signal.SIGURG):\n  os.kill(int(sys.argv[1]), n)", str(supervisor)])
    try:
        for number in range(20):
            assert kept_by_root.exec("work", "sh", "-c", f"echo {number}; exit {number}").returncode == number
    finally:
        storm.kill()
        storm.wait()
    assert [record["data"] for record in kept_by_root.records("work") if record["kind"] == "stdout"] == [f"{n}\n" for n in range(20)]


@contextlib.contextmanager
def deaf(pid):
    """Held by a tracer: no signal but SIGKILL means anything to it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    assert libc.ptrace(16, pid, 0, 0) == 0, os.strerror(ctypes.get_errno())  # PTRACE_ATTACH
    os.waitpid(pid, 0x40000000)  # __WALL
    yield
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0x40000000)


def group_processes(groups):
    return [line for group in groups if group.exists() for line in (group / "cgroup.procs").read_text().split()]


@pytest.mark.parametrize("verb", [["kill"], ["rm", "--force"]], ids=" ".join)
def test_a_sandbox_whose_supervisor_has_no_room_to_be_asked_is_ended_all_the_same(root_books, verb):
    """Everybody waits, so that a new client is refused; what is refused to `stop` is not to who kills."""
    root_books.up("work", audit={"record": ["lifecycle"]})
    with Waiting(root_books, "work", SHARE), Waiting(root_books, "work", CONNECTIONS - SHARE):
        assert b"wait for something already" in root_books.call("stop", "work").stderr
        root_books.ok(*verb, "work")
    end = [record for record in root_books.audit() if record["event"] == "end"]
    assert [record["data"]["why"] for record in end] == ["its supervisor was told to end"]
    assert [group for group in root_books.pinfold.groups() if group.name.isdigit()] == []


def test_a_sandbox_whose_supervisor_stands_still_is_ended_all_the_same(kept_by_root):
    kept_by_root.up("work")
    supervisor = kept_by_root.show("work")["supervisor"]
    os.kill(supervisor, signal.SIGSTOP)
    kept_by_root.ok("kill", "work")
    assert kept_by_root.show("work")["end"] == {"why": "killed", "cleared": True}
    eventually(lambda: gone(supervisor), "it lives on")


def test_a_command_whose_supervisor_stands_still_can_be_left(kept):
    """By a signal after one that nobody has answered; the supervisor ends the command when it goes on."""
    kept.up("work")
    argv = [str(kept.pinfold.program), "exec", "work", "--", "/usr/bin/sh", "-c", "echo on; exec sleep 4321"]
    process = kept.pinfold.spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline() == b"on\n"
    supervisor = kept.show("work")["supervisor"]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        eventually(lambda: state_of(supervisor) == "T", "the supervisor isn't stopped")
        eventually(lambda: process.poll() is not None or process.send_signal(signal.SIGINT), "it can't be left")
    finally:
        os.kill(supervisor, signal.SIGCONT)  # which has the other end of what the command writes as well
    assert process.returncode == 125 and b"the supervisor of 'work' doesn't answer" in process.communicate()[1]
    eventually(lambda: kept.show("work")["execs"] == [], "the command that was left runs on")


def test_a_frozen_sandbox_whose_supervisor_takes_nothing_in_is_killed_and_cleared(kept_by_root):
    kept_by_root.up("work")
    kept_by_root.ok("exec", "work", "--detach", "--", "sleep", "4321")
    kept_by_root.ok("pause", "work")
    supervisor = kept_by_root.show("work")["supervisor"]
    groups = [group for group in kept_by_root.pinfold.groups() if any(part.isdigit() for part in group.parts[-2:])]
    assert group_processes(groups)
    with deaf(supervisor):
        kept_by_root.ok("rm", "--force", "work")
    assert group_processes(groups) == [] and [group for group in groups if group.exists()] == []
    eventually(lambda: gone(supervisor), "it lives on")
    assert kept_by_root.list() == []


def test_what_is_not_the_supervisor_is_never_signalled(kept_by_root):
    """The number in the lock leads to somebody else, who started at another time or doesn't hold it."""
    kept_by_root.up("work")
    lock = kept_by_root.pinfold.state / "sandboxes/work/lock"
    supervisor = kept_by_root.show("work")["supervisor"]
    with subprocess.Popen(["sleep", "4321"]) as victim, deaf(supervisor):
        lock.write_text(f"{victim.pid} 1\n")
        refused = kept_by_root.call("kill", "work")
        assert refused.returncode == 125 and b"can't be seen from here" in refused.stderr
        assert victim.poll() is None
        victim.kill()
        os.kill(supervisor, signal.SIGKILL)
    kept_by_root.ok("rm", "--force", "work")
