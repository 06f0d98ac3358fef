"""Real use of kept sandboxes, many at once, and kills at every step."""
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time

import pytest

from kept_sandbox import DEADLINE, Kept, eventually, gone, kept, kept_by_root, message, reply  # noqa: F401 (fixtures)


def test_a_git_checkout_is_built_over_several_commands(kept, tmp_path):
    if shutil.which("git") is None or shutil.which("cc") is None:
        pytest.skip("git or a compiler isn't here")
    bare = kept.pinfold.home / "project"
    bare.mkdir()
    (bare / "Makefile").write_text("prog: main.o part.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -c -o $@ $<\nclean:\n\trm -f *.o prog\n")
    (bare / "main.c").write_text('int part(void);\nint main(void) { return part(); }\n')
    (bare / "part.c").write_text("int part(void) { return 42; }\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *command], cwd=bare, check=True, env={**os.environ, "HOME": str(tmp_path)})
    subprocess.run(["chown", "-R", f"{kept.pinfold.uid}:{kept.pinfold.uid}", str(bare)], check=True)
    workspace = kept.pinfold.home / "workspace"
    workspace.mkdir()
    os.chown(workspace, kept.pinfold.uid, kept.pinfold.uid)
    policy = {"extends": ["build"], "filesystem": {"mounts": [{"source": str(bare), "target": "/srv/project", "access": "read-only"}]}}
    kept.up("work", "--workspace", str(workspace), **policy)
    steps = ["git config --global safe.directory '*' && git clone -q /srv/project /workspace/tree", "cd /workspace/tree && make -s", "/workspace/tree/prog; test $? = 42",
             "cd /workspace/tree && sed -i s/42/7/ part.c && make -s && ./prog; test $? = 7",
             "cd /workspace/tree && git diff --stat | grep -q part.c"]
    for step in steps:
        done = kept.json("work", "sh", "-c", step)
        assert done["exit_code"] == 0, (step, done["stdout"], done["stderr"])
    assert (workspace / "tree" / "prog").exists()


STREAM = ("import hashlib, os, random, sys\nr = random.Random(int(sys.argv[1])); h = [hashlib.sha256(), hashlib.sha256()]\n"
          "for _ in range(60):\n    i = r.randrange(2); data = r.randbytes(r.randrange(1, 3000))\n"
          "    h[i].update(data); os.write(i + 1, data)\nopen(sys.argv[2], 'w').write(h[0].hexdigest() + h[1].hexdigest())")


def test_sixty_four_sandboxes_keep_their_streams_apart(kept_by_root):
    kept = kept_by_root
    names = [f"s{i}" for i in range(64)]
    policy = kept.pinfold.policy(resources={"memory": "64MiB", "wall_time": "60s"})
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: kept.ok("up", name, "--policy", policy, "--label", f"tag={name}"), names))

        def check(name):
            seed = str(int(name[1:]) + 1000)
            done = kept.exec(name, "/usr/bin/python3", "-c", STREAM, seed, "/tmp/digest", timeout=120)
            digests = kept.exec(name, "cat", "/tmp/digest").stdout.decode()
            streams = {"stdout": hashlib.sha256(), "stderr": hashlib.sha256()}
            for record in kept.records(name, "--exec", "1"):
                if record["kind"] in streams:
                    data = record["data"].encode() if record["encoding"] == "utf-8" else base64.b64decode(record["data"])
                    streams[record["kind"]].update(data)
            return (hashlib.sha256(done.stdout).hexdigest() + hashlib.sha256(done.stderr).hexdigest() == digests ==
                    streams["stdout"].hexdigest() + streams["stderr"].hexdigest())
        assert all(pool.map(check, names))
        bases = [kept.json(name, "cat", "/proc/self/uid_map")["stdout"].split()[1] for name in names[:8]]
        assert len(set(bases)) == 8  # no two have the same ids
        listed = kept.list("--label", "tag=s7")
        assert [s["name"] for s in listed] == ["s7"]
        list(pool.map(lambda name: kept.ok("rm", "--force", name), names))
    assert kept.list() == []


def test_a_hundred_clients_of_one_sandbox_see_one_linear_history(kept):
    kept.up("work", resources={"pids": 512})
    def one(i):
        client = kept.connect("work")
        client.settimeout(60)
        client.sendall(message(verb="exec", args=["sh", "-c", f"echo {i} >> /tmp/history; echo {i}"], output="capture"))
        started, result = reply(client), reply(client)
        client.close()
        return started["exec"], started["seq"], result["result"]["stdout"]
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(one, range(100)))
    assert [answer[2] for answer in answers] == [f"{i}\n" for i in range(100)]
    assert sorted(answer[0] for answer in answers) == list(range(1, 101))
    by_exec = sorted(answers)
    assert [answer[1] for answer in by_exec] == sorted(answer[1] for answer in answers)
    records = kept.records("work")
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    times = [record["t_ns"] for record in records]
    assert times == sorted(times)
    written = kept.json("work", "cat", "/tmp/history")["stdout"].split()
    assert sorted(map(int, written)) == list(range(100))


def init_of(supervisor):
    with open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


@pytest.mark.parametrize("victim", ["supervisor", "init"])
def test_killed_at_any_moment_it_leaves_nothing_that_the_next_command_does_not_clear(kept_by_root, victim):
    kept = kept_by_root
    chance = random.Random(1)
    for round in range(10):
        kept.up(f"v{round}")
        supervisor = kept.show(f"v{round}")["supervisor"]
        inits = init_of(supervisor)
        busy = [kept.pinfold.spawn(kept.argv("exec", f"v{round}", "--", "sh", "-c", "while :; do echo x; done"),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(2)]
        time.sleep(chance.random() * 0.02)
        os.kill(supervisor if victim == "supervisor" else inits[0], signal.SIGKILL)
        for process in busy:
            assert process.wait(DEADLINE) in (125, 137)
        eventually(lambda: kept.list()[0]["state"] == "ended", "the sandbox ends with it")
        eventually(lambda: all(gone(pid) for pid in inits), "init ends as well")
        kept.records(f"v{round}")  # can be read after a crash
        kept.ok("rm", f"v{round}")
    kept.pinfold.run("true")
    assert set(kept.pinfold.leftovers()) <= {"sandboxes"}


def test_a_builder_that_is_killed_while_it_builds_leaves_nothing(kept_by_root):
    kept = kept_by_root
    chance = random.Random(2)
    policy = kept.pinfold.policy()
    for round in range(15):
        process = kept.pinfold.spawn(kept.argv("up", "work", "--policy", policy), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.03)
        for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
            try:
                environ = open(f"/proc/{pid}/environ", "rb").read()
                if str(kept.pinfold.state).encode() in environ and b"pinfold" in open(f"/proc/{pid}/cmdline", "rb").read():
                    os.kill(int(pid), signal.SIGKILL)
            except (OSError, ProcessLookupError):
                pass
        process.wait()
        for sandbox in kept.list():
            kept.ok("rm", "--force", sandbox["name"])
    kept.up("work")
    assert kept.exec("work", "true").returncode == 0
    kept.ok("rm", "--force", "work")
    kept.pinfold.run("true")
    assert set(kept.pinfold.leftovers()) <= {"sandboxes"}


def test_clients_that_are_killed_at_any_moment_take_their_commands_with_them(kept_by_root):
    kept = kept_by_root
    kept.up("work")
    chance = random.Random(3)
    for _ in range(30):
        client = kept.pinfold.spawn(kept.argv("exec", "work", "--", "sh", "-c", "sleep 1000 & sleep 1000"), stdout=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.01)
        client.kill()
        client.wait()
    eventually(lambda: kept.show("work")["execs"] == [], "all commands end")
    assert kept.json("work", "sh", "-c", "ps -e | grep -c sleep")["stdout"] == "0\n"


def test_after_a_restart_of_the_host_what_is_gone_is_found_and_cleared(kept_by_root):
    """A restart: no supervisor, no lock, no cgroup; the state directory alone is still there, as on a disk."""
    kept = kept_by_root
    for name in ("a", "b"):
        kept.up(name, "--label", "tenant=x")
        kept.exec(name, "echo", name)
    for name in ("a", "b"):
        os.kill(kept.show(name)["supervisor"], signal.SIGKILL)
    eventually(lambda: {s["state"] for s in kept.list()} == {"ended"}, "both are dead")
    assert kept.exec("a", "true").returncode == 125 and b"ended" in kept.exec("a", "true").stderr
    assert kept.ok("logs", "a") == "a\n"
    kept.ok("rm", "a")
    kept.up("a")  # the name is free again
    assert kept.exec("a", "true").returncode == 0
    kept.ok("rm", "b")
    slots = (kept.pinfold.state / "slots").read_bytes()
    assert sum(map(bool, slots)) == 1  # the one that lives


def test_options_come_before_the_name_or_after_it(kept):
    kept.up("work")
    for line in (["--json", "work", "--", "echo", "--"], ["work", "--json", "--", "echo", "--"], ["--json", "--", "work", "echo", "--"],
                 ["--json", "work", "echo", "--"]):
        assert json.loads(kept.call("exec", *line).stdout)["stdout"] == "--\n", line
    assert kept.call("exec", "work", "--", "--", "true").returncode == 127  # a second one is the command's


def test_hostile_clients_never_hold_up_others(kept):
    kept.up("work")
    hostile = []
    for i in range(40):
        client = kept.connect("work")
        client.setblocking(False)
        junk = [b"\xff\xff\xff\xff" + b"x" * 1000, b"\x00\x00\x10\x00{", message(verb="exec", args=["yes"], output="capture")[:-3],
                message(verb="attach", exec=1, stdout=True), message(verb="wait"), message(verb="pause", hold="x")][i % 6]
        try:
            client.send(junk * 3)
        except OSError:
            pass
        hostile.append(client)
    started = time.monotonic()
    for _ in range(5):
        assert kept.exec("work", "true").returncode == 0
    assert time.monotonic() - started < DEADLINE
    for client in hostile:
        client.close()


def test_a_client_that_was_written_from_the_documentation_alone_gets_what_it_says(kept):
    """In Perl, over the control socket: commands, lent connections, an attachment from a record on, refusals, the end."""
    if subprocess.run(["perl", "-MJSON::PP", "-e", "1"], capture_output=True).returncode != 0:
        pytest.skip("needs Debian's perl")
    kept.up("work")
    done = kept.pinfold.call(["perl", "-e", (pathlib.Path(__file__).parent / "client_perl.pl").read_text(), str(kept.pinfold.state), "work"])
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        [3, "b\n/tmp\n", "err\n"],
        ["typed\n", 0],
        ["attached"],
        [0, "1\n2\n3\n"],
        ["invalid", "/verb"],
        ["invalid", "/surprise"],
        {"id": 7, "ok": {"cleared": True, "why": "stopped"}},
    ]
