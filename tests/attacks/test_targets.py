"""Where things are mounted and made: targets that somebody exchanges meanwhile, devices and file systems that aren't what they say,
mounts that travel, what is read-only and how one writes to it all the same.
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration"))
from kept_sandbox import kept  # noqa: E402, F401  (a fixture)
from test_handover import engine  # noqa: E402, F401  (a fixture)
from test_mounts import ROUNDS, Racer, needs_busybox, owned, place, run_bundle, tree_of  # noqa: E402, F401

STRACE = shutil.which("strace")


@pytest.fixture
def host(tmp_path):
    """As `place`, for those who start no sandbox by `run`: base/work, and outside, which nobody may touch."""
    base, outside = tmp_path / "base", tmp_path / "outside"
    for folder in (base, base / "work", outside):
        folder.mkdir()
    (outside / "canary").write_text("alive")
    return types.SimpleNamespace(base=base, work=base / "work", outside=outside)


def alone(source, *arguments, **more):
    """Python in a mount namespace of its own, which dies with it: what a naive tool does stays there."""
    return subprocess.run(["unshare", "-m", "--propagation", "private", "/usr/bin/python3", "-c", NAIVE + source, *map(str, arguments)],
                          capture_output=True, text=True, timeout=300, **more)


NAIVE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def bind(source, target):
    if libc.mount(source.encode(), target.encode(), None, 4096, None) != 0: raise OSError(ctypes.get_errno(), 'mount')
"""


# ---- targets on a volume that a neighbour writes ----------------------------------------------------------------------

SHOW = "busybox ls /vol/target /vol/target/deep 2>/dev/null; busybox cat /canary /proc/1/root/canary 2>/dev/null; busybox cat /proc/self/mountinfo"


@needs_busybox
@pytest.mark.parametrize("trap", ["{outside}", "../../outside", "/", "/proc"])
def test_a_mount_target_that_is_exchanged_stays_in_the_root(engine, host, trap):
    """CVE-2021-30465. A volume holds the target of another mount, whose mount points are made where they are missing, and a neighbour
    exchanges it with a link. The control is a tool that looks first, and mounts by the path."""
    volume, data = host.work, host.base / "data"
    for folder in (volume / "target", data):
        folder.mkdir()
    (data / "file").write_text("data")
    (volume / "trap").symlink_to(trap.replace("{outside}", str(host.outside)))
    (engine.root / "vol").mkdir()
    engine.config["mounts"] += [
        {"destination": "/vol", "type": "bind", "source": str(volume), "options": ["bind", "rw"]},
        {"destination": "/vol/target/deep/made", "type": "bind", "source": str(data), "options": ["bind", "rw"]},
        {"destination": "/vol/target", "type": "bind", "source": str(data), "options": ["bind", "rw"]}]
    engine.config["process"]["args"] = ["/bin/sh", "-c", SHOW]
    before, root = tree_of(host.outside), tree_of(engine.root / "etc")
    ran = 0
    with Racer(volume / "target", volume / "trap") as racer:
        for _ in range(ROUNDS // 20):
            done = engine.call("run", "--bundle", str(engine.bundle), engine.name)
            assert b"alive" not in done.stdout and b"canary" not in done.stdout, done
            ran += done.returncode == 0
    assert tree_of(host.outside) == before and tree_of(engine.root / "etc") == root
    assert racer.count > ROUNDS // 20 and (ran > 0 or trap == "../../outside"), racer.count


def test_a_tool_that_mounts_by_the_path_loses_that_race(as_root, host):
    """The control of the above, in a mount namespace of its own."""
    (host.work / "target").mkdir()
    (host.work / "trap").symlink_to(host.outside)
    naive = """
target, outside = sys.argv[1:]
for _ in range(100000):
    try:
        if os.path.islink(target): continue
        bind('/usr', target)
    except OSError: continue
    if not os.path.exists(outside + '/canary'): print('ESCAPED'); break  # something lies over it
    for at in (target, outside): libc.umount2(at.encode(), 2)
"""
    with Racer(host.work / "target", host.work / "trap"):
        assert alone(naive, host.work / "target", host.outside).stdout == "ESCAPED\n"


@needs_busybox
def test_mount_points_are_not_made_outside_while_the_root_is_exchanged(engine, host):
    """CVE-2024-45310: the root's own directory is exchanged with a link while a mount point is made in it. The control makes it by the
    path."""
    shown, trap = engine.root / "shown", engine.root / "trap"
    shown.mkdir()
    trap.symlink_to(host.outside)
    engine.config["mounts"].append({"destination": "/shown/a/b", "type": "bind", "source": "/usr/share", "options": ["bind", "ro"]})
    engine.config["process"]["args"] = ["/bin/busybox", "true"]
    before = tree_of(host.outside)
    with Racer(shown, trap):
        for _ in range(ROUNDS // 20):
            engine.call("run", "--bundle", str(engine.bundle), engine.name)
            for path in (shown / "a", trap / "a"):
                if path.parent != host.outside and path.parent.is_dir() and not path.parent.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
    assert tree_of(host.outside) == before
    if shown.is_symlink():
        shown, trap = trap, shown
    with Racer(shown, trap):
        for _ in range(100000):
            try:
                if not os.path.islink(shown):
                    os.makedirs(shown / "a/b", exist_ok=True)
            except OSError:
                pass
            if (host.outside / "a").exists():
                return
    raise AssertionError("the control never lost the race: it shows nothing")


CLEAN_UP = """
import os, sys
def remove(path):  # as a careless clean-up does it: what is a directory is entered
    if os.path.isdir(path):
        for name in os.listdir(path): remove(os.path.join(path, name))
        return
    os.unlink(path)
remove(sys.argv[1])
"""


@pytest.mark.parametrize("ending", ["discard", "removed"])
def test_a_clean_up_follows_no_link(kept, place, ending):
    """CVE-2024-23652, for what a copy-on-write workspace has kept of the sandbox's. The control is a clean-up that enters links."""
    pinfold = kept.pinfold
    plant = f"ln -s {place.outside} out; ln -s ../../../../../../../..{place.outside} up; mkdir d; ln -s {place.outside} d/out; ln -s / root"
    before = tree_of(place.outside)
    if ending == "removed":
        kept.up("work", "--workspace", f"{place.work}:cow")
        assert kept.exec("work", "sh", "-c", f"cd /workspace && {plant}").returncode == 0
        kept.ok("rm", "--force", "work")
    else:
        done = pinfold.run("sh", "-c", f"cd /workspace && {plant}", options=["--workspace", f"{place.work}:cow", "--on-exit", "discard"])
        assert done.returncode == 0, done
    assert tree_of(place.outside) == before
    upper = place.base / "upper"
    upper.mkdir()
    subprocess.run(["sh", "-c", plant.replace("; ln -s / root", "")], cwd=upper, check=True)
    subprocess.run(["/usr/bin/python3", "-c", CLEAN_UP, upper], check=False)
    assert not (place.outside / "canary").exists()


# ---- devices and file systems that aren't what they say ---------------------------------------------------------------

FALSE_NULL = {
    "a file": lambda at: at.write_text("forged"),
    "a link to a knob": lambda at: at.symlink_to("/proc/sys/kernel/core_pattern"),
    "another device": lambda at: os.mknod(at, 0o666 | stat.S_IFCHR, os.makedev(1, 5)),
}


@needs_busybox
@pytest.mark.parametrize("runtime", ["engine", "run"])
@pytest.mark.parametrize("kind", FALSE_NULL)
def test_a_false_null_masks_nothing_and_opens_nothing(engine, tmp_path, kind, runtime):
    """CVE-2025-31133. The root brings a /dev/null of its own, and nothing is mounted over /dev. The control masks with that one."""
    FALSE_NULL[kind](engine.root / "dev/null")
    config = engine.config
    config["mounts"] = [mount for mount in config["mounts"] if mount["destination"] != "/dev"]
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_bytes()
    config["process"]["args"] = ["/bin/sh", "-c", "busybox cat /proc/keys /proc/timer_list; busybox stat -c '%t:%T' /proc/keys; echo x >/proc/keys"]
    if runtime == "engine":
        done = engine.call("run", "--bundle", str(engine.bundle), engine.name)
    else:
        config["linux"]["namespaces"] += [{"type": "user"}, {"type": "cgroup"}]
        config["process"]["user"] = {"uid": 1000, "gid": 1000}
        done = run_bundle(engine.as_root, engine.bundle, config)
    assert done.stdout == b"1:3\n", done
    assert pathlib.Path("/proc/sys/kernel/core_pattern").read_bytes() == pattern
    naive = "bind(sys.argv[1], '/proc/timer_list'); print(open('/proc/timer_list', 'rb').read(6))"
    assert alone(naive, engine.root / "dev/null").stdout.strip() == repr({"a file": b"forged", "a link to a knob": pattern[:6],
                                                                           "another device": bytes(6)}[kind])


@pytest.mark.skipif(STRACE is None, reason="needs strace, which forges the kernel's answer")
@pytest.mark.parametrize("magic, runs", [("a09f0000", True), ("94190201", False), ("00000000", False)])
def test_settings_are_written_to_nothing_but_a_proc(pinfold, magic, runs):
    """CVE-2025-52881. What statfs says of the file system that we mounted as proc: proc, which is the control; tmpfs; nothing."""
    forge = f"inject=fstatfs:retval=0:poke_exit=@arg2={magic}00000000"
    done = pinfold.call([STRACE, "-f", "-o", "/dev/null", "-e", "trace=fstatfs", "-e", forge, *pinfold.argv("/bin/echo", "ran")])
    if runs:
        assert done.stdout == b"ran\n", done
    else:
        assert done.returncode == 125 and b"what was mounted as proc is none" in done.stderr, done


# ---- the list of mounts -----------------------------------------------------------------------------------------------

def test_the_mounts_inside_are_those_of_the_plan_and_nothing_is_left_of_the_old_root(pinfold, place):
    """Every mount point is one of the plan's. The control is the host, which has more."""
    argv = pinfold.argv("cat", "/proc/self/mountinfo", options=["--workspace", str(place.work)])
    lines = [line.split() for line in pinfold.call(argv).stdout.decode().splitlines()]
    planned = json.loads(pinfold.call([argv[0], "plan", "--json", *argv[4:argv.index("--")], "--", "true"]).stdout)
    points = {"/" + op["target"].strip("/") for op in planned["operations"]} | {"/"}
    seen = [line[4] for line in lines]
    assert set(seen) <= points, set(seen) - points
    assert seen.count("/") == 1 and {"/", "/proc", "/dev", "/tmp", "/workspace"} <= set(seen)
    peers = [field for line in lines for field in line[6:line.index("-")]]
    assert peers == [], peers  # neither shared nor a slave
    host = {line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
    assert host - points


TRAVEL = r"""
mount --make-rshared / && mkdir -p "$1/sub" "$1/late" && cd "$1" && shift || exit 1
count() { wc -l </proc/self/mountinfo; }
before=$(count)
mkfifo go; exec 9<>go
"$@" <&9 >out 2>&1 &
until grep -q on out; do kill -0 $! || exit 1; sleep 0.05; done
[ "$(count)" = "$before" ] && echo "nothing came out"
mount -t tmpfs late late && touch late/canary
echo x >&9; wait $!
cat out; ls late
umount late
unshare -m --propagation unchanged mount -t tmpfs naive sub
[ "$(count)" != "$before" ] && echo "control: it came out"
"""


def test_mounts_travel_neither_out_nor_in_on_a_host_whose_tree_is_shared(pinfold, place):
    """As systemd makes it; in a mount namespace of the test's own. The controls are a namespace that keeps the propagation, from which
    a mount comes out, and the host, which sees what was mounted meanwhile."""
    inside = "echo on; read x; ls /workspace/late; grep -c ' /workspace' /proc/self/mountinfo"
    argv = pinfold.argv("sh", "-c", inside, options=["--workspace", str(place.work), "--stdin", "-"])
    if pinfold.rootless:
        argv = ["setpriv", f"--reuid={pinfold.uid}", f"--regid={pinfold.uid}", "--clear-groups", *argv]
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "bash", "-c", TRAVEL, "bash", str(place.work), *argv],
                          capture_output=True, text=True, timeout=300, env=pinfold.environment())
    assert done.stdout.splitlines() == ["nothing came out", "on", "1", "canary", "control: it came out"], done


# ---- writing to what is read-only -------------------------------------------------------------------------------------

WRITE = """
import ctypes, mmap, os, socket, stat
libc = ctypes.CDLL(None, use_errno=True)
os.chdir('/workspace')
def ok(result):
    if result != 0: raise OSError(ctypes.get_errno(), 'refused')
def reopened():
    fd = os.open('file', os.O_RDONLY)
    os.write(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY), b'x')
def mapped():
    fd = os.open('file', os.O_RDWR)
    mmap.mmap(fd, 4)[0:1] = b'x'
def protected():
    m = libc.mmap; m.restype = ctypes.c_void_p
    at = m(None, 4096, 1, 1, os.open('file', os.O_RDONLY), 0)
    ok(libc.mprotect(ctypes.c_void_p(at), 4096, 3)); ctypes.memset(at, 120, 1)
ATTEMPTS = {
    'open': lambda: os.open('file', os.O_WRONLY), 'append': lambda: os.open('file', os.O_WRONLY | os.O_APPEND), 'reopen': reopened,
    'map': mapped, 'protect': protected, 'truncate': lambda: os.truncate('file', 0), 'create': lambda: open('new', 'x').close(),
    'unnamed': lambda: os.open('.', os.O_TMPFILE | os.O_WRONLY, 0o600), 'mode': lambda: os.chmod('file', 0o777),
    'mode by descriptor': lambda: os.fchmod(os.open('file', os.O_RDONLY), 0o777), 'owner': lambda: os.chown('file', os.getuid(), os.getgid()),
    'attribute': lambda: os.setxattr('file', 'user.x', b'x'), 'times': lambda: os.utime('file', (1, 1)),
    'times by descriptor': lambda: os.utime(os.open('file', os.O_RDONLY), (1, 1)), 'rename': lambda: os.rename('file', 'other'),
    'link': lambda: os.link('file', 'hard'), 'link in': lambda: os.link(f'/proc/self/fd/{os.open("file", 0)}', 'hard2', follow_symlinks=True),
    'symlink': lambda: os.symlink('x', 'soft'), 'directory': lambda: os.mkdir('folder'), 'fifo': lambda: os.mkfifo('fifo'),
    'socket': lambda: socket.socket(socket.AF_UNIX).bind('socket'), 'allocate': lambda: os.posix_fallocate(os.open('file', os.O_RDWR), 0, 9),
    'remove': lambda: os.unlink('gone'), 'remove a directory': lambda: os.rmdir('empty'),
}
done = []
for name, attempt in ATTEMPTS.items():
    try: attempt(); done.append(name)
    except OSError: pass
print(', '.join(done))
"""


@pytest.mark.parametrize("mode", [":ro", ":cow", ""])
def test_what_is_read_only_is_written_in_no_way(pinfold, place, mode):
    """The files are the sandbox's own, so it isn't their owner that refuses. The control is the same workspace for writing: nearly all
    succeeds there; copied on write, it succeeds and is not in the workspace."""
    (place.work / "empty").mkdir()
    for name in ("file", "gone"):
        (place.work / name).write_text("text")
    owned(pinfold, *place.work.iterdir())
    before = tree_of(place.work), os.stat(place.work / "file").st_mtime_ns
    done = pinfold.run("/usr/bin/python3", "-c", WRITE, options=["--workspace", f"{place.work}{mode}"], policy=pinfold.policy(extends=["build"]))
    succeeded = done.stdout.decode().strip()
    after = tree_of(place.work), (os.stat(place.work / "file").st_mtime_ns if (place.work / "file").exists() else 0)
    if mode == ":ro":
        assert succeeded == "" and after == before, done
    else:
        assert len(succeeded.split(", ")) >= 20 and (after == before) == (mode == ":cow"), done


# ---- copies while what is copied is exchanged -------------------------------------------------------------------------

SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.makedirs('/tmp/t/sub', exist_ok=True); open('/tmp/t/sub/canary', 'w').write('inside')
os.symlink(sys.argv[1], '/tmp/t/link')
print('on', flush=True)
while not os.path.exists('/tmp/stop'):
    for _ in range(50): libc.syscall(316, -100, b'/tmp/t/sub', -100, b'/tmp/t/link', 2)
"""


def test_a_copy_out_or_in_of_what_is_exchanged_stays_in_the_sandbox(kept, place):
    """CVE-2018-15664. The link is to a directory of the host's that the sandbox doesn't have. The control copies by /proc/PID/root, and
    is led there."""
    pinfold = kept.pinfold
    kept.up("work", extends=["build"])
    swapper = pinfold.spawn(kept.argv("exec", "work", "--", "/usr/bin/python3", "-c", SWAP, str(place.outside)), stdout=subprocess.PIPE)
    assert swapper.stdout.readline() == b"on\n"
    incoming = pinfold.home / "canary"
    incoming.write_text("planted")
    owned(pinfold, incoming)
    before, copied = tree_of(place.outside), 0
    for turn in range(max(20, ROUNDS // 20)):
        out = pinfold.home / f"out{turn}"
        for source, target in (("work:/tmp/t", str(out)), ("work:/tmp/t/sub/canary", f"{out}-file"), (str(incoming), "work:/tmp/t/sub/canary")):
            done = kept.call("cp", source, target)
            copied += done.returncode == 0
        for path in [*out.rglob("*"), pathlib.Path(f"{out}-file")]:
            assert not path.is_symlink() and (not path.is_file() or path.read_text() in ("inside", "planted", "")), path
    assert tree_of(place.outside) == before and copied > 0
    kept.exec("work", "touch", "/tmp/stop")
    swapper.communicate(timeout=60)
    if os.geteuid() == 0:
        supervisor = kept.show("work")["supervisor"]
        init = pathlib.Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()[0]
        found = {pathlib.Path(f"/proc/{init}/root/tmp/t/{name}/canary").read_text() for name in ("sub", "link")}
        assert "alive" in found, "the control found its way: it shows nothing"


# ---- overlay attributes -----------------------------------------------------------------------------------------------

def test_attributes_of_overlays_in_a_workspace_lead_nowhere(pinfold, place):
    """A workspace that carries a redirect to its neighbour. The control is an overlay that believes it, as root may mount one."""
    work = place.work
    for name in ("seen", "away"):
        (work / name).mkdir()
    (work / "away/canary").write_text("away")
    (work / "file").write_text("own")
    for path in (work / "seen", work / "file"):
        for space in ("user", "trusted") if os.geteuid() == 0 else ("user",):
            os.setxattr(path, f"{space}.overlay.redirect", b"/away")
            os.setxattr(path, f"{space}.overlay.metacopy", b"")
    owned(pinfold, work / "seen", work / "away", work / "away/canary", work / "file")
    done = pinfold.run("sh", "-c", "cd /workspace; cat seen/canary file", options=["--workspace", f"{work}:cow"])
    assert done.stdout in (b"own", b""), done  # where the kernel sees a contradiction, it opens the file for nobody
    if os.geteuid() != 0:
        return
    lower = place.base / "lower"
    lower.mkdir()
    os.rename(work / "away", lower / "away")
    os.rename(work / "seen", place.outside / "seen")
    os.removexattr(place.outside / "seen", "trusted.overlay.metacopy")
    naive = """
import subprocess
os.makedirs(sys.argv[3])
subprocess.run(['mount', '-t', 'overlay', '-o', f'lowerdir={sys.argv[1]}:{sys.argv[2]},redirect_dir=follow', 'none', sys.argv[3]], check=True)
print(open(sys.argv[3] + '/seen/canary').read())
"""
    assert alone(naive, place.outside, lower, place.base / "merged").stdout == "away\n"
