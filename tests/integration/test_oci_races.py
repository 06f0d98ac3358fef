"""Two commands about one container at once, and commands that are killed half way.

PINFOLD_RACE_ROUNDS=1000 is the full run; by default each race has 60 rounds.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from oci_world import oci  # noqa: F401 (fixture)

ROUNDS = int(os.environ.get("PINFOLD_RACE_ROUNDS", "60"))
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Racer:
    """One bundle for all rounds; commands in pairs."""

    def __init__(self, runtime, *args, **changes):
        self.oci = runtime
        self.folder = runtime.bundle(*args, **changes)
        self.name = runtime.name()

    def create(self):
        assert self.oci.call("create", "--bundle", self.folder, self.name, **QUIET).returncode == 0

    def begin(self, *words):
        return subprocess.Popen(self.oci.argv(*words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def pair(self, one, other):
        both = [self.begin(*one), self.begin(*other)]
        ends = [(process.communicate(timeout=60)[1], process.returncode) for process in both]
        return [(code, said) for said, code in ends]

    def clear(self):
        assert self.oci.call("delete", "--force", self.name, **QUIET).returncode == 0

    def is_there(self):
        return (self.oci.root / self.name).exists()

    def groups(self):
        return self.oci.groups(self.name)


def test_of_two_starts_one_wins(oci):  # noqa: F811
    race = Racer(oci, "sleep", "100")
    for _ in range(ROUNDS):
        race.create()
        ends = sorted(race.pair(["start", race.name], ["start", race.name]))
        assert [code for code, _ in ends] == [0, 1] and "already running" in ends[1][1], ends
        race.clear()


def test_kill_against_delete_leaves_nothing_and_hits_nobody_else(oci):  # noqa: F811
    race = Racer(oci, "sleep", "100")
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        for _ in range(ROUNDS):
            race.create()
            race.oci.ok("start", race.name, **QUIET)
            killed, deleted = race.pair(["kill", race.name, "KILL"], ["delete", "--force", race.name])
            assert deleted[0] == 0, deleted
            assert killed[0] == 0 or any(words in killed[1] for words in (
                "does not exist", "not running", "already finished")), killed
            assert not race.is_there()
        assert bystander.poll() is None and race.groups() == []
    finally:
        bystander.kill()
        bystander.wait()


def test_delete_of_a_created_one_against_its_start(oci):  # noqa: F811
    race = Racer(oci, "sleep", "100")
    for _ in range(ROUNDS):
        race.create()
        started, deleted = race.pair(["start", race.name], ["delete", race.name])
        if deleted[0] == 0:
            assert not race.is_there()
            assert started[0] == 0 or "does not exist" in started[1] or "cannot start" in started[1], started
        else:
            assert started[0] == 0 and "that is not stopped: running" in deleted[1], (started, deleted)
            race.clear()


def test_a_create_that_is_killed_half_way_is_cleared(oci):  # noqa: F811
    race = Racer(oci, "sleep", "100")
    marks = random.Random(1)
    mark = f"PINFOLD_RACE={os.getpid()}"
    for _ in range(ROUNDS):
        process = subprocess.Popen(oci.argv("create", "--bundle", race.folder, race.name), **QUIET,
                                   env={**os.environ, "PINFOLD_RACE": str(os.getpid())})
        time.sleep(marks.random() * 0.025)
        process.send_signal(signal.SIGKILL)
        process.wait()
        race.clear()
        assert not race.is_there()
        deadline = time.monotonic() + 60
        while processes_with(mark):
            assert time.monotonic() < deadline, processes_with(mark)
            time.sleep(0.005)
    assert race.groups() == []
    race.create()  # the name is free
    race.clear()


def test_what_is_kept_of_a_config_that_changes_meanwhile_is_what_was_judged(oci):  # noqa: F811
    race = Racer(oci, "sleep", "100")
    path, texts = race.folder / "config.json", []
    for side in ("one", "other"):
        texts.append(json.dumps({**json.loads(path.read_text()), "annotations": {"side": side}}))
    swapper = subprocess.Popen([sys.executable, "-c", SWAP, str(path), *texts])
    try:
        seen = set()
        for _ in range(ROUNDS):
            race.create()
            kept = json.loads((oci.root / race.name / "config.json").read_text()).get("annotations", {})
            assert kept == oci.state(race.name).get("annotations", {})
            seen.add(kept.get("side"))
            race.clear()
        assert {"one", "other"} <= seen
    finally:
        swapper.kill()
        swapper.wait()


SWAP = """
import os, sys
path, *texts = sys.argv[1:]
while True:
    for text in texts:
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)
"""


def processes_with(variable):
    left = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and variable.encode() in (entry / "environ").read_bytes():
                left.append((entry.name, (entry / "stat").read_text()))
        except OSError:
            continue
    return left


def test_exec_into_a_stopping_one_runs_or_says_why_not(oci):  # noqa: F811
    race = Racer(oci, "sleep", "100")
    race.create()
    race.oci.ok("start", race.name, **QUIET)
    for _ in range(ROUNDS):
        execed, killed = race.pair(["exec", race.name, "true"], ["kill", race.name, "KILL"])
        assert killed[0] == 0 or "already finished" in killed[1] or "not running" in killed[1], killed
        assert execed[0] in (0, 137, 255), execed
        if execed[0] == 255:
            assert execed[1].strip(), "a failure without a word"
        race.clear()
        race.create()
        race.oci.ok("start", race.name, **QUIET)


def test_state_is_always_one_of_the_specification_s(oci):  # noqa: F811
    race = Racer(oci, "true")
    for _ in range(ROUNDS):
        race.create()
        watching = [subprocess.Popen(oci.argv("state", race.name), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for _ in range(2)]
        race.oci.ok("start", race.name, **QUIET)
        for process in watching:
            out, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
            state = json.loads(out)
            assert state["status"] in ("created", "running", "stopped")
            assert (state["pid"] == 0) == (state["status"] == "stopped")
        race.clear()


def test_a_number_that_is_used_again_is_never_signalled(oci):  # noqa: F811
    race = Racer(oci, "sleep", "100")
    race.create()
    path = oci.root / race.name / "state.json"
    state = json.loads(path.read_text())
    os.kill(state["pid"], signal.SIGKILL)
    victim = subprocess.Popen(["sleep", "1000"])
    try:
        for change in ({"pid": victim.pid}, {"pid": victim.pid, "startTime": start_time(victim.pid), "boot": "another"}):
            path.write_text(json.dumps({**state, **change}))
            assert oci.state(race.name)["status"] == "stopped"
            assert "not running" in oci.call("kill", race.name, "KILL").stderr.decode()
        race.clear()
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def start_time(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


@pytest.mark.parametrize("number", ["KILL", "TERM"])
def test_kill_all_reaches_every_process_without_a_pid_namespace(oci, number):  # noqa: F811
    spaces = [{"type": name} for name in ("network", "ipc", "uts", "mount")]
    name = oci.start("sh", "-c", "sleep 1000 & sleep 1000 & exec sleep 1000", linux__namespaces=spaces)
    deadline = time.monotonic() + 60
    while len(json.loads(oci.ok("ps", "--format", "json", name).stdout)) != 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    oci.ok("kill", "--all", name, number)
    while json.loads(oci.ok("ps", "--format", "json", name).stdout):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    oci.wait(name)
