"""The fields of `process`, `root`, `hooks`, `annotations` and the names: see oci_fields.py."""
import array
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

from oci_fields import GONE, Row, makes

CAP_KILL, CAP_CHOWN = 1 << 5, 1


def has_apparmor():
    return os.path.exists("/sys/module/apparmor/parameters/enabled")


def has_selinux():
    return os.path.exists("/sys/fs/selinux/enforce")


@makes
def terminal_has_its_size(case):
    case.config["process"].update(terminal=True, consoleSize={"height": 33, "width": 77}, args=["sh", "-c", "tty; stty size; echo ready; sleep 60"])
    server = socket.socket(socket.AF_UNIX)
    path = f"/tmp/console-{case.name}"
    server.bind(path)
    try:
        server.listen(1)
        server.settimeout(20)
        code, said = case.create("--console-socket", path)
        assert code == 0, said
        connection, _ = server.accept()
        rights = connection.recvmsg(64, socket.CMSG_SPACE(4))[1]
        master = array.array("i", rights[0][2])[0]
    finally:
        os.unlink(path)
    assert case.call("start", case.name).returncode == 0
    text = b""
    while b"ready" not in text:
        text += os.read(master, 4096)
    os.close(master)
    assert b"/dev/pts/0" in text and b"33 77" in text, text


def sets(**words):
    return {"/process/capabilities": {name: list(names) for name, names in words.items()}}


def capability(key, mask):
    def check(case):
        assert int(case.status(key), 16) == mask
    return check


def of_state(pointer, value):
    def check(case):
        assert case.state()[pointer] == value
    return check


def policy_is(number, priority=0):
    def check(case):
        assert os.sched_getscheduler(case.pid) & ~os.SCHED_RESET_ON_FORK == number
        assert os.sched_getparam(case.pid).sched_priority == priority
    return check


def resets_on_fork(case):
    assert os.sched_getscheduler(case.pid) & os.SCHED_RESET_ON_FORK


def deadline_is(case):
    done = subprocess.run(["chrt", "-p", str(case.pid)], capture_output=True, text=True, check=True)
    assert "SCHED_DEADLINE" in done.stdout and "1000000/5000000/6000000" in done.stdout, done.stdout


def nice_is(case):
    assert os.getpriority(os.PRIO_PROCESS, case.pid) == 5 and os.sched_getscheduler(case.pid) == os.SCHED_BATCH


def io_class(text):
    def check(case):
        assert subprocess.run(["ionice", "-p", str(case.pid)], capture_output=True, text=True, check=True).stdout.strip() == text
    return check


BE = {"class": "IOPRIO_CLASS_BE", "priority": 3}
FILES = {"type": "RLIMIT_NOFILE", "soft": 50, "hard": 60}
BATCH = {"policy": "SCHED_BATCH", "nice": 5}
DEADLINE = {"policy": "SCHED_DEADLINE", "runtime": 1000000, "deadline": 5000000, "period": 6000000}

PROCESS = [
    Row("/ociVersion", {"/ociVersion": "1.0.2-dev"}, of_state("ociVersion", "1.0.2-dev"),
        bad=[({"/ociVersion": "2.0.0"}, "ociVersion"), ({"/ociVersion": ""}, "ociVersion"), ({"/ociVersion": GONE}, "ociVersion")]),
    Row("/process/terminal /process/consoleSize/height /process/consoleSize/width", {}, terminal_has_its_size, bad=[
        ({"/process/terminal": True}, "console socket"), ({"/process/consoleSize": {"height": -1, "width": 1}}, "consoleSize/height"),
        ({"/process/consoleSize": {"height": 1, "width": 65536}}, "consoleSize/width")]),
    Row("/process/user/uid /process/user/gid", {"/process/user": {"uid": 1000, "gid": 1001}}, "uid=1000 gid=1001$", "id", bad=[
        ({"/process/user/uid": -1}, "/process/user/uid"), ({"/process/user/uid": 1 << 32}, "/process/user/uid"),
        ({"/process/user/gid": -1}, "/process/user/gid"), ({"/process/user/gid": 1 << 32}, "/process/user/gid")]),
    Row("/process/user/additionalGids/*", {"/process/user/additionalGids": [7, 4294967294]}, "groups=.*7,4294967294$", "id",
        bad=[({"/process/user/additionalGids": [1 << 32]}, "additionalGids/0"), ({"/process/user/additionalGids": [-1]}, "additionalGids/0")]),
    Row("/process/user/umask", {"/process/user/umask": 0o027}, "^0027$", "umask",
        bad=[({"/process/user/umask": 0o1000}, "/process/user/umask")]),
    Row("/process/args/*", {"/process/args": ["echo", "a b", "", "c"]}, "^a b  c$", "", bad=[({"/process/args": []}, "args is empty"),
                                                                                   ({"/process/args": [7]}, "/process/args/0")]),
    Row("/process/env/*", {"/process/env": ["PATH=/bin", "A=b=c", "B="]}, "^A=b=c\nB=$", "env | grep -E '^[AB]=' | sort",
        bad=[({"/process/env": ["A=\0"]}, "not JSON"), ({"/process/env": [1]}, "/process/env/0")]),
    Row("/process/cwd", {"/process/cwd": "/made/here"}, "^/made/here$", "pwd", bad=[
        ({"/process/cwd": "relative"}, "cwd"), ({"/process/cwd": GONE}, "cwd"), ({"/process/cwd": "/etc/passwd"}, "cwd|chdir")]),
    Row("/process/capabilities/bounding/*", sets(bounding=["CAP_KILL"]), capability("CapBnd", CAP_KILL)),
    Row("/process/capabilities/permitted/*", sets(bounding=["CAP_KILL"], permitted=["CAP_KILL"]), capability("CapPrm", CAP_KILL)),
    Row("/process/capabilities/effective/*", sets(bounding=["CAP_KILL"], permitted=["CAP_KILL"], effective=["CAP_KILL"]),
        capability("CapEff", CAP_KILL)),
    Row("/process/capabilities/inheritable/*", sets(bounding=["CAP_KILL"], permitted=["CAP_KILL"], inheritable=["CAP_KILL"]),
        capability("CapInh", CAP_KILL)),
    Row("/process/capabilities/ambient/*", {**sets(bounding=["CAP_KILL"], permitted=["CAP_KILL"], effective=["CAP_KILL"],
                                                   inheritable=["CAP_KILL"], ambient=["CAP_KILL"]),
                                            "/process/user": {"uid": 9, "gid": 9}}, capability("CapAmb", CAP_KILL)),
    Row("/process/capabilities/bounding/*", sets(bounding=["CAP_NOSUCH", "CAP_KILL"]),
        r"warning.*ignoring unknown or unavailable capabilities: \[CAP_NOSUCH\]", "true"),
    Row("/process/capabilities/ambient/*", sets(bounding=["CAP_KILL"], ambient=["CAP_KILL"]),
        r"warning.*ambient capabilities.*\[CAP_KILL\]", "true"),
    Row("/process/rlimits/*/type /process/rlimits/*/soft /process/rlimits/*/hard", {"/process/rlimits": [FILES]}, "^50\n60$",
        "ulimit -n; ulimit -Hn", bad=[
            ({"/process/rlimits": [{**FILES, "type": "RLIMIT_NOSUCH"}]}, "/process/rlimits"),
            ({"/process/rlimits": [{**FILES, "soft": 61}]}, "/process/rlimits"),
            ({"/process/rlimits": [{**FILES, "hard": -1}]}, "/process/rlimits/0/hard"),
            ({"/process/rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1}]}, "'hard' is missing"),
            ({"/process/rlimits": [FILES, FILES]}, "stands twice")]),
    Row("/process/rlimits/*/hard", {"/process/rlimits": [{"type": "RLIMIT_NOFILE", "soft": 3, "hard": 3}]}, "^3$", "ulimit -n"),
    Row("/process/noNewPrivileges", {"/process/noNewPrivileges": False}, "NoNewPrivs:\t0", "cat /proc/self/status"),
    Row("/process/noNewPrivileges", {"/process/noNewPrivileges": True}, "NoNewPrivs:\t1", "cat /proc/self/status"),
    Row("/process/oomScoreAdj", {"/process/oomScoreAdj": 321}, "^321$", "cat /proc/self/oom_score_adj",
        bad=[({"/process/oomScoreAdj": 1001}, "oomScoreAdj"), ({"/process/oomScoreAdj": -1001}, "oomScoreAdj")]),
    Row("/process/apparmorProfile", {"/process/apparmorProfile": "unconfined"}, "ran", "echo ran",
        bad=[({"/process/apparmorProfile": "no-such-profile"}, "apparmor")]),
    Row("/process/selinuxLabel", {"/process/selinuxLabel": ""}, "ran", "echo ran",
        bad=[({"/process/selinuxLabel": "a_u:b_r:no_such_t:s0"}, "selinux")]),
    Row("/process/ioPriority/class /process/ioPriority/priority", {"/process/ioPriority": BE}, io_class("best-effort: prio 3"), bad=[
        ({"/process/ioPriority": {**BE, "class": "IOPRIO_CLASS_NOPE"}}, "/process/ioPriority/class"),
        ({"/process/ioPriority": {"priority": 1}}, "'class' is missing"), ({"/process/ioPriority": {**BE, "priority": 8}}, "priority")]),
    Row("/process/ioPriority/class", {"/process/ioPriority": {"class": "IOPRIO_CLASS_IDLE", "priority": 0}}, io_class("idle")),
    Row("/process/scheduler/policy /process/scheduler/nice", {"/process/scheduler": BATCH}, nice_is, bad=[
        ({"/process/scheduler": {"policy": "SCHED_SOMETIMES"}}, "/process/scheduler/policy"),
        ({"/process/scheduler": {**BATCH, "nice": 20}}, "/process/scheduler/nice")]),
    Row("/process/scheduler/policy", {"/process/scheduler": {"policy": "SCHED_IDLE"}}, policy_is(os.SCHED_IDLE)),
    Row("/process/scheduler/priority", {"/process/scheduler": {"policy": "SCHED_OTHER", "priority": 0}}, policy_is(os.SCHED_OTHER),
        bad=[({"/process/scheduler": {"policy": "SCHED_RR", "priority": 100}}, "/process/scheduler"),
             ({"/process/scheduler": {"policy": "SCHED_OTHER", "priority": 1}}, "/process/scheduler")]),
    Row("/process/scheduler/flags/*", {"/process/scheduler": {**BATCH, "flags": ["SCHED_FLAG_RESET_ON_FORK"]}}, resets_on_fork,
        bad=[({"/process/scheduler": {**BATCH, "flags": ["SCHED_FLAG_NOPE"]}}, "/process/scheduler/flags")]),
    Row("/process/scheduler/runtime /process/scheduler/deadline /process/scheduler/period", {"/process/scheduler": DEADLINE}, deadline_is,
        bad=[({"/process/scheduler": {**DEADLINE, "runtime": 9000000}}, "/process/scheduler"),
             ({"/process/scheduler": {**DEADLINE, "deadline": -1}}, "/process/scheduler/deadline"),
             ({"/process/scheduler": {**DEADLINE, "period": 4000000}}, "/process/scheduler")]),
    Row("/root/path", {}, "^root:x", "cat /etc/passwd", bad=[({"/root/path": "nosuch"}, "no such file"), ({"/root/path": GONE}, "'path' is missing"),
                                                             ({"/root/path": "config.json"}, "/root/path")]),
    Row("/root/readonly", {"/root/readonly": True}, "Read-only", "touch /x"),
    Row("/root/readonly", {"/root/readonly": False}, "^made$", "touch /x && echo made"),
    Row("/hostname", {"/hostname": "somewhere"}, "^somewhere$", "hostname", bad=[
        ({"/hostname": "x" * 65}, "/hostname"), ({"/linux/namespaces": [{"type": "mount"}, {"type": "pid"}]}, "/hostname")]),
    Row("/domainname", {"/domainname": "example"}, "^example$", "cat /proc/sys/kernel/domainname",
        bad=[({"/domainname": "x" * 65}, "/domainname")]),
    Row("/annotations/*", {"/annotations": {"org.example.a": "b"}}, of_state("annotations", {"org.example.a": "b"}),
        bad=[({"/annotations": {"a": 1}}, "/annotations/a"), ({"/annotations": {"io.pinfold.nosuch": "x"}}, "io.pinfold.nosuch")]),
]

# hooks: each stage by the same rows

OUTSIDE = "prestart createRuntime createContainer poststart poststop".split()
FATAL = "prestart createRuntime createContainer startContainer poststart".split() # their failure ends the container


def hook_got_it_all(stage):
    @makes
    def check(case):
        (case.tmp / "out").touch()
        case.start()
        case.call("delete", "--force", case.name)
        text = (case.tmp / "out").read_text()
        state, said = text.split("\n", 1)
        state = json.loads(state)
        assert state["id"] == case.name and state["status"] in ("creating", "created", "running", "stopped")
        assert said == "one two|A=b\n", said
    return check


def times_out(stage):
    @makes
    def check(case):
        begun = time.monotonic()
        code, said = case.create()
        if code == 0:
            code, said = (lambda done: (done.returncode, done.stderr))(case.call("start", case.name))
        if stage == "poststop":
            done = case.call("delete", "--force", case.name)
            said += done.stderr
        assert time.monotonic() - begun < 20
        assert f"{stage} hook #0" in said and ("time" in said or "kill" in said), said
        assert (code != 0) == (stage in FATAL), (code, said)
    return check


def hook(stage, **fields):
    return {f"/hooks/{stage}": [{"path": "/bin/sh", **fields}]}


def hook_rows(stage):
    names = [f"/hooks/{stage}/*/{name}" for name in ("path", "args/*", "env/*")]
    script = 'cat >> {out}; printf "\\n%s %s|%s\\n" "$1" "$2" "$(env | grep ^A=)" >> {out}'
    out = "{tmp}/out" if stage in OUTSIDE else "/out"
    changes = hook(stage, args=["sh", "-c", script.replace("{out}", out), "sh", "one", "two"], env=["A=b", "PATH=/bin:/usr/bin"])
    if stage not in OUTSIDE: # it runs inside, and its file lies there
        changes["/mounts/-"] = {"destination": "/out", "type": "bind", "source": "{tmp}/out", "options": ["bind"]}
    yield Row(" ".join(names), changes, hook_got_it_all(stage), bad=[
        (hook(stage, path="relative"), f"/hooks/{stage}"), ({f"/hooks/{stage}": [{"args": ["a"]}]}, "'path' is missing"),
        (hook(stage, args=[1]), f"/hooks/{stage}/0/args/0"), (hook(stage, env=[1]), f"/hooks/{stage}/0/env/0"),
        (hook(stage, timeout=0), f"/hooks/{stage}/0/timeout"), (hook(stage, timeout=-1), f"/hooks/{stage}/0/timeout"),
        *([(hook(stage, path="/nosuch"), f"{stage} hook #0"), (hook(stage, args=["sh", "-c", "exit 3"]), f"{stage} hook #0")]
          if stage in FATAL else [])])
    yield Row(f"/hooks/{stage}/*/timeout", hook(stage, args=["sh", "-c", "sleep 60"], timeout=1), times_out(stage))


HOOKS = [row for stage in [*OUTSIDE, "startContainer"] for row in hook_rows(stage)]
ROWS = PROCESS + HOOKS
