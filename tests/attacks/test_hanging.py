"""A process that no signal ends: it looks at a name of a file system that doesn't answer, as a dead disk's doesn't (state D).

pinfold says so after a while, gives what there is, and clears up once the kernel has let go. All six wait at the same time, commands and
tool calls, of root and of an ordinary user: they take a quarter of a minute each.
"""
import json
import os
import pathlib
import select
import shlex
import subprocess
import time

import pytest

from conftest import USER, Pinfold, make_home

HERE = pathlib.Path(__file__).parent
SCRIPT = """
cd {home}
{run} cat /workspace/hangs-run >run.json 2>run.err &
run=$!
for name in one two; do {pinfold} up $name --policy {policy} --workspace {work}:ro; done
{pinfold} exec --json --timeout 10s one -- sh -c 'echo out; exec cat /workspace/hangs-exec' >exec.json 2>exec.err &
command=$!
{pinfold} exec --detach two -- cat /workspace/hangs-rm
{as_user} cat /workspace/hangs-user >user.json 2>user.err &
user=$!
{tool} {home}/alone.json >alone.out 2>alone.err &
alone=$!
{tool} {home}/shared.json >shared.out 2>shared.err &
shared=$!
read all_wait
{pinfold} rm --force two >rm.out 2>&1 &
removal=$!
{run} cat /workspace/file >answers.json
wait $run $command $removal $user $alone $shared
{tool} {home}/later.json >later.out 2>later.err
{pinfold} exec one -- echo still here >after.out
{pinfold} run --policy {policy} -- true 2>next.err
echo $? >next.code
echo told
read let_go
{pinfold} rm --force one
"""
SOURCE = "def read(name: str):\n    print('out', flush=True)\n    return open('/shown/' + name).read()\n"
CALLS = {"alone": ("never", "hangs-alone"), "shared": ("fingerprint", "hangs-shared"), "later": ("fingerprint", "file")}
WAITING = 6


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
    (pinfold.home / "user").mkdir()
    user = Pinfold(programs, pinfold.home / "user", USER)
    as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", *(f"{k}={v}" for k, v in user.environment().items()),
               str(user.program), *run[1:3], "--policy", user.policy(resources={"grace": "100ms"}), *run[5:]]
    for name, (reuse, file) in CALLS.items():
        (pinfold.home / f"{name}.json").write_text(json.dumps({"language": "python", "name": "read", "source": SOURCE, "args": {"name": file},
                                                               "reuse": reuse, "timeout": "10s"}))
    shown = {"mounts": [{"source": str(work), "target": "/shown", "access": "read-only"}]}
    tool = [str(pinfold.program), "tool", "call", "--policy", pinfold.policy(resources={"grace": "100ms"}, filesystem=shown)]
    script = SCRIPT.format(home=pinfold.home, work=work, policy=policy, pinfold=pinfold.program, run=shlex.join(run),
                           as_user=shlex.join(as_user), tool=shlex.join(tool))
    told, tell = os.pipe()
    hold, let_go = os.pipe()
    argv = ["/usr/bin/python3", str(HERE / "hanging_files.py"), str(work), str(tell), str(hold), "--", "sh", "-c", script]
    process = subprocess.Popen(argv, pass_fds=(tell, hold), env=pinfold.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.close(tell)
    os.close(hold)
    try:
        if not all_wait(told, process):
            pytest.skip(f"{WAITING} processes didn't come to wait: {(pinfold.home / 'run.json').read_text()}")
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
        pinfold.remove_pool()
        pinfold.run("true", policy=policy)
    while left := [what for what in user.leftovers() if what != "sandboxes"]:
        assert time.monotonic() < until, left
        user.run("true")
    yield said
    pinfold.close()
    user.close()


def all_wait(told, process):
    """False where the kernel has no such file system, or where one of the commands was over before it began to wait."""
    seen, until = b"", time.monotonic() + 60
    while seen.count(b"\n") < WAITING and process.poll() is None and time.monotonic() < until:
        if select.select([told], [], [], 1)[0]:
            seen += os.read(told, 4096)
    return seen == b"waits\n" * WAITING


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
    assert set(hung["asleep"]) == {f"/workspace/hangs-{name}" for name in ("exec", "rm", "run", "user")}


def test_an_ordinary_user_is_told_as_well(hung):
    result = json.loads(hung["user.json"])
    assert result["status"] == "timeout" and result["exit_code"] == 124 and "hangs in the kernel" in result["error"]["message"], result


@pytest.mark.parametrize("call", ["alone", "shared"])
def test_a_tool_call_that_no_signal_ends_is_told_and_the_next_one_gets_a_sandbox_that_lives(hung, call):
    """The control is the same function with the file that answers, afterwards and under the same fingerprint."""
    result, later = json.loads(hung[f"{call}.out"]), json.loads(hung["later.out"])
    assert result["status"] == "timeout" and result["stdout"] == ["out"] and "hangs in the kernel" in " ".join(result["notes"]), result
    assert (later["status"], later["func_return"]) == ("success", ""), later


def test_a_command_of_a_kept_sandbox_that_no_signal_ends_is_told_and_the_sandbox_goes_on(hung):
    result = json.loads(hung["exec.json"])
    assert result["status"] == "timeout" and result["exit_code"] == 124 and result["stdout"] == "out\n", result
    assert "hangs in the kernel" in result["error"]["message"] and hung["after.out"] == "still here\n"


def test_a_kept_sandbox_that_can_not_die_can_be_removed(hung):
    assert hung["rm.out"] == ""


def test_the_next_command_says_what_it_can_not_clear_and_runs(hung):
    """And once the kernel lets go, one clears it: see the fixture."""
    assert hung["next.code"] == "0\n" and "processes are still in the cgroup" in hung["next.err"], hung["next.err"]
