"""What the runtime holds, loads or shows at the moments when it hands something over: to a second command, to a hook, to a process
that joins. The root is a stranger's, and what lies in it tries to get into programs that aren't in the sandbox yet.
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "integration"))
from kept_sandbox import kept  # noqa: E402, F401  (a fixture)
from test_mounts import make_bundle, needs_busybox, run_bundle  # noqa: E402

STRACE, GCC = shutil.which("strace"), shutil.which("gcc")
needs_gcc = pytest.mark.skipif(GCC is None, reason="needs gcc")
FDS = "import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:-1])"


class Engine:
    """pinfold-oci with a bundle and containers of its own: no user namespace and no policy, as engines start it."""

    def __init__(self, as_root, tmp_path):
        self.as_root, self.program, self.containers = as_root, as_root.program.parent / "pinfold-oci", tmp_path / "containers"
        self.bundle, self.root, self.config = make_bundle(tmp_path, 0)
        self.config["linux"]["namespaces"] = [{"type": t} for t in ("pid", "mount", "network", "ipc", "uts")]
        self.config["process"]["user"] = {"uid": 0, "gid": 0}
        self.name = f"attack-{os.getpid()}"

    def argv(self, verb, *words):
        return [str(self.program), "--root", str(self.containers), verb, *words]

    def call(self, verb, *words, **more):
        (self.bundle / "config.json").write_text(json.dumps(self.config))
        return self.as_root.call(self.argv(verb, *words), **more)

    def ok(self, verb, *words, **more):
        done = self.call(verb, *words, **more)
        assert done.returncode == 0, done
        return done

    def create(self):
        """The container gets files for its output: with pipes the end of `create` would not be seen."""
        (self.bundle / "config.json").write_text(json.dumps(self.config))
        with open(self.bundle / "log", "wb") as log:
            assert self.as_root.spawn(self.argv("create", "--bundle", str(self.bundle), self.name), stdin=subprocess.DEVNULL, stdout=log,
                                      stderr=log).wait(60) == 0, (self.bundle / "log").read_text()

    def close(self):
        self.call("delete", "--force", self.name)


@pytest.fixture
def engine(as_root, tmp_path):
    engine = Engine(as_root, tmp_path)
    yield engine
    engine.close()


# ---- descriptors ------------------------------------------------------------------------------------------------------

def test_a_second_command_has_no_descriptor_but_its_own(kept):
    """Neither the caller's, nor the supervisor's, nor init's, nor the first command's. The control lists what the caller hands on."""
    kept.up("work")
    kept.exec("work", "sh", "-c", "exec 7</tmp 8>/tmp/file; sleep 60 & exit 0")
    held = [os.open("/", os.O_RDONLY), *(s.detach() for s in socket.socketpair())]
    try:
        for options in ([], ["--stdin", "/dev/null"], ["--env", "A=b"]):
            done = kept.exec("work", "/usr/bin/python3", "-c", FDS, options=options, pass_fds=held)
            assert done.stdout == b"[0, 1, 2]\n", done
        control = subprocess.run(["/usr/bin/python3", "-c", FDS], pass_fds=held, capture_output=True, check=True).stdout
    finally:
        for fd in held:
            os.close(fd)
    assert len(json.loads(control)) == 6


@needs_busybox
def test_a_hook_has_no_descriptor_but_its_input_and_the_streams(engine, tmp_path):
    """Not even one that the container is to keep, which is the control: hooks of all stages, some of them inside the new namespaces."""
    def hook(stage):
        return [{"path": "/bin/sh", "args": ["sh", "-c", f"ls /proc/self/fd | tr '\\n' ' ' >{tmp_path}/{stage}"]}]
    stages = ("prestart", "createRuntime", "createContainer", "poststart", "poststop")
    engine.config["hooks"] = {stage: hook(stage) for stage in stages}
    engine.config["process"]["args"] = ["/bin/sh", "-c", "busybox ls /proc/self/fd | busybox tr '\\n' ' '"]
    read, write = os.pipe()
    high = os.dup2(read, 250)
    try:
        argv = [*engine.argv("run"), "--preserve-fds", "1", "--bundle", str(engine.bundle), engine.name]
        (engine.bundle / "config.json").write_text(json.dumps(engine.config))
        done = engine.as_root.call(["bash", "-c", f'exec 3<&{read}; exec "$@"', "bash", *argv], pass_fds=[read, write, high])
    finally:
        for fd in (read, write, high):
            os.close(fd)
    assert done.stdout.split() == [b"0", b"1", b"2", b"3", b"4"], done  # the kept one, and that of ls
    for stage in stages:
        assert (tmp_path / stage).read_text().split() == ["0", "1", "2", "3"], stage  # the last is ls's


# ---- working directories ----------------------------------------------------------------------------------------------

ENTER = """
import os
for fd in range(1024):
    try:
        os.chdir(f'/proc/self/fd/{fd}')
        if 'canary' in os.listdir('.'): print('ESCAPED')
    except OSError: pass
print('tried')
"""


def test_a_descriptor_of_the_host_is_no_working_directory(pinfold, tmp_path):
    """CVE-2024-21626. The control is a tool that changes the root, and leaves the caller's descriptor open."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("alive")
    held = os.open(outside, os.O_RDONLY)
    try:
        done = pinfold.call(pinfold.argv("/usr/bin/python3", "-c", ENTER), pass_fds=[held])
        assert done.stdout == b"tried\n", done
        if os.geteuid() == 0:
            naive = f"import os, sys; os.makedirs({str(tmp_path / 'jail')!r}); os.chroot({str(tmp_path / 'jail')!r}); os.chdir('/')\n"
            naive += ENTER.replace("os.chdir(f'/proc/self/fd/{fd}')", "os.fchdir(fd)")  # what that link leads to
            control = subprocess.run(["/usr/bin/python3", "-c", naive], pass_fds=[held], capture_output=True, check=True).stdout
            assert control == b"ESCAPED\ntried\n"
    finally:
        os.close(held)


# ---- libraries and files of the sandbox's root ------------------------------------------------------------------------

POISON = """
#include <unistd.h>
__attribute__((constructor)) static void act(void) { (void)!write(1, "POISON\\n", 7); }
"""


def loads(line):
    """What maps memory without a file, or only names a place, as a rule of Landlock's does, takes nothing from it."""
    return line.startswith(("open", "mmap(", "execve(")) and "MAP_ANONYMOUS" not in line and "O_PATH" not in line


@pytest.fixture
def poisoned(pinfold, tmp_path):
    """A bundle whose root has a library for every program that is loaded there: the dynamic `env` is one, busybox is none."""
    bundle, root, config = make_bundle(tmp_path, pinfold.uid)
    (tmp_path / "poison.c").write_text(POISON)
    libraries = re.findall(r"(/\S+) \(0x", subprocess.check_output(["ldd", "/usr/bin/env"], text=True))
    for path in ["/usr/bin/env", *libraries]:
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    subprocess.run([GCC, "-shared", "-fPIC", "-o", root / "poison.so", tmp_path / "poison.c"], check=True)
    (root / "etc/ld.so.preload").write_text("/poison.so\n")
    for name in ("libnss_files.so.2", "libnss_compat.so.2"):
        for folder in {os.path.dirname(path) for path in libraries}:
            if not (root / folder[1:] / name).exists():
                shutil.copy(root / "poison.so", root / folder[1:] / name)
    (root / "etc/nsswitch.conf").write_text("passwd: compat files\n")
    (root / "etc/passwd").write_text("user:x:1000:1000::/:/bin/sh\n")
    return bundle, root, config


def traced(pinfold, folder, argv):
    """What each process did, in a list of its calls; the output."""
    folder.mkdir()
    os.chown(folder, pinfold.uid, pinfold.uid)
    calls = "open,openat,openat2,mmap,execve,pivot_root,chroot"
    done = pinfold.call([STRACE, "-ff", "-o", str(folder / "p"), "-e", f"trace={calls}", *argv])
    return done, {path.name: path.read_text().splitlines() for path in folder.iterdir()}


def until(lines, word):
    """Those before the first that holds the word."""
    return lines[:next(i for i, line in enumerate(lines) if word in line)]


@needs_busybox
@needs_gcc
@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_nothing_of_the_root_is_loaded_before_the_command(pinfold, poisoned, tmp_path):
    """CVE-2019-14271. After the change of the root the builder opens nothing and maps no file, init is static, and what becomes the
    command opens nothing before it is that. The control is a dynamic program in the same root: it does load the library."""
    bundle, _, config = poisoned
    config["process"]["args"] = ["/bin/busybox", "echo", "ran"]
    (bundle / "config.json").write_text(json.dumps(config))
    argv = [str(pinfold.program), "run", "--policy", pinfold.policy(images=["*"]), "--bundle", str(bundle)]
    done, processes = traced(pinfold, tmp_path / "static", argv)
    assert done.stdout == b"ran\n", done
    builders = [lines for lines in processes.values() if any(line.startswith("pivot_root(") for line in lines)]
    commands = [lines for lines in processes.values() if any('execve("/bin/busybox"' in line for line in lines)]
    assert len(builders) == len(commands) == 1, processes
    after = builders[0][next(i for i, line in enumerate(builders[0]) if line.startswith("pivot_root(")) + 1:]
    touched = [line for line in after if loads(line) and not line.startswith('execve("/proc/self/fd/4"')]
    assert touched == [] and any('execve("/proc/self/fd/4"' in line for line in after), after
    assert [line for line in until(commands[0], 'execve("/bin/busybox"') if loads(line)] == []
    config["process"]["args"] = ["/usr/bin/env"]
    control = run_bundle(pinfold, bundle, config)
    assert control.stdout.count(b"POISON\n") == 1, control


@needs_busybox
@needs_gcc
@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_nothing_of_the_root_is_loaded_by_who_joins_it(engine, tmp_path, as_root):
    """The same for `exec`, which enters a running container as the host's root. It reads one file there, by a reader of its own: the one
    that says where the user is at home."""
    (tmp_path / "poison.c").write_text(POISON)
    subprocess.run([GCC, "-shared", "-fPIC", "-o", engine.root / "poison.so", tmp_path / "poison.c"], check=True)
    (engine.root / "etc/ld.so.preload").write_text("/poison.so\n")
    (engine.root / "etc/passwd").write_text("user:x:1000:1000::/:/bin/sh\n")
    engine.config["process"]["args"] = ["/bin/busybox", "sleep", "60"]
    engine.create()
    engine.ok("start", engine.name)
    done, processes = traced(as_root, tmp_path / "join", engine.argv("exec", engine.name, "/bin/busybox", "echo", "ran"))
    assert done.stdout == b"ran\n", done
    commands = [lines for lines in processes.values() if any('execve("/bin/busybox"' in line for line in lines)]
    before = [line for line in until(commands[0], 'execve("/bin/busybox"') if loads(line)]
    assert len(commands) == 1 and all(line.startswith('open("/etc/passwd", O_RDONLY') for line in before), before


# ---- a process that joins, seen from inside ---------------------------------------------------------------------------

POLLER = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>
static long seen, opened;
static void look(const char *pid) {
    static const char *const parts[] = {"mem", "maps", "environ", "auxv"}, *const links[] = {"exe", "cwd", "root"};
    char path[64], link[256];
    snprintf(path, sizeof(path), "/proc/%s/exe", pid);
    ssize_t got = readlink(path, link, sizeof(link) - 1);
    if (got >= 0) {
        link[got] = 0;
        if (strcmp(link, "/bin/busybox") != 0 && strcmp(link, "/poller") != 0) {
            opened++;
            printf("exe %s\n", link);
        }
        return;
    }
    if (errno != EACCES && errno != EPERM)
        return;
    seen++;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "/proc/%s/%s", pid, parts[i]);
        int fd = open(path, O_RDWR);
        if (fd < 0) fd = open(path, O_RDONLY);
        char byte[64];
        if (fd >= 0 && readlink(path, link, 1) < 0 && pread(fd, byte, sizeof(byte), 0) > 0) {
            /* it may have become the command meanwhile: then its program can be read, too, or it has ended already */
            snprintf(path, sizeof(path), "/proc/%s/exe", pid);
            if (readlink(path, link, sizeof(link)) < 0 && (errno == EACCES || errno == EPERM)) { opened++; printf("read %s\n", parts[i]); }
        }
        if (fd >= 0) close(fd);
    }
    (void)links;
}
int main(void) {
    char self[16], first[] = "1";
    snprintf(self, sizeof(self), "%d", getpid());
    for (int round = 0; access("/tmp/stop", F_OK) != 0; round++) {
        DIR *proc = opendir("/proc");
        for (struct dirent *e; (e = readdir(proc)) != NULL;)
            if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && strcmp(e->d_name, self) != 0 && strcmp(e->d_name, first) != 0)
                look(e->d_name);
        closedir(proc);
        if (round == 0) { puts("on"); fflush(stdout); }
    }
    printf("seen %ld opened %ld\n", seen, opened);
    return 0;
}
"""
NAIVE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fds = [os.open(f'/proc/{sys.argv[1]}/ns/{n}', os.O_RDONLY) for n in ('pid', 'ipc', 'uts', 'net', 'mnt')]
for fd in fds: assert libc.setns(fd, 0) == 0
for _ in range(50):
    child = os.fork()
    if child == 0:
        header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        assert libc.capset(header, none) == 0
        for _ in range(20): os.sched_yield()
        os.execv('/bin/busybox', ['busybox', 'true'])
    os.waitpid(child, 0)
"""
JOINS = int(os.environ.get("PINFOLD_RACE_ROUNDS", "200"))


@needs_busybox
@needs_gcc
def test_who_joins_a_container_can_not_be_opened_by_what_runs_there(engine, tmp_path):
    """CVE-2016-9962, as the host's root on both sides, without a user namespace between them. The poller sees the joining process, and
    reads nothing of it. The control joins as carelessly as can be: it has the container's credentials already, and hides nothing."""
    (tmp_path / "poller.c").write_text(POLLER)
    if subprocess.run([GCC, "-static", "-O2", "-o", engine.root / "poller", tmp_path / "poller.c"], capture_output=True).returncode != 0:
        pytest.skip("needs a static C library")
    engine.config["process"]["args"] = ["/bin/busybox", "sleep", "600"]
    engine.create()
    engine.ok("start", engine.name)

    def polled(join, rounds):
        poller = engine.as_root.spawn(engine.argv("exec", engine.name, "/poller"), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert poller.stdout.readline() == b"on\n"
        for _ in range(rounds):
            assert join().returncode == 0
        engine.ok("exec", engine.name, "/bin/busybox", "touch", "/tmp/stop")
        out = poller.communicate(timeout=60)[0].decode()
        engine.ok("exec", engine.name, "/bin/busybox", "rm", "/tmp/stop")
        return out, *(int(n) for n in re.search(r"seen (\d+) opened (\d+)", out).groups())
    out, seen, opened = polled(lambda: engine.call("exec", engine.name, "/bin/busybox", "true"), JOINS)
    assert opened == 0 and seen > 0, out[-500:]
    pid = str(json.loads(engine.ok("state", engine.name).stdout)["pid"])
    spaces = engine.config["linux"]["namespaces"]  # a container that is built in the same namespace of processes: a pod's
    engine.config["linux"]["namespaces"] = [{"type": "pid", "path": f"/proc/{pid}/ns/pid"}, *(s for s in spaces if s["type"] != "pid")]
    engine.config["process"]["args"] = ["/bin/busybox", "true"]
    out, seen, opened = polled(lambda: engine.call("run", "--bundle", str(engine.bundle), f"{engine.name}-next"), JOINS // 4)
    assert opened == 0 and seen > 0, out[-500:]
    for _ in range(20):
        out, _, opened = polled(lambda: subprocess.run(["/usr/bin/python3", "-c", NAIVE, pid]), 1)
        if opened > 0:
            return
    raise AssertionError(f"the control was never caught: {out}")
