"""What people do with podman, one behaviour a row, with pinfold-oci in the runtime's place.

PINFOLD_ENGINE_RUNTIME=/usr/sbin/runc (or a wrapper of crun) runs the same rows with another runtime.
"""
import json
import os
import shutil
import subprocess
import time

import pytest

from test_engines import image, podman  # noqa: F401 (fixtures)

V1 = os.path.exists("/sys/fs/cgroup/memory/cgroup.procs")
TRACKING = "/sys/fs/cgroup/systemd"
SECCOMP = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}


def cat(controller, file):
    return ["cat", f"/sys/fs/cgroup/{controller}/{file}"]


# options, command, what it prints (or its exit code)
RUN = {
    "bind": (["-v", "{tmp}:/data"], ["sh", "-c", "echo x > /data/made && cat /data/file"], "here"),
    "bind read-only": (["-v", "{tmp}:/data:ro"], ["touch", "/data/x"], "Read-only"),
    "bind of a file": (["-v", "{tmp}/file:/etc/given"], ["cat", "/etc/given"], "here"),
    "bind noexec": (["-v", "{tmp}:/data:noexec"], ["grep", " /data ", "/proc/mounts"], "noexec"),
    "bind slave": (["-v", "{tmp}:/data:rslave"], ["cat", "/data/file"], "here"),
    "named volume": (["-v", "vol:/data"], ["sh", "-c", "echo kept > /data/x; cat /data/x"], "kept"),
    "tmpfs by mount": (["--mount", "type=tmpfs,destination=/t,tmpfs-size=1m"], ["grep", " /t ", "/proc/mounts"], "size=1024k"),
    "tmpfs copied up": (["--tmpfs", "/etc:rw"], ["cat", "/etc/passwd"], "root:x"),
    "device": (["--device", "/dev/fuse"], ["ls", "-l", "/dev/fuse"], "10, 229"),
    "device renamed": (["--device", "/dev/fuse:/dev/mine:r"], ["ls", "-l", "/dev/mine"], "10, 229"),
    "capability added": (["--cap-add", "SYS_PTRACE"], ["grep", "CapEff", "/proc/self/status"], "8"),
    "capability dropped": (["--cap-drop", "CHOWN"], ["sh", "-c", "chown 5 /tmp"], "not permitted"),
    "no capabilities": (["--cap-drop", "ALL"], ["grep", "CapBnd", "/proc/self/status"], "0000000000000000"),
    "memory": (["--memory", "64m"], cat("memory", "memory.limit_in_bytes"), "67108864"),
    "memory reservation": (["--memory-reservation", "32m"], cat("memory", "memory.soft_limit_in_bytes"), "33554432"),
    "memory and swap": (["--memory", "64m", "--memory-swap", "96m"], cat("memory", "memory.memsw.limit_in_bytes"), "100663296"),
    "cpus": (["--cpus", "0.5"], cat("cpu", "cpu.cfs_quota_us"), "50000"),
    "cpu shares": (["--cpu-shares", "300"], cat("cpu", "cpu.shares"), "300"),
    "cpuset": (["--cpuset-cpus", "0"], cat("cpuset", "cpuset.cpus"), "0"),
    "pids limit": (["--pids-limit", "33"], cat("pids", "pids.max"), "33"),
    "too much memory": (["--memory", "16m"], ["sh", "-c", "head -c 64m /dev/zero | tail -c 64m"], 137),
    "oom score": (["--oom-score-adj", "200"], ["cat", "/proc/self/oom_score_adj"], "200"),
    "shm size": (["--shm-size", "2m"], ["grep", "/dev/shm", "/proc/mounts"], "size=2048k"),
    "privileged": (["--privileged"], ["grep", "Seccomp:", "/proc/self/status"], "0"),
    "for systemd": (["--systemd=always"], ["ls", "-d", "/run/lock", TRACKING if V1 else "/run"], "/run/lock"),
    "host pid": (["--pid", "host"], ["sh", "-c", "[ $$ -gt 1 ] && echo shared"], "shared"),
    "host ipc": (["--ipc", "host"], ["ls", "-l", "/proc/self/ns/ipc"], "{ipc}"),
    "host uts": (["--uts", "host"], ["ls", "-l", "/proc/self/ns/uts"], "{uts}"),
    "own network": (["--network", "none"], ["ip", "-o", "link"], "lo:"),
    "working directory made": (["-w", "/made/here"], ["pwd"], "/made/here"),
    "entry point": (["--entrypoint", "/bin/echo"], ["by", "entry"], "by entry"),
    "filter of a file": (["--security-opt", "seccomp={tmp}/seccomp.json"], ["sh", "-c", "busybox mkdir /tmp/x"], "not permitted"),
    "no filter": (["--security-opt", "seccomp=unconfined"], ["grep", "Seccomp:", "/proc/self/status"], "0"),
    "masked path": (["--security-opt", "mask=/etc/passwd"], ["sh", "-c", "cat /etc/passwd; echo end"], "end"),
    "unmasked path": (["--security-opt", "unmask=/proc/acpi"], ["echo", "ran"], "ran"),
    "groups": (["--user", "1000:1000", "--group-add", "77"], ["id"], "77"),
    "user of the image": (["--user", "user"], ["id", "-u"], "1000"),
    "no such user": (["--user", "nobody-here"], ["id"], 126),
    "time zone": (["--tz", "UTC"], ["echo", "ran"], "ran"),
    "limits": (["--ulimit", "core=0:0"], ["sh", "-c", "ulimit -c"], "0"),
    "annotation": (["--annotation", "a.b=c"], ["echo", "ran"], "ran"),
    "label": (["--label", "a=b"], ["echo", "ran"], "ran"),
    "user namespace": (["--uidmap", "0:200000:1000", "--gidmap", "0:200000:1000"], ["id", "-u"], "0"),
    "read-only with tmpfs": (["--read-only"], ["sh", "-c", "touch /tmp/x && echo made"], "made"),
    "standard input": (["-i"], ["cat"], "said"),
    "terminal": (["-t"], ["tty"], "/dev/pts/0"),
    "signal's code": ([], ["sh", "-c", "sleep 100 & kill -9 $!; wait $!"], 137),
    "time out": (["--timeout", "1"], ["sleep", "30"], 255),
    "hidden environment": ([], ["env"], "container=podman"),
    "umask": (["--umask", "0027"], ["sh", "-c", "umask"], "0027"),
    "no hosts": (["--no-hosts"], ["echo", "ran"], "ran"),
    "cgroups disabled": (["--cgroups", "disabled", "--pids-limit", "0"], ["echo", "ran"], "ran"),
    "sysctl": (["--sysctl", "kernel.shmmax=4096", "--ipc", "private"], ["cat", "/proc/sys/kernel/shmmax"], "4096"),
    "host sysctl": (["--sysctl", "kernel.panic=3"], ["true"], 125),
    "throttle": (["--device-read-bps", "{disk}:1mb"], cat("blkio", "blkio.throttle.read_bps_device"), "1048576"),
}


def disk():
    return next((f"/dev/{name}" for name in sorted(os.listdir("/sys/block")) if name.startswith(("vd", "sd", "nvme"))), None)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "file").write_text("here\n")
    (folder / "seccomp.json").write_text(json.dumps(SECCOMP))
    return folder


@pytest.mark.parametrize("name", RUN)
def test_run(podman, shared, name):  # noqa: F811
    options, command, expected = RUN[name]
    if not V1 and command[0] == "cat" and command[1].startswith("/sys/fs/cgroup/"):
        pytest.skip("reads a file of cgroup version 1")
    if V1 and TRACKING in command and not os.path.ismount(TRACKING):
        pytest.skip("no hierarchy of systemd's here")
    words = {"tmp": shared, "disk": disk(), **{kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("ipc", "uts")}}
    if "{disk}" in str(options) and disk() is None:
        pytest.skip("needs a disk")
    done = podman("run", "--rm", *[option.format(**words) for option in options], "localhost/bb", *command, input="said")
    if isinstance(expected, int):
        assert done.returncode == expected, (done.returncode, done.stdout, done.stderr)
    else:
        assert expected.format(**words) in done.stdout + done.stderr, (done.returncode, done.stdout, done.stderr)


@pytest.fixture
def running(podman):  # noqa: F811
    made = podman("run", "-d", "localhost/bb", "sh", "-c", "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.1; done")
    assert made.returncode == 0, made.stderr
    name = made.stdout.strip()
    deadline = time.monotonic() + 60
    while "up" not in podman("logs", name).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield name
    podman("rm", "-f", "-t", "0", name)


EXEC = {
    "user": (["-u", "1000"], ["id", "-u"], "1000"), "directory": (["-w", "/tmp"], ["pwd"], "/tmp"), "variable": (["-e", "A=b"], ["env"], "A=b"),
    "privileged": (["--privileged"], ["grep", "CapEff", "/proc/self/status"], "CapEff"), "input": (["-i"], ["cat"], "said"),
    "terminal": (["-t"], ["tty"], "/dev/pts"), "same pids": ([], ["sh", "-c", "[ -d /proc/1 ] && cat /proc/1/comm"], "sh"),
    "filtered too": ([], ["grep", "Seccomp:", "/proc/self/status"], "2"),
}


@pytest.mark.parametrize("name", EXEC)
def test_exec(podman, running, name):  # noqa: F811
    options, command, expected = EXEC[name]
    done = podman("exec", *options, running, *command, input="said")
    assert done.returncode == 0 and expected in done.stdout, (done.stdout, done.stderr)


@pytest.mark.parametrize("command, code", [(["sh", "-c", "exit 9"], 9), (["nosuch"], 127), (["/etc/passwd"], 126), (["/etc"], 126)])
def test_exec_s_codes(podman, running, command, code):  # noqa: F811
    assert podman("exec", running, *command).returncode == code


def test_a_signal_reaches_the_process_and_its_code_comes_back(podman, running):  # noqa: F811
    assert podman("kill", "-s", "USR1", running).returncode == 0
    assert podman("wait", running).stdout.strip() == "5"
    assert "got" in podman("logs", running).stdout


def test_stop_kills_what_does_not_listen(podman, running):  # noqa: F811
    assert podman("stop", "-t", "1", running).returncode == 0
    assert podman("inspect", "-f", "{{.State.ExitCode}}", running).stdout.strip() in ("137", "143")


def test_restart_runs_it_anew(podman, running):  # noqa: F811
    first = podman("inspect", "-f", "{{.State.Pid}}", running).stdout
    assert podman("restart", "-t", "0", running).returncode == 0
    assert podman("inspect", "-f", "{{.State.Pid}}", running).stdout != first


def test_pause_holds_and_unpause_lets_go(podman, running):  # noqa: F811
    assert podman("pause", running).returncode == 0
    assert podman("inspect", "-f", "{{.State.Status}}", running).stdout.strip() == "paused"
    assert podman("exec", running, "true").returncode != 0
    assert podman("unpause", running).returncode == 0 and podman("exec", running, "true").returncode == 0


@pytest.mark.parametrize("words, expected", [
    (["top", "{}"], "COMMAND"), (["stats", "--no-stream", "--no-reset", "{}"], "PIDS"), (["inspect", "{}"], '"Running": true'), (["logs", "{}"], "up"),
    (["port", "{}"], ""), (["diff", "{}"], ""), (["container", "exists", "{}"], ""), (["ps", "--filter", "id={}"], "Up"),
    (["healthcheck", "run", "{}"], None), (["container", "checkpoint", "{}"], None)], ids=lambda value: value[0] if isinstance(value, list) else "")
def test_looking_at_it(podman, running, words, expected):  # noqa: F811
    done = podman(*[word.format(running) for word in words])
    if expected is None: # there is none, and podman says so
        assert done.returncode != 0 and done.stderr.strip()
    else:
        assert done.returncode == 0 and expected in done.stdout, (done.stdout, done.stderr)


def test_files_go_in_and_out(podman, running, shared, tmp_path):  # noqa: F811
    assert podman("cp", shared / "file", f"{running}:/tmp/in").returncode == 0
    assert podman("exec", running, "cat", "/tmp/in").stdout == "here\n"
    assert podman("cp", f"{running}:/tmp/in", tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_text() == "here\n"


def test_commit_and_export_show_the_container_s_files(podman, running, tmp_path):  # noqa: F811
    podman("exec", running, "touch", "/made")
    assert podman("commit", "-q", running, "localhost/committed").returncode == 0
    assert podman("run", "--rm", "localhost/committed", "ls", "/made").stdout == "/made\n"
    assert podman("export", "-o", tmp_path / "tar", running).returncode == 0
    assert "made" in subprocess.run(["tar", "tf", tmp_path / "tar"], capture_output=True, text=True, check=True).stdout.split()


def test_a_container_is_created_and_started_with_its_output(podman):  # noqa: F811
    assert podman("create", "--name", "later", "localhost/bb", "sh", "-c", "echo late; exit 4").returncode == 0
    done = podman("start", "-a", "later")
    assert (done.returncode, done.stdout) == (4, "late\n")
    assert podman("rm", "later").returncode == 0


def test_a_detached_one_removes_itself(podman):  # noqa: F811
    name = podman("run", "-d", "--rm", "localhost/bb", "true").stdout.strip()
    deadline = time.monotonic() + 60
    while podman("container", "exists", name).returncode == 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_it_is_restarted_on_failure(podman):  # noqa: F811
    name = podman("run", "-d", "--restart", "on-failure:2", "localhost/bb", "sh", "-c", "exit 3").stdout.strip()
    deadline = time.monotonic() + 60
    while podman("inspect", "-f", "{{.RestartCount}}", name).stdout.strip() != "2":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert podman("wait", name).stdout.strip() == "3"
    podman("rm", "-f", name)


def test_a_secret_is_a_file_inside(podman, shared):  # noqa: F811
    assert podman("secret", "create", "word", shared / "file").returncode == 0
    assert podman("run", "--rm", "--secret", "word", "localhost/bb", "cat", "/run/secrets/word").stdout == "here\n"
    podman("secret", "rm", "word")


def test_a_hook_of_the_hooks_directory_runs(podman, tmp_path):  # noqa: F811
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ncat > {tmp_path}/state\n")
    hook.chmod(0o755)
    (tmp_path / "hooks.d").mkdir()
    (tmp_path / "hooks.d/one.json").write_text(json.dumps({
        "version": "1.0.0", "hook": {"path": str(hook)}, "when": {"always": True}, "stages": ["createRuntime"]}))
    assert podman("--hooks-dir", tmp_path / "hooks.d", "run", "--rm", "localhost/bb", "true").returncode == 0
    assert json.loads((tmp_path / "state").read_text())["status"] in ("creating", "created")


def test_a_descriptor_is_preserved(podman, tmp_path):  # noqa: F811
    (tmp_path / "given").write_text("by descriptor\n")
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    done = podman("run", "--rm", "--preserve-fds", "1", "localhost/bb", "sh", "-c", "cat <&3", before=["bash", "-c", f'exec 3<{tmp_path}/given; exec "$@"', "bash"],
                  pass_fds=())
    assert done.stdout == "by descriptor\n", done.stderr


def test_a_pod_lives_as_one(podman):  # noqa: F811
    assert podman("pod", "create", "--name", "lives", "--share", "ipc,uts", "--infra-image", "localhost/bb", "--infra-command",
                  "/bin/sleep 1000").returncode == 0
    try:
        assert podman("run", "-d", "--pod", "lives", "localhost/bb", "sleep", "1000").returncode == 0
        for verb, state in (("pause", "Paused"), ("unpause", "Running"), ("stop", "Exited"), ("start", "Running"), ("kill", "Exited")):
            assert podman("pod", verb, *(["-t", "0"] if verb == "stop" else []), "lives").returncode == 0
            assert state in podman("pod", "inspect", "lives").stdout, verb
    finally:
        assert podman("pod", "rm", "-f", "-t", "0", "lives").returncode == 0
