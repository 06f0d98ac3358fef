"""A process that no signal ends: it looks at a name of a file system that doesn't answer, as a dead disk's doesn't (state D).

pinfold says so after a while, gives what there is, and clears up once the kernel has let go. All three wait at the same time: they take
a quarter of a minute each.
"""
import json
import os
import pathlib
import select
import shlex
import subprocess
import time

import pytest

from conftest import Pinfold, make_home

HERE = pathlib.Path(__file__).parent
SCRIPT = """
cd {home}
{run} cat /workspace/hangs-run >run.json 2>run.err &
run=$!
for name in one two; do {pinfold} up $name --policy {policy} --workspace {work}:ro; done
{pinfold} exec --json --timeout 10s one -- sh -c 'echo out; exec cat /workspace/hangs-exec' >exec.json 2>exec.err &
command=$!
{pinfold} exec --detach two -- cat /workspace/hangs-rm
read all_wait
{pinfold} rm --force two >rm.out 2>&1 &
removal=$!
{run} cat /workspace/file >answers.json
wait $run $command $removal
{pinfold} exec one -- echo still here >after.out
{pinfold} run --policy {policy} -- true 2>next.err
echo $? >next.code
echo told
read let_go
{pinfold} rm --force one
"""


@pytest.fixture(scope="module")
def hung(programs, tmp_path_factory):
    """What each command said, and afterwards what was left."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("needs root and /dev/fuse")
    pinfold = Pinfold(programs, make_home(tmp_path_factory.mktemp("hung")))
    work = pinfold.home / "work"
    work.mkdir()
    policy = pinfold.policy(resources={"grace": "100ms"})
    run = [str(pinfold.program), "run", "--json", "--policy", policy, "--timeout", "10s", "--workspace", f"{work}:ro", "--"]
    script = SCRIPT.format(home=pinfold.home, work=work, policy=policy, pinfold=pinfold.program, run=shlex.join(run))
    told, tell = os.pipe()
    hold, let_go = os.pipe()
    argv = ["/usr/bin/python3", str(HERE / "hanging_files.py"), str(work), str(tell), str(hold), "--", "sh", "-c", script]
    process = subprocess.Popen(argv, pass_fds=(tell, hold), env=pinfold.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.close(tell)
    os.close(hold)
    try:
        if not all_wait(told, process):
            pytest.skip(f"three processes didn't come to wait: {(pinfold.home / 'run.json').read_text()}")
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert b"told\n" in iter(process.stdout.readline, b"")
        asleep = in_uninterruptible_sleep()
        said = {path.name: path.read_text() for path in pinfold.home.iterdir() if path.is_file()} | {"asleep": asleep}
    finally:
        os.close(let_go)
        process.communicate(b"go\ngo\n", timeout=120)
        os.close(told)
    until = time.monotonic() + 60
    while left := [what for what in pinfold.leftovers() if what != "sandboxes"]:
        assert time.monotonic() < until, left
        pinfold.run("true", policy=policy)
    yield said
    pinfold.close()


def all_wait(told, process):
    """False where the kernel has no such file system, or where one of the commands was over before it began to wait."""
    seen, until = b"", time.monotonic() + 60
    while seen.count(b"\n") < 3 and process.poll() is None and time.monotonic() < until:
        if select.select([told], [], [], 1)[0]:
            seen += os.read(told, 4096)
    return seen == b"waits\n" * 3


def in_uninterruptible_sleep():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"/workspace/hangs" in words[1][:16] and pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "D":
                found.append(words[1].decode())
        except (OSError, IndexError):
            continue
    return found


def test_a_process_that_no_signal_ends_is_told_with_all_that_there_is(hung):
    """The control is a file of the same file system, which answers; and that the processes are still there, in state D."""
    result = json.loads(hung["run.json"])
    assert result["status"] == "timeout" and result["exit_code"] == 124 and "hangs in the kernel" in result["error"]["message"], result
    assert json.loads(hung["answers.json"])["status"] == "success"
    assert set(hung["asleep"]) == {"/workspace/hangs-exec", "/workspace/hangs-rm", "/workspace/hangs-run"}


def test_a_command_of_a_kept_sandbox_that_no_signal_ends_is_told_and_the_sandbox_goes_on(hung):
    result = json.loads(hung["exec.json"])
    assert result["status"] == "timeout" and result["exit_code"] == 124 and result["stdout"] == "out\n", result
    assert "hangs in the kernel" in result["error"]["message"] and hung["after.out"] == "still here\n"


def test_a_kept_sandbox_that_can_not_die_can_be_removed(hung):
    assert hung["rm.out"] == ""


def test_the_next_command_says_what_it_can_not_clear_and_runs(hung):
    """And once the kernel lets go, one clears it: see the fixture."""
    assert hung["next.code"] == "0\n" and "processes are still in the cgroup" in hung["next.err"], hung["next.err"]
