"""What one sandbox leaves where another one, or the host, could find it; and what it can do to processes that aren't its own.

Each holder makes something and waits; each seeker looks for it from a second sandbox. The control is the same pair outside,
as the same user: there it is found.
"""
import fcntl
import json
import os
import pathlib
import socket
import subprocess

import pytest

MARK = f"pin{os.getpid()}"
KEY = 0x70690000 | (os.getpid() & 0xFFFF)
TAKEN = socket.socket()  # bound for as long as the tests run: nobody else is given that port by chance
TAKEN.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
TAKEN.bind(("127.0.0.1", 0))
PORT = TAKEN.getsockname()[1]
HEAD = f"""
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def got(number):
    if number < 0: raise OSError(ctypes.get_errno(), 'refused')
    return number
MARK, KEY, PORT = {MARK!r}, {KEY}, {PORT}
def undo(): pass
"""
HOLD = HEAD + """
try:
{source}
    print('on', flush=True)
except OSError as error:
    print('refused', error, flush=True)
sys.stdin.readline()
undo()
"""
SEEK = HEAD + """
try:
{source}
except OSError as error:
    print('nothing', error)
else:
    print('FOUND' if found else 'nothing')
"""


def indented(text):
    return "".join(f"    {line}\n" for line in text.strip().splitlines())


NAMES = """def name(pid):
    try: return open(f'/proc/{pid}/comm').read().strip()
    except OSError: return None  # it has ended
"""
PAIRS = {  # what the holder makes, how the seeker finds it; the holder may be refused, too, where the third is true
    "abstract socket": ("s = socket.socket(socket.AF_UNIX); s.bind('\\0' + MARK); s.listen()",
                        "s = socket.socket(socket.AF_UNIX); s.connect('\\0' + MARK); found = True", False),
    "abstract datagram": ("s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('\\0' + MARK + 'd')",
                          "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); found = s.sendto(b'x', '\\0' + MARK + 'd') == 1", False),
    "TCP on loopback": ("s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(('127.0.0.1', PORT)); s.listen()",
                        "s = socket.socket(); s.settimeout(60); s.connect(('127.0.0.1', PORT)); found = True", False),
    "UDP on loopback": ("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', PORT))",
                        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', PORT)); s.send(b'x')\n"
                        "import time; time.sleep(0.1); s.send(b'x'); found = True", False),
    "System V segment": ("i = got(libc.shmget(KEY, 4096, 0o1666))\nundo = lambda: libc.shmctl(i, 0, None)",
                         "found = got(libc.shmget(KEY, 0, 0)) >= 0", False),
    "System V queue": ("i = got(libc.msgget(KEY, 0o1666))\nundo = lambda: libc.msgctl(i, 0, None)",
                       "found = got(libc.msgget(KEY, 0)) >= 0", False),
    "System V semaphore": ("i = got(libc.semget(KEY, 1, 0o1666))\nundo = lambda: libc.semctl(i, 0, 0)",
                           "found = got(libc.semget(KEY, 0, 0)) >= 0", False),
    "POSIX queue": ("got(libc.mq_open(b'/' + MARK.encode(), 0o102, 0o666, None))\nundo = lambda: libc.mq_unlink(b'/' + MARK.encode())",
                    "found = got(libc.mq_open(b'/' + MARK.encode(), 0)) >= 0", True),
    "POSIX shared memory": ("open('/dev/shm/' + MARK, 'w').close()\nundo = lambda: os.unlink('/dev/shm/' + MARK)",
                            "found = os.stat('/dev/shm/' + MARK).st_ino > 0", False),
    "a file in /tmp": ("open('/tmp/' + MARK, 'w').close()\nundo = lambda: os.unlink('/tmp/' + MARK)",
                       "found = os.stat('/tmp/' + MARK).st_ino > 0", False),
    "a key of the user's": ("i = got(libc.syscall(248, b'user', MARK.encode(), b'x', 1, -4))\nundo = lambda: libc.syscall(250, 9, i, -4)",
                            "found = got(libc.syscall(250, 10, -4, b'user', MARK.encode(), 0)) >= 0", True),
    "a process": ("libc.prctl(15, MARK.encode(), 0, 0, 0)", NAMES + "found = any(name(p) == MARK for p in os.listdir('/proc') if p.isdigit())", False),
}


def told(make, hold, seek):
    """The seeker's word while the holder holds."""
    holder = make(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        first = holder.stdout.readline().decode()
        seeker = make(seek, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return first, seeker.communicate(timeout=60)[0].decode()
    finally:
        holder.communicate(b"\n", timeout=60)


@pytest.mark.parametrize("what", PAIRS)
def test_a_neighbour_finds_nothing_of_a_neighbour(pinfold, what):
    """With the widest baseline of a sandbox's own, so that it is the namespaces that are tried and not the filter."""
    make, find, may_be_refused = PAIRS[what]
    hold, seek = HOLD.format(source=indented(make)), SEEK.format(source=indented(find))
    policy = pinfold.policy(extends=["build"])

    def outside(source, **pipes):
        return pinfold.spawn(["/usr/bin/python3", "-c", source], **pipes)

    def inside(source, **pipes):
        return pinfold.spawn(pinfold.argv("/usr/bin/python3", "-c", source, policy=policy, options=["--stdin", "-"]), **pipes)

    made, found = told(inside, hold, seek)
    assert (made == "on\n" or may_be_refused) and found.startswith("nothing"), (made, found)
    made, found = told(outside, hold, seek)
    if may_be_refused and made != "on\n":
        pytest.skip(f"no control on this host: {made}")
    assert (made, found) == ("on\n", "FOUND\n")


# ---- signals, limits and priorities of others -------------------------------------------------------------------------

REACH = """
import ctypes, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
victim = int(sys.argv[1])
def call(*a):
    r = libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    if r < 0: raise OSError(ctypes.get_errno(), 'refused')
    return r
def pidfd(): return call(434, victim, 0)
ATTEMPTS = {
    'kill': lambda: os.kill(victim, 0), 'kill the group': lambda: os.kill(-victim, 0), 'tgkill': lambda: call(234, victim, victim, 0),
    'sigqueue': lambda: call(129, victim, 0, ctypes.create_string_buffer(128)),
    'pidfd signal': lambda: call(424, pidfd(), 0, 0, 0), 'pidfd': lambda: pidfd(),
    'limits': lambda: resource.prlimit(victim, resource.RLIMIT_CORE, resource.prlimit(victim, resource.RLIMIT_CORE)),
    'priority': lambda: os.setpriority(os.PRIO_PROCESS, victim, 19), 'scheduler': lambda: os.sched_setscheduler(victim, 0, os.sched_param(0)),
    'affinity': lambda: os.sched_setaffinity(victim, os.sched_getaffinity(victim)), 'I/O priority': lambda: call(251, 1, victim, (3 << 13)),
    'memory map': lambda: open(f'/proc/{victim}/maps').read(), 'environment': lambda: open(f'/proc/{victim}/environ').read(),
    'session': lambda: os.getsid(victim),
}
done = []
for name, attempt in ATTEMPTS.items():
    try: attempt(); done.append(name)
    except OSError: pass
if len(sys.argv) > 2:
    for number in (15, 9):  # everybody that can be reached, but ourselves
        try: os.kill(-1, number)
        except OSError: pass
print(', '.join(done))
"""


@pytest.mark.parametrize("where", ["host", "neighbour"])
def test_processes_outside_are_out_of_reach(pinfold, where):
    """The victims belong to the same user as the sandbox's, so it isn't the owner that keeps them apart. The control aims at the same
    process from outside."""
    waits = ["sh", "-c", "echo on; read x; echo alive"]
    policy = pinfold.policy(extends=["build"])
    argv = waits if where == "host" else pinfold.argv(*waits, policy=policy, options=["--stdin", "-"])
    victim = pinfold.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert victim.stdout.readline() == b"on\n"
        pid = victim.pid
        if where == "neighbour":  # the command itself: the child of the child of the supervisor
            for _ in range(2):
                pid = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        done = pinfold.run("/usr/bin/python3", "-c", REACH, str(pid), "all", policy=policy)
        assert done.stdout in (b"\n", b""), done
        control = pinfold.call(["/usr/bin/python3", "-c", REACH, str(pid)])
        assert len(control.stdout.split(b", ")) >= (12 if where == "host" or not pinfold.rootless else 8), control
    finally:
        out, _ = victim.communicate(b"\n", timeout=60)
    assert out == b"alive\n" and victim.returncode == 0


def test_kill_of_everybody_kills_everybody_without_the_wall(as_root):
    """The control of the above: where both are in one namespace of processes, which dies with this test."""
    script = 'sleep 60 & /usr/bin/python3 -c "$1" $! all; wait $! 2>/dev/null; echo $?'
    done = subprocess.run(["unshare", "-p", "-f", "--mount-proc", "setpriv", "--reuid=61234", "--clear-groups", "sh", "-c", script, "sh",
                           REACH], capture_output=True, timeout=60)
    assert done.stdout.splitlines()[-1] in (b"143", b"137"), done


# ---- sockets and files that two of them are given ---------------------------------------------------------------------

@pytest.fixture
def shared(pinfold, tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chown(folder, pinfold.uid, pinfold.uid)
    os.chmod(folder, 0o755)
    return folder


CONNECT = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/workspace/s'); s.settimeout(60); print('got', s.recv(9).decode())"


@pytest.mark.parametrize("mode, reached", [("", True), (":ro", True), (":cow", False), (None, False)])
def test_a_socket_of_the_host_is_reached_where_its_directory_is_shown_itself(pinfold, shared, mode, reached):
    """Connecting is no writing for a read-only mount: what the threat model says. A copy-on-write workspace shows no live one."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(shared / "s"))
        os.chown(shared / "s", pinfold.uid, pinfold.uid)
        listener.listen()
        listener.settimeout(60)
        process = pinfold.spawn(pinfold.argv("/usr/bin/python3", "-c", CONNECT, options=["--workspace", f"{shared}{mode}"] if mode is not None else []),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if reached:
            client, _ = listener.accept()
            client.sendall(b"secret")
            client.close()
        out, err = process.communicate(timeout=60)
    assert (out == b"got secret\n") == reached, (out, err)


SEND = """
import array, os, socket, sys
s = socket.socket(socket.AF_UNIX); s.bind('/workspace/fds'); s.listen(); print('on', flush=True)
c, _ = s.accept()
fds = [os.open('/', os.O_PATH), os.open('/tmp', os.O_RDONLY), os.open('/proc/self', os.O_RDONLY), os.open('/proc/self/ns/user', os.O_RDONLY),
       os.open('/tmp/mine', os.O_CREAT | os.O_RDWR)]
c.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))])
sys.stdin.readline()
"""
RECEIVE = """
import array, ctypes, os, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect('/workspace/fds')
_, rights, _, _ = s.recvmsg(1, socket.CMSG_SPACE(5 * 4))
fds = array.array('i', rights[0][2])
libc = ctypes.CDLL(None, use_errno=True)
for fd in fds:
    for _ in range(40):
        try:
            up = os.open('..', os.O_PATH, dir_fd=fd)
        except OSError: break
        fd = up
    for name in (sys.argv[1], 'root/.', 'var/lib/dpkg', 'proc/1/root/.'):
        try: os.stat(name.lstrip('/'), dir_fd=fd); print('reached', name)
        except OSError: pass
for call in (lambda: libc.setns(fds[3], 0), lambda: libc.fchdir(fds[0]) or libc.chroot(b'.'), lambda: libc.unshare(0x10000000)):
    if call() == 0: print('entered')
print(len(fds), 'came')
"""


def test_descriptors_from_a_neighbour_lead_no_further_than_the_neighbour(pinfold, shared, tmp_path):
    """Two that work together, in a workspace that the policy gives both. The control is such a descriptor of the host's own root."""
    canary = tmp_path / "canary"
    canary.write_text("alive")
    options = ["--workspace", str(shared), "--stdin", "-"]
    sender = pinfold.spawn(pinfold.argv("/usr/bin/python3", "-c", SEND, options=options), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert sender.stdout.readline() == b"on\n"
        done = pinfold.run("/usr/bin/python3", "-c", RECEIVE, str(canary), options=options)
        assert done.stdout == b"5 came\n", done
    finally:
        sender.communicate(b"\n", timeout=60)
    os.unlink(shared / "fds")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(shared / "fds"))
        os.chmod(shared / "fds", 0o777)
        listener.listen()
        process = pinfold.spawn(pinfold.argv("/usr/bin/python3", "-c", RECEIVE, str(canary), options=options), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE)
        client, _ = listener.accept()
        held = [os.open("/", os.O_PATH) for _ in range(5)]
        socket.send_fds(client, [b"x"], held)
        for fd in held:
            os.close(fd)
        client.close()
        assert f"reached {canary}\n".encode() in process.communicate(timeout=60)[0]


BOARD = """
import os, sys
places = ['/', '/workspace'] + [f'/{n}' for n in os.listdir('/') if n not in ('proc', 'workspace')] + ['/dev/shm', '/var/tmp', '/run/lock']
for place in places:
    try:
        fd = os.open(f'{place}/{sys.argv[1]}', os.O_CREAT | os.O_WRONLY) if sys.argv[2] == 'write' else os.open(f'{place}/{sys.argv[1]}', 0)
        print(place)
    except OSError: pass
sys.stdout.flush()
if sys.argv[2] == 'write': sys.stdin.readline()
"""


@pytest.mark.parametrize("mode", [None, ":cow", ":ro", ""])
def test_nothing_is_a_message_board_but_a_workspace_that_both_may_write(pinfold, shared, tmp_path, mode):
    """And the log tells that both had it."""
    policy = pinfold.policy(audit={"record": ["lifecycle"]})
    env = pinfold.environment(PINFOLD_AUDIT=str(pinfold.home / "log/audit.jsonl"))
    options = ["--stdin", "-", *(["--workspace", f"{shared}{mode}"] if mode is not None else [])]

    def argv(what):
        return pinfold.argv("/usr/bin/python3", "-c", BOARD, MARK, what, policy=policy, options=options)
    writer = pinfold.spawn(argv("write"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    try:
        assert writer.stdout.readline() != b""  # a writer finds places of its own
        read = pinfold.call(argv("read"), env=env).stdout.decode().split()
    finally:
        writer.communicate(b"\n", timeout=60)
    assert read == (["/workspace"] if mode == "" else [])
    records = [json.loads(line) for line in (pinfold.home / "log/audit.jsonl").read_text().splitlines()]
    told = [record["data"].get("workspace") for record in records if record["event"] == "start"]
    assert len(told) == 2 and all((str(shared) in json.dumps(one)) == (mode is not None) for one in told), told


# ---- locks, leases and watches ----------------------------------------------------------------------------------------

STALL = """
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)  # who holds a lease is told by it that somebody waits, and would end
held = []
def attempt(name, *a):
    try:
        fd = os.open(a[0], os.O_RDONLY); held.append(fd); a[1](fd); print(name, end=' ')
    except OSError: pass
file, folder = sys.argv[1] + '/file', sys.argv[1]
attempt('lease', file, lambda fd: fcntl.fcntl(fd, 1024, fcntl.F_RDLCK))
attempt('watch', folder, lambda fd: fcntl.fcntl(fd, 1026, 0x3f))
attempt('lock', file, lambda fd: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
print(flush=True)
sys.stdin.readline()
"""


def stalls(path):
    """What a program of the host's meets: a lease lets it wait, a lock as well."""
    met = []
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except BlockingIOError:
        met.append("lease")
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            met.append("lock")
    return met


@pytest.mark.parametrize("mode, expected", [(":ro", ["lock"]), ("", ["lock"]), (":cow", [])])
def test_a_lease_on_a_shared_file_stalls_nobody_on_the_host(pinfold, shared, mode, expected):
    """The file is the sandbox's own as far as the kernel sees, so a lease would be granted. Locks aren't kept apart, as the threat model
    says. The control holds both on the host."""
    (shared / "file").write_text("text")
    os.chown(shared / "file", pinfold.uid, pinfold.uid)
    argv = pinfold.argv("/usr/bin/python3", "-c", STALL, "/workspace", policy=pinfold.policy(extends=["build"]),
                        options=["--workspace", f"{shared}{mode}", "--stdin", "-"])
    for command, said, met in ((argv, b"lock", expected), (["/usr/bin/python3", "-c", STALL, str(shared)], b"lease watch lock", ["lease", "lock"])):
        holder = pinfold.spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert holder.stdout.readline().strip() == said
            assert stalls(shared / "file") == met
        finally:
            holder.communicate(b"\n", timeout=60)


def test_files_of_the_host_s_own_give_no_lease_either(pinfold):
    done = pinfold.run("/usr/bin/python3", "-c", STALL.replace("'/file'", "'/true'"), "/usr/bin", policy=pinfold.policy(extends=["build"]))
    assert done.stdout.strip() in (b"lock", b""), done
