"""Programs that starve, flood or outlive: each limit holds, the run ends in time, and the reason told is the true one.

Controls run the same program with the limit lifted (or on the host, where it is harmless): there it gets what it wants.
"""
import ctypes
import json
import os
import secrets
import signal
import subprocess
import time

import pytest

DEADLINE_S = 50  # of a run that must end by itself, however busy the machine is: less than the minute that a call waits for


def timed(call):
    start = time.monotonic()
    result = call()
    return result, time.monotonic() - start


# ---- processes --------------------------------------------------------------------------------------------------------

FORKS = """
import os, sys, time
made = 0
for _ in range(int(sys.argv[1])):
    try:
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        made += 1
    except OSError:
        break
print(made, flush=True)
"""


def test_forks_end_at_the_limit_of_processes(as_root):
    policy = as_root.policy(resources={"pids": 20})
    result = as_root.python(FORKS, "200", policy=policy)
    assert 10 <= int(result["stdout"]) <= 19 and result["usage"]["pids_peak"] <= 20
    control = as_root.python(FORKS, "200", policy=as_root.policy(extends=["build"], resources={"pids": 400}))
    assert int(control["stdout"]) == 200


def test_threads_count_as_processes(as_root):
    source = """
import threading, time
made = 0
try:
    for _ in range(200):
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start(); made += 1
except RuntimeError: pass
print(made, flush=True)
import os; os._exit(0)
"""
    result = as_root.python(source, policy=as_root.policy(resources={"pids": 20}))
    assert int(result["stdout"]) < 20
    assert int(as_root.python(source, policy=as_root.policy(extends=["build"]))["stdout"]) == 200


BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"


def test_a_fork_bomb_ends_with_its_time(as_root, tmp_path):
    policy = as_root.policy(resources={"grace": "100ms"})
    result, took = timed(lambda: as_root.python(BOMB, policy=policy, options=["--timeout", "1s"]))
    assert result["status"] == "timeout" and took < DEADLINE_S
    assert result["usage"]["pids_peak"] <= 64


def test_a_fork_bomb_leaves_other_sandboxes_their_turn(as_root):
    policy = as_root.policy(resources={"grace": "100ms"})
    bomb = as_root.spawn(as_root.argv("/usr/bin/python3", "-c", BOMB, policy=policy, options=["--timeout", "25s"]),
                         stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        assert as_root.run("true").returncode == 0
        assert bomb.poll() is None  # it wasn't waited for
    finally:
        bomb.terminate()
        assert bomb.wait(timeout=DEADLINE_S) != 0


def test_a_flood_of_zombies_is_reaped(each_io):
    source = """
import os, time
def fork():
    while True:
        try: return os.fork()
        except BlockingIOError: time.sleep(0.001)  # until some are reaped
for _ in range(2000):
    if fork() == 0:
        fork(); os._exit(0)
    os.wait()
def is_zombie(pid):
    try: return open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[0] == 'Z'
    except OSError: return False  # it has just been reaped
while sum(is_zombie(p) for p in os.listdir('/proc') if p.isdigit()) >= 60: time.sleep(0.1)
print('reaped')
"""
    result = each_io.python(source, policy=each_io.policy(resources={"wall_time": "5m"}), timeout=300)
    assert result["stdout"] == "reaped\n", result


ESCAPEE = """
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
ready, tell = os.pipe()
for i in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid(); libc.prctl(1, 0, 0, 0, 0); libc.prctl(15, sys.argv[2].encode(), 0, 0, 0)
            os.write(tell, b'x')
            while True: time.sleep(0.01)
        os._exit(0)
for i in range(3): os.read(ready, 1)
print('on', flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("stay", ["0", "60"])
def test_what_hides_from_its_end_is_dead_with_the_run(pinfold, stay):
    policy = pinfold.policy(resources={"grace": "100ms", "wall_time": "5m"})
    name = f"kworker/0:{secrets.token_hex(2)}"  # others on this machine may try the same
    argv = pinfold.argv("/usr/bin/python3", "-c", ESCAPEE, stay, name, policy=policy, options=["--timeout", "5m"])
    process = pinfold.spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline() == b"on\n"
    seen = disguised(name) if stay != "0" else []
    if stay != "0":
        process.terminate()
    code, took = timed(lambda: process.wait(timeout=DEADLINE_S))
    process.stdout.close()
    assert code == (0 if stay == "0" else 128 + signal.SIGTERM) and took < DEADLINE_S
    assert stay == "0" or len(seen) == 3  # the control: they were there
    assert disguised(name) == []


def disguised(name):
    """Processes with this name of a kernel thread and an address space."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/status") as status:
                text = status.read()
            if f"Name:\t{name}\n" in text and "VmSize" in text:
                found.append(pid)
        except OSError:
            continue
    return found


STUBBORN = {
    "stops itself": "import os, signal; print('on', flush=True); os.kill(os.getpid(), signal.SIGSTOP)",
    "stops its children": "import os, signal, time\nfor _ in range(3):\n    p = os.fork()\n    if p == 0:\n        time.sleep(60)\n"
                          "    os.kill(p, signal.SIGSTOP)\nprint('on', flush=True)\nos.wait()",
    "waits in vfork": "import ctypes, signal\nprint('on', flush=True)\nlibc = ctypes.CDLL(None)\nif libc.vfork() == 0:\n    libc.pause()",
    "stops and goes on without end": "import os, signal, time\nif os.fork() == 0:\n    while True:\n        os.kill(os.getppid(), "
                                     "signal.SIGSTOP); os.kill(os.getppid(), signal.SIGCONT)\nprint('on', flush=True)\ntime.sleep(60)",
    "answers TERM by more processes": "import os, signal, time\ndef more(*_):\n    if os.fork() == 0: signal.pause()\n"
                                      "signal.signal(signal.SIGTERM, more)\nprint('on', flush=True)\nwhile True: time.sleep(1)",
    "signals everybody": "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nprint('on', flush=True)\nwhile True:\n"
                         "    try: os.kill(1, signal.SIGCHLD)\n    except OSError: pass",
    "reads what never comes": "import os; print('on', flush=True); r, w = os.pipe(); os.read(r, 1)",
}


@pytest.mark.parametrize("how", STUBBORN)
def test_a_command_that_doesnt_want_to_end_is_ended(each_io, how):
    policy = each_io.policy(resources={"grace": "200ms", "wall_time": "30s"})
    for limit in ("2s", "8s", "30s"):  # a busy machine may need more than the first for the word that it prints
        result, took = timed(lambda: each_io.python(STUBBORN[how], policy=policy, options=["--timeout", limit]))
        if result["stdout"]:
            break
    assert result["status"] == "timeout" and result["exit_code"] == 124, result
    assert result["stdout"] == "on\n" and took < DEADLINE_S


# ---- memory -----------------------------------------------------------------------------------------------------------

EATERS = {
    "anonymous": "held = []\nfor _ in range({mib}): held.append(bytearray(1 << 20))",
    "shared": "import mmap\nm = mmap.mmap(-1, {mib} << 20)\nfor i in range({mib}): m.write(bytes(1 << 20))",
    "a tmpfs": "f = open('/dev/shm/big', 'wb')\nfor _ in range({mib}): f.write(bytes(1 << 20)); f.flush()",
    "children": "import os\nfor _ in range(6):\n    if os.fork() == 0:\n        b = bytearray(({mib} << 20) // 6)\n        print(len(b), "
                "flush=True); import time; time.sleep(20)\nfor _ in range(6): os.wait()",
}


@pytest.mark.parametrize("kind", EATERS)
def test_memory_beyond_the_limit_ends_the_run_as_memory(as_root, kind):
    source = EATERS[kind].replace("{mib}", "120")
    small = as_root.policy(resources={"memory": "64MiB", "swap": 0, "pids": 32}, filesystem={"tmp": "1GiB"})
    result, took = timed(lambda: as_root.python(source + "\nprint('all of it')", policy=small))
    assert "all of it" not in result["stdout"], result
    if kind == "a tmpfs" and result["status"] == "error":
        assert "No space left" in result["stderr"]  # its own size came first
    else:
        assert result["status"] == "memory" and result["exit_code"] == 137, result
    assert took < DEADLINE_S and result["usage"]["memory_peak_bytes"] <= 65 << 20


KERNEL_EATERS = {  # what the kernel holds for a process, and no resident memory of its own
    "socket buffers": "import socket\nheld = []\ntry:\n    while True:\n        a, b = socket.socketpair(); held.append((a, b)); a.setblocking(False)\n"
                      "        try:\n            while True: a.send(bytes(65536))\n        except BlockingIOError: pass\nexcept OSError: pass",
    "pipes": "import os, fcntl\nheld = []\ntry:\n    while True:\n        r, w = os.pipe(); os.set_blocking(w, False)\n"
             "        try:\n            while True: os.write(w, bytes(65536))\n        except BlockingIOError: pass\nexcept OSError: pass",
    "names that aren't there": "import os\nnew = os.urandom(8).hex()  # what is known not to be there since the last time costs nobody anything\n"
                               "for i in range(400000):\n    try: os.stat(f'/usr/{new}{i:0180}')\n    except OSError: pass",
    "files without content": "import os\ntry:\n    for i in range(400000): os.close(os.open(f'/tmp/{i:0200}', os.O_CREAT | os.O_WRONLY))\nexcept OSError: pass",
}


@pytest.mark.parametrize("kind", KERNEL_EATERS)
def test_memory_of_the_kernel_s_is_the_sandbox_s_own(as_root, kind):
    """It is counted and bounded: the command comes to an end of its own, or is told to have ended for memory."""
    policy = as_root.policy(resources={"memory": "64MiB", "files": 4096, "wall_time": "5m"}, filesystem={"tmp": "1GiB"})
    result = as_root.python(KERNEL_EATERS[kind] + "\nprint('end')", policy=policy, timeout=300)
    assert result["status"] == "memory" or result["stdout"] == "end\n", result
    assert 8 << 20 < result["usage"]["memory_peak_bytes"] <= 65 << 20


HOARDS = {  # MiB that were sent and that nobody has read
    "TCP": """
import socket
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
held, sent = [], 0
while sent < 100 << 20 and len(held) < 60:
    sender = socket.create_connection(listener.getsockname())
    held.append((sender, listener.accept()))
    sender.setblocking(False)
    try:
        while True: sent += sender.send(bytes(1 << 16))
    except BlockingIOError: pass
print(sent >> 20)""",
    "UDP": """
import socket
def more():
    reader, sender = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    reader.bind(("127.0.0.1", 0))
    sender.connect(reader.getsockname())
    reader.setblocking(False), sender.setblocking(False)
    for _ in range(8): sender.send(bytes(1 << 15))  # what has no room is lost
    return reader
def size(reader):
    total = 0
    try:
        while True: total += len(reader.recv(1 << 16))
    except BlockingIOError: return total
print(sum(map(size, [more() for _ in range(1000)])) >> 20)""",
}


@pytest.mark.parametrize("kind", HOARDS)
def test_what_sockets_hold_is_the_sandbox_s_own(as_root, kind):
    """Version 1 of cgroups counts it apart, and version 2 with the rest: there the run ends for memory. The control has more room."""
    def hoard(memory):
        policy = as_root.policy(resources={"memory": memory, "files": 4096, "wall_time": "5m"})
        return as_root.python(HOARDS[kind], policy=policy, timeout=300)
    small, large = hoard("32MiB"), hoard("1GiB")
    assert small["status"] == "memory" or 1 <= int(small["stdout"]) <= 48, small  # each socket has a little for itself
    assert int(large["stdout"]) >= 80, large


def test_a_limit_that_lets_nothing_start_is_told_as_what_it_is(as_root):
    """By a refusal, or where the kernel's word of the kill came in time, by the status of every such kill."""
    done = as_root.run("true", options=["--json", "--memory", "1KiB"])
    result = json.loads(done.stdout)
    if done.returncode == 125:
        assert "memory limit is too small" in result["error"]["message"] and result["error"]["pointer"] == "/resources/memory", result
    else:
        assert done.returncode == 137 and result["status"] == "memory", result


@pytest.mark.parametrize("kind", ["anonymous", "shared"])
def test_the_same_memory_fits_a_larger_limit(as_root, kind):
    large = as_root.policy(resources={"memory": "512MiB"}, filesystem={"tmp": "256MiB"})
    result = as_root.python(EATERS[kind].replace("{mib}", "120") + "\nprint('all of it')", policy=large)
    assert result["status"] == "success" and "all of it" in result["stdout"]


def test_page_cache_is_given_back_rather_than_counted_as_too_much(as_root, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    policy = as_root.policy(resources={"memory": "64MiB"})
    result = as_root.run("dd", "if=/dev/zero", "of=big", "bs=1M", "count=200", policy=policy, options=["--workspace", str(work)])
    assert result.returncode == 0, result.stderr
    os.unlink(work / "big")


def test_memory_of_one_sandbox_is_not_its_neighbours(as_root):
    neighbour = as_root.spawn(as_root.argv("sh", "-c", "echo on; read x; echo still here", options=["--stdin", "-"]),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert neighbour.stdout.readline() == b"on\n"
    small = as_root.policy(resources={"memory": "64MiB"})
    assert as_root.python(EATERS["anonymous"].replace("{mib}", "120"), policy=small)["status"] == "memory"
    out, _ = neighbour.communicate(b"\n", timeout=DEADLINE_S)
    assert out == b"still here\n" and neighbour.returncode == 0


def test_memory_cant_be_locked(pinfold):
    source = "import ctypes, mmap\nm = mmap.mmap(-1, 32 << 20)\nlibc = ctypes.CDLL(None, use_errno=True)\n" \
             "a = ctypes.addressof(ctypes.c_char.from_buffer(m))\nprint(libc.mlock(ctypes.c_void_p(a), ctypes.c_size_t(32 << 20)))"
    assert pinfold.python(source)["stdout"] == "-1\n"
    control = subprocess.run(["/usr/bin/python3", "-c", source], capture_output=True, text=True).stdout
    assert control == "0\n" or os.geteuid() != 0


# ---- time -------------------------------------------------------------------------------------------------------------

SPIN = "import os\nfor _ in range(3):\n    if os.fork() == 0: break\nwhile True: pass"


def test_a_spin_gets_its_share_of_the_processors_only(as_root):
    policy = as_root.policy(resources={"cpus": 0.5, "grace": "100ms"})
    result = as_root.python(SPIN, policy=policy, options=["--timeout", "2s"])
    assert result["status"] == "timeout"
    assert result["usage"]["cpu_ms"] <= 0.5 * result["usage"]["wall_ms"] + 250, result["usage"]


def test_cpu_time_ends_a_run(as_root):
    policy = as_root.policy(resources={"cpu_time": "500ms", "grace": "100ms", "cpus": 2, "wall_time": "5m"})
    result, took = timed(lambda: as_root.python(SPIN, policy=policy))
    assert result["status"] == "timeout" and result["exit_code"] == 124 and took < DEADLINE_S
    assert 450 <= result["usage"]["cpu_ms"] < 1500


DENIED_CALLS = {
    "a real-time scheduler": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "a higher priority": "os.setpriority(os.PRIO_PROCESS, 0, -10)",
    "real-time I/O": "print(1 // (1 + ctypes.CDLL(None).syscall(251, 1, 0, (1 << 13) | 0)))",
    "a higher limit of files": "resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))",
    "a clock": "time.clock_settime(time.CLOCK_REALTIME, 0)",
    "a core file": "resource.setrlimit(resource.RLIMIT_CORE, (4096, 4096)); print(1 // (resource.getrlimit(resource.RLIMIT_CORE)[0] // 4096))",
    "a processor of its choice": "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
}
ASKING = "import ctypes, os, resource, time\ntry: {call}; print('got it')\nexcept Exception as e: print('no')"


@pytest.mark.parametrize("what", DENIED_CALLS)
def test_more_than_its_share_is_denied(pinfold, what):
    assert pinfold.python(ASKING.format(call=DENIED_CALLS[what]))["stdout"].splitlines()[-1] == "no"


@pytest.mark.parametrize("what", sorted(set(DENIED_CALLS) - {"a clock"}))  # that one would change the host's
def test_more_than_its_share_is_had_without_the_wall(as_root, what):
    control = subprocess.check_output(["/usr/bin/python3", "-c", ASKING.format(call=DENIED_CALLS[what])], text=True)
    assert control.splitlines()[-1] == "got it"


# ---- files ------------------------------------------------------------------------------------------------------------

def test_descriptors_end_at_the_limit(pinfold):
    source = "import os\nheld = []\ntry:\n    while len(held) < 5000: held.append(os.open('/dev/null', 0))\nexcept OSError: pass\nprint(len(held))"
    assert int(pinfold.python(source, policy=pinfold.policy(resources={"files": 100}))["stdout"]) < 100
    assert int(pinfold.python(source, policy=pinfold.policy(resources={"files": 8192}))["stdout"]) == 5000 or pinfold.rootless


def test_core_files_are_no_larger_than_the_policy_says(as_root):
    """The hard limit too, so that nobody inside raises it again. One byte is no file, and no program of the host's either."""
    source = "import resource\nprint(*resource.getrlimit(resource.RLIMIT_CORE))"
    assert as_root.python(source)["stdout"] == "1 1\n"
    assert as_root.python(source, policy=as_root.policy(resources={"core": "1MiB"}))["stdout"] == "1048576 1048576\n"


def test_descriptors_in_flight_are_bounded(pinfold):
    source = """
import array, os, socket
a, b = socket.socketpair()
sent = 0
fds = array.array('i', [os.open('/dev/null', 0)] * 200)
a.setblocking(False)
try:
    while sent < 100000:
        a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]); sent += 200
except OSError: pass
print(sent)
"""
    assert int(pinfold.python(source, policy=pinfold.policy(resources={"files": 512}))["stdout"]) < 2000


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_a_full_tmp_is_full_and_nothing_else(pinfold, place):
    policy = pinfold.policy(filesystem={"tmp": "8MiB"})
    before = os.statvfs("/tmp").f_bavail
    source = f"""
import os
wrote = 0
fd = os.open('{place}/big', os.O_CREAT | os.O_RDWR)
os.unlink('{place}/big')
try:
    while wrote < 600 << 20: wrote += os.write(fd, bytes(1 << 20))
except OSError as e: print(e.errno, wrote >> 20)
try: os.posix_fallocate(fd, 0, 1 << 40); print('allocated')
except OSError as e: print(e.errno)
"""
    result = pinfold.python(source, policy=policy)
    lines = result["stdout"].splitlines()
    assert lines and lines[0].startswith("28 ") and int(lines[0].split()[1]) <= 64, result
    assert lines[1] in ("28", "27", "22", "1")
    assert abs(os.statvfs("/tmp").f_bavail - before) * os.statvfs("/tmp").f_frsize < 4 << 30


def test_inodes_of_tmp_are_bounded(pinfold):
    source = """
import os
made = 0
try:
    while made < 400000:
        os.close(os.open(f'/tmp/{made}', os.O_CREAT | os.O_WRONLY)); made += 1
except OSError as e: print(e.errno, made)
else: print('all', made)
"""
    result = pinfold.python(source, policy=pinfold.policy(filesystem={"tmp": "8MiB"}))
    assert result["stdout"].startswith("28 ") and int(result["stdout"].split()[1]) <= 8192, result


@pytest.mark.parametrize("size, fits", [("8MiB", False), ("64MiB", True)])
def test_what_fits_in_tmp_is_the_policy_s_word(pinfold, size, fits):
    """Bytes and inodes: the control is the same in a larger one."""
    source = """
import os
def attempt(f):
    try: f(); return True
    except OSError: return False
def files():
    os.mkdir('/tmp/d')
    for i in range(9000): os.close(os.open(f'/tmp/d/{i}', os.O_CREAT | os.O_WRONLY))
print(attempt(files), attempt(lambda: open('/tmp/big', 'wb').write(bytes(24 << 20))))
"""
    result = pinfold.python(source, policy=pinfold.policy(filesystem={"tmp": size}, resources={"wall_time": "5m"}), timeout=300)
    assert result["stdout"] == f"{fits} {fits}\n", result


def test_nothing_else_can_be_filled(pinfold):
    source = """
import os
for place in ('/dev', '/', '/proc', '/run', '/var', '/home', '/etc', '/dev/pts'):
    try:
        fd = os.open(place + '/x', os.O_CREAT | os.O_WRONLY); print('made', place)
    except OSError: pass
    try:
        fd = os.open(place, os.O_TMPFILE | os.O_WRONLY, 0o600); print('made', place)
    except OSError: pass
print('end')
"""
    assert pinfold.python(source)["stdout"] == "end\n"


def test_a_storm_of_sync_doesnt_reach_the_host(pinfold):
    """sync(2) writes out the whole host; a sandbox may say what it likes about its own files."""
    libc = "import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n"
    result = pinfold.python(libc + "r = libc.syscall(162); print(r, ctypes.get_errno())\n"
                            "import os; fd = os.open('/tmp/x', os.O_CREAT | os.O_WRONLY); os.fsync(fd); print('own')")
    assert result["stdout"] == "-1 1\nown\n", result
    assert subprocess.run(["/usr/bin/python3", "-c", libc + "print(libc.syscall(162))"], capture_output=True).stdout == b"0\n"


def test_a_flood_of_dirty_pages_stays_within_the_memory_limit(as_root, tmp_path):
    """What is written and not on the disk yet counts as the sandbox's own memory, and so does what is left of it at the end."""
    if subprocess.check_output(["stat", "-f", "-c", "%T", tmp_path], text=True).strip() == "tmpfs":
        pytest.skip("nothing is written out from a tmpfs")
    work = tmp_path / "work"
    work.mkdir()
    peaks = {}
    for memory in (32 << 20, 512 << 20):
        result = as_root.json("dd", "if=/dev/zero", "of=/workspace/flood", "bs=1M", "count=128", options=["--workspace", str(work)],
                              policy=as_root.policy(resources={"memory": memory, "wall_time": "2m"}))
        assert result["status"] in ("success", "memory"), result
        peaks[memory] = result["usage"]["memory_peak_bytes"]
        (work / "flood").unlink()
    assert peaks[32 << 20] <= 32 << 20 and peaks[512 << 20] > 128 << 20, peaks


def test_kernel_objects_that_no_memory_limit_counts_are_bounded(pinfold):
    source = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def count(make, most=5000):
    n = 0
    while n < most and make() >= 0: n += 1
    for fd in range(10, 6000):
        try: os.close(fd)
        except OSError: pass
    return n
print(count(lambda: libc.eventfd(0, 0)), count(lambda: libc.epoll_create1(0)), count(lambda: libc.inotify_init1(0)),
      count(lambda: libc.timerfd_create(1, 0)), count(lambda: libc.pidfd_open(os.getpid(), 0)))
"""
    counts = [int(n) for n in pinfold.python(source, policy=pinfold.policy(resources={"files": 256}))["stdout"].split()]
    assert len(counts) == 5 and max(counts) < 256


WATCHES = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
held = []
while len(held) < 4000 and (fd := libc.inotify_init1(0)) >= 0: held.append(fd)
print(len(held), errno.errorcode.get(ctypes.get_errno(), 'none'))
"""


def test_watches_of_files_are_a_part_of_what_whoever_started_it_has(pinfold):
    """The host counts them for the maker of the namespace: all that root has would be held by one sandbox. The control is the
    host, where the same program gets what nobody else holds at the time."""
    policy = pinfold.policy(extends=["build"])
    held, why = pinfold.python(WATCHES, policy=policy)["stdout"].split()
    assert int(held) <= 32 and why == "EMFILE", held
    read = "print(*(open('/proc/sys/user/max_inotify_' + n).read().strip() for n in ('instances', 'watches')))"
    assert pinfold.python(read, policy=policy)["stdout"] == "32 16384\n"
    assert {int(n) for n in subprocess.check_output(["/usr/bin/python3", "-c", read], text=True).split()} & {32, 16384} == set()


REQUESTS = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
queue = ctypes.c_ulong(0)
print(libc.syscall(206, 1, ctypes.byref(queue)), ctypes.get_errno())
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="a number of this architecture's")
@pytest.mark.parametrize("profile", ["strict", "tool", "build"])
def test_requests_of_which_the_host_has_one_number_for_all_are_not_had(pinfold, profile):
    """fs.aio-max-nr: what a sandbox holds, a database of the host's lacks. The control is a policy that lets it."""
    assert pinfold.python(REQUESTS, policy=pinfold.policy(extends=[profile]))["stdout"] == "-1 1\n"
    if profile == "build":
        allowed = pinfold.policy(extends=[profile], syscalls={"allow": ["@aio"]})
        assert pinfold.python(REQUESTS, policy=allowed)["stdout"] == "0 0\n"


TERMINALS = """
import os
held = []
try:
    while len(held) < 200: held.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
except OSError as error: print(os.strerror(error.errno))
print(len(held))
"""


def test_terminals_are_bounded_by_sandbox(pinfold):
    """A host has a few thousand for all its sandboxes. The control is the host's own instance, where the same program gets 200."""
    assert pinfold.python(TERMINALS)["stdout"] == "No space left on device\n64\n"
    assert subprocess.check_output(["/usr/bin/python3", "-c", TERMINALS], text=True) == "200\n"


def test_signals_can_be_queued_only_so_far(pinfold):
    source = """
import os, signal, ctypes
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
libc = ctypes.CDLL(None)
n = 0
while n < 200000 and libc.sigqueue(os.getpid(), signal.SIGRTMIN, 0) == 0: n += 1
print(n)
"""
    assert int(pinfold.python(source)["stdout"]) <= 1024  # a host of 2 GiB has 8,000 for all that its root has started


def test_hoarded_pipes_of_one_sandbox_dont_stop_the_next(pinfold):
    """Pipe pages are counted by user; an ordinary user's sandboxes share one."""
    hoard = """
import fcntl, os
held = 0
for _ in range(120):
    try:
        r, w = os.pipe(); fcntl.fcntl(w, 1031, 1 << 20); held += 1
    except OSError: break
print('on', held, flush=True)
import time; time.sleep(60)
"""
    process = pinfold.spawn(pinfold.argv("/usr/bin/python3", "-c", hoard), stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline().startswith(b"on ")
        policy = pinfold.policy(resources={"stdout": "64MiB"})
        assert len(pinfold.run("head", "-c", "5000000", "/dev/zero", policy=policy).stdout) == 5000000
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_five_hundred_quick_runs_leave_nothing_behind(as_root):
    policy = as_root.policy()
    argv = as_root.argv("true", policy=policy)
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(500):
        assert subprocess.call(argv, env=as_root.environment()) == 0
    assert as_root.leftovers() == [] and len(os.listdir("/proc/self/fd")) <= descriptors  # others' may be closed meanwhile
    with open("/proc/self/mountinfo") as table:
        assert [line for line in table if str(as_root.home) in line] == []
