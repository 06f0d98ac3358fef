"""Trees that try to lead the set-up, or the clean-up, out of the sandbox: links, races, traps in what is merged, hostile roots.

Each places a canary outside that must be as it was; the controls show that a tool without the wall walks into the trap.
"""
import ctypes
import json
import os
import pathlib
import shutil
import stat
import subprocess
import threading
import types

import pytest

ROUNDS = int(os.environ.get("PINFOLD_RACE_ROUNDS", "1000"))
RENAME_EXCHANGE = 2
libc = ctypes.CDLL(None, use_errno=True)


def exchange(first, second):
    assert libc.renameat2(-100, bytes(first), -100, bytes(second), RENAME_EXCHANGE) == 0


class Racer:
    """Exchanges two names without end, beside what the test does."""

    def __init__(self, first, second):
        self.stop = threading.Event()
        self.count = 0
        self.thread = threading.Thread(target=self.race, args=(first, second))

    def race(self, first, second):
        while not self.stop.is_set():
            try:
                exchange(first, second)
            except AssertionError:
                continue  # one of them is just being replaced
            self.count += 1
            if self.count % 16 == 0:
                self.stop.wait(0.0003)  # lets the other side get to the next place

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


def tree_of(path):
    """Names, kinds, modes, owners and contents below a directory."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            at = os.path.join(folder, name)
            facts = os.lstat(at)
            content = pathlib.Path(at).read_bytes() if stat.S_ISREG(facts.st_mode) else os.readlink(at) if stat.S_ISLNK(facts.st_mode) else b""
            found[os.path.relpath(at, path)] = (facts.st_mode, facts.st_uid, content)
    facts = os.stat(path)
    return found, facts.st_mode, facts.st_uid


@pytest.fixture
def place(pinfold, tmp_path):
    """base/work, which the sandbox may use, and outside, which nobody may touch."""
    base, outside = tmp_path / "base", tmp_path / "outside"
    for folder in (base, base / "work", outside):
        folder.mkdir()
        os.chown(folder, pinfold.uid, pinfold.uid)
    (outside / "canary").write_text("alive")
    os.chown(outside / "canary", pinfold.uid, pinfold.uid)
    return types.SimpleNamespace(base=base, work=base / "work", outside=outside)


def owned(pinfold, *paths):
    for path in paths:
        os.chown(path, pinfold.uid, pinfold.uid, follow_symlinks=False)


# ---- sources that are exchanged ---------------------------------------------------------------------------------------

def naive(path):
    """How a tool without the wall does it: look, then use."""
    if not os.path.islink(path):
        with open(os.path.join(path, "planted"), "w"):
            pass


def test_a_workspace_exchanged_with_a_link_is_never_followed(pinfold, place):
    trap = place.base / "trap"
    trap.symlink_to(place.outside)
    owned(pinfold, trap)
    argv = pinfold.argv("sh", "-c", "echo x >/workspace/planted", options=["--workspace", str(place.work)])
    before = tree_of(place.outside)
    answers = {0: 0, 125: 0}
    with Racer(place.work, trap) as racer:
        for _ in range(ROUNDS if not pinfold.rootless else ROUNDS // 5):
            answers[subprocess.call(argv, env=pinfold.environment(), stderr=subprocess.DEVNULL, **identity(pinfold))] += 1
    assert tree_of(place.outside) == before
    assert min(answers.values()) > 0 and racer.count > ROUNDS // 5, answers
    with Racer(place.work, trap):
        for _ in range(100000):
            try:
                naive(place.work)
            except OSError:
                pass
            if (place.outside / "planted").exists():
                return
    raise AssertionError("the control never lost the race: it shows nothing")


def identity(pinfold):
    return {"user": pinfold.uid, "group": pinfold.uid, "extra_groups": []} if pinfold.rootless else {}


def test_a_merge_into_a_tree_that_is_exchanged_stays_in_it(pinfold, place):
    inner, trap = place.work / "d", place.work / "trap"
    inner.mkdir()
    trap.symlink_to(place.outside)
    owned(pinfold, inner, trap)
    script = "mkdir -p d/deep; echo evil >d/canary; echo evil >d/deep/x; rm -f d/gone; chmod 777 d 2>/dev/null; true"
    argv = pinfold.argv("sh", "-c", script, options=["--workspace", f"{place.work}:cow", "--on-exit", "merge"])
    before = tree_of(place.outside)
    with Racer(inner, trap):
        for _ in range(ROUNDS // 5):
            subprocess.call(argv, env=pinfold.environment(), stderr=subprocess.DEVNULL, **identity(pinfold))
    assert tree_of(place.outside) == before


# ---- what a sandbox leaves in its workspace ---------------------------------------------------------------------------

TRAPS = """
import os, ctypes
libc = ctypes.CDLL(None, use_errno=True)
def attempt(f, *a):
    try: f(*a)
    except OSError: pass
os.chdir('/workspace')
attempt(os.symlink, '/etc', 'etc'); attempt(os.symlink, '../outside', 'out'); attempt(os.symlink, '/proc/self/root', 'root')
attempt(os.mkfifo, 'fifo'); attempt(os.mknod, 'whiteout', 0o20000, 0); attempt(os.mknod, 'disk', 0o60600, os.makedev(254, 0))
import socket; attempt(socket.socket(socket.AF_UNIX).bind, 'sock')
open('plain', 'w').write('text'); attempt(os.link, 'plain', 'hard'); attempt(os.chmod, 'plain', 0o6777)
attempt(os.link, '/etc/passwd', 'passwd'); attempt(os.link, '/usr/bin/su', 'su')
for name in (b'new\\nline', b'\\xff\\xfe', b'-rf', b'\\x1b[2J', b'.pinfold-1-0', b'$(touch x)'):
    attempt(lambda: open(name, 'w').write('x'))
for i in range(40): attempt(lambda: open(f'.pinfold-{os.getpid()}-{i}', 'w').close())
os.mkdir('redirected'); open('metacopy', 'w').write('m')
for path, key, value in (('redirected', 'user.overlay.redirect', b'/../../outside'), ('redirected', 'user.overlay.opaque', b'y'),
                         ('metacopy', 'user.overlay.metacopy', b''), ('metacopy', 'user.overlay.redirect', b'/canary'),
                         ('redirected', 'trusted.overlay.redirect', b'/outside'), ('plain', 'security.capability', b'\\1' * 20)):
    attempt(os.setxattr, path, key, value)
os.mkdir('closed'); open('closed/x', 'w').write('x'); os.chmod('closed', 0)
p = '.'
for i in range(60): p += '/deep'; os.mkdir(p)
fd = os.open('sparse', os.O_CREAT | os.O_WRONLY); os.ftruncate(fd, 1 << 43); os.pwrite(fd, b'end', 1 << 42)
print('planted')
"""


@pytest.mark.parametrize("mode", ["merge", "keep", "write"])
def test_traps_in_a_workspace_catch_nobody(pinfold, place, mode):
    before, host = tree_of(place.outside), os.stat("/etc").st_mtime
    spec = [str(place.work)] if mode == "write" else [f"{place.work}:cow", "--on-exit", mode]
    result = pinfold.python(TRAPS, options=["--workspace", *spec])
    if "error" in result:
        pytest.fail(json.dumps(result))
    assert "planted" in result["stdout"], result
    assert tree_of(place.outside) == before and os.stat("/etc").st_mtime == host
    top = place.work if mode != "keep" else pathlib.Path(result["changes"]["kept"])
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            facts = os.lstat(os.path.join(folder, name))
            assert not stat.S_ISCHR(facts.st_mode) and not stat.S_ISBLK(facts.st_mode), name
            assert not facts.st_mode & 0o6000 or stat.S_ISDIR(facts.st_mode), name
            assert facts.st_uid in (pinfold.uid, 0 if mode == "keep" else pinfold.uid), name
            assert not any(x.startswith(("security.", "trusted.")) for x in os.listxattr(os.path.join(folder, name), follow_symlinks=False))
    assert (top / "plain").read_text() == "text"
    if (top / "etc").is_symlink():  # the control: who follows what lies there reads the host's
        assert (top / "etc/passwd").read_bytes() == pathlib.Path("/etc/passwd").read_bytes()
    sparse = (top / "sparse").stat()
    assert sparse.st_size == 1 << 43 and sparse.st_blocks < 64  # its holes didn't fill the host's disk
    for path in place.work.rglob("closed"):
        os.chmod(path, 0o700)


@pytest.mark.parametrize("depth", [150, 400, 2000])
def test_a_deep_tree_of_changes_is_merged_or_refused(pinfold, place, depth):
    source = f"import os\nos.chdir('/workspace')\nfor _ in range({depth}):\n    os.mkdir('d'); os.chdir('d')"
    result = pinfold.json("/usr/bin/python3", "-c", source, options=["--workspace", f"{place.work}:cow", "--on-exit", "merge"])
    if depth == 150:
        assert result["exit_code"] == 0 and (place.work / "/".join(["d"] * 150)).is_dir(), result
    else:
        assert "deep" in result["error"]["message"] and not list(place.work.iterdir())


def test_a_great_many_changes_are_merged_or_refused_whole(as_root, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    source = "import os\nos.chdir('/workspace')\nfor i in range(100100):\n    os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY))"
    result = as_root.json("/usr/bin/python3", "-c", source, options=["--workspace", f"{work}:cow", "--on-exit", "merge"])
    assert "more than 100000" in result["error"]["message"] and not list(work.iterdir())


def test_links_in_a_workspace_lead_nowhere_on_the_host(pinfold, place):
    for name, target in (("shadow", "/etc/shadow"), ("root", "/root"), ("up", "../../../../etc/shadow"), ("canary", str(place.outside)),
                         ("proc", "/proc/1/root"), ("self", "/proc/self/cwd/../../")):
        (place.work / name).symlink_to(target)
    source = "import os\nos.chdir('/workspace')\nfor n in os.listdir('.'):\n    try: print(n, len(os.listdir(n)) if os.path.isdir(n) else " \
             "open(n).read(9))\n    except OSError as e: print(n, 'no')"
    lines = pinfold.python(source, options=["--workspace", str(place.work)])["stdout"].splitlines()
    told = dict(line.split(" ", 1) for line in lines)
    assert told["shadow"] == told["up"] == told["canary"] == "no"


@pytest.mark.parametrize("spelling", ["{w}/../work", "{w}//", "{w}/.", "/proc/self/cwd", "/proc/1/root/tmp", "/dev/fd/0", "{o}/../base/trap"])
def test_a_workspace_by_another_spelling_is_itself_or_refused(pinfold, place, spelling):
    (place.base / "trap").symlink_to(place.outside)
    text = spelling.replace("{w}", str(place.work)).replace("{o}", str(place.outside))
    before = tree_of(place.outside)
    done = pinfold.call(pinfold.argv("sh", "-c", "echo x >/workspace/planted", options=["--workspace", text]), cwd=str(place.base))
    assert done.returncode in (0, 1, 2, 125), done
    assert tree_of(place.outside) == before
    for path in pathlib.Path("/tmp").glob("planted"):
        path.unlink()  # /proc/1/root/tmp names the host's, for those who may look there


@pytest.mark.parametrize("source", ["/", "/proc", "/sys", "/dev", "/run", "/no/such", "/etc/passwd", "/dev/null", "relative/..", ""])
def test_a_workspace_that_is_no_place_for_one_is_refused_or_harmless(pinfold, source):
    done = pinfold.run("sh", "-c", "ls /workspace >/dev/null; cat /workspace/etc/shadow", options=["--workspace", source], timeout=60)
    assert b"root:" not in done.stdout, done
    assert done.returncode != 0


# ---- roots that an image, or somebody who writes a bundle, brings -----------------------------------------------------

BUSYBOX = shutil.which("busybox")
needs_busybox = pytest.mark.skipif(BUSYBOX is None, reason="needs busybox-static")


def make_bundle(tmp_path, uid, **process):
    bundle = tmp_path / "bundle"
    root = bundle / "rootfs"
    for folder in ("bin", "etc", "tmp", "proc", "dev", "sys"):
        (root / folder).mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    config = {
        "ociVersion": "1.0.2", "root": {"path": "rootfs", "readonly": True}, "hostname": "box",
        "process": {"args": ["/bin/sh", "-c", "echo inside; busybox ls /"], "cwd": "/", "env": ["PATH=/bin"], "user": {"uid": 1000, "gid": 1000},
                    "noNewPrivileges": True, **process},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
                   {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "noexec", "mode=755", "size=64k"]},
                   {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777", "size=1m"]}],
        "linux": {"namespaces": [{"type": t} for t in ("pid", "mount", "network", "ipc", "uts", "cgroup", "user")],
                  "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug"],
                  "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"]},
    }
    for path in (tmp_path, bundle, root):
        os.chmod(path, 0o755)
    return bundle, root, config


def run_bundle(pinfold, bundle, config, **kwargs):
    (bundle / "config.json").write_text(json.dumps(config))
    argv = [str(pinfold.program), "run", "--policy", pinfold.policy(images=["*"]), "--bundle", str(bundle)]
    return pinfold.call(argv, **kwargs)


@needs_busybox
def test_a_bundle_runs(pinfold, tmp_path):
    bundle, _, config = make_bundle(tmp_path, pinfold.uid)
    done = run_bundle(pinfold, bundle, config)
    assert done.returncode == 0 and done.stdout.startswith(b"inside\n"), done


@needs_busybox
@pytest.mark.parametrize("name", ["proc", "dev", "tmp", "sys", "etc", "dev/pts", "dev/shm", "dev/null", "proc/sys"])
@pytest.mark.parametrize("target", ["{outside}", "/", "../../../../../../../..", "/proc/self/root", "/proc/1/root", "."])
def test_a_root_whose_mount_points_are_links_leads_nowhere(as_root, tmp_path, name, target):
    """CVE-2019-19921, CVE-2021-30465, CVE-2023-27561, CVE-2025-31133 and their kin."""
    bundle, root, config = make_bundle(tmp_path, 0)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("alive")
    at = root / name
    if at.is_dir():
        at.rmdir()
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(target.replace("{outside}", str(outside)))
    before, table = tree_of(outside), pathlib.Path("/proc/self/mountinfo").read_text()
    config["process"]["args"] = ["/bin/sh", "-c", "echo x >/tmp/planted; echo x >/dev/planted; echo x >/proc/sys/kernel/core_pattern; "
                                 "echo x >/proc/self/root/planted; busybox cat /etc/shadow /canary"]
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text()
    done = run_bundle(as_root, bundle, config)
    assert tree_of(outside) == before and pathlib.Path("/proc/sys/kernel/core_pattern").read_text() == pattern
    assert b"root:" not in done.stdout and b"alive" not in done.stdout
    assert not (root / "planted").exists() and len(table.splitlines()) - len(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()) < 5
    if done.returncode == 125:
        assert done.stderr.count(b"\n") == 1, done


HOSTILE_CONFIGS = {
    "a hook": lambda c: c.update(hooks={"prestart": [{"path": "/bin/sh", "args": ["sh", "-c", "touch {out}/planted"]}]}),
    "a bind of the root": lambda c: c["mounts"].append({"destination": "/mnt", "type": "bind", "source": "/", "options": ["rbind", "rw"]}),
    "a target above": lambda c: c["mounts"].append({"destination": "/../../mnt", "type": "tmpfs", "source": "x", "options": ["size=1m"]}),
    "over proc": lambda c: c["mounts"].append({"destination": "/proc/sys", "type": "tmpfs", "source": "x", "options": ["size=1m"]}),
    "a device": lambda c: c["linux"].update(devices=[{"path": "/dev/disk", "type": "b", "major": 254, "minor": 0, "fileMode": 438}]),
    "all capabilities": lambda c: c["process"].update(capabilities={"bounding": ["CAP_SYS_ADMIN"], "effective": ["CAP_SYS_ADMIN"],
                                                                    "permitted": ["CAP_SYS_ADMIN"]}),
    "no namespaces": lambda c: c["linux"].update(namespaces=[]),
    "the host's network": lambda c: c["linux"].update(namespaces=[{"type": "network", "path": "/proc/1/ns/net"},
                                                                  *[n for n in c["linux"]["namespaces"] if n["type"] != "network"]]),
    "no masks": lambda c: c["linux"].update(maskedPaths=[], readonlyPaths=[]),
    "a sysctl of the host's": lambda c: c["linux"].update(sysctl={"kernel.core_pattern": "|/bin/sh"}),
    "a sysctl with a line break": lambda c: c["linux"].update(sysctl={"net.ipv4.ip_forward": "1\n1"}),
    "shared propagation": lambda c: c["linux"].update(rootfsPropagation="shared"),
    "host id 0": lambda c: c["linux"].update(uidMappings=[{"containerID": 0, "hostID": 0, "size": 65536}],
                                             gidMappings=[{"containerID": 0, "hostID": 0, "size": 65536}]),
    "new privileges": lambda c: c["process"].update(noNewPrivileges=False),
    "a lower score": lambda c: c["process"].update(oomScoreAdj=-1000),
    "a root elsewhere": lambda c: c["root"].update(path="/"),
    "a root above": lambda c: c["root"].update(path="../../../../../.."),
    "an LSM label": lambda c: c["process"].update(apparmorProfile="unconfined", selinuxLabel="x\ny"),
    "a cgroup of the host's": lambda c: c["linux"].update(cgroupsPath="/../../.."),
    "a filter that allows all": lambda c: c["linux"].update(seccomp={"defaultAction": "SCMP_ACT_ALLOW"}),
    "an overlay of the host": lambda c: c["mounts"].append({"destination": "/mnt", "type": "overlay", "source": "x",
                                                            "options": ["lowerdir=/:/etc"]}),
    "limits without end": lambda c: c["linux"].update(resources={"memory": {"limit": -1}, "pids": {"limit": -1}}),
    "a working directory of descriptors": lambda c: c["process"].update(cwd="/proc/self/fd/7/../.."),
}


@needs_busybox
@pytest.mark.parametrize("what", HOSTILE_CONFIGS)
def test_a_bundle_that_asks_for_more_is_refused_or_gets_no_more(as_root, tmp_path, what):
    bundle, _, config = make_bundle(tmp_path, 0)
    out = tmp_path / "outside"
    out.mkdir()
    HOSTILE_CONFIGS[what](config)
    text = json.dumps(config).replace("{out}", str(out))
    config = json.loads(text)
    config["process"]["args"] = ["/bin/sh", "-c", "busybox grep -E '^(Cap|NoNew|Seccomp)' /proc/self/status; busybox cat /proc/self/uid_map; "
                                 "busybox cat /etc/shadow /mnt/etc/shadow; echo x >/proc/sys/kernel/core_pattern"]
    done = run_bundle(as_root, bundle, config)
    assert not list(out.iterdir()) and b"root:" not in done.stdout, done
    if done.returncode == 125:
        assert all(line.startswith(b"pinfold: ") for line in done.stderr.splitlines()), done
        return
    text = done.stdout.decode()
    assert text.count("0000000000000000") == 5 and "NoNewPrivs:\t1" in text and "Seccomp:\t2" in text, done
    assert int(text.splitlines()[-1].split()[1]) >= 0x70000000, done


def test_nothing_holds_a_file_system_of_a_sandbox_once_pinfold_has_ended(as_root, tmp_path):
    """Its mounts are taken apart by a thread of the supervisor's, and yet the workspace's file system is free at once."""
    image, place = tmp_path / "image", tmp_path / "place"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(8 << 20)
    if subprocess.run(["mkfs.ext4", "-q", image], capture_output=True).returncode != 0 or \
            subprocess.run(["mount", "-o", "loop", image, place], capture_output=True).returncode != 0:
        pytest.skip("no loop device here")
    (place / "work").mkdir()

    def is_held():
        return subprocess.run(["losetup", "-j", image], capture_output=True).stdout != b""

    holder = subprocess.Popen(as_root.argv("sh", "-c", "echo on; read x", options=["--workspace", str(place / "work"), "--stdin", "-"]),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said = holder.stdout.readline()
    subprocess.run(["umount", place], check=True)
    assert said == b"on\n" and is_held()  # the sandbox has it: what is looked at tells one from the other
    holder.communicate(b"\n", timeout=60)
    assert holder.returncode == 0 and not is_held()
