"""What is tried over a whole range rather than once: families of sockets, netlink protocols, files of /proc and /sys, crashes by the
thousand. The control is the same sweep outside, which finds more.
"""
import ast
import os
import shutil
import subprocess
import time

import pytest

from test_mounts import place  # noqa: F401  (a fixture)

GCC = shutil.which("gcc")


def said(done):
    """A Python value that the command has printed."""
    assert done.returncode == 0, done
    return ast.literal_eval(done.stdout.decode())


# ---- sockets ----------------------------------------------------------------------------------------------------------

FAMILIES = """
import socket
made = []
def attempt(make, *a):
    try: made.append(a)  if make(*a) is not None else None
    except OSError: pass
for family in range(64):
    for kind in (1, 2, 3, 4, 5, 6, 10):
        for protocol in [0, 1, 6, 17, 132, 136, 255, 262] if family in (2, 10) else range(32) if family == 16 else [0, 768]:
            attempt(lambda *a: socket.socket(*a).close() or a, family, kind, protocol)
print(made)
"""
PAIRS = FAMILIES.replace("socket.socket(*a).close()", "[s.close() for s in socket.socketpair(*a)] and None")
INTERNET = {(family, kind, protocol) for family in (2, 10) for kind, protocols in ((1, (0, 6)), (2, (0, 17))) for protocol in protocols}
LOCAL = {(1, kind, 0) for kind in (1, 2, 5)}
ROUTES = {(16, kind, 0) for kind in (2, 3)}


@pytest.mark.parametrize("profile, expected", [("strict", set()), ("tool", INTERNET | LOCAL | ROUTES), ("build", INTERNET | LOCAL | ROUTES)])
def test_of_all_families_only_the_policy_s_few_are_had(pinfold, profile, expected):
    """64 families in 7 types, with the protocols that mean something. SOCK_PACKET and the like are in no list at all."""
    def sweep(source):
        return set(said(pinfold.run("/usr/bin/python3", "-c", source, policy=pinfold.policy(extends=[profile]))))
    assert sweep(FAMILIES) == expected
    assert sweep(PAIRS) == expected & LOCAL
    outside = set(ast.literal_eval(subprocess.check_output(["/usr/bin/python3", "-c", FAMILIES], text=True)))
    assert len({made[0] for made in outside}) > 4 and outside - expected


# ---- calls that came after the filter's tables ------------------------------------------------------------------------

YOUNG = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
wrong = [ctypes.c_long(-1)] * 6  # nothing that any of them would do
print([n for n in range(451, 640) if libc.syscall(ctypes.c_long(n), *wrong) >= 0 or ctypes.get_errno() != 38])
"""


@pytest.mark.parametrize("profile", ["strict", "tool", "build"])
def test_calls_that_are_younger_than_the_filter_are_not_there(pinfold, profile):
    """From cachestat (451) on: those for mounts, attributes, security modules and namespaces since Linux 6.5, and what is still to come.
    The control is the same sweep outside, where this kernel has some of them."""
    assert said(pinfold.run("/usr/bin/python3", "-c", YOUNG, policy=pinfold.policy(extends=[profile]))) == []
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 10):
        outside = ast.literal_eval(subprocess.check_output(["/usr/bin/python3", "-c", YOUNG], text=True))
        assert {451, 457, 458, 462} <= {*outside}  # cachestat, statmount, listmount, mseal


# ---- programs of another architecture ---------------------------------------------------------------------------------

PROGRAM_32 = """
__attribute__((naked)) void _start(void) {
    __asm__("movl $4, %eax; movl $1, %ebx; movl $text, %ecx; movl $4, %edx; int $0x80; movl $1, %eax; movl $0, %ebx; int $0x80");
}
const char text[] = "ran\\n";
"""


@pytest.mark.skipif(GCC is None, reason="needs gcc")
def test_a_program_of_32_bits_is_killed_at_its_first_call(pinfold, place):
    """The control is the same program outside."""
    (place.work / "p.c").write_text(PROGRAM_32)
    made = subprocess.run([GCC, "-m32", "-nostdlib", "-static", "-fno-pic", "-o", place.work / "p", place.work / "p.c"], capture_output=True)
    if made.returncode != 0 or subprocess.run([place.work / "p"], capture_output=True).stdout != b"ran\n":
        pytest.skip("this host runs no programs of 32 bits")
    for profile in ("tool", "build"):
        result = pinfold.json("/workspace/p", options=["--workspace", f"{place.work}:ro"], policy=pinfold.policy(extends=[profile]))
        assert result["stdout"] == "" and result["exit_code"] == 128 + 31, result


# ---- groups -----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("member", [True, False])
def test_a_group_that_is_denied_access_is_not_left_by_being_contained(as_root, tmp_path, member):
    """CVE-2014-8989: a file that all may read but one group. An ordinary user of that group starts the sandbox; the control is one who
    isn't in it, and reads."""
    from conftest import USER, Pinfold
    denied = 61299
    (tmp_path / "user").mkdir()
    user = Pinfold(as_root.program.parent, tmp_path / "user", USER)
    work = tmp_path / "work"
    work.mkdir(mode=0o755)
    (work / "file").write_text("text")
    os.chown(work / "file", 0, denied)
    os.chmod(work / "file", 0o604)
    argv = user.argv("cat", "/workspace/file", options=["--workspace", f"{work}:ro"])
    done = subprocess.run(argv, env=user.environment(), user=USER, group=USER, extra_groups=[denied] if member else [], capture_output=True)
    assert (done.stdout, done.returncode) == ((b"", 1) if member else (b"text", 0)), done


# ---- what speaks of the host ------------------------------------------------------------------------------------------

HOST_FILES = ["/proc/kcore", "/proc/kallsyms", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug",
              "/proc/slabinfo", "/proc/iomem", "/proc/ioports", "/proc/kpageflags", "/proc/kpagecount", "/proc/kpagecgroup",
              "/proc/interrupts", "/proc/modules", "/proc/cmdline", "/proc/bootconfig", "/proc/partitions", "/proc/diskstats", "/proc/swaps",
              "/proc/mdstat", "/proc/locks", "/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/sys/kernel/random/boot_id", "/proc/vmallocinfo", "/proc/scsi/scsi", "/proc/acpi/wakeup", "/proc/sysrq-trigger",
              "/proc/1/environ", "/proc/1/maps", "/proc/1/stack", "/proc/1/mem", "/proc/self/pagemap",
              "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/firmware", "/sys/class/powercap", "/sys/fs/cgroup", "/sys/module",
              "/sys/kernel/security", "/sys/devices/virtual/dmi/id/product_uuid", "/dev/kmsg", "/dev/mem", "/dev/port", "/dev/kvm", "/dev/fuse",
              "/dev/vhost-net", "/dev/net/tun", "/dev/dri", "/dev/disk", "/var/log", "/run/systemd", "/var/lib/dpkg", "/home", "/root", "/etc/shadow",
              "/etc/ssh", "/etc/machine-id", "/etc/fstab", "/boot"]
READ = """
import os, sys
told = []
for path in sys.argv[1:]:
    try:
        if os.path.isdir(path): got = bool(os.listdir(path))
        elif path == '/proc/self/pagemap':  # without a capability the frame's number is 0
            with open(path, 'rb') as f: f.seek(id(told) // 4096 * 8); got = int.from_bytes(f.read(8), 'little') & ((1 << 55) - 1) != 0
        else:
            got = bool(os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 16))
        if got: told.append(path)
    except OSError: pass
print(told)
"""


@pytest.mark.parametrize("profile", ["tool", "build"])
def test_nothing_that_speaks_of_the_host_is_read(pinfold, profile):
    """Three dozen files of /proc and as many of /sys, /dev, /etc and /var: absent, masked, or without what the kernel keeps for itself."""
    told = said(pinfold.run("/usr/bin/python3", "-c", READ, *HOST_FILES, policy=pinfold.policy(extends=[profile])))
    assert told == []
    if os.geteuid() == 0:
        control = ast.literal_eval(subprocess.check_output(["/usr/bin/python3", "-c", READ, *HOST_FILES], text=True))
        assert len(control) >= 20, control
        assert {"/proc/cmdline", "/proc/sys/kernel/random/boot_id"} <= {*control}


# ---- devices ----------------------------------------------------------------------------------------------------------

TERMINALS = """
import os
a = os.stat('/dev/pts').st_dev, os.stat('/dev/ptmx').st_rdev
names = [n for n in os.listdir('/dev/pts') if n.isdigit()]
master, slave = os.openpty()
print((a[0], names, os.ttyname(slave), os.statvfs('/dev/shm').f_blocks * os.statvfs('/dev/shm').f_frsize))
"""


def test_terminals_and_shared_memory_are_the_sandbox_s_own(pinfold):
    """A new devpts, empty until it makes one, and a /dev/shm of the policy's size. The control is the host's."""
    held = os.openpty()
    try:
        policy = pinfold.policy(extends=["build"], filesystem={"tmp": "8MiB"})
        device, names, name, size = said(pinfold.run("/usr/bin/python3", "-c", TERMINALS, policy=policy))
        assert (names, name) == ([], "/dev/pts/0") and size <= 64 << 20
        control = ast.literal_eval(subprocess.check_output(["/usr/bin/python3", "-c", TERMINALS], text=True))
        assert device != control[0] and control[1] != [] and control[3] > size
    finally:
        for fd in held:
            os.close(fd)


# ---- the kernel's log -------------------------------------------------------------------------------------------------

NAMED = "import ctypes, os, sys\nlibc = ctypes.CDLL(None)\nlibc.prctl(15, sys.argv[1].encode(), 0, 0, 0)\n"
CRASHES = NAMED + """
for _ in range(300):
    pid = os.fork()
    if pid == 0: ctypes.string_at(8)
    os.waitpid(pid, 0)
print('done')
"""
DENIALS = NAMED + "for _ in range(20000): libc.syscall(165, 0, 0, 0, 0, 0)\nprint('done')"
FOREIGN = NAMED + """
import mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')  # mov eax, 20; int 0x80
run = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
for _ in range(300):
    pid = os.fork()
    if pid == 0: run(); os._exit(0)
    os.waitpid(pid, 0)
print('done')
"""


class KernelLog:
    """The lines that have come since it was opened."""

    def __init__(self):
        try:
            self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self.fd, 0, os.SEEK_END)
        except OSError as error:
            pytest.skip(f"the kernel's log can't be read here: {error}")

    def lines(self, word):
        found = []
        while True:
            try:
                line = os.read(self.fd, 8192)
            except BlockingIOError:
                return found
            except BrokenPipeError:  # others have filled the log meanwhile: it goes on with what is left
                continue
            if word in line:
                found.append(line)


@pytest.mark.parametrize("source, words", [(CRASHES, b"segfault"), (FOREIGN, b"sig=31"), (DENIALS, None)], ids=["crashes", "killed", "denials"])
def test_the_kernel_s_log_is_not_filled(as_root, source, words):
    """Hundreds of deaths, and twenty thousand denied calls. A denied call leaves no line; of deaths the kernel prints ten in five
    seconds, of all processes together. Theirs are found by their name."""
    name = f"log{os.getpid()}"
    log, start = KernelLog(), time.monotonic()
    result = as_root.python(source, name, policy=as_root.policy(resources={"pids": 32, "wall_time": "5m"}), timeout=300)
    assert result["stdout"].endswith("done\n"), result
    lines = log.lines(name.encode())
    os.close(log.fd)
    assert len(lines) <= (0 if words is None else 10 * ((time.monotonic() - start) / 5 + 2)), (len(lines), lines[:3])
    assert all(words in line for line in lines)


def test_a_loop_of_children_that_are_killed_for_memory_ends_with_the_first(as_root):
    """The kernel prints a line for each that it kills, and bounds only the table beside it."""
    source = NAMED + "for _ in range(60):\n    if os.fork() == 0: b = bytearray(100 << 20); os._exit(0)\n    os.wait()\nprint('all')"
    name = f"oom{os.getpid()}"
    log = KernelLog()
    result = as_root.python(source, name, policy=as_root.policy(resources={"memory": "64MiB", "wall_time": "5m"}), timeout=300)
    lines = [line for line in log.lines(name.encode()) if b"Killed process" in line]
    os.close(log.fd)
    assert result["status"] == "memory" and result["stdout"] == "" and 1 <= len(lines) <= 3, (result, lines)
