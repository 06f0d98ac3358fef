"""pinfold-oci: the OCI runtime command line, as engines call it, on bundles of our own."""
import array
import concurrent.futures
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from conftest import USER, build_directory, make_home
from kept_sandbox import gone

if os.geteuid() != 0:
    pytest.skip("engines' runtimes are tried as root", allow_module_level=True)
BUSYBOX = shutil.which("busybox")
if BUSYBOX is None:
    pytest.skip("needs busybox", allow_module_level=True)


class Oci:
    def __init__(self, program, home):
        self.program, self.home, self.root = program, home, home / "root"
        self.names = []
        self.count = 0

    def argv(self, *words):
        return [str(self.program), "--root", str(self.root), *map(str, words)]

    def call(self, *words, **more):
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(self.argv(*words), timeout=60, check=False, **more)

    def ok(self, *words, **more):
        done = self.call(*words, **more)
        assert done.returncode == 0, done.stderr
        return done

    def bundle(self, *args, **changes):
        """A bundle from `spec`, with changes by the path of the field: process__cwd="/tmp"."""
        self.count += 1
        folder = self.home / f"bundle{self.count}"
        (folder / "rootfs").mkdir(parents=True)
        for name in ("bin", "dev", "proc", "sys", "etc", "tmp", "root"):
            (folder / "rootfs" / name).mkdir()
        shutil.copy(BUSYBOX, folder / "rootfs/bin/busybox")
        for name in ("sh", "cat", "echo", "sleep", "id", "ls", "mount", "env", "pwd", "tty", "touch", "hostname", "true"):
            os.symlink("busybox", folder / "rootfs/bin" / name)
        (folder / "rootfs/etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
        self.ok("spec", "--bundle", folder)
        config = json.loads((folder / "config.json").read_text())
        config["process"]["terminal"] = False
        config["process"]["args"] = list(args)
        for path, value in changes.items():
            at, *rest = path.split("__")
            place = config
            for name in rest:
                place, at = place.setdefault(at, {}), name
            place[at] = value
        (folder / "config.json").write_text(json.dumps(config))
        return folder

    def name(self):
        name = f"c{os.getpid()}-{len(self.names)}"
        self.names.append(name)
        return name

    def run(self, *args, **changes):
        return self.call("run", "--bundle", self.bundle(*args, **changes), self.name())

    def create(self, *args, **changes):
        name = self.name()
        self.ok("create", "--bundle", self.bundle(*args, **changes), name,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) # the container has them, not a pipe of ours
        return name

    def start(self, *args, **changes):
        name = self.create(*args, **changes)
        self.ok("start", name)
        return name

    def state(self, name):
        return json.loads(self.ok("state", name).stdout)

    def groups(self, name):
        """The container's, in whichever hierarchy, where nothing was asked for."""
        top = pathlib.Path("/sys/fs/cgroup")
        return [place for place in (top / "pinfold-oci" / name, *(one / "pinfold-oci" / name for one in top.iterdir())) if place.exists()]

    def wait(self, name, status="stopped"):
        deadline = time.monotonic() + 60
        while self.state(name)["status"] != status:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def oci(programs, tmp_path):
    program = programs / "pinfold-oci"
    if not program.exists():
        pytest.fail("pinfold-oci isn't built")
    runtime = Oci(program, tmp_path)
    yield runtime
    for name in runtime.names:
        runtime.call("delete", "--force", name)
    assert not runtime.root.exists() or list(runtime.root.iterdir()) == []


def test_an_ordinary_user_s_container_takes_second_commands(oci, tmp_path):
    """Without subordinate ids: no groups can be set there, and what joins is hidden from its own user."""
    oci.root = make_home(tmp_path) / "root"
    os.chown(oci.root.parent, USER, USER)
    own = [{"containerID": 0, "hostID": USER, "size": 1}]
    folder = oci.bundle("sleep", "100", linux__uidMappings=own, linux__gidMappings=own, process__oomScoreAdj=300,
                        linux__namespaces=[{"type": kind} for kind in ("user", "pid", "mount", "ipc", "uts", "network")],
                        mounts=[{"destination": "/proc", "type": "proc", "source": "proc"},
                                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"}])
    shutil.chown(folder / "rootfs", USER, USER)
    identity, name = {"user": USER, "group": USER, "extra_groups": []}, oci.name()
    with open(tmp_path / "said", "wb") as said:
        started = oci.call("run", "--detach", "--bundle", folder, name, **identity, stdout=said, stderr=said)
    assert started.returncode == 0, (tmp_path / "said").read_bytes()
    assert oci.ok("exec", name, "cat", "/proc/self/oom_score_adj", **identity).stdout == b"300\n"
    process = json.loads((folder / "config.json").read_text())["process"]
    process.update(args=["sh", "-c", "id -u; cat /proc/self/oom_score_adj"], oomScoreAdj=400)
    (folder / "process.json").write_text(json.dumps(process))
    assert oci.ok("exec", "--process", folder / "process.json", name, **identity).stdout == b"0\n400\n"
    oci.ok("delete", "--force", name, **identity)
    oci.names.remove(name)


def test_output_and_exit_code_of_run_are_the_process_s(oci):
    done = oci.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_created_container_waits_for_its_start(oci):
    name = oci.create("sh", "-c", "echo started > /tmp/x; sleep 60", root__readonly=False)
    state = oci.state(name)
    assert state["status"] == "created" and state["pid"] > 0 and state["id"] == name
    assert not (oci.home / "bundle1/rootfs/tmp/x").exists()
    oci.ok("start", name)
    assert oci.state(name)["status"] == "running"
    assert b"already running" in oci.call("start", name).stderr


def test_delete_takes_created_and_stopped_ones_and_running_ones_by_force_alone(oci):
    oci.ok("delete", oci.create("sleep", "60"))
    name = oci.start("sleep", "60")
    refused = oci.call("delete", name)
    assert refused.returncode != 0
    assert f"cannot delete container {name} that is not stopped: running".encode() in refused.stderr
    oci.ok("kill", name, "KILL")
    oci.wait(name)
    oci.ok("delete", name)
    assert b"does not exist" in oci.call("delete", name).stderr
    assert b"does not exist" in oci.call("state", name).stderr
    oci.ok("delete", "--force", name)


def test_an_id_can_be_taken_once(oci):
    name = oci.create("sleep", "60")
    again = oci.call("create", "--bundle", oci.bundle("true"), name)
    assert again.returncode != 0 and b"container with given ID already exists" in again.stderr


@pytest.mark.parametrize("command, words", [
    (["nosuch"], b"executable file not found in $PATH"), (["/no/such"], b"no such file or directory"),
    (["/etc/passwd"], b"permission denied"), (["/etc"], b"permission denied")])
def test_what_can_not_be_executed_fails_at_create_in_the_words_that_engines_match(oci, tmp_path, command, words):
    log = tmp_path / "log"
    done = oci.call("--log", log, "--log-format=json", "create", "--bundle", oci.bundle(*command), oci.name())
    assert done.returncode != 0 and words in done.stderr
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["level"] == "error" and words.decode() in last["msg"] and last["time"]


def test_kill_takes_numbers_and_names_and_says_when_nothing_runs(oci):
    name = oci.start("sh", "-c", "trap 'exit 3' USR1; while :; do sleep 0.05; done")
    oci.ok("kill", name, "0")
    oci.ok("kill", name, "sigusr1")
    oci.wait(name)
    assert b"not running" in oci.call("kill", name, "9").stderr


def test_kill_all_reaches_processes_without_a_pid_namespace(oci):
    namespaces = [{"type": kind} for kind in ("mount", "ipc", "uts", "network")]
    name = oci.start("sh", "-c", "sleep 61 & sleep 62", linux__namespaces=namespaces)
    deadline = time.monotonic() + 60
    while len(pids := json.loads(oci.ok("ps", "--format", "json", name).stdout)) < 2:
        assert time.monotonic() < deadline
    oci.ok("kill", "--all", name, "KILL")
    oci.wait(name)
    while not all(gone(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_exec_runs_in_the_container_with_what_its_process_asks(oci, tmp_path):
    name = oci.start("sleep", "60")
    assert oci.ok("exec", name, "id", "-u").stdout == b"0\n"
    assert oci.call("exec", name, "sh", "-c", "exit 5").returncode == 5
    assert oci.ok("exec", "--user", "1000:1000", "--cwd", "/tmp", "-e", "A=b", name, "sh", "-c",
                  "id -u; pwd; echo $A $HOME").stdout == b"1000\n/tmp\nb /home/user\n"
    process = tmp_path / "process.json"
    process.write_text(json.dumps({"args": ["sh", "-c", "id -g; echo $X"], "cwd": "/", "env": ["PATH=/bin", "X=y"],
                                   "user": {"uid": 5, "gid": 6}}))
    assert oci.ok("exec", "--process", process, name).stdout == b"6\ny\n"
    pid_file = tmp_path / "pid"
    oci.ok("exec", "--detach", "--pid-file", pid_file, name, "sleep", "50", stdout=subprocess.DEVNULL,
           stderr=subprocess.DEVNULL)
    assert int(pid_file.read_text()) in json.loads(oci.ok("ps", "--format", "json", name).stdout)
    assert b"executable file not found in $PATH" in oci.call("exec", name, "nosuch").stderr


def test_pause_stops_and_resume_goes_on(oci):
    name = oci.start("sleep", "60")
    oci.ok("pause", name)
    assert oci.state(name)["status"] == "paused"
    assert b"cannot exec in a paused container" in oci.call("exec", name, "true").stderr
    oci.ok("resume", name)
    assert oci.state(name)["status"] == "running"


def test_a_pid_file_that_can_not_be_written_leaves_nothing(oci, tmp_path):
    (tmp_path / "folder").mkdir()
    done = oci.call("create", "--bundle", oci.bundle("true"), "--pid-file", tmp_path / "folder", oci.name(), stdout=subprocess.DEVNULL)
    assert done.returncode == 1 and b"pid file" in done.stderr
    assert list(tmp_path.glob("folder*")) == [tmp_path / "folder"] and list((tmp_path / "folder").iterdir()) == []


def test_a_created_one_that_is_stopped_holds_nobody_up(oci):
    """It takes no more of those who ask whether it waits than its queue has room for."""
    name = oci.create("sleep", "100")
    oci.ok("kill", name, "STOP")
    for _ in range(20):
        assert oci.state(name)["status"] == "created"


@pytest.mark.parametrize("words", [("kill", "NAME", "KILL"), ("delete", "--force", "NAME")], ids=["kill", "delete"])
def test_a_start_that_waits_keeps_nobody_from_ending_the_container(oci, words):
    name = oci.create("sleep", "100")
    oci.ok("kill", name, "STOP")
    waiting = subprocess.Popen(oci.argv("start", name), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    held = os.open(oci.root / name, os.O_RDONLY)
    try:
        deadline = time.monotonic() + 60
        while not is_locked(held):
            assert time.monotonic() < deadline and waiting.poll() is None
            time.sleep(0.01)
        oci.ok(*(name if word == "NAME" else word for word in words))
        waiting.wait(60) # it has started what ended at once, or not at all
    finally:
        os.close(held)
        waiting.kill()
        waiting.communicate()


def is_locked(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


@pytest.mark.parametrize("words", [(), ("--all",)], ids=["its process", "all"])
def test_a_kill_ends_a_paused_container(oci, words):
    name = oci.start("sleep", "100")
    oci.ok("pause", name)
    oci.ok("kill", name, "TERM")
    assert oci.state(name)["status"] == "paused" # what can be handled waits
    oci.ok("kill", *words, name, "KILL")
    oci.wait(name)


def test_a_created_one_can_be_paused_and_holds_nobody_up(oci):
    """Whoever waited for an answer of a frozen process held the container's lock, and with it `resume` and `delete`."""
    name = oci.create("sleep", "60")
    oci.ok("pause", name)
    assert oci.state(name)["status"] == "paused"
    assert b"cannot start a paused container" in oci.call("start", name).stderr
    assert b"cannot exec in a paused container" in oci.call("exec", name, "true").stderr
    waiting = subprocess.Popen(oci.argv("exec", "--ignore-paused", name, "echo", "late"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    time.sleep(0.3)
    oci.ok("resume", name)
    assert waiting.communicate(timeout=60)[0] == b"late\n" and oci.state(name)["status"] == "created"
    oci.ok("pause", name)
    before = time.monotonic()
    oci.ok("delete", "--force", name)
    assert time.monotonic() - before < 9 # it isn't waited for a frozen process to die


def take_terminal(oci, tmp_path, *words):
    path = str(tmp_path / "console")
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)
    server.settimeout(60)
    oci.ok(*words[:1], "--console-socket", path, *words[1:])
    connection, _ = server.accept()
    fds = array.array("i")
    _, ancillary, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(4))
    fds.frombytes(ancillary[0][2])
    server.close()
    os.unlink(path)
    return fds[0]


def read_until(fd, words):
    text = b""
    while words not in text:
        text += os.read(fd, 4096)
    os.close(fd)
    return text


def test_the_terminal_goes_to_the_console_socket(oci, tmp_path):
    name = oci.name()
    bundle = oci.bundle("sh", "-c", "tty; ls -l /dev/console; echo ready; sleep 60", process__terminal=True)
    master = take_terminal(oci, tmp_path, "create", "--bundle", bundle, name)
    oci.ok("start", name)
    assert b"/dev/pts/0" in read_until(master, b"ready")
    second = take_terminal(oci, tmp_path, "exec", "--tty", "--detach", name, "sh", "-c", "tty; echo ready")
    assert b"/dev/pts/" in read_until(second, b"ready")
    assert b"console socket" in oci.call("create", "--bundle", bundle, oci.name()).stderr


def test_a_console_socket_whose_peer_takes_nobody_is_a_failure(oci, tmp_path):
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        path = tmp_path / "s"
        listening.bind(str(path))
        listening.listen(0)
        first.connect(str(path)) # there is room for no other
        done = oci.call("create", "--bundle", oci.bundle("true", process__terminal=True), "--console-socket", path, oci.name())
        assert done.returncode == 1 and b"console socket" in done.stderr, done.stderr


@pytest.mark.parametrize("field", ["hostname", "domainname"])
def test_a_container_that_shares_the_host_s_names_leaves_them_as_they_are(oci, field):
    """Engines write "" for none: in the host's UTS namespace that must set nothing, and a name is refused there."""
    shared = [{"type": kind} for kind in ("pid", "mount", "ipc", "network")]
    before = os.uname().nodename, open("/proc/sys/kernel/domainname", encoding="ascii").read()
    assert oci.call("run", "--bundle", oci.bundle("true", linux__namespaces=shared, **{"hostname": "", field: ""}), oci.name()).returncode == 0
    assert (os.uname().nodename, open("/proc/sys/kernel/domainname", encoding="ascii").read()) == before
    refused = oci.call("run", "--bundle", oci.bundle("true", linux__namespaces=shared, **{"hostname": "", field: "mine"}), oci.name())
    assert refused.returncode != 0 and f"unable to set {field} without a private UTS namespace".encode() in refused.stderr


def test_hooks_of_all_stages_run_in_their_order_with_the_state(oci, tmp_path):
    out = tmp_path / "hooks"
    script = tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ncat >> {out}\necho \" $1\" >> {out}\n")
    script.chmod(0o755)
    outside = lambda stage: [{"path": str(script), "args": ["hook", stage]}]
    inside = [{"path": "/bin/sh", "args": ["sh", "-c", "cat > /tmp/inside"]}]
    name = oci.start("sleep", "60", root__readonly=False, annotations={"a": "b"}, hooks={
        "prestart": outside("prestart"), "createRuntime": outside("createRuntime"), "startContainer": inside,
        "createContainer": outside("createContainer"), "poststart": outside("poststart"),
        "poststop": outside("poststop")})
    pid = oci.state(name)["pid"]
    oci.ok("delete", "--force", name)
    lines = out.read_text().splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines] == ["prestart", "createRuntime", "createContainer", "poststart",
                                                           "poststop"]
    first = json.loads(lines[0].rsplit(" ", 1)[0])
    assert first["id"] == name and first["pid"] == pid and first["annotations"] == {"a": "b"}
    assert json.loads((oci.home / "bundle1/rootfs/tmp/inside").read_text())["id"] == name


def test_a_failing_hook_fails_the_create_and_leaves_nothing(oci):
    bundle = oci.bundle("true", hooks={"createRuntime": [{"path": "/bin/false"}]})
    done = oci.call("create", "--bundle", bundle, oci.name())
    assert done.returncode != 0 and b"createRuntime hook #0" in done.stderr
    assert list(oci.root.iterdir()) == []


FIELDS = [
    ({"process__user": {"uid": 1000, "gid": 1001, "additionalGids": [7]}}, "id", b"uid=1000(user) gid=1001 groups=7"),
    ({"process__user": {"uid": 0, "gid": 0, "umask": 0o077}}, "umask", b"0077"),
    ({"process__cwd": "/made/here", "root__readonly": False}, "pwd", b"/made/here"),
    ({"process__noNewPrivileges": False}, "cat /proc/self/status", b"NoNewPrivs:\t0"),
    ({"process__oomScoreAdj": 500}, "cat /proc/self/oom_score_adj", b"500"),
    ({"process__rlimits": [{"type": "RLIMIT_NOFILE", "soft": 50, "hard": 60}]}, "ulimit -n; ulimit -Hn", b"50\n60"),
    ({"process__capabilities": {"bounding": ["CAP_KILL"], "permitted": ["CAP_KILL"], "inheritable": ["CAP_KILL"],
                                "effective": ["CAP_KILL"], "ambient": ["CAP_KILL"]}},
     "cat /proc/self/status", b"CapAmb:\t0000000000000020"),
    ({"process__ioPriority": {"class": "IOPRIO_CLASS_IDLE", "priority": 0}}, "ionice -p $$ || busybox ionice -p $$", b"idle"),
    ({"process__scheduler": {"policy": "SCHED_BATCH", "nice": 5}}, "cat /proc/self/stat", b" 25 5 "),
    ({"hostname": "somewhere"}, "hostname", b"somewhere"),
    ({"domainname": "example"}, "cat /proc/sys/kernel/domainname", b"example"),
    ({"linux__sysctl": {"kernel.msgmax": "4096"}}, "cat /proc/sys/kernel/msgmax", b"4096"),
    ({"linux__personality": {"domain": "LINUX32"}}, "busybox uname -m", b"i686"),
    ({"linux__maskedPaths": ["/proc/cpuinfo"]}, "cat /proc/cpuinfo; echo end", b"end"),
    ({"linux__readonlyPaths": ["/tmp"], "root__readonly": False}, "touch /tmp/x || echo refused", b"refused"),
    ({"root__readonly": True}, "touch /x || echo refused", b"refused"),
    ({"linux__devices": [{"path": "/dev/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 3, "gid": 4}]},
     "ls -ln /dev/mine", b"crw-r-----    1 3        4           1,   5"),
    ({"linux__rootfsPropagation": "rslave"}, "cat /proc/self/mountinfo", b" / ro,"),
    ({"linux__resources": {"memory": {"limit": 33554432}}}, "busybox grep -H . /proc/self/cgroup", b"memory"),
    ({"linux__namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "time", "cgroup")],
      "linux__timeOffsets": {"boottime": {"secs": 864000, "nanosecs": 0}}}, "cat /proc/uptime", b"8"),
    ({"linux__namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user")],
      "linux__uidMappings": [{"containerID": 0, "hostID": 300000, "size": 65536}],
      "linux__gidMappings": [{"containerID": 0, "hostID": 300000, "size": 65536}]}, "cat /proc/self/uid_map; id -u",
     b"300000"),
    ({"linux__seccomp": {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
        {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}}, "busybox mkdir /tmp/q", b"not implemented"),
]


@pytest.mark.parametrize("changes, script, words", FIELDS, ids=[next(iter(field[0])) for field in FIELDS])
def test_a_field_of_config_json_is_carried_out(oci, changes, script, words):
    done = oci.run("sh", "-c", script, **changes)
    assert words in b" ".join((done.stdout + done.stderr).split(b"  ")) or words in done.stdout + done.stderr, done


REFUSED = [
    ({"linux__sysctl": {"kernel.panic": "1"}}, b"/linux/sysctl"),
    ({"process__apparmorProfile": "some-profile"}, b"apparmor"),
    ({"process__selinuxLabel": "a:b:c:d"}, b"selinux"),
    ({"linux__rootfsPropagation": "sideways"}, b"/linux/rootfsPropagation"),
    ({"linux__personality": {"domain": "SOLARIS"}}, b"ersonality"),
    ({"process__cwd": "relative"}, b"cwd"),
    ({"process__args": []}, b"args"),
    ({"process__scheduler": {"policy": "SCHED_SOMETIMES"}}, b"/process/scheduler"),
    ({"linux__uidMappings": [{"containerID": 0, "hostID": 1, "size": 1}]}, b"/linux/uidMappings"),
    ({"linux__timeOffsets": {"boottime": {"secs": 1, "nanosecs": 0}}}, b"/linux/timeOffsets"),
    ({"linux__nosuchfield": 1}, b"nosuchfield"),
    ({"annotations": {"io.pinfold.egress": '[{"host": "example.com", "ports": [443]}]'}}, b"io.pinfold.egress"),
    ({"annotations": {"io.pinfold.policy": "no-such-policy"}}, b"no-such-policy"),
]


@pytest.mark.parametrize("changes, words", REFUSED, ids=[next(iter(field[0])) for field in REFUSED])
def test_what_can_not_be_carried_out_is_refused_by_name(oci, changes, words):
    done = oci.call("create", "--bundle", oci.bundle("true", **changes), oci.name())
    assert done.returncode != 0 and words in done.stderr, done.stderr
    assert not oci.root.exists() or list(oci.root.iterdir()) == []


def test_mount_options_reach_the_mounts(oci, tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown/file").write_text("here")
    folder = oci.bundle("sh", "-c", "cat /shown/file; touch /shown/x || echo ro; cat /up/passwd; mount", root__readonly=False)
    config = json.loads((folder / "config.json").read_text())
    config["mounts"] += [
        {"destination": "/shown", "type": "bind", "source": str(tmp_path / "shown"), "options": ["rbind", "ro", "nosuid"]},
        {"destination": "/etc", "type": "tmpfs", "source": "etc", "options": ["tmpcopyup", "size=1m"]},
        {"destination": "/up", "type": "bind", "source": str(folder / "rootfs/etc"), "options": ["bind", "rslave"]}]
    (folder / "config.json").write_text(json.dumps(config))
    done = oci.call("run", "--bundle", folder, oci.name())
    assert b"here" in done.stdout and b"ro\n" in done.stdout and b"root:x" in done.stdout, done
    assert b"/shown type" in done.stdout and b"etc on /etc type tmpfs" in done.stdout


def test_no_descriptor_and_no_variable_of_the_caller_s_reaches_the_container(oci):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    done = oci.call("run", "--bundle", oci.bundle("sh", "-c", "ls /proc/self/fd; env"), oci.name(), pass_fds=[write],
                    env={**os.environ, "SECRET": "x"})
    os.close(read), os.close(write)
    assert done.stdout.split()[:4] == [b"0", b"1", b"2", b"3"] and b"SECRET" not in done.stdout


def test_descriptors_that_are_to_be_kept_are_kept(oci):
    read, write = os.pipe()
    os.write(write, b"kept")
    os.close(write)
    argv = oci.argv("run", "--preserve-fds", "1", "--bundle", oci.bundle("sh", "-c", "cat <&3"), oci.name())
    done = subprocess.run(["bash", "-c", f'exec 3<&{read}; exec "$@"', "bash", *argv], pass_fds=[read], capture_output=True,
                          check=False, timeout=60)
    os.close(read)
    assert done.stdout == b"kept", done.stderr


def test_update_changes_limits_of_a_running_one(oci):
    name = oci.start("sleep", "60")
    oci.ok("update", "--resources", "-", name, input=b'{"pids": {"limit": 33}}')
    oci.ok("update", "--pids-limit", "34", name)
    figures = json.loads(oci.ok("events", "--stats", name).stdout)
    assert figures["type"] == "stats" and figures["id"] == name and figures["data"]["pids"]["current"] == 1


def test_of_many_starts_one_wins(oci):
    for _ in range(10):
        name = oci.create("sleep", "60")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            codes = list(pool.map(lambda _, n=name: oci.call("start", n).returncode, range(4)))
        assert sorted(codes) == [0, 1, 1, 1]
        oci.ok("delete", "--force", name)


def test_kill_and_delete_at_once_leave_nothing(oci):
    for _ in range(10):
        name = oci.start("sleep", "60")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda verb, n=name: oci.call(*verb, n), [["kill"], ["delete", "--force"], ["kill"],
                                                                    ["delete", "--force"]]))
        assert b"does not exist" in oci.call("state", name).stderr


@pytest.mark.parametrize("delay_ms", [1, 2, 4, 8, 16, 32])
def test_a_create_that_is_killed_half_way_leaves_what_delete_can_clear(oci, delay_ms):
    name = oci.name()
    bundle = oci.bundle("sleep", "60")
    with subprocess.Popen(oci.argv("create", "--bundle", bundle, name), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as creator:
        time.sleep(delay_ms / 1000)
        creator.send_signal(signal.SIGKILL)
    oci.ok("delete", "--force", name)


def test_the_runtime_s_own_file_can_not_be_written_from_inside(oci):
    """CVE-2019-5736: the program of the container is a script whose interpreter is the runtime itself."""
    folder = oci.bundle("/evil", root__readonly=False)
    evil = folder / "rootfs/evil"
    evil.write_text("#!/proc/self/exe\n")
    evil.chmod(0o755)
    before = oci.program.read_bytes()
    oci.call("run", "--bundle", folder, oci.name())
    name = oci.start("sh", "-c", "while :; do for p in /proc/[0-9]*/exe; do (: >> $p) 2>/dev/null && echo wrote $p > /tmp/out; done; done",
                     root__readonly=False)
    for _ in range(20):
        oci.call("exec", name, "true")
    assert oci.program.read_bytes() == before


def test_version_features_and_what_is_not_offered(oci):
    lines = oci.ok("--version").stdout.decode().splitlines()
    assert lines[0].startswith("pinfold-oci version ") and lines[1].startswith("commit: ") and lines[2] == "spec: 1.2.0"
    features = json.loads(oci.ok("features").stdout)
    assert features["ociVersionMin"] == "1.0.0" and "rro" in features["mountOptions"]
    for words in (["checkpoint", "x"], ["checkpoint", "--image-path", "/tmp", "x"], ["restore", "-d", "--bundle", "/tmp", "x"]):
        done = oci.call(*words)
        assert done.returncode != 0 and b"not offered" in done.stderr
    assert oci.call("checkpoint", "--help").returncode != 0


def test_every_verb_has_a_page_and_a_completion(oci, tmp_path):
    listed = oci.ok("--help").stdout.decode().split("verbs:\n")[1].split("\n\n")[0]
    names = [line.split()[0] for line in listed.splitlines()]
    completion = oci.ok("completion").stdout.decode()
    oci.ok("pages", tmp_path)
    for name in names:
        assert f"['{name}']='--help" in completion
        page = oci.ok("man", name).stdout.decode()
        assert page.startswith(f".TH pinfold-oci-{name} 1\n") and ".SH EXIT STATUS" in page
        assert (tmp_path / f"pinfold-oci-{name}.1").read_text() == page
        assert name in ("checkpoint", "restore") or "example:" in oci.ok(name, "--help").stdout.decode()
    assert "\\-\\-policy" in (tmp_path / "pinfold-oci.1").read_text()
    done = subprocess.run(["bash", "-c", f"{completion}\nCOMP_WORDS=(pinfold-oci exec --pr) COMP_CWORD=2; _pinfold_oci; "
                           "echo ${COMPREPLY[@]}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--preserve-fds", "--process", "--process-label"]
    assert oci.call("man", "nosuch").returncode == 1 and oci.call("pages", "/nonexistent").returncode == 1


def test_an_ordinary_user_runs_what_spec_writes_for_it(oci):
    place = pathlib.Path(tempfile.mkdtemp(prefix="pinfold-spec-"))
    try:
        shutil.copy(oci.program, place / "pinfold-oci")
        shutil.copytree(oci.bundle("true") / "rootfs", place / "rootfs", symlinks=True)
        place.chmod(0o755)
        for path in [place, *place.rglob("*")]:
            os.lchown(path, USER, USER)
        mine = {"cwd": place, "user": USER, "group": USER, "extra_groups": [], "env": {"XDG_RUNTIME_DIR": str(place / "run")}, "capture_output": True}
        subprocess.run([place / "pinfold-oci", "spec", "--rootless"], check=True, **mine)
        config = json.loads((place / "config.json").read_text())
        assert config["linux"]["uidMappings"] == [{"containerID": 0, "hostID": USER, "size": 1}] and "resources" not in config["linux"]
        assert [space["type"] for space in config["linux"]["namespaces"] if space["type"] != "cgroup"] == ["pid", "ipc", "uts", "mount", "user"]
        config["process"] |= {"terminal": False, "args": ["/bin/sh", "-c", "id -u; ls -d /sys/kernel"]}
        (place / "config.json").write_text(json.dumps(config))
        done = subprocess.run([place / "pinfold-oci", "run", "mine"], check=False, **mine)
        assert done.stdout == b"0\n/sys/kernel\n", done.stderr
    finally:
        shutil.rmtree(place)


def kinds(value, place=""):
    """{place: type} of each leaf; what zeros leave out, and keys of the kernel's, aside."""
    if isinstance(value, dict) and not place.endswith("/raw"):
        return {key: kind for name, one in value.items() for key, kind in kinds(one, f"{place}/{name}").items()}
    return {} if any(part in place for part in ("blkio", "throttling", "cache", "hugetlb")) else {place: type(value).__name__}


def test_events_have_runc_s_keys_and_types(oci, tmp_path):
    runc = shutil.which("runc", path=f"{os.environ['PATH']}:/usr/sbin")
    if runc is None:
        pytest.skip("not installed: runc")
    if not os.path.exists("/sys/fs/cgroup/memory/cgroup.procs"):
        pytest.skip("runc's keys are read on cgroup version 1")
    ours, name = oci.start("sleep", "60", linux__resources={"pids": {"limit": 77}, "memory": {"limit": 64 << 20}}), f"runc{os.getpid()}"
    other = [runc, "--root", str(tmp_path / "runc")]
    config = json.loads((oci.home / "bundle1/config.json").read_text())
    config["process"].pop("rlimits", None)
    (oci.home / "bundle1/config.json").write_text(json.dumps({**config, "ociVersion": "1.0.2"}))
    made = subprocess.run([*other, "run", "-d", "--bundle", str(oci.home / "bundle1"), name], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if made.returncode != 0:
        pytest.skip("runc runs no container here")
    try:
        told = subprocess.run([*other, "events", "--stats", name], capture_output=True, check=True).stdout
        assert kinds(json.loads(told)) == kinds(json.loads(oci.ok("events", "--stats", ours).stdout))
    finally:
        subprocess.run([*other, "delete", "--force", name], check=False)


def test_systemd_s_manager_is_refused_clearly_where_systemd_does_not_run(oci):
    if os.path.exists("/run/systemd/system"):
        pytest.skip("systemd runs here: see test_oci_systemd.py")
    done = subprocess.run([str(oci.program), "--root", str(oci.root), "--systemd-cgroup", "run", "--bundle",
                           str(oci.bundle("true", linux__cgroupsPath="a.slice:b:c")), oci.name()], capture_output=True, check=False,
                          env={**os.environ, "PINFOLD_LIBEXEC": str(build_directory() / "tools/pinfold-scope")})
    assert done.returncode == 1 and b"systemd gives no scope" in done.stderr, done.stderr
