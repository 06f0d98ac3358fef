"""pinfold-oci: the verbs of the OCI runtime command line, as engines call them, and the life of a container."""
import concurrent.futures
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import USER, build_directory, make_home
from kept_sandbox import gone
from oci_world import oci  # noqa: F401 (fixture)


def test_an_ordinary_user_s_container_takes_second_commands(oci, tmp_path):  # noqa: F811
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


def test_output_and_exit_code_of_run_are_the_process_s(oci):  # noqa: F811
    done = oci.run("sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_a_created_container_waits_for_its_start(oci):  # noqa: F811
    name = oci.create("sh", "-c", "echo started > /tmp/x; sleep 60", root__readonly=False)
    state = oci.state(name)
    assert state["status"] == "created" and state["pid"] > 0 and state["id"] == name
    assert not (oci.home / "bundle1/rootfs/tmp/x").exists()
    oci.ok("start", name)
    assert oci.state(name)["status"] == "running"
    assert b"already running" in oci.call("start", name).stderr


def test_delete_takes_created_and_stopped_ones_and_running_ones_by_force_alone(oci):  # noqa: F811
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


def test_an_id_can_be_taken_once(oci):  # noqa: F811
    name = oci.create("sleep", "60")
    again = oci.call("create", "--bundle", oci.bundle("true"), name)
    assert again.returncode != 0 and b"container with given ID already exists" in again.stderr


@pytest.mark.parametrize("command, words", [
    (["nosuch"], b"executable file not found in $PATH"), (["/no/such"], b"no such file or directory"),
    (["/etc/passwd"], b"permission denied"), (["/etc"], b"permission denied")])
def test_what_can_not_be_executed_fails_at_create_in_the_words_that_engines_match(oci, tmp_path, command, words):  # noqa: F811
    log = tmp_path / "log"
    done = oci.call("--log", log, "--log-format=json", "create", "--bundle", oci.bundle(*command), oci.name())
    assert done.returncode != 0 and words in done.stderr
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["level"] == "error" and words.decode() in last["msg"] and last["time"]


def test_kill_takes_numbers_and_names_and_says_when_nothing_runs(oci):  # noqa: F811
    name = oci.start("sh", "-c", "trap 'exit 3' USR1; while :; do sleep 0.05; done")
    oci.ok("kill", name, "0")
    oci.ok("kill", name, "sigusr1")
    oci.wait(name)
    assert b"not running" in oci.call("kill", name, "9").stderr


def test_kill_all_reaches_processes_without_a_pid_namespace(oci):  # noqa: F811
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


def test_exec_runs_in_the_container_with_what_its_process_asks(oci, tmp_path):  # noqa: F811
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


def test_pause_stops_and_resume_goes_on(oci):  # noqa: F811
    name = oci.start("sleep", "60")
    oci.ok("pause", name)
    assert oci.state(name)["status"] == "paused"
    assert b"cannot exec in a paused container" in oci.call("exec", name, "true").stderr
    oci.ok("resume", name)
    assert oci.state(name)["status"] == "running"


def test_a_pid_file_that_can_not_be_written_leaves_nothing(oci, tmp_path):  # noqa: F811
    (tmp_path / "folder").mkdir()
    done = oci.call("create", "--bundle", oci.bundle("true"), "--pid-file", tmp_path / "folder", oci.name(), stdout=subprocess.DEVNULL)
    assert done.returncode == 1 and b"pid file" in done.stderr
    assert list(tmp_path.glob("folder*")) == [tmp_path / "folder"] and list((tmp_path / "folder").iterdir()) == []


def test_ps_hands_what_follows_the_name_to_ps_itself(oci):  # noqa: F811
    if shutil.which("ps") is None:
        pytest.skip("not installed: ps")
    name = oci.start("sleep", "100")
    pid = str(oci.state(name)["pid"])
    plain, short = (oci.ok("ps", name, *words).stdout.decode().splitlines() for words in ([], ["-e", "-o", "pid,comm"]))
    assert len(plain) == 2 and plain[1].split()[1] == pid and [line.split() for line in short] == [["PID", "COMMAND"], [pid, "sleep"]]
    assert b"PID field" in oci.call("ps", name, "-eo", "comm").stderr and oci.call("ps", name, "--nosuch").returncode == 1


def test_a_warning_is_not_lost_with_a_log_that_can_not_be_written(oci, tmp_path):  # noqa: F811
    done = oci.call("--log", tmp_path / "nosuch/log", "run", "--bundle", oci.bundle("true", process__capabilities={"bounding": ["CAP_NOSUCH"]}), oci.name())
    assert done.returncode == 0 and b"CAP_NOSUCH" in done.stderr, done.stderr


def test_a_created_one_that_is_stopped_holds_nobody_up(oci):  # noqa: F811
    """It takes no more of those who ask whether it waits than its queue has room for."""
    name = oci.create("sleep", "100")
    oci.ok("kill", name, "STOP")
    for _ in range(20):
        assert oci.state(name)["status"] == "created"


@pytest.mark.parametrize("words", [("kill", "NAME", "KILL"), ("delete", "--force", "NAME")], ids=["kill", "delete"])
def test_a_start_that_waits_keeps_nobody_from_ending_the_container(oci, words):  # noqa: F811
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
def test_a_kill_ends_a_paused_container(oci, words):  # noqa: F811
    name = oci.start("sleep", "100")
    oci.ok("pause", name)
    oci.ok("kill", name, "TERM")
    assert oci.state(name)["status"] == "paused" # what can be handled waits
    oci.ok("kill", *words, name, "KILL")
    oci.wait(name)


def test_a_created_one_can_be_paused_and_holds_nobody_up(oci):  # noqa: F811
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


def test_update_changes_limits_of_a_running_one(oci):  # noqa: F811
    name = oci.start("sleep", "60")
    oci.ok("update", "--resources", "-", name, input=b'{"pids": {"limit": 33}}')
    oci.ok("update", "--pids-limit", "34", name)
    figures = json.loads(oci.ok("events", "--stats", name).stdout)
    assert figures["type"] == "stats" and figures["id"] == name and figures["data"]["pids"]["current"] == 1


def test_of_many_starts_one_wins(oci):  # noqa: F811
    for _ in range(10):
        name = oci.create("sleep", "60")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            codes = list(pool.map(lambda _, n=name: oci.call("start", n).returncode, range(4)))
        assert sorted(codes) == [0, 1, 1, 1]
        oci.ok("delete", "--force", name)


def test_kill_and_delete_at_once_leave_nothing(oci):  # noqa: F811
    for _ in range(10):
        name = oci.start("sleep", "60")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda verb, n=name: oci.call(*verb, n), [["kill"], ["delete", "--force"], ["kill"],
                                                                    ["delete", "--force"]]))
        assert b"does not exist" in oci.call("state", name).stderr


@pytest.mark.parametrize("delay_ms", [1, 2, 4, 8, 16, 32])
def test_a_create_that_is_killed_half_way_leaves_what_delete_can_clear(oci, delay_ms):  # noqa: F811
    name = oci.name()
    bundle = oci.bundle("sleep", "60")
    with subprocess.Popen(oci.argv("create", "--bundle", bundle, name), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as creator:
        time.sleep(delay_ms / 1000)
        creator.send_signal(signal.SIGKILL)
    oci.ok("delete", "--force", name)


def test_version_features_and_what_is_not_offered(oci):  # noqa: F811
    lines = oci.ok("--version").stdout.decode().splitlines()
    assert lines[0].startswith("pinfold-oci version ") and lines[1].startswith("commit: ") and lines[2] == "spec: 1.2.0"
    features = json.loads(oci.ok("features").stdout)
    assert features["ociVersionMin"] == "1.0.0" and "rro" in features["mountOptions"]
    for words in (["checkpoint", "x"], ["checkpoint", "--image-path", "/tmp", "x"], ["restore", "-d", "--bundle", "/tmp", "x"]):
        done = oci.call(*words)
        assert done.returncode != 0 and b"not offered" in done.stderr
    assert oci.call("checkpoint", "--help").returncode != 0


def test_every_verb_has_a_page_and_a_completion(oci, tmp_path):  # noqa: F811
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


def test_an_ordinary_user_runs_what_spec_writes_for_it(oci):  # noqa: F811
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


def test_events_have_runc_s_keys_and_types(oci, tmp_path):  # noqa: F811
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


def test_systemd_s_manager_is_refused_clearly_where_systemd_does_not_run(oci):  # noqa: F811
    if os.path.exists("/run/systemd/system"):
        pytest.skip("systemd runs here: see test_oci_systemd.py")
    done = subprocess.run([str(oci.program), "--root", str(oci.root), "--systemd-cgroup", "run", "--bundle",
                           str(oci.bundle("true", linux__cgroupsPath="a.slice:b:c")), oci.name()], capture_output=True, check=False,
                          env={**os.environ, "PINFOLD_LIBEXEC": str(build_directory() / "tools/pinfold-scope")})
    assert done.returncode == 1 and b"systemd gives no scope" in done.stderr, done.stderr
