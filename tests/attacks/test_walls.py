"""Programs that try to get out: each is run inside, where it must fail, and outside, where it must succeed.

A blocked attempt counts only beside a control that shows that it could have worked: the same source with the wall taken
away (`control`: on the host as root, in a mount namespace of its own so that nothing of the host changes). Where no
control is possible on this host, `control` is None and the reason stands beside it; those are counted apart.
The rows name the groups of the threat model's catalogue: docs/threat-model.md.
"""
import ctypes
import json
import os
import socket
import subprocess
import textwrap
import time

import pytest

# Every source defines attempt(), which returns something true when the attack succeeded and raises OSError when it
# was refused.
HARNESS = """
import ctypes, errno, os, sys, socket, stat, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True
{source}
try:
    verdict = "ESCAPED" if attempt() else "BLOCKED"
    print(verdict, flush=True)
except OSError as error:
    print("BLOCKED", errno.errorcode.get(error.errno, error.errno), flush=True)
"""


def source_of(text):
    return HARNESS.replace("{source}", textwrap.dedent(text))


def outside(text):
    """The same attempt on the host, in namespaces of mounts, processes and names that die with it."""
    done = subprocess.run(["unshare", "-m", "-p", "-u", "-f", "--mount-proc", "/usr/bin/python3", "-c", source_of(text)],
                          capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or done.stderr.strip()


def writes(path):
    return f"def attempt():\n    return os.open({path!r}, os.O_WRONLY) >= 0"


def reads(path):
    return f"def attempt():\n    return len(open({path!r}, 'rb').read(16)) > 0"


def sets(family, kind, level, option, value):
    return (f"""def attempt():
    code = ctypes.create_string_buffer(struct.pack("HHI", 6, 0, 0xffff))  # a filter that lets all through
    return socket.socket(socket.{family}, socket.{kind}).setsockopt({level}, {option}, {value}) is None""")


def raw(number, *arguments):
    listed = ", ".join(str(a) for a in arguments)
    return f"""
        def attempt():
            try:
                call({number}, {listed})
            except OSError as error:
                # refused for its arguments: the kernel got to look at them
                return error.errno not in (errno.EPERM, errno.ENOSYS, errno.EACCES)
            return True
        """


PROBES = {
    # A: launch and descriptors
    "A1 write pinfold's init through /proc/1/exe": ("def attempt():\n    return os.open('/proc/1/exe', os.O_WRONLY) >= 0", None),
    "A1 read pinfold's init through /proc/1/exe": ("def attempt():\n    return os.readlink('/proc/1/exe') != ''", "host"),
    "A5 open the memory of PID 1": ("def attempt():\n    return os.open('/proc/1/mem', os.O_RDONLY) >= 0", "host"),
    "A5 list the descriptors of PID 1": ("def attempt():\n    return len(os.listdir('/proc/1/fd')) > 0", "host"),
    # B: files and mounts
    "B6 leave by dots": ("def attempt():\n    return os.path.exists('/' + '../' * 64 + 'var/lib')", "host"),
    "B6 nested chroot": ("def attempt():\n    os.makedirs('/tmp/pin-jail', exist_ok=True); os.chroot('/tmp/pin-jail'); return True",
                         "host"),
    "B8 mount a tmpfs": ("def attempt():\n    return check(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None))", "host"),
    "B8 bind a directory": ("def attempt():\n    return check(libc.mount(b'/usr', b'/tmp', None, 4096, None))", "host"),
    "B8 remount /usr writable": ("def attempt():\n    libc.mount(b'/usr', b'/usr', None, 4096, None);"
                                 " return check(libc.mount(None, b'/usr', None, 32 | 4096, None))", "host"),
    "B8 take a mount off": ("def attempt():\n    return check(libc.umount2(b'/proc', 2))", "host"),
    "B8 open_tree": (raw(428, -100, "b'/usr'", 1), "host"),
    "B8 fsopen": (raw(430, "b'tmpfs'", 0), "host"),
    "B8 mount_setattr": (raw(442, -100, "b'/usr'", 0, 0, 0), "host"),
    "B8 pivot_root": (raw(155, "b'/'", "b'/'"), "host"),
    "B9 write to /usr": ("def attempt():\n    open('/usr/pin-planted', 'w').close(); os.unlink('/usr/pin-planted'); return True", "host"),
    "B9 make a file in the root": ("def attempt():\n    open('/pin-planted', 'w').close(); os.unlink('/pin-planted'); return True", "host"),
    "B9 change a mode in /usr": ("def attempt():\n    m = os.stat('/usr/bin/true').st_mode; os.chmod('/usr/bin/true', m & 0o777); return True",
                                 "host"),
    "B9 an unnamed file in /etc": ("def attempt():\n    return os.open('/etc', os.O_TMPFILE | os.O_WRONLY, 0o600) >= 0", "host"),
    # C: calls, capabilities, namespaces
    "C6 a user namespace by unshare": ("def attempt():\n    return check(libc.unshare(0x10000000))", "host"),
    "C6 a user namespace by clone": (raw(56, 0x10000000 | 17, 0, 0, 0, 0).replace("call(56", "0 if (call(56")
                                     .replace("0, 0, 0, 0)", "0, 0, 0, 0) or os._exit(0)) else 0"), "host"),
    "C6 a mount namespace": ("def attempt():\n    return check(libc.unshare(0x20000))", "host"),
    "C6 clone3": (raw(435, 0, 0), "host"),
    "C6 setns": (raw(308, 0, 0), "host"),
    "C7 io_uring_setup": (raw(425, 1, 0), "host"),
    "C8 bpf": (raw(321, 0, 0, 0), "host"),
    "C8 perf_event_open": (raw(298, 0, 0, -1, -1, 0), "host"),
    "C8 keyctl": (raw(250, 0, -3, 0), "host"),
    "C8 add_key": (raw(248, "b'user'", "b'pin'", "b'x'", 1, -3), "host"),
    "C8 userfaultfd": (raw(323, 0), "host"),
    "C8 ptrace": (raw(101, 0, 0, 0, 0), "host"),
    "C8 process_vm_readv": (raw(310, 1, 0, 0, 0, 0, 0), "host"),
    "C8 pidfd_getfd": (raw(438, -1, 0, 0), "host"),
    "C8 open_by_handle_at": (raw(304, -1, 0, 0), "host"),
    "C8 init_module": (raw(175, 0, 0, 0), None),
    "C8 kexec_load": (raw(246, 0, 0, 0, 0), None),
    "C8 syslog": (raw(103, 10, 0, 0), "host"),
    "C8 swapon": (raw(167, "b'/no'", 0), "host"),
    "C8 acct": (raw(163, "b'/no'"), None),
    "C8 fanotify_init": (raw(300, 0, 0), None),
    "C8 migrate_pages": (raw(256, 0, 0, 0, 0), "host"),
    "C8 quotactl": (raw(179, 0, 0, 0, 0), None),
    "C13 a set-uid program": ("def attempt():\n    import subprocess; return subprocess.run(['su', '-c', 'id -u'], "
                              "capture_output=True, text=True).stdout.strip() == '0'", "host"),
    "C15 a raw socket": ("def attempt():\n    return bool(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))", "host"),
    "C15 a packet socket": ("def attempt():\n    return bool(socket.socket(17, socket.SOCK_RAW, 0))", "host"),
    "C15 a netfilter socket": ("def attempt():\n    return bool(socket.socket(16, socket.SOCK_RAW, 12))", "host"),
    "C15 an ICMP socket": ("def attempt():\n    return bool(socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))", None),
    "C15 a packet filter on a socket": (sets("AF_INET", "SOCK_DGRAM", 1, 26, """struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))"""), "host"),
    "C15 a locked filter": (sets("AF_INET", "SOCK_DGRAM", 1, 44, "1"), "host"),
    "C15 a protocol above TCP": (sets("AF_INET", "SOCK_STREAM", 6, 31, "b'tls'"), None),
    "C15 join a multicast group": (sets("AF_INET", "SOCK_DGRAM", 0, 35, "bytes((224, 0, 0, 1, 127, 0, 0, 1))"), "host"),
    "C15 IPsec in UDP": (sets("AF_INET", "SOCK_DGRAM", 17, 100, "2"), None),
    "C15 IPv6 options hop by hop": (sets("AF_INET6", "SOCK_DGRAM", 41, 54, "b''"), "host"),
    "C16 become traceable by anybody": (raw(157, 0x59616D61, -1, 0, 0, 0), None),
    "C16 a personality without address randomisation": ("def attempt():\n    return call(135, 0x0040000) >= 0", "host"),
    "C16 modify_ldt": (raw(154, 0, 0, 0), "host"),
    "J2 a huge page of the host's pool": (raw(9, 0, 2 << 20, 3, 0x40022, -1, 0), "host"),
    # D: pseudo-files and devices
    "D1 core_pattern": (writes("/proc/sys/kernel/core_pattern"), "host"),
    "D1 modprobe": (writes("/proc/sys/kernel/modprobe"), None),
    "D1 sysrq-trigger": (writes("/proc/sysrq-trigger"), None),
    "D1 a lower oom_score_adj": ("def attempt():\n    open('/proc/self/oom_score_adj', 'w').write('-1000'); return True", None),
    "D1 the limit of user namespaces": (writes("/proc/sys/user/max_user_namespaces"), None),
    "D2 kallsyms": (reads("/proc/kallsyms"), "host"),
    "D2 kmsg": ("def attempt():\n    return os.fstat(os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK)).st_rdev"
                " != os.makedev(1, 3)", "host"),
    "D2 kcore": (reads("/proc/kcore"), None),
    "D2 the host's shadow file": (reads("/etc/shadow"), "host"),
    "D2 root's home": ("def attempt():\n    return len(os.listdir('/root')) > 0", "host"),
    "D2 the kernel's memory": ("def attempt():\n    return os.open('/dev/mem', os.O_RDONLY) >= 0", None),
    "D3 mount a cgroup tree": ("def attempt():\n    os.makedirs('/tmp/pin-cg', exist_ok=True);"
                               " return check(libc.mount(b'none', b'/tmp/pin-cg', b'cgroup2', 0, None))", "host"),
    "D4 write into a cgroup": ("def attempt():\n    return any(os.access(os.path.join('/sys/fs/cgroup', d), os.W_OK)"
                               " for d in (os.listdir('/sys/fs/cgroup') if os.path.isdir('/sys/fs/cgroup') else []))", "host"),
    "D6 make a device": ("def attempt():\n    os.mknod('/tmp/pin-dev', 0o600 | stat.S_IFBLK, os.makedev(254, 0));"
                         " os.unlink('/tmp/pin-dev'); return True", "host"),
    "D9 the host name": ("def attempt():\n    return check(libc.sethostname(b'x', 1))", "host"),
    "D9 the domain name": ("def attempt():\n    return check(libc.setdomainname(b'x', 1))", "host"),
    "D9 the clock": ("def attempt():\n    import time; time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME));"
                     " return True", "host"),
    # E: neighbours
    "E6 vsock": ("def attempt():\n    return bool(socket.socket(40, socket.SOCK_STREAM))", "host"),
    "E4 limit PID 1": ("def attempt():\n    import resource; resource.prlimit(1, resource.RLIMIT_CORE, (0, 0)); return True", "host"),
    "E4 nice upwards": ("def attempt():\n    os.setpriority(os.PRIO_PROCESS, 0, -5); return True", "host"),
    # F: the network without a rule
    "F1 a TCP connection": ("def attempt():\n    s = socket.socket(); s.settimeout(2); s.connect(('192.0.2.1', 80)); return True", None),
    "F1 a datagram": ("def attempt():\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
                      " return s.sendto(b'x', ('192.0.2.1', 53)) == 1", None),
    "F8 the metadata address": ("def attempt():\n    s = socket.socket(); s.settimeout(2); s.connect(('169.254.169.254', 80)); return True",
                                None),
}


@pytest.mark.parametrize("name", PROBES)
def test_probe_is_blocked(pinfold, name):
    verdict = pinfold.python(source_of(PROBES[name][0]))
    assert verdict["stdout"].startswith("BLOCKED"), (name, verdict)


@pytest.mark.parametrize("name", [n for n, p in PROBES.items() if p[1] == "host"])
def test_probe_succeeds_without_the_wall(as_root, name):
    assert outside(PROBES[name][0]) == "ESCAPED", name


def test_no_descriptor_of_the_caller_is_open_inside(pinfold, tmp_path):
    held = [os.open("/", os.O_RDONLY), os.open("/etc/shadow", os.O_RDONLY) if os.geteuid() == 0 else os.open("/etc", os.O_RDONLY)]
    pair = socket.socketpair()
    keep = [*held, pair[0].fileno()]
    source = "import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:-1])"
    try:
        done = pinfold.call(pinfold.argv("/usr/bin/python3", "-c", source), pass_fds=keep)
        control = subprocess.run(["/usr/bin/python3", "-c", source], pass_fds=keep, capture_output=True, text=True)
    finally:
        for fd in held:
            os.close(fd)
        pair[0].close(), pair[1].close()
    assert json.loads(done.stdout) == [0, 1, 2], done.stdout
    assert len(json.loads(control.stdout)) == 6


def test_every_task_is_behind_every_wall(pinfold):
    source = """
import threading, time, os, subprocess
threads = [threading.Thread(target=time.sleep, args=(1,), daemon=True) for _ in range(4)]
[t.start() for t in threads]
for pid in os.listdir('/proc'):
    if pid.isdigit():
        for task in os.listdir(f'/proc/{pid}/task'):
            text = open(f'/proc/{pid}/task/{task}/status').read()
            fields = dict(l.split(':', 1) for l in text.splitlines() if ':' in l)
            print(fields['Seccomp'].strip(), fields['NoNewPrivs'].strip(),
                  *[fields[c].strip() for c in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')])
import sys; sys.stdout.flush(); os._exit(0)
"""
    lines = pinfold.python(source)["stdout"].splitlines()
    assert len(lines) >= 6
    assert set(lines) == {"2 1" + " 0000000000000000" * 5}


def test_not_one_kernel_knob_can_be_opened_for_writing(pinfold):
    source = """
import os
opened = []
for top in ('/proc/sys', '/sys'):
    for folder, _, files in os.walk(top):
        for name in files:
            try:
                fd = os.open(os.path.join(folder, name), os.O_WRONLY)
            except OSError:
                continue
            os.close(fd); opened.append(os.path.join(folder, name))
print(len(opened), opened[:5])
"""
    assert pinfold.python(source)["stdout"].startswith("0 ")
    control = subprocess.run(["/usr/bin/python3", "-c", source], capture_output=True, text=True).stdout
    if os.geteuid() == 0:
        assert int(control.split()[0]) > 100


def test_only_what_the_policy_names_is_writable(pinfold):
    source = """
import os
writable = set()
for folder, folders, files in os.walk('/'):
    if folder == '/proc':
        folders[:] = []
        continue
    try:
        path = os.path.join(folder, '.pin-probe')
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)); os.unlink(path); writable.add(folder)
    except OSError:
        pass
print(' '.join(sorted(writable)))
"""
    policy = pinfold.policy(extends=["tool"], resources={"wall_time": "5m"})  # there are many folders below /usr
    assert pinfold.python(source, policy=policy, timeout=300)["stdout"].split() == ["/dev/shm", "/tmp"]


def test_dev_holds_a_fixed_list(pinfold):
    source = "import os, stat; print(sorted(n for n in os.listdir('/dev') if stat.S_ISCHR(os.lstat('/dev/' + n).st_mode)))"
    assert json.loads(pinfold.python(source)["stdout"].replace("'", '"')) == ["full", "null", "random", "tty", "urandom", "zero"]


def test_an_abstract_socket_of_the_host_is_out_of_reach(pinfold):
    name = f"\0pinfold-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(name)  # without the wall it answers
        attempt = f"def attempt():\n    return socket.socket(socket.AF_UNIX).connect({name!r}) is None"
        assert pinfold.python(source_of(attempt))["stdout"] in ("BLOCKED ECONNREFUSED\n", "BLOCKED EPERM\n")


def test_shared_memory_of_the_host_is_invisible(pinfold):
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x70696E00 | (os.getpid() & 0xFF)
    segment = libc.shmget(key, 4096, 0o1666)
    assert segment >= 0
    try:
        policy = pinfold.policy(extends=["build"])
        source = f"import ctypes; print(ctypes.CDLL(None).shmget({key}, 0, 0))"
        assert pinfold.python(source, policy=policy)["stdout"] == "-1\n"
        control = subprocess.run(["/usr/bin/python3", "-c", source], capture_output=True, text=True).stdout
        assert control != "-1\n"
    finally:
        libc.shmctl(segment, 0, None)


def test_signals_never_reach_a_process_of_the_host(pinfold):
    victim = pinfold.spawn(["sleep", "60"])
    try:
        source = f"""
import os, signal
for pid in [-1, {victim.pid}, {os.getpid()}]:
    try: os.kill(pid, signal.SIGTERM if pid > 0 else 0)
    except OSError: pass
print('sent')
"""
        assert pinfold.python(source)["stdout"] == "sent\n"
        time.sleep(0.1)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_pid_one_survives_signals_from_inside(pinfold):
    source = """
import os, signal
for s in range(1, 65):
    try: os.kill(1, s)
    except OSError: pass
print('still here')
"""
    result = pinfold.python(source)
    assert result["exit_code"] == 0 and result["stdout"] == "still here\n"


def test_the_names_of_the_host_are_not_inside(pinfold):
    source = "import os, socket; print(socket.gethostname(), os.uname().nodename, open('/etc/hosts').read())"
    names = pinfold.python(source)["stdout"].split()
    assert names[:2] == ["pinfold", "pinfold"] and socket.gethostname() not in names
