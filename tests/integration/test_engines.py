"""Container engines from Debian's packages, with pinfold-oci in the runtime's place.

Each engine gets a store, a state and a socket of its own. What isn't installed is skipped by name.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

import pytest

from egress_world import internet, world  # noqa: F401 (fixtures)

if os.geteuid() != 0:
    pytest.skip("engines are tried as root", allow_module_level=True)
BUSYBOX = shutil.which("busybox")
if BUSYBOX is None:
    pytest.skip("needs busybox", allow_module_level=True)


def runtime_of(programs):
    """PINFOLD_ENGINE_RUNTIME puts another runtime in pinfold-oci's place, to compare with."""
    return os.environ.get("PINFOLD_ENGINE_RUNTIME", str(programs / "pinfold-oci"))


def needs(*names):
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def call(argv, **more):
    return subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=90, check=False, **more)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """A root file system of busybox alone, as a tar."""
    folder = tmp_path_factory.mktemp("image")
    for name in ("bin", "etc", "tmp", "root", "proc", "sys", "dev"):
        (folder / "rootfs" / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, folder / "rootfs/bin/busybox")
    for name in ("sh", "cat", "echo", "sleep", "id", "ls", "grep", "env", "pwd", "tty", "touch", "hostname", "true", "ps", "ip", "nslookup", "sed", "tail", "nc", "printf", "chown", "head"):
        os.symlink("busybox", folder / "rootfs/bin" / name)
    (folder / "rootfs/etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n")
    with tarfile.open(folder / "bb.tar", "w") as tar:
        tar.add(folder / "rootfs", ".")
    return folder / "bb.tar"


def wait_for(path, process):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, "the daemon doesn't come up"
        time.sleep(0.05)


# podman

@pytest.fixture(scope="module")
def podman(programs, image, tmp_path_factory):
    needs("podman", "conmon")
    home = tmp_path_factory.mktemp("podman")
    (home / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{home}/graph"\nrunroot = "{home}/run"\n')
    (home / "containers.conf").write_text(
        '[containers]\nnetns="host"\ncgroupns="host"\ndefault_ulimits=["nofile=4096:4096","nproc=4096:4096"]\n'
        f'[engine]\ncgroup_manager="cgroupfs"\nevents_logger="file"\ntmp_dir="{home}/tmp"\n'
        'runtime_supports_json=["pinfold-oci"]\nruntime_supports_nocgroup=["pinfold-oci"]\n[network]\nnetwork_backend="cni"\n')
    env = {**os.environ, "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
           "CONTAINERS_CONF": str(home / "containers.conf")}

    def run(*words, before=(), **more):
        return call([*before, "podman", "--runtime", runtime_of(programs), *words], env=env, cwd=home, **more) # conmon leaves "oom" there
    done = run("import", image, "localhost/bb")
    if done.returncode != 0:
        pytest.skip(f"podman can't import an image here: {done.stderr.strip()[-200:]}")
    run.tar, run.home, run.env = image, home, env
    yield run
    run("rm", "--all", "--force", "--time", "0")


PODMAN = [
    (["echo", "hi"], [], "hi"), (["id"], ["--user", "1000:1000"], "uid=1000"),
    (["id"], ["--user", "1000", "--group-add", "1234"], "1234"), (["pwd"], ["-w", "/tmp"], "/tmp"),
    (["env"], ["-e", "A=b"], "A=b"), (["hostname"], ["--hostname", "here"], "here"),
    (["tty"], ["-t"], "/dev/pts/0"), (["touch", "/x"], ["--read-only"], "Read-only"),
    (["cat", "/sys/fs/cgroup/pids/pids.max"], ["--pids-limit", "20"], "20"),
    (["grep", "CapEff", "/proc/self/status"], ["--cap-drop", "ALL"], "0000000000000000"),
    (["grep", "NoNew", "/proc/self/status"], ["--security-opt", "no-new-privileges"], "1"),
    (["grep", "Seccomp:", "/proc/self/status"], [], "2"), (["sh", "-c", "ulimit -n"], ["--ulimit", "nofile=100:100"], "100"),
    (["cat", "/proc/sys/kernel/msgmax"], ["--sysctl", "kernel.msgmax=4096"], "4096"),
    (["ip", "a"], ["--network", "none"], "lo"), (["cat", "/proc/self/uid_map"],
                                                 ["--uidmap", "0:100000:5000", "--gidmap", "0:100000:5000"], "100000"),
    (["sh", "-c", "umask"], ["--umask", "0077"], "0077"), (["ls", "/t"], ["--tmpfs", "/t:size=1m"], ""),
]


@pytest.mark.parametrize("command, options, words", PODMAN, ids=[" ".join(row[1] + row[0]) for row in PODMAN])
def test_podman_run(podman, command, options, words):
    done = podman("run", "--rm", *options, "localhost/bb", *command)
    assert words in done.stdout + done.stderr


@pytest.mark.parametrize("command, code", [(["sh", "-c", "exit 7"], 7), (["nosuch"], 127), (["/no/such"], 127),
                                           (["/etc/passwd"], 126), (["/etc"], 126)])
def test_podman_s_exit_codes(podman, command, code):
    assert podman("run", "--rm", "localhost/bb", *command).returncode == code


def test_podman_s_life_of_a_container(podman):
    assert podman("run", "-d", "--name", "life", "localhost/bb", "sleep", "100").returncode == 0
    assert podman("exec", "life", "echo", "in").stdout == "in\n"
    assert podman("exec", "life", "sh", "-c", "exit 9").returncode == 9
    assert podman("exec", "life", "nosuch").returncode == 127
    assert podman("exec", "-i", "life", "cat", input="zz").stdout == "zz"
    assert "/dev/pts" in podman("exec", "-t", "life", "tty").stdout
    for verb in ("pause", "unpause"):
        assert podman(verb, "life").returncode == 0
    assert podman("stop", "-t", "1", "life").returncode == 0
    assert podman("start", "life").returncode == 0
    assert podman("kill", "life").returncode == 0
    assert podman("wait", "life").stdout.strip() == "137"
    assert podman("rm", "-f", "life").returncode == 0


def test_podman_removes_what_was_never_started(podman):
    assert podman("create", "--name", "made", "localhost/bb", "sleep", "60").returncode == 0
    assert podman("init", "made").returncode == 0
    assert podman("rm", "-f", "made").returncode == 0


def test_podman_s_pod_shares_namespaces(podman):
    made = podman("pod", "create", "--name", "pod", "--share", "ipc,uts", "--infra-image", "localhost/bb", "--infra-command",
                  "/bin/sleep 1000")
    assert made.returncode == 0, made.stderr
    try:
        assert podman("run", "-d", "--pod", "pod", "--name", "inpod", "localhost/bb", "sleep", "100").returncode == 0
        spaces = [podman("exec", name, "ls", "-l", "/proc/self/ns/uts").stdout.split()[-1]
                  for name in ("inpod", podman("pod", "inspect", "pod", "--format", "{{.InfraContainerID}}").stdout.strip())]
        assert spaces[0] == spaces[1] != os.readlink("/proc/self/ns/uts")
    finally:
        assert podman("pod", "rm", "-f", "-t", "0", "pod").returncode == 0


# podman as an ordinary user

@pytest.fixture(scope="module")
def rootless(programs, image, tmp_path_factory):
    """A user of the test's own, with subordinate ids."""
    needs("podman", "conmon", "newuidmap", "useradd", "runuser")
    home, user = tmp_path_factory.mktemp("rootless"), f"pinfold{os.getpid()}"
    os.chmod(image.parent, 0o755)
    for path in [home, *home.parents]:
        if path == pathlib.Path("/tmp"):
            break
        os.chmod(path, 0o755)
    made = call(["useradd", "-m", "-d", home / "home", "--add-subids-for-system", user])
    if made.returncode != 0:
        pytest.skip(f"no user can be made here: {made.stderr.strip()}")
    (home / "run").mkdir(mode=0o700)
    shutil.chown(home / "run", user)

    def run(*words, runtime=programs / "pinfold-oci", before=()):
        argv = ["podman", "--runtime", runtime, "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
                "--events-backend", "file", "--root", home / "home/s", "--runroot", home / "run/r", "--tmpdir", home / "run/t"]
        return call([*before, "runuser", "-u", user, "--", "env", f"HOME={home}/home", f"XDG_RUNTIME_DIR={home}/run", *argv, *words],
                    cwd=home)
    run.home, run.user = home, user
    try:
        done = run("import", image, "localhost/bb")
        if done.returncode != 0:
            pytest.skip(f"podman can't import an image as a user here: {done.stderr.strip()[-200:]}")
        yield run
        run("rm", "--all", "--force", "--time", "0")
    finally:
        call(["pkill", "-KILL", "-U", user])  # the pause process of its user namespace
        deadline = time.monotonic() + 60
        while call(["userdel", user]).returncode == 8 and time.monotonic() < deadline: # its processes are still ending
            time.sleep(0.1)


AS_USER = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=100:100"]


@pytest.mark.parametrize("command, words, code", [
    (["echo", "hi"], "hi", 0), (["id"], "uid=0(root)", 0), (["sh", "-c", "exit 7"], "", 7), (["nosuch"], "", 127),
    (["/etc/passwd"], "", 126), (["grep", "Seccomp:", "/proc/self/status"], "2", 0)])
def test_podman_runs_as_an_ordinary_user(rootless, command, words, code):
    done = rootless("run", "--rm", *AS_USER, "localhost/bb", *command)
    assert done.returncode == code and words in done.stdout, done.stderr


def test_podman_s_life_of_a_user_s_container(rootless):
    assert rootless("run", "-d", "--name", "life", *AS_USER, "localhost/bb", "sleep", "100").returncode == 0
    assert rootless("exec", "life", "echo", "in").stdout == "in\n"
    assert rootless("stop", "-t", "1", "life").returncode == 0
    assert rootless("rm", "-f", "life").returncode == 0


def test_a_user_s_podman_is_under_the_policy_with_its_egress_and_log(programs, rootless, internet):  # noqa: F811
    home = rootless.home
    policy = home / "policy.json"
    policy.write_text(json.dumps({
        "pinfold": 1, "extends": ["oci"], "network": {"egress": [{"host": "api.example.com", "ports": [80]}]},
        "audit": {"record": ["lifecycle", "egress"]},
        "engine": {"roots": {"add": [f"{home}/home/s/vfs/dir/*"]},
                   "write": {"add": [f"{home}/home/s/*-containers", f"{home}/run/r/*-containers", f"{home}/home/s/volumes"]}}}))
    policy.chmod(0o644)
    (home / "etc/pinfold").mkdir(parents=True)
    (home / "work").mkdir()
    shutil.copy(policy, home / "etc/pinfold/oci.json") # root's, which the user's namespace shows as nobody's
    (home / "bin").mkdir()
    script = home / "bin/pinfold-oci"
    script.write_text(f"#!/bin/sh\nexport PINFOLD_LIBEXEC={programs} PINFOLD_RESOLV_CONF={internet.resolv}\n"
                      f"exec {programs}/pinfold-oci \"$@\"\n")
    script.chmod(0o755)
    for folder in (home / "bin", home / "home", home / "etc", home / "etc/pinfold"):
        folder.chmod(0o755)
    operated = ["nsenter", f"--net=/run/netns/{internet.host}", "unshare", "-m", "sh", "-c",
                f'find {home}/run -name pause.pid -delete; ' # its namespaces don't have what is mounted now
                f'mount -t overlay -o lowerdir=/etc,upperdir={home}/etc,workdir={home}/work overlay /etc && exec "$@"', "sh"]
    done = rootless("run", "--rm", *AS_USER, "--annotation", "io.pinfold.egress=api.example.com:80", "localhost/bb", "sh", "-c", ASK,
                    runtime=script, before=operated)
    assert done.stdout.split("\n")[:3] == ["api.example.com yes", "www.example.com no", "192.0.2.10 no"], done.stderr
    refused = rootless("run", "--rm", *AS_USER, "-v", "/etc:/x:ro", "localhost/bb", "true", runtime=script, before=operated)
    assert refused.returncode == 126 and "/engine/read" in refused.stderr, refused.stderr
    events = [json.loads(line)["event"] for line in (home / "home/.local/state/pinfold/audit.jsonl").read_text().splitlines()]
    assert {"create", "start", "egress", "refusal"} <= set(events), events


# under the operator's policy

@pytest.fixture(scope="module")
def governed(programs, podman):
    """podman with the profile `oci`, to which its own folders are added, and egress to one name."""
    home = podman.home
    policy = home / "policy.json"
    policy.write_text(json.dumps({
        "pinfold": 1, "extends": ["oci"], "network": {"egress": [{"host": "api.example.com", "ports": [80]}]},
        "engine": {"roots": {"add": [f"{home}/graph/overlay/*/merged"]},
                   "write": {"add": [f"{home}/graph/*-containers", f"{home}/run/*-containers", f"{home}/graph/volumes"]}}}))
    policy.chmod(0o644)

    (home / "bin").mkdir()

    def run(*words, before=(), **more):
        # conmon hands no variables on: what an installed program knows is told by a script
        script = home / "bin/pinfold-oci"
        script.write_text("#!/bin/sh\n" + "".join(f"export {name}='{value}'\n" for name, value in
                                                 {"PINFOLD_LIBEXEC": programs, **more}.items())
                          + f"exec {programs}/pinfold-oci \"$@\"\n")
        script.chmod(0o755)
        return call([*before, "podman", "--runtime", script, "--runtime-flag", f"policy={policy}", *words], env=podman.env)
    return run


NONE = ["--network", "none"]


@pytest.mark.parametrize("options", [[], ["-t"], ["--read-only", "--tmpfs", "/t"], ["-v", "volume:/data"], ["--user", "1000"],
                                     ["--uidmap", "0:100000:5000", "--gidmap", "0:100000:5000"],
                                     ["--memory", "64m", "--pids-limit", "20"], ["--shm-size", "1m"]], ids=" ".join)
def test_what_podman_sends_by_default_is_granted(governed, options):
    done = governed("run", "--rm", *NONE, *options, "localhost/bb", "echo", "hi")
    assert done.stdout.strip() == "hi", done.stderr


@pytest.mark.parametrize("options, words", [
    (["--privileged"], "/linux/devices"), (["-v", "/etc:/x"], "/engine/write"), (["-v", "/etc:/x:ro"], "/engine/read"),
    (["--pid", "host"], "/engine/shares"), (["--security-opt", "seccomp=unconfined"], "/engine/unfiltered"),
    (["--cap-add", "SYS_ADMIN"], "/capabilities"), (["--device", "/dev/kmsg"], "/linux/devices"),
    (["--uidmap", "0:0:1000", "--gidmap", "0:0:1000"], "/linux/uidMappings"),
    (["--security-opt", "unmask=ALL"], "/linux/maskedPaths"), (["--tmpfs", "/t:size=2g"], "/filesystem/tmp")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_what_breaks_the_wall_is_refused_beneath_podman(governed, options, words):
    done = governed("run", "--rm", *NONE, *options, "localhost/bb", "true")
    assert done.returncode == 126 and words in done.stderr, done.stderr


ASK = ("p() { a=$(nslookup $1 | sed -n 's/^Address: *\\([0-9.]*\\)$/\\1/p' | tail -n 1);"
       "printf \"GET / HTTP/1.0\\r\\nHost: $1\\r\\n\\r\\n\" | nc -w 5 ${a:-$1} 80 2>&1 | grep -q ^HTTP && echo $1 yes || echo $1 no; };"
       "p api.example.com; p www.example.com; p 192.0.2.10")


def test_podman_s_container_reaches_the_listed_host_alone(governed, internet):  # noqa: F811
    done = governed("run", "--rm", *NONE, "--annotation", "io.pinfold.egress=api.example.com:80", "localhost/bb", "sh", "-c", ASK,
                    before=["nsenter", f"--net=/run/netns/{internet.host}"], PINFOLD_RESOLV_CONF=str(internet.resolv))
    assert done.stdout.split("\n")[:3] == ["api.example.com yes", "www.example.com no", "192.0.2.10 no"], done.stderr


# containerd

@pytest.fixture(scope="module")
def ctr(programs, podman, tmp_path_factory):
    needs("containerd", "ctr")
    home = tmp_path_factory.mktemp("containerd")
    (home / "config.toml").write_text(
        f'version = 2\nroot = "{home}/root"\nstate = "{home}/state"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f'[grpc]\n  address = "{home}/sock"\n')
    with open(home / "log", "wb") as log:
        daemon = subprocess.Popen(["containerd", "-c", str(home / "config.toml")], stdout=log, stderr=log)
    wait_for(home / "sock", daemon)

    def run(*words):
        return call(["ctr", "-a", home / "sock", *words])
    run.options = ["--runc-binary", runtime_of(programs)]
    podman("save", "--format", "docker-archive", "-o", home / "bb.docker", "localhost/bb")
    assert run("images", "import", home / "bb.docker").returncode == 0
    run.image = run("images", "ls", "-q").stdout.split()[0]
    yield run
    daemon.terminate()
    daemon.wait(60)


def test_ctr_runs_execs_pauses_and_deletes(ctr):
    assert ctr("run", "--rm", *ctr.options, ctr.image, "one", "echo", "hi").stdout == "hi\n"
    assert ctr("run", "--rm", *ctr.options, ctr.image, "two", "sh", "-c", "exit 7").returncode == 7
    assert "executable file not found in $PATH" in ctr("run", "--rm", *ctr.options, ctr.image, "three", "nosuch").stderr
    ctr("container", "delete", "three")
    assert ctr("run", "-d", *ctr.options, ctr.image, "four", "sleep", "100").returncode == 0
    assert ctr("task", "exec", "--exec-id", "e", "four", "sh", "-c", "exit 4").returncode == 4
    assert ctr("task", "pause", "four").returncode == 0
    assert "PAUSED" in ctr("task", "ls").stdout
    assert ctr("task", "resume", "four").returncode == 0
    assert "pids" in ctr("task", "metrics", "four").stdout or "memory" in ctr("task", "metrics", "four").stdout
    assert ctr("task", "delete", "--force", "four").returncode in (0, 137)
    assert ctr("container", "delete", "four").returncode == 0


# dockerd

@pytest.fixture(scope="module")
def docker(programs, image, tmp_path_factory):
    needs("dockerd", "docker", "containerd")
    home = tmp_path_factory.mktemp("docker")
    (home / "config.json").write_text("{}")
    with open(home / "log", "wb") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--config-file", home / "config.json", "--data-root", home / "data", "--exec-root", home / "exec",
             "--pidfile", home / "pid", "--host", f"unix://{home}/sock", "--bridge", "none", "--iptables=false",
             "--ip6tables=false", "--exec-opt", "native.cgroupdriver=cgroupfs", "--storage-driver", "overlay2",
             "--add-runtime", f"pinfold={runtime_of(programs)}"], stdout=log, stderr=log)
    wait_for(home / "sock", daemon)

    def run(*words, **more):
        return call(["docker", "-H", f"unix://{home}/sock", *words], **more)
    assert run("import", image, "bb").returncode == 0
    yield run
    daemon.terminate()
    daemon.wait(60)


@pytest.mark.parametrize("command, code", [(["echo", "hi"], 0), (["sh", "-c", "exit 9"], 9), (["nosuch"], 127),
                                           (["/etc/passwd"], 126)])
def test_docker_s_exit_codes(docker, command, code):
    assert docker("run", "--rm", "--runtime", "pinfold", "--network", "none", "bb", *command).returncode == code


def test_docker_s_life_of_a_container(docker):
    assert docker("run", "-d", "--name", "life", "--runtime", "pinfold", "--network", "none", "bb", "sleep",
                  "100").returncode == 0
    assert docker("exec", "life", "echo", "in").stdout == "in\n"
    assert "uid=1000" in docker("exec", "-u", "1000", "life", "id").stdout
    for words in (["pause", "life"], ["unpause", "life"], ["update", "--memory", "80m", "--memory-swap", "160m", "life"],
                  ["top", "life"], ["stop", "-t", "1", "life"], ["rm", "life"]):
        assert docker(*words).returncode == 0, words
