"""`pinfold policy trace`: real programs run again under what was learned from them; the walls stand meanwhile."""
import json
import os
import shutil
import signal
import subprocess
import time

import pytest


C = '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n'
SHELL = "seq 1000 | sort -rn | head -3 > /tmp/top; awk '{print $1}' /tmp/top | sed s/9/x/ | wc -c"
PYTHON = """
import json, multiprocessing, os, sqlite3, subprocess, tempfile
with tempfile.NamedTemporaryFile() as f:
    f.write(b"x" * 3000000); f.flush()
    subprocess.run(["id", "-u"], check=True)
with multiprocessing.Pool(3) as pool:
    print(pool.map(abs, [-1, -2]))
sqlite3.connect("/tmp/x.db").execute("create table a (b)")
"""
GIT = ("cd /workspace && git init -q r && cd r && git config user.email a@b && git config user.name n && echo 1 > f "
       "&& git add f && git commit -qm x && git log --oneline | wc -l; rm -rf /workspace/r")
PROGRAMS = {
    "shell": ["sh", "-c", SHELL],
    "python": ["python3", "-c", PYTHON],
    "gcc": ["sh", "-c", "cd /workspace && gcc -O2 a.c -o a && ./a"],
    "git": ["sh", "-c", GIT],
    "node": ["node", "-e", "console.log(require('fs').readdirSync('/').length); setTimeout(() => console.log('done'), 5)"],
}


class Tracer:
    def __init__(self, pinfold, folder):
        self.pinfold, self.folder = pinfold, folder
        self.env = pinfold.environment()

    def base(self):
        return self.pinfold.policy(extends=["tool"]) if self.pinfold.rootless else "tool"

    def call(self, *arguments, **kwargs):
        """An ordinary user without a delegated cgroup gets no limits here, which the base then calls optional."""
        arguments = list(arguments)
        if self.pinfold.rootless and arguments[:2] == ["policy", "trace"] and "--policy" not in arguments:
            arguments[2:2] = ["--policy", self.base()]
        return self.pinfold.call([str(self.pinfold.program), *map(str, arguments)], env=self.env, **kwargs)

    def trace(self, *command, options=(), code=0):
        done = self.call("policy", "trace", "--json", *options, "--", *command)
        assert done.returncode == code, done.stderr.decode() + done.stdout.decode()
        return json.loads(done.stdout)

    def write(self, name, policy):
        path = self.folder / name
        own = {"optional": ["memory", "swap", "cpus", "pids"]} if self.pinfold.rootless else {}
        path.write_text(json.dumps({"pinfold": 1, "name": "p", **own, **policy}))
        path.chmod(0o644)
        os.chown(path, self.pinfold.uid, self.pinfold.uid)
        return path


@pytest.fixture
def tracer(pinfold, tmp_path):
    os.chown(tmp_path, pinfold.uid, pinfold.uid)
    return Tracer(pinfold, tmp_path)


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "a.c").write_text(C)
    return folder


def whats(items):
    return {item["what"] for item in items}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_again_under_what_was_learned_from_it(tracer, workspace, tmp_path, name):
    command = PROGRAMS[name]
    if shutil.which(name if name != "shell" else "sh", path="/usr/bin:/bin") is None and name != "python":
        pytest.skip(f"{name} isn't installed")
    options = ["--workspace", workspace] if name in ("gcc", "git") else []
    learned = tmp_path / "learned.json"
    done = tracer.call("policy", "trace", *options, "-o", learned, "--", *command)
    assert done.returncode == 0, done.stderr.decode()
    again = tracer.call("run", "--policy", learned, *options, "--json", "--", *command)
    result = json.loads(again.stdout)
    assert result["status"] == "success", (result, learned.read_text())
    assert "denials" not in result
    held = tracer.call("policy", "trace", "--mode", "would-deny", "--policy", learned, *options, "--", *command)
    assert held.returncode == 0, held.stdout.decode()
    assert tracer.call("policy", "lint", "--fail-on", "warning", "--ignore", "optional-protection", learned).returncode == 0


def test_what_is_learned_is_less_than_the_default(tracer, tmp_path):
    policy = tracer.trace("true")["policy"]
    learned = tracer.write("learned.json", policy)
    assert tracer.call("policy", "diff", tracer.base(), learned).returncode == 0
    assert policy["filesystem"]["write"] == [] and policy["filesystem"]["workspace"] == {"access": "none"}
    assert policy["syscalls"] == {"baseline": "strict", "allow": [], "deny": []}


def test_a_program_that_changes_its_ways_would_be_denied(tracer):
    learned = tracer.write("learned.json", tracer.trace("python3", "-c", "print(1)")["policy"])
    other = "import socket\nopen('/tmp/x', 'w').close()\nsocket.socket()\n"
    told = tracer.trace("python3", "-c", other, options=["--mode", "would-deny", "--policy", learned], code=1)
    questions = {denial["question"].split(" ")[0] + " " + denial["question"].split(" ")[1] for denial in told["would_deny"]}
    assert {"write /tmp/x", "syscall socket"} <= questions
    for denial in told["would_deny"]:
        assert denial["verdict"] in ("deny", "errno") and denial["place"] and denial["edit"]
    done = tracer.call("run", "--policy", learned, "--", "python3", "-c", other)
    assert done.returncode == 1  # as it was told


def test_names_are_recorded_and_none_is_reached(tracer):
    script = "import socket\ntry: socket.create_connection(('api.example.com', 443), 2)\nexcept OSError as e: print(e)\n"
    told = tracer.trace("python3", "-c", script)
    assert told["policy"]["network"]["egress"] == []
    assert any("api.example.com" in what for what in whats(told["wanted"]))
    assert [t["host"] for t in told["recorded"]["destinations"]] == ["api.example.com"]
    learned = tracer.write("learned.json", told["policy"])
    denied = tracer.trace("python3", "-c", script, options=["--mode", "would-deny", "--policy", learned], code=1)
    assert any(d["question"] == "connect api.example.com:443" for d in denied["would_deny"])


def test_unused_grants_are_found_and_used_ones_are_not(tracer):
    policy = tracer.write("wide.json", {
        "extends": ["tool"], "syscalls": {"allow": ["io_setup"]}, "filesystem": {"write": ["/tmp", "/data"]},
        "network": {"egress": [{"host": "api.example.com", "ports": [443]}]}, "secrets": ["KEY"]})
    told = tracer.trace("sh", "-c", "echo 1 > /data/x", options=["--mode", "report", "--policy", policy], code=1)
    rules = {item["rule"] for item in told["unused"]}
    assert {"/syscalls/allow/0", "/filesystem/write/0", "/network/egress/0", "/secrets/0",
            "/filesystem/workspace/access", "/syscalls/baseline"} <= rules
    assert "/filesystem/write/1" not in rules
    assert all(item["place"] for item in told["unused"])


def test_sensitive_paths_are_named_and_never_granted(tracer):
    told = tracer.trace("sh", "-c", "cat /etc/shadow; mkdir -p /root/.ssh; echo 1 > /proc/sys/kernel/core_pattern; true")
    assert {"read /etc/shadow"} <= whats(told["withheld"])
    assert told["policy"]["filesystem"]["mounts"] == [] and told["policy"]["filesystem"]["write"] == []


WALLS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    return -1 if libc.syscall(number, *arguments) >= 0 else ctypes.get_errno()
print(call(165, b'x', b'/tmp', b'tmpfs', 0, 0),   # mount
      call(272, 0x10000000),                     # unshare(CLONE_NEWUSER)
      call(101, 16, os.getppid(), 0, 0),         # ptrace(PTRACE_ATTACH)
      call(425, 1, 0),                           # io_uring_setup
      call(16, 0, 0x5412, b'x'),                 # ioctl(TIOCSTI)
      call(250, 0, 0, 0))                        # keyctl
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_the_walls_stand_while_a_command_is_traced(tracer):
    done = tracer.call("policy", "trace", "--json", "--", "python3", "-c", WALLS)
    errors = done.stderr.decode().split()
    assert all(error == "1" for error in errors) and len(errors) == 6, errors  # EPERM, each of them
    told = whats(json.loads(done.stdout)["withheld"])
    assert {"syscall mount", "syscall unshare", "syscall ptrace", "syscall io_uring_setup"} <= told


def test_calls_of_another_architecture_end_the_process(tracer, workspace):
    (workspace / "b.c").write_text('int main(void) { int r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20)); return 0; }\n')
    if subprocess.run(["gcc", workspace / "b.c", "-o", workspace / "b"], capture_output=True).returncode != 0:
        pytest.skip("no compiler")
    told = tracer.trace("/workspace/b", options=["--workspace", workspace], code=1)
    assert told["exit_code"] == 128 + signal.SIGSYS


def test_the_sites_ceiling_holds_for_a_trace(tracer):
    site = tracer.write("site.json", {"resources": {"pids": 8}, "filesystem": {"root": "read-only"},
                                      "syscalls": {"deny": ["socket"]}})
    forks = "import os, sys, time\nfor i in range(20):\n    if os.fork() == 0: time.sleep(20); os._exit(0)\n"
    base = tracer.write("base.json", {"extends": ["tool"], "resources": {"pids": 8}})
    done = tracer.call("policy", "trace", "--site", site, "--policy", base, "--", "python3", "-c", forks)
    assert b"BlockingIOError" in done.stderr or tracer.pinfold.rootless  # nobody counts for an ordinary user here
    told = tracer.trace("python3", "-c", "import socket\ntry: socket.socket()\nexcept OSError as e: print(e)",
                        options=["--site", site, "--policy", base])
    assert "syscall socket" in whats(told["withheld"])


def test_a_trace_that_is_killed_leaves_nothing(tracer, pinfold):
    process = pinfold.spawn([str(pinfold.program), "policy", "trace", "--policy", tracer.base(), "--", "sleep", "1000"], env=tracer.env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True).returncode != 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert pinfold.run("true").returncode == 0
    assert pinfold.leftovers() == []


@pytest.mark.parametrize("options", [["--bundle", "x"], ["--tty"], ["--mode", "report", "-o", "x"], ["--mode", "wrong"]])
def test_what_makes_no_sense_is_refused(tracer, options):
    assert tracer.call("policy", "trace", *options, "--", "true").returncode == 2


def test_a_command_that_failed_is_said_to_have(tracer, tmp_path):
    done = tracer.call("policy", "trace", "-o", tmp_path / "l.json", "--", "false")
    assert done.returncode == 1 and b"exit code 1" in done.stderr and (tmp_path / "l.json").exists()
    assert tracer.call("policy", "trace", "-o", tmp_path / "l.json", "--", "true").returncode == 2
