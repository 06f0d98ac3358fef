"""A secret token, searched for in every place of the host after runs of every kind, ended in every way.

A few hundred runs here; PINFOLD_SEARCH_RUNS=5000 is a day's worth.
"""
import collections
import concurrent.futures
import glob
import json
import os
import random
import signal
import subprocess

import pytest

from kept_sandbox import Kept, eventually

RUNS = int(os.environ.get("PINFOLD_SEARCH_RUNS", "240"))
USE = "x=$KEY; cat /run/secrets/KEY >/dev/null; echo \"$KEY\"; printf %s \"$KEY\" | head -c 9; "
ENDS = ["exit 0", "exit 3", "kill -9 $$", "kill -SEGV $$", "sleep 5", "no-such-program $KEY", "cat /run/secrets/KEY >&2; exec /no/such",
        "ulimit -c unlimited; kill -ABRT $$"]
TOOL = {"language": "python", "name": "f", "source": "import os\ndef f():\n    print(os.environ['KEY'])\n    raise ValueError(os.environ['KEY'])"}


class Searched(Kept):
    def __init__(self, pinfold):
        super().__init__(pinfold)
        self.token = "needle" + os.urandom(16).hex()
        folder = pinfold.home / "secrets"
        folder.mkdir(mode=0o700)
        self.source = folder / "KEY"
        self.source.touch(mode=0o600)
        self.source.write_text(self.token)
        self.env = pinfold.environment(PINFOLD_SECRETS=str(folder), PINFOLD_AUDIT=str(pinfold.home / "log" / "audit.jsonl"),
                                       PINFOLD_KEYS=str(pinfold.home / "keys"), PINFOLD_BILLS=str(pinfold.home / "bills"))
        self.policy = pinfold.policy(secrets=["KEY"], audit={"record": ["lifecycle", "syscalls"]}, syscalls={"on_deny": "errno"})
        self.said = []  # whatever came out of any command

    def call(self, verb, *arguments, kill_after=None, stdin=None):
        process = subprocess.Popen(self.argv(verb, *arguments), env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        if kill_after is not None:
            try:
                process.wait(kill_after)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        out, err = process.communicate(stdin, timeout=60)
        self.said.append(out + err)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture
def searched(as_root):
    searched = Searched(as_root)
    yield searched
    searched.close()


def one(searched, number):
    """A run of a kind and with an end that its number chooses."""
    chance = random.Random(number)
    script, form = USE + ENDS[number % len(ENDS)], ["--secret", "KEY", "--secret", "KEY:file", "--timeout", "500ms"]
    killed = chance.random() * 0.05 if number % 5 == 0 else None
    output = [["--json"], ["--stream"], []][number % 3]
    kind = number // len(ENDS) % 4
    if kind == 0:
        receipt = ["--receipt", str(searched.pinfold.home / f"receipt{number}")]
        searched.call("run", "--policy", searched.policy, *receipt, *form, *output, "--", "sh", "-c", script, kill_after=killed)
    elif kind == 1:
        searched.call("exec", "work", *output, *form, "--", "sh", "-c", script, kill_after=killed)
    elif kind == 2:
        request = json.dumps({**TOOL, "reuse": "fingerprint" if number % 2 else "cold"}).encode()
        searched.call("tool", "call", "--policy", searched.policy, *form[:4], "-", stdin=request, kill_after=killed)
    else:
        name = f"short{number}"
        searched.call("up", name, "--policy", searched.policy, *form[:4], kill_after=killed)
        searched.call("exec", name, *output, "--", "sh", "-c", script)
        if number % 2:
            shown = json.loads(searched.call("show", name, "--json").stdout or b"{}")
            if "supervisor" in shown:
                try:
                    os.kill(shown["supervisor"], signal.SIGKILL)
                except ProcessLookupError:
                    pass
        searched.call("rm", "--force", name)


def files_with(token, places):
    """The names of regular files below these, on the same file systems, that hold the token."""
    command = ["find", *places, "-xdev", "-type", "f", "-size", "-64M", "-newermt", "-20 minutes", "-exec", "grep", "-lF", "-e", token, "--", "{}", "+"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.split("\n")[:-1]


def processes_with(token):
    """Places under /proc of processes other than this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in (os.getpid(), os.getppid()):
            continue
        for name in ("cmdline", "environ", "comm", "stat", "mountinfo", "cgroup"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    if token.encode() in file.read():
                        found.append(f"/proc/{pid}/{name}")
            except OSError:
                pass
    return found


def test_the_token_is_found_where_it_was_put_and_nowhere_else(searched):
    searched.ok("up", "work", "--policy", searched.policy, "--secret", "KEY", "--secret", "KEY:file")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: one(searched, number), range(RUNS)))
    for words in (["ls", "--json"], ["show", "work", "--json"], ["stats", "work"], ["logs", "work", "--json"], ["audit", "show", "--json"]):
        searched.call(*words)
    token = searched.token
    assert [text for text in searched.said if token.encode() in text] == []
    assert sum(b"***" in text for text in searched.said) > RUNS // 4  # the runs had it, and it was masked
    eventually(lambda: processes_with(token) == [], "no process that is left shows it")
    places = [str(searched.pinfold.home), str(searched.pinfold.state), "/run", "/tmp", "/var/lib", "/var/log", "/var/crash", "/dev/shm", "/root"]
    found = files_with(token, [place for place in places if os.path.isdir(place)])
    assert set(found) == {str(searched.source)}, found
    assert glob.glob("/var/lib/systemd/coredump/*pinfold*") == []
    searched.ok("rm", "--force", "work")
    log = [json.loads(line) for line in (searched.pinfold.home / "log" / "audit.jsonl").read_text().splitlines()]
    used = collections.Counter(record["sandbox"][:4] for record in log if record["event"] == "secret")
    assert used["run-"] > RUNS // 2 and used["work"] > RUNS // 4 and used["shor"] > RUNS // 4, used  # run- are tool calls, too
    verified = searched.call("audit", "verify", "--json")
    assert verified.returncode == 0, verified.stdout
