"""pinfold-oci with a root directory and bundles of its own: as a plain runtime (`oci`), and under a policy (`governed`)."""
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

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


CALLS = [line.split()[0] for line in (pathlib.Path(__file__).parents[2] / "policy/data/calls.txt").read_text().splitlines()
         if line and line[0].isalpha()]
FILTER = {"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"],
          "syscalls": [{"names": CALLS, "action": "SCMP_ACT_ALLOW"}]}
NETWORK_NONE = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount")]


def without(*names):
    return {"linux__namespaces": [ns for ns in NETWORK_NONE if ns["type"] not in names]}


class Governed(Oci):
    """The runtime with `--policy`; bundles have a filter, as those of engines do."""
    policy = "oci"
    more: list[str] = []

    def argv(self, *words):
        return [*self.more, *super().argv("--policy", self.policy, *words)]

    def call(self, *words, **more):
        more.setdefault("env", {**os.environ, "PINFOLD_LIBEXEC": str(self.program.parent), **self.env})
        return super().call(*words, **more)

    def bundle(self, *args, **changes):
        changes.setdefault("linux__seccomp", FILTER)
        return super().bundle(*args, **changes)

    def under(self, **fields):
        path = self.home / f"policy{len(list(self.home.glob('policy*')))}.json"
        path.write_text(json.dumps({"pinfold": 1, "extends": ["oci"], **fields}))
        os.chmod(path, 0o644)
        self.policy = str(path)

    def log(self):
        path = self.home / "audit/audit.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def events(self, name):
        return [line["event"] for line in self.log() if line["sandbox"] == name]


@pytest.fixture
def governed(programs, tmp_path):
    (tmp_path / "audit").mkdir(mode=0o700)
    runtime = Governed(programs / "pinfold-oci", tmp_path)
    runtime.env = {"PINFOLD_AUDIT": str(tmp_path / "audit/audit.jsonl")}
    yield runtime
    for name in runtime.names:
        runtime.call("delete", "--force", name)
    assert not runtime.root.exists() or list(runtime.root.iterdir()) == []
