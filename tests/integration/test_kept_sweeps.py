"""kill -9 at every system call of each verb's client, and of a supervisor while it builds, serves and ends.

The places are those of a traced clean run, as in test_faults.py; the tests take each seventh, PINFOLD_SWEEP_STRIDE=1 all.
"""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from kept_sandbox import Kept, eventually, gone, kept, kept_by_root  # noqa: F401 (fixtures)
from test_commit import BUSYBOX, box, writable  # noqa: F401 (fixtures)
from test_faults import places

STRIDE = int(os.environ.get("PINFOLD_SWEEP_STRIDE", "7"))
pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")


def traced(call, argv, out):
    """The places of a clean run."""
    done = call(["strace", "-o", str(out), *argv])
    assert done.returncode == 0, done.stderr
    return [place for place in places(out.read_text()) if place[0] != "exit_group"]


def killed_at(call, argv, place):
    """False: it has ended without ever coming there. strace ends as what it traces."""
    name, number = place
    done = call(["strace", "-o", "/dev/null", "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}", *argv])
    return done.returncode == -signal.SIGKILL


def is_whole(kept, name):
    """It runs, isn't frozen, and nobody's command is left in it."""
    assert kept.exec(name, "echo", "alive").stdout == b"alive\n"
    eventually(lambda: kept.show(name)["execs"] == [], "a command goes on without its client")
    assert kept.show(name)["state"] == "running"


def nothing_is_left(kept):
    for sandbox in kept.list():
        kept.ok("rm", "--force", sandbox["name"])
    kept.pinfold.run("true")
    assert set(kept.pinfold.leftovers()) <= {"sandboxes"}
    assert list((kept.pinfold.state / "sandboxes").iterdir()) == []


def sweep(kept, tmp_path, argv, after, prepare=lambda: None):
    prepare()
    listed = traced(kept.pinfold.call, argv, tmp_path / "trace")
    after()
    kills = 0
    for place in listed[::STRIDE]:
        prepare()
        kills += killed_at(kept.pinfold.call, argv, place)
        try:
            after()
        except AssertionError as error:
            raise AssertionError(f"killed at {place}") from error
    assert len(listed) >= 30 and kills >= len(listed[::STRIDE]) * 3 // 4


@pytest.mark.parametrize("options", [[], ["--json"], ["--detach"]], ids=["passed on", "captured", "detached"])
def test_a_client_of_exec_that_is_killed_at_any_call_leaves_the_sandbox_whole(kept_by_root, tmp_path, options):
    kept = kept_by_root
    kept.up("work")
    sweep(kept, tmp_path, kept.argv("exec", *options, "work", "--", "sh", "-c", "echo a; sleep 0.05 & echo b"), lambda: is_whole(kept, "work"))
    records = kept.records("work")
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_copy_that_is_killed_at_any_call_leaves_nothing_frozen_and_nothing_unnamed(kept_by_root, tmp_path, way):
    kept, folder = kept_by_root, kept_by_root.pinfold.home / "files"
    kept.up("work")
    tree = kept.pinfold.home / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(b"x" * 100_000)
    kept.ok("cp", str(tree), "work:/tmp/there")
    argv = kept.argv("cp", str(tree), "work:/tmp/target") if way == "in" else kept.argv("cp", "work:/tmp/there", str(folder / "target"))

    def prepare():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        kept.exec("work", "rm", "-rf", "/tmp/target")

    def after():
        is_whole(kept, "work")
        if way == "out":
            assert {path.name for path in folder.rglob("*")} <= {"target", "file"}
        else:
            found = kept.json("work", "sh", "-c", "ls -A /tmp; ls -A /tmp/target 2>/dev/null")["stdout"]
            assert set(found.split()) <= {"there", "target", "file"}
    sweep(kept, tmp_path, argv, after, prepare)
    prepare()
    assert kept.pinfold.call(argv).returncode == 0


def test_a_reader_of_the_log_that_is_killed_at_any_call_changes_nothing(kept_by_root, tmp_path):
    kept = kept_by_root
    kept.up("work")
    kept.exec("work", "echo", "words")
    before = kept.ok("logs", "work", "--json")

    def after():
        assert kept.ok("logs", "work", "--json") == before
    sweep(kept, tmp_path, kept.argv("logs", "work", "--json"), after)


@pytest.mark.parametrize("verb", [["stop"], ["kill"], ["rm", "--force"]], ids=" ".join)
def test_an_end_whose_client_is_killed_at_any_call_can_be_asked_for_again(kept_by_root, tmp_path, verb):
    kept = kept_by_root

    def prepare():
        kept.up("work")
        kept.ok("exec", "work", "--detach", "--", "sleep", "4321")

    def after():
        for sandbox in kept.list():
            if sandbox["state"] == "running":
                is_running = kept.call(*verb, "work")
                assert is_running.returncode == 0 or verb[0] != "rm" and b"has gone" in is_running.stderr or b"ended" in is_running.stderr, is_running.stderr
        eventually(lambda: all(sandbox["state"] == "ended" for sandbox in kept.list()), "it doesn't end")
        nothing_is_left(kept)
    sweep(kept, tmp_path, kept.argv(*verb, "work"), after, prepare)


def test_an_up_whose_caller_is_killed_at_any_call_leaves_all_or_nothing(kept_by_root, tmp_path):
    """The supervisor has left its caller by then, or has not: what is there can be used, or removed."""
    kept = kept_by_root
    policy = kept.pinfold.policy()

    def settled():
        return all(kept.call("exec", sandbox["name"], "--", "true").returncode == 0 or sandbox["state"] == "ended" for sandbox in kept.list())

    def after():
        eventually(settled, "it is neither made nor gone")
        nothing_is_left(kept)
    sweep(kept, tmp_path, kept.argv("up", "work", "--policy", policy), after)


def test_a_sandbox_that_is_up_when_its_caller_has_gone_ends(kept_by_root, tmp_path):
    """The caller of a client that was cancelled, say: nobody may even know the name. The log tells of its start and its end."""
    kept = kept_by_root
    log = tmp_path / "audit/audit.jsonl"
    argv = kept.argv("up", "work", "--policy", kept.pinfold.policy(audit={"record": ["lifecycle"]}))

    def call(argv):
        return kept.pinfold.call(argv, env=kept.pinfold.environment(PINFOLD_AUDIT=str(log)))

    def events():
        return [json.loads(line)["event"] for line in log.read_text().splitlines()] if log.exists() else []
    waits = [place for place in traced(call, argv, tmp_path / "trace") if place[0] == "wait4"]
    kept.ok("rm", "--force", "work")
    before = len(events())
    assert killed_at(call, argv, waits[-1])
    eventually(lambda: events()[before:] == ["start", "end"], "it lives on")
    eventually(lambda: kept.list() == [], "its directory stays")
    nothing_is_left(kept)


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static")
def test_a_commit_that_is_killed_at_any_call_leaves_the_sandbox_and_the_images_whole(box, tmp_path):
    if box.pinfold.rootless:
        pytest.skip("root's, whose process can be traced from its start")
    kept = Kept(box.pinfold)
    box.build("base:1")
    box.up("work", "base:1", **writable(box))
    box.inside("work", "echo new >/etc/new")

    def call(argv):
        return box.pinfold.call(argv, env=box.environment())

    def is_sound():
        assert box.inside("work", "cat /etc/new") == "new\n"
        assert json.loads(box.kept("show", "work", "--json"))["state"] == "running"
        assert json.loads(box.kept("image", "ls", "--json"))
        box.kept("image", "verify")
    argv = kept.argv("commit", "work", "base:2")
    listed = traced(call, argv, tmp_path / "trace")
    kills = 0
    for place in listed[::STRIDE * 2]:
        kills += killed_at(call, argv, place)
        try:
            is_sound()
        except AssertionError as error:
            raise AssertionError(f"killed at {place}") from error
    assert len(listed) > 50 and kills >= len(listed[::STRIDE * 2]) * 3 // 4
    if "base:2" not in box.kept("image", "ls", "--json"):
        box.kept("commit", "work", "base:2")
    box.kept("image", "verify")


def attached(supervisor, out, *options):
    """strace at a supervisor, from when it says so."""
    tracer = subprocess.Popen(["strace", "-p", str(supervisor), "-o", str(out), *options], stderr=subprocess.PIPE)
    assert b"attached" in tracer.stderr.readline()
    return tracer


def ends(tracer):
    tracer.terminate()
    tracer.communicate()


@pytest.mark.parametrize("verb", ["exec", "stop"])
def test_a_supervisor_that_is_killed_at_any_call_takes_its_sandbox_with_it(kept_by_root, tmp_path, verb):
    kept = kept_by_root
    policy = kept.pinfold.policy()
    arguments = ["work", "--", "sh", "-c", "echo a; sleep 100 & echo b"] if verb == "exec" else ["work"]

    def one(*options):
        kept.ok("up", "work", "--policy", policy)
        supervisor = kept.show("work")["supervisor"]
        with open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii") as file:
            init = int(file.read().split()[0])
        tracer = attached(supervisor, tmp_path / "trace", *options)
        done = kept.call(verb, *arguments)
        ends(tracer)
        return init, done
    one()
    listed = places("execve()\n" + (tmp_path / "trace").read_text())
    nothing_is_left(kept)
    dead = 0
    for name, number in listed[::STRIDE]:
        init, done = one("-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
        try:
            dead += done.returncode != 0
            assert done.returncode in (0, 125, 137), done.stderr
            if not kept.list() or kept.list()[0]["state"] != "running":  # the call came to it; another time it may not
                eventually(lambda: gone(init), "init lives on")
            nothing_is_left(kept)
        except AssertionError as error:
            raise AssertionError(f"killed at {name} {number}") from error
    assert len(listed) > 30 and dead > 0


def test_whoever_is_killed_at_any_call_while_a_sandbox_is_built_leaves_nothing(kept_by_root, tmp_path):
    """The caller, the process between, the supervisor or the one that builds: the first that comes to the place."""
    kept, out = kept_by_root, tmp_path / "trace"
    argv = kept.argv("up", "work", "--policy", kept.pinfold.policy())

    def one(*options):
        tracer = kept.pinfold.spawn(["strace", "-f", "-o", str(out), *options, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while tracer.poll() is None and time.monotonic() < until:
            if any(kept.call("exec", sandbox["name"], "--", "true").returncode == 0 for sandbox in kept.list() if sandbox["state"] == "running"):
                break
        nothing_is_left(kept)
        assert tracer.wait(120) is not None
    one()
    text = out.read_text()
    pids = list(dict.fromkeys(line.split()[0] for line in text.splitlines()))
    longest = sorted((places(text, pid) for pid in pids), key=len, reverse=True)[:3]
    assert len(longest[0]) > 100
    for listed in longest:
        for name, number in listed[::STRIDE * 3]:
            if name != "exit_group":
                try:
                    one("-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={number}")
                except AssertionError as error:
                    raise AssertionError(f"killed at {name} {number}") from error
