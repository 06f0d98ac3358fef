"""Bundles, images and what lives in containers against pinfold-oci: launch, descriptors, pseudo-files, devices.

Each attack is real and has a control: the same attempt by a naive tool, or on a bundle that was granted the thing. The names
(A2, B5) are those of docs/attacks.md. Races have 250 rounds; PINFOLD_RACE_ROUNDS=1000 is the full run.
"""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import time

import pytest

from oci_attacks import MS_BIND, ROUNDS, edit, in_a_child, libc, outside, with_python  # noqa: F401 (fixture)
from oci_world import oci  # noqa: F401 (fixture)
from oci_world import governed  # noqa: F401 (fixture)

# ---- A: launch, descriptors, exec -------------------------------------------------------------------------------------

HOLD = """
import os, shutil, subprocess, threading, time
own = {os.stat(path).st_ino for path in ('/bin/busybox', os.path.realpath('/usr/bin/python3'))}
out = open('/tmp/out', 'w', buffering=1)
def hold(pid):
    try:
        fd = os.open(f'/proc/{pid}/exe', os.O_RDONLY)
    except OSError:
        return
    if os.fstat(fd).st_ino not in own:
        print('held', file=out)
        while os.path.exists(f'/proc/{pid}'):
            pass
        try:
            os.write(os.open(f'/proc/self/fd/{fd}', os.O_WRONLY | os.O_APPEND), b'changed')
            print('written', file=out)
        except OSError as error:
            print('error', error.strerror, file=out)
    os.close(fd)
shutil.copy('/bin/busybox', '/tmp/victim')
held = subprocess.Popen(['busybox', 'sleep', '1'], executable='/tmp/victim')
time.sleep(0.1)

threading.Thread(target=held.wait).start()
hold(held.pid)
print('ready', file=out)
while True:
    for pid in os.listdir('/proc'):
        if pid.isdigit() and int(pid) != os.getpid():
            hold(pid)
"""


def test_A1_the_runtime_s_file_can_not_be_written_once_it_has_ended_either(oci):  # noqa: F811
    """CVE-2019-5736. A script whose interpreter is /proc/self/exe leads into the runtime's own file. Who holds that open until
    nobody runs it any more isn't stopped by ETXTBSY: with a file of the container's it works."""
    before = oci.program.read_bytes()
    folder = oci.bundle("/usr/bin/python3", "-I", "-c", HOLD, root__readonly=False)
    edit(folder, with_python)
    (folder / "rootfs/evil").write_text("#!/proc/self/exe\n")
    (folder / "rootfs/evil").chmod(0o755)
    name, out = oci.name(), folder / "rootfs/tmp/out"
    oci.ok("create", "--bundle", folder, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    oci.ok("start", name)
    deadline = time.monotonic() + 120
    while not out.exists() or "ready" not in out.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    control, _ = out.read_text().split("ready")
    assert control.split() == ["held", "written"], "the technique doesn't work here: nothing is shown"
    while out.read_text().count("held") < 4:
        assert time.monotonic() < deadline, out.read_text()
        oci.call("exec", name, "/evil")
    time.sleep(0.2)
    _, tried = out.read_text().split("ready")
    assert "written" not in tried and "error" in tried and oci.program.read_bytes() == before, tried


@pytest.fixture
def many_open(outside):
    """Descriptors of the host's that an engine has left inheritable: a directory, a file, a socket's end."""
    fds = [os.open(outside, os.O_RDONLY), os.open(outside / "canary", os.O_RDONLY), *os.pipe(), os.open("/", os.O_PATH)]
    yield fds
    for fd in fds:
        os.close(fd)


def test_A2_A3_no_descriptor_of_the_engine_s_is_in_the_first_a_second_command_or_a_hook(oci, many_open, tmp_path):  # noqa: F811
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\n{{ ls -l /proc/self/fd; pwd; env; }} > {tmp_path}/said.$1\n")
    hook.chmod(0o755)
    hooks = {stage: [{"path": str(hook), "args": ["hook", stage]}] for stage in ("prestart", "createRuntime", "poststart", "poststop")}
    folder = oci.bundle("sh", "-c", "ls -l /proc/self/fd >/tmp/first; sleep 60", root__readonly=False, hooks=hooks,
                        process__env=["PATH=/bin", "LD_PRELOAD=/evil.so", "BASH_ENV=/evil"])
    name, env = oci.name(), {**os.environ, "SECRET": "of the engine", "LD_AUDIT": "/nonexistent"}
    more = {"pass_fds": many_open, "env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    oci.ok("create", "--bundle", folder, name, **more)
    oci.ok("start", name, **more)
    second = oci.ok("exec", name, "ls", "-l", "/proc/self/fd", **{**more, "stdout": subprocess.PIPE}).stdout.decode()
    deadline = time.monotonic() + 60
    while not (folder / "rootfs/tmp/first").exists():
        assert time.monotonic() < deadline
    time.sleep(0.1)
    oci.ok("delete", "--force", name, **more)
    for text in (second, (folder / "rootfs/tmp/first").read_text(), *(path.read_text() for path in tmp_path.glob("said.*"))):
        numbers = [line.split(" -> ")[0].split()[-1] for line in text.splitlines() if " -> " in line]
        assert set(numbers) <= {"0", "1", "2", "3"} and "outside" not in text, text # 3 is the listing's own
    for stage in hooks:  # A7: neither the engine's variables nor those of the image
        text = (tmp_path / f"said.{stage}").read_text()
        assert "SECRET" not in text and "LD_" not in text and "BASH_ENV" not in text and "rootfs" not in text, text
    control = subprocess.run(["ls", "-l", "/proc/self/fd"], pass_fds=many_open, capture_output=True, text=True, check=True).stdout
    assert "outside" in control


CWDS = {
    "a descriptor": lambda root: "/proc/self/fd/{fd}", "a descriptor and up": lambda root: "/proc/self/fd/{fd}/../../..",
    "a link to descriptors": lambda root: (os.symlink("/proc/self/fd/{fd}", root / "w"), "/w")[1],
    "a link out": lambda root: (os.symlink("{outside}", root / "w"), "/w")[1],
    "up": lambda root: "/../../../../../../{outside}", "relative": lambda root: "tmp", "of a task": lambda root: "/proc/self/task/1/cwd",
    "the root of a process": lambda root: "/proc/1/root/../..", "a file": lambda root: "/etc/passwd",
}


@pytest.mark.parametrize("how", CWDS)
@pytest.mark.parametrize("verb", ["run", "exec"])
def test_A4_a_working_directory_is_never_outside(oci, outside, many_open, verb, how):  # noqa: F811
    """CVE-2024-21626, for all the descriptors that were handed over and those that the runtime opens itself."""
    for fd in [*many_open, *range(3, 12)]:
        folder = oci.bundle("sleep", "60", root__readonly=True)
        words = {"fd": fd, "outside": outside}
        at = CWDS[how](folder / "rootfs").format(**words)
        if os.path.islink(folder / "rootfs/w"):
            to = os.readlink(folder / "rootfs/w").format(**words)
            os.unlink(folder / "rootfs/w")
            os.symlink(to, folder / "rootfs/w")
        name, probe = oci.name(), ["sh", "-c", "pwd; cat canary ../canary outside/canary; ls -d ../../../../../../../.."]
        if verb == "run":
            edit(folder, lambda c: c["process"].update(cwd=at, args=probe)) # noqa: B023
            done = oci.call("run", "--bundle", folder, name, pass_fds=many_open)
        else:
            oci.ok("create", "--bundle", folder, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            oci.ok("start", name)
            done = oci.call("exec", "--cwd", at, name, *probe, pass_fds=many_open)
            oci.ok("delete", "--force", name)
        assert b"alive" not in done.stdout and (done.returncode != 0 or b"No such file" in done.stderr or done.stdout), done
        if "{fd}" not in at and how not in ("a descriptor", "a descriptor and up", "a link to descriptors"):
            break


def test_A4_control_a_naive_tool_s_working_directory_is_outside(oci, outside, many_open):  # noqa: F811
    folder = oci.bundle("true")

    def naive():
        assert libc.mount(b"/proc", bytes(folder / "rootfs/proc"), None, MS_BIND, None) == 0
        os.chroot(folder / "rootfs")
        os.chdir(f"/proc/self/fd/{many_open[0]}")
        return os.read(os.open("canary", os.O_RDONLY), 9) == b"alive"
    assert in_a_child(naive)


POLL = """
import os, stat
own = {os.stat(path).st_ino for path in ('/', '/bin/busybox', os.path.realpath('/usr/bin/python3'))}
ours, seen, out = os.getpid(), set(), open('/tmp/out', 'w', buffering=1)
def look(pid, what):
    try:
        fd = os.open(f'/proc/{pid}/{what}', os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    facts = os.fstat(fd)
    if (stat.S_ISDIR(facts.st_mode) or stat.S_ISREG(facts.st_mode)) and facts.st_ino not in own:
        link = os.readlink(f'/proc/self/fd/{fd}')
        print('won', what, link, file=out)
    os.close(fd)
print('ready', file=out)
while True:
    for pid in os.listdir('/proc'):
        if pid.isdigit() and int(pid) != ours:
            if pid not in seen:
                seen.add(pid)
                print('saw', file=out)
            for what in ('exe', 'root', 'cwd'):
                look(pid, what)
            try:
                for fd in os.listdir(f'/proc/{pid}/fd'):
                    look(pid, 'fd/' + fd)
            except OSError:
                pass
"""
WITHOUT_PTRACE = ["setpriv", "--bounding-set", "-sys_ptrace"] # so that capabilities don't decide: the helper has none that the container lacks


def test_A5_what_joins_a_container_can_not_be_opened_from_inside(oci, tmp_path):  # noqa: F811
    """Commands enter a container whose root has every capability but ptrace, and polls for whatever of them is outside."""
    if shutil.which("setpriv") is None or shutil.which("nsenter") is None:
        pytest.skip("needs setpriv and nsenter")
    names = [name for name in CAPABILITIES if name != "CAP_SYS_PTRACE"]
    folder = oci.bundle("/usr/bin/python3", "-I", "-c", POLL, root__readonly=False,
                        process__capabilities={kind: names for kind in ("bounding", "permitted", "effective")})
    edit(folder, with_python)
    name, out = oci.name(), folder / "rootfs/tmp/out"
    oci.ok("create", "--bundle", folder, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    oci.ok("start", name)
    pid = oci.state(name)["pid"]

    def said(word):
        return [line for line in out.read_text().splitlines() if line.startswith(word)] if out.exists() else []
    deadline = time.monotonic() + 60
    while not said("ready"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    rounds = 0
    while rounds < ROUNDS or len(said("saw")) <= ROUNDS // 20:  # so many of them have to be seen, on a machine that is busy, too
        assert rounds < ROUNDS * 20, "they are never seen: nothing is shown"
        rounds += 1
        done = subprocess.run([*WITHOUT_PTRACE, *oci.argv("exec", name, "/bin/busybox", "true")], check=False, **quiet)
        assert done.returncode == 0, done.stderr
    assert said("won") == [], said("won")[:5]
    naive = shutil.copy(shutil.which("nsenter"), tmp_path)
    for _ in range(20000):
        subprocess.run([*WITHOUT_PTRACE, naive, "-t", str(pid), "-a", "/bin/busybox", "true"], check=False, **quiet)
        if said("won"):
            return
    raise AssertionError("the control was never caught: nothing is shown")


CAPABILITIES = ["CAP_" + name for name in (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST "
    "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
    "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM "
    "BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE").split()]


CANARY_LIBRARY = 'int mkdir(const char *, unsigned);\n__attribute__((constructor)) static void loaded(void) { mkdir("/loaded", 0700); }\n'


def test_A6_nothing_of_the_root_is_loaded_by_the_runtime(oci, tmp_path):  # noqa: F811
    """CVE-2019-14271: names, locales and preloads of the image. A program of the container's that is linked at run time does load
    them, and only that one."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "evil.c").write_text(CANARY_LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "evil.so", tmp_path / "evil.c"], check=True)
    folder = oci.bundle("sleep", "60", root__readonly=False, process__user={"uid": 0, "gid": 0}, process__env=["PATH=/bin", "LD_PRELOAD=/evil.so"])
    root = folder / "rootfs"
    shutil.copy(tmp_path / "evil.so", root / "evil.so")
    (root / "etc/ld.so.preload").write_text("/evil.so\n")
    (root / "etc/nsswitch.conf").write_text("passwd: evil\ngroup: evil\nhosts: evil\n")
    edit(folder, with_python)
    name = oci.name()
    oci.ok("create", "--bundle", folder, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    oci.ok("start", name)
    oci.ok("exec", "--user", "1000:1000", name, "id")
    oci.ok("exec", name, "true")
    assert not (root / "loaded").exists()
    oci.ok("exec", name, "/usr/bin/python3", "-I", "-c", "pass")
    assert (root / "loaded").exists(), "the trap doesn't work: nothing is shown"


USERS = ["-1", "4294967295", "4294967296", "2147483648000", "18446744073709551616", "0" * 20 + "x", "0x0", "1000:", ":5", "1:2:3", " 0", "1e3", "",
         "+0", "00x", "0:-1", "5:4294967295", "root"]


@pytest.mark.parametrize("user", USERS)
def test_A8_a_user_that_is_none_never_becomes_root(oci, user):  # noqa: F811
    name = oci.start("sleep", "60")
    done = oci.call("exec", f"--user={user}", name, "id", "-u")
    assert done.returncode == 255 and done.stdout == b"", done
    assert oci.ok("exec", "--user", "00000000000000000000077:4294967294", name, "id", "-u").stdout == b"77\n"


@pytest.mark.parametrize("uid", [-1, 4294967295, 4294967296, 2 ** 63, 1e3, "0", True, [0]])
def test_A8_an_id_of_the_bundle_that_is_none_is_refused(oci, uid):  # noqa: F811
    for field in ("uid", "gid"):
        done = oci.run("id", "-u", process__user={"uid": 5, "gid": 5, field: uid})
        assert done.returncode == 1 and f"/process/user/{field}".encode() in done.stderr, done


TRAPS = {"a pipe": lambda path: os.mkfifo(path), "a link out": lambda path: os.symlink("/etc/passwd", path), "a loop": lambda path: os.symlink("passwd", path),
         "a folder": lambda path: path.mkdir(), "endless": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
         "one line": lambda path: path.write_text("x" * (4 << 20)), "zero": lambda path: os.symlink("/dev/zero", path),
         "not text": lambda path: path.write_bytes(b"\0\xff:x:0:0\n" * 1000), "gone": lambda path: None}


@pytest.mark.parametrize("trap", TRAPS)
def test_A8_a_list_of_users_that_is_a_trap_holds_nobody_up(oci, trap):  # noqa: F811
    folder = oci.bundle("sleep", "60")
    path = folder / "rootfs/etc/passwd"
    path.unlink()
    TRAPS[trap](path)
    name = oci.name()
    oci.ok("create", "--bundle", folder, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    oci.ok("start", name)
    done = oci.call("exec", "--user", "1000:1000", name, "env")
    assert done.returncode == 0 and b"root" not in done.stdout.split(b"HOME=")[-1].split()[0], done


def test_A10_every_task_of_a_container_is_behind_its_walls(governed):  # noqa: F811
    name = governed.start("sleep", "60")
    governed.ok("exec", "--detach", name, "sleep", "50", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pids = json.loads(governed.ok("ps", "--format", "json", name).stdout)
    assert len(pids) == 2
    for pid in pids:
        status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        allowed = int(status["CapBnd"], 16)
        assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1", status
        assert all(int(status[kind], 16) & ~allowed == 0 for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
        assert allowed & 1 << 21 == 0 # CAP_SYS_ADMIN


def test_A1_an_ordinary_user_s_own_runtime_is_a_sealed_copy(programs, tmp_path):
    """Where no mount can be made: what runs is no file of the disk's, and can't be written."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    for path in [tmp_path, *tmp_path.parents][:-2]:
        os.chmod(path, 0o755)
    for owner, copies in ((61234, 1), (0, 0)):
        program = shutil.copy(programs / "pinfold-oci", tmp_path / f"of{owner}")
        os.chown(program, owner, owner)
        done = subprocess.run([strace, "-e", "trace=memfd_create,execveat,fcntl", program, "--root", "/nonexistent", "run", "x"], user=61234,
                              group=61234, extra_groups=[], cwd="/", capture_output=True, text=True, check=False)
        assert done.stderr.count("F_SEAL_WRITE") >= copies and done.stderr.count("execveat(") == copies, done.stderr


# ---- D: pseudo-files, devices, cgroups --------------------------------------------------------------------------------

ENGINES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP",
           "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"]  # what docker gives
AS_ENGINES = {"process__capabilities": {kind: ENGINES for kind in ("bounding", "permitted", "effective")}, "root__readonly": False}
KNOBS = """
import os
opened = []
for folder, folders, files in os.walk('/proc/sys'):
    for name in files:
        try:
            os.close(os.open(os.path.join(folder, name), os.O_WRONLY))
            opened.append(os.path.join(folder, name))
        except OSError:
            pass
for name in ('/proc/sysrq-trigger', '/proc/irq/0/smp_affinity', '/proc/bus/pci/00', '/sys/kernel/uevent_helper', '/sys/power/state', '/sys/kernel/mm/ksm/run',
             '/proc/acpi', '/proc/fs', '/proc/1/oom_score_adj' if os.getpid() != 1 else '/nonexistent', '/proc/kmsg', '/dev/kmsg', '/dev/mem'):
    try:
        os.close(os.open(name, os.O_WRONLY))
        opened.append(name)
    except OSError:
        pass
for name in ('/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/kmsg', '/dev/kmsg', '/dev/mem', '/sys/firmware/memmap', '/proc/latency_stats', '/proc/sched_debug'):
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
        if os.read(fd, 1):
            opened.append('read ' + name)
    except OSError:
        pass
print(len(opened), opened[:9])
"""


def test_D1_D2_no_knob_can_be_written_and_no_secret_of_the_kernel_s_read(oci):  # noqa: F811
    """As root of the host's user namespace, with what docker gives: masks and read-only mounts alone hold."""
    counts = {}
    for walls in (True, False):
        folder = oci.bundle("/usr/bin/python3", "-I", "-c", KNOBS, **AS_ENGINES, **({} if walls else {"linux__maskedPaths": [], "linux__readonlyPaths": []}))
        edit(folder, with_python)
        done = oci.call("run", "--bundle", folder, oci.name())
        counts[walls] = int(done.stdout.split()[0]), done.stdout
    assert counts[True][0] == 0 and counts[False][0] > 100, counts


def test_D4_a_group_is_seen_and_can_not_be_changed(oci):  # noqa: F811
    script = ("cd /sys/fs/cgroup; echo $$ >cgroup.procs; echo 9 >pids/pids.max; echo 0 >pids/cgroup.procs; "
              "busybox mkdir mine pids/mine; ls -d mine pids/mine; true")
    for option, expected in (("ro", False), ("rw", True)):
        folder = oci.bundle("/bin/sh", "-c", f"({script}) 2>/dev/null", **AS_ENGINES)
        edit(folder, lambda c: c.update(mounts=[m for m in c["mounts"] if m["type"] != "cgroup"] + [  # noqa: B023
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "noexec", "nodev", option]}]))  # noqa: B023
        done = oci.call("run", "--bundle", folder, oci.name())
        assert (b"mine" in done.stdout) == expected, done


def test_D6_a_device_that_is_made_can_not_be_opened(oci):  # noqa: F811
    """With CAP_MKNOD, which engines give: the rules of the group decide, also for a device that the image brings."""
    major, minor = 10, 229 # /dev/fuse, which needs no capability
    if not os.path.exists("/dev/fuse"):
        pytest.skip("needs /dev/fuse")
    for rules, expected in ((None, False), ([{"allow": True, "access": "rwm"}], True)):
        script = f"busybox mknod /tmp/made c {major} {minor}; for d in /tmp/made /brought; do (: <$d) 2>/dev/null && echo opened; done; true"
        folder = oci.bundle("/bin/sh", "-c", script, **AS_ENGINES, **({"linux__resources": {"devices": rules}} if rules else {}))
        os.mknod(folder / "rootfs/brought", 0o666 | stat.S_IFCHR, os.makedev(major, minor))
        done = oci.call("run", "--bundle", folder, oci.name())
        assert (b"opened" in done.stdout) == expected, (rules, done)


def test_D7_dev_holds_a_fixed_list_and_its_own_terminals(oci):  # noqa: F811
    folder = oci.bundle("/bin/sh", "-c", "ls /dev /dev/pts; readlink /dev/ptmx", **AS_ENGINES)
    os.symlink("busybox", folder / "rootfs/bin/readlink")
    listed = set(oci.call("run", "--bundle", folder, oci.name()).stdout.decode().split())
    known = "/dev: /dev/pts: fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero pts/ptmx"
    assert listed - {"core"} == set(known.split()), listed
    assert len(os.listdir("/dev")) > len(listed)


def test_D8_processes_of_the_host_are_not_seen(oci):  # noqa: F811
    for spaces, expected in ((["pid", "network", "ipc", "uts", "mount"], False), (["network", "ipc", "uts", "mount"], True)):
        done = oci.run("/bin/sh", "-c", "ls -d /proc/[0-9]*", linux__namespaces=[{"type": kind} for kind in spaces], **AS_ENGINES)
        assert (f"/proc/{os.getpid()}\n" in done.stdout.decode()) == expected and (expected or len(done.stdout.split()) <= 2), done


def test_D11_what_crashes_leaves_no_core_in_the_host_s_folders(oci):  # noqa: F811
    done = oci.run("/bin/sh", "-c", "ulimit -c; ulimit -Hc", process__rlimits=[{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}], **AS_ENGINES)
    assert done.stdout.split() == [b"0", b"0"], done
