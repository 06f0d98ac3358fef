"""What people do with dockerd and ctr, one behaviour a row, with pinfold-oci in the runtime's place.

PINFOLD_ENGINE_RUNTIME=/usr/sbin/runc (or a wrapper of crun) runs the same rows with another runtime.
"""
import json
import os
import time

import pytest

from test_engines import ctr, docker, image, podman  # noqa: F401 (fixtures)
from test_engines_podman import RUN as PODMAN, V1, disk, shared  # noqa: F401

AS_PODMAN = """bind|bind read-only|bind of a file|named volume|tmpfs by mount|device|device renamed|capability added|capability dropped
no capabilities|memory|memory reservation|memory and swap|cpus|cpu shares|cpuset|pids limit|too much memory|oom score|shm size
host pid|host ipc|host uts|own network|working directory made|entry point|filter of a file|no filter|groups|user of the image
limits|label|standard input|signal's code|throttle""".replace("\n", "|").split("|")
RUN = {name: PODMAN[name] for name in AS_PODMAN}
RUN.update({
    "terminal": (["-t"], ["tty"], "/dev/pts/0"), "init": (["-i"], ["sh", "-c", "echo $$"], "1"), "exit code": ([], ["sh", "-c", "exit 9"], 9),
    "not there": ([], ["nosuch"], 127), "not executable": ([], ["/etc/passwd"], 126), "a directory": ([], ["/etc"], 126),
    "no such user": (["--user", "nobody-here"], ["id"], 125), "read-only": (["--read-only"], ["touch", "/x"], "Read-only"),
    "environment": (["-e", "A=b"], ["env"], "A=b"), "host name": (["--hostname", "here"], ["hostname"], "here"),
    "no new privileges": (["--security-opt", "no-new-privileges"], ["grep", "NoNewPrivs", "/proc/self/status"], "1"),
    "filtered": ([], ["grep", "Seccomp:", "/proc/self/status"], "2"), "sysctl": (["--sysctl", "kernel.msgmax=4096"], ["cat", "/proc/sys/kernel/msgmax"], "4096"),
    "host sysctl": (["--sysctl", "kernel.panic=3"], ["true"], 125), "masked": ([], ["sh", "-c", "cat /proc/timer_list | head -c 1; echo end"], "end"),
    "device rule": (["--device-cgroup-rule", "c 10:229 rwm"], ["echo", "ran"], "ran"),
})


@pytest.mark.parametrize("name", RUN)
def test_docker_run(docker, shared, name):  # noqa: F811
    options, command, expected = RUN[name]
    if not V1 and command[0] == "cat" and command[1].startswith("/sys/fs/cgroup/"):
        pytest.skip("reads a file of cgroup version 1")
    if "{disk}" in str(options) and disk() is None:
        pytest.skip("needs a disk")
    words = {"tmp": shared, "disk": disk(), **{kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("ipc", "uts")}}
    network = [] if "--network" in options else ["--network", "none"]
    done = docker("run", "--rm", "--runtime", "pinfold", *network, *[option.format(**words) for option in options], "bb", *command, input="said")
    if isinstance(expected, int):
        assert done.returncode == expected, (done.returncode, done.stdout, done.stderr)
    else:
        assert expected.format(**words) in done.stdout + done.stderr, (done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def running(docker):  # noqa: F811
    made = docker("run", "-d", "--runtime", "pinfold", "--network", "none", "bb", "sh", "-c", "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.1; done")
    assert made.returncode == 0, made.stderr
    yield made.stdout.strip()
    docker("rm", "-f", made.stdout.strip())


@pytest.mark.parametrize("words, expected", [
    (["exec", "-u", "1000", "{}", "id", "-u"], "1000"), (["exec", "-w", "/tmp", "{}", "pwd"], "/tmp"), (["exec", "-e", "A=b", "{}", "env"], "A=b"),
    (["exec", "-i", "{}", "cat"], "said"), (["exec", "-t", "{}", "tty"], "/dev/pts"), (["exec", "{}", "sh", "-c", "exit 9"], 9), (["exec", "{}", "nosuch"], (126, 127)),
    (["exec", "{}", "/etc/passwd"], 126), (["top", "{}"], "CMD"), (["stats", "--no-stream", "{}"], "PIDS"), (["inspect", "{}"], '"Running": true'),
    (["logs", "{}"], "up"), (["pause", "{}"], ""), (["inspect", "-f", "{{{{.State.Status}}}}", "{}"], "paused"), (["exec", "{}", "true"], 1), (["unpause", "{}"], ""),
    (["update", "--memory", "80m", "--memory-swap", "160m", "{}"], ""), (["update", "--cpu-shares", "300", "{}"], ""), (["update", "--pids-limit", "44", "{}"], ""),
    (["exec", "{}", "cat", "/sys/fs/cgroup/pids/pids.max"], "44" if V1 else 1), (["diff", "{}"], ""), (["kill", "-s", "USR1", "{}"], ""), (["wait", "{}"], "5"),
    (["start", "{}"], ""), (["restart", "-t", "0", "{}"], ""), (["stop", "-t", "1", "{}"], "")], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_docker_s_life(docker, running, words, expected):  # noqa: F811
    """One after the other: each finds what those before it left."""
    done = docker(*[word.format(running) for word in words], input="said")
    if not isinstance(expected, str): # dockerd 20.10 says 126 of what isn't there
        assert done.returncode in (expected if isinstance(expected, tuple) else (expected,)), (done.stdout, done.stderr)
    else:
        assert done.returncode == 0 and expected in done.stdout, (done.returncode, done.stdout, done.stderr)


# ctr

CTR = {
    "output": ([], ["echo", "hi"], "hi"), "exit code": ([], ["sh", "-c", "exit 7"], 7), "variable": (["--env", "A=b"], ["env"], "A=b"),
    "directory": (["--cwd", "/tmp"], ["pwd"], "/tmp"), "user": (["--user", "1000:1000"], ["id", "-u"], "1000"),
    "bind": (["--mount", "type=bind,src={tmp},dst=/data,options=rbind:ro"], ["cat", "/data/file"], "here"), "read-only": (["--read-only"], ["touch", "/x"], "Read-only"),
    "privileged": (["--privileged"], ["grep", "Seccomp:", "/proc/self/status"], "0"), "filter": (["--seccomp"], ["grep", "Seccomp:", "/proc/self/status"], "2"),
    "host network": (["--net-host"], ["ls", "-l", "/proc/self/ns/net"], "{net}"), "capability": (["--cap-add", "CAP_SYS_PTRACE"], ["grep", "CapEff", "/proc/self/status"], "8"),
    "device": (["--device", "/dev/fuse"], ["ls", "-l", "/dev/fuse"], "10, 229"), "not there": ([], ["nosuch"], "executable file not found in $PATH"),
    "not executable": ([], ["/etc/passwd"], "permission denied"), "own group": (["--cgroup", "/pinfold-ctr"], ["grep", "-c", "pinfold-ctr", "/proc/self/cgroup"], ""),
    "pid file": (["--pid-file", "{tmp}/pid"], ["echo", "ran"], "ran"), "label": (["--label", "a=b"], ["echo", "ran"], "ran"),
    "filter of a file": (["--seccomp", "--seccomp-profile", "{tmp}/seccomp.json"], ["busybox", "mkdir", "/tmp/x"], "not permitted"),
    "no limit of descriptors": (["--rlimit-nofile", "77"], ["sh", "-c", "ulimit -n"], "77"),
}


@pytest.mark.parametrize("name", CTR)
def test_ctr_run(ctr, shared, name):  # noqa: F811
    options, command, expected = CTR[name]
    words = {"tmp": shared, "net": os.readlink("/proc/self/ns/net")}
    ident = "t" + name.replace(" ", "-")
    done = ctr("run", "--rm", *ctr.options, *[option.format(**words) for option in options], ctr.image, ident, *command)
    ctr("container", "delete", ident)
    if "flag provided but not defined" in done.stdout + done.stderr:
        pytest.skip("this ctr has no such option")
    if isinstance(expected, int):
        assert done.returncode == expected, (done.returncode, done.stdout, done.stderr)
    else:
        assert expected.format(**words) in done.stdout + done.stderr, (done.returncode, done.stdout, done.stderr)


def said_by_exec(ctr, *words):  # noqa: F811
    """What a process that `ctr task exec` ran has said. ctr 1.6 cancels the copying when the process has ended, and on a busy host
    it sometimes hasn't begun then: whoever has said nothing and succeeded is asked again."""
    for turn in range(20):
        done = ctr("task", "exec", "--exec-id", f"said{turn}", *words)
        if done.stdout or done.returncode != 0:
            return done.stdout
    return ""


def test_ctr_s_life(ctr, tmp_path):  # noqa: F811
    made = ctr("run", "-d", *ctr.options, ctr.image, "life", "sh", "-c", "trap 'exit 5' USR1; while :; do sleep 0.1; done")
    assert made.returncode == 0, made.stderr
    try:
        assert said_by_exec(ctr, "life", "id", "-u") == "0\n"
        assert said_by_exec(ctr, "--user", "1000", "life", "id", "-u") == "1000\n"
        assert said_by_exec(ctr, "--cwd", "/tmp", "life", "pwd") == "/tmp\n"
        assert "executable file not found in $PATH" in ctr("task", "exec", "--exec-id", "four", "life", "nosuch").stderr
        for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
            assert ctr("task", verb, "life").returncode == 0
            assert state in ctr("task", "ls").stdout
        assert "PID" in ctr("task", "ps", "life").stdout
        assert json.loads(ctr("container", "info", "life").stdout)["ID"] == "life"
        assert ctr("task", "metrics", "life").returncode == 0
        assert ctr("task", "kill", "-s", "USR1", "life").returncode == 0
        deadline = time.monotonic() + 60
        while "STOPPED" not in ctr("task", "ls").stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        ctr("task", "delete", "--force", "life")
        assert ctr("container", "delete", "life").returncode == 0
