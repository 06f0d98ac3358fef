"""What the tests of whole commands share: the built programs, run as root and as an ordinary user.

PINFOLD_BUILD names the build directory (build/ci, else build/release). The programs are copied where an ordinary user can
reach them; state and cache are the test's own, so that a run of the tests never meets the sandboxes of the host.
"""
import contextlib
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
USER = 61234  # an id that owns nothing
VM = pathlib.Path(os.environ.get("PINFOLD_VM", ROOT.parent / "shared/vm/run-in-cgroup2-vm"))


def take_signals_as_a_login_does():
    """Whoever starts the tests in the background (CI, nohup) leaves SIGINT, SIGQUIT and SIGHUP ignored, which is inherited
    and which the programs respect; the tests are about the signals, so each has its usual meaning for them."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2,
                   signal.SIGALRM, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGWINCH):
        signal.signal(number, signal.SIG_DFL)


take_signals_as_a_login_does()
os.umask(0o022)

LONGEST_S = 400  # of any test: one that waits for ever fails by its name instead of holding up all


@contextlib.contextmanager
def no_longer_than(seconds):
    def give_up(*_):
        raise TimeoutError(f"it has gone on for {seconds} seconds")
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    with no_longer_than(LONGEST_S):
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_call(item):
    with no_longer_than(LONGEST_S):
        yield


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    with no_longer_than(LONGEST_S):
        yield


def build_directory():
    named = os.environ.get("PINFOLD_BUILD")
    candidates = [pathlib.Path(named)] if named else [ROOT / "build/ci", ROOT / "build/release"]
    for path in candidates:
        if (path / "tools/pinfold/pinfold").exists():
            return path
    pytest.exit(f"no build in {', '.join(map(str, candidates))}: run tools/test", returncode=1)


def needs(*programs):
    """A mark: skipped by name where one of them, a name or a path, isn't installed; None stands for what wasn't found."""
    missing = [str(program) for program in programs if not program or shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def has_module(name):
    """Debian's Python is the sandbox's, and need not be the one that runs the tests."""
    return subprocess.run(["/usr/bin/python3", "-c", f"import {name}"], capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """A directory with the programs that everybody may enter."""
    target = tmp_path_factory.mktemp("programs")
    for path in target.parents:
        if path == pathlib.Path("/tmp"):
            break
        os.chmod(path, 0o755)
    os.chmod(target, 0o755)
    for program in build_directory().glob("tools/pinfold*/pinfold*"):
        if program.is_file() and os.access(program, os.X_OK):
            shutil.copy(program, target / program.name)
    return target


class Pinfold:
    """The command, as one user, with one loop, and a state of its own."""

    def __init__(self, programs, home, uid=0, io="auto"):
        self.program = programs / "pinfold"
        self.home, self.uid, self.io = home, uid, io
        self.state, self.cache = home / "state", home / "cache"
        for folder in (self.state, self.cache):
            folder.mkdir(mode=0o700, exist_ok=True)
            os.chown(folder, uid, uid)
        os.chown(home, uid, uid)
        os.chmod(home, 0o755)
        self.policies = 0

    @property
    def rootless(self):
        return self.uid != 0

    def environment(self, **extra):
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home),
                "PINFOLD_STATE": str(self.state), "PINFOLD_CACHE": str(self.cache), "PINFOLD_BILLS": str(self.home / "bills"),
                "PINFOLD_CONFIG": str(self.home / "config"), "PINFOLD_DEPS": str(self.home / "deps"), "LANG": "C.UTF-8", **extra}

    def policy(self, **fields):
        """Writes a policy; what an ordinary user can't have on this host is optional for that user."""
        self.policies += 1
        path = self.home / f"policy{self.policies}.json"
        whole = {"pinfold": 1, "name": f"test{self.policies}", **fields}
        if self.rootless:
            whole.setdefault("optional", ["memory", "swap", "cpus", "pids"])
        path.write_text(json.dumps(whole))
        os.chown(path, self.uid, self.uid)
        os.chmod(path, 0o644)
        return str(path)

    def argv(self, *arguments, policy=None, options=()):
        if policy is None:
            policy = self.policy()
        return [str(self.program), "run", "--io", self.io, "--policy", policy, *options, "--", *arguments]

    def spawn(self, argv, env=None, **kwargs):
        identity = {"user": self.uid, "group": self.uid, "extra_groups": []} if self.rootless else {}
        return subprocess.Popen(argv, env=env or self.environment(), **identity, **kwargs)

    def call(self, argv, input=b"", timeout=60, env=None, **kwargs):
        process = self.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **kwargs)
        out, err = process.communicate(input, timeout=timeout)
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def groups(self):
        """The cgroups of this state, by the name that runtime/state/state_dir.c gives them."""
        facts = os.stat(self.state)
        tag = f"pinfold-{((facts.st_dev * 0x9E3779B97F4A7C15) & (2**64 - 1)) ^ facts.st_ino:016x}"
        with open("/proc/self/cgroup") as table:
            own = {line.rstrip("\n").split(":", 2)[2] for line in table} | {"/"}
        parents = [pathlib.Path(f"{mount}{place}") for place in own for mount in ["/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*")]]
        whole = {parent.resolve() / tag for parent in parents if (parent / tag).is_dir()}
        return [pathlib.Path(folder) for top in whole for folder, _, _ in os.walk(top, topdown=False)]

    def leftovers(self):
        """What lies in the state directory and in cgroups beyond what an idle pinfold keeps there."""
        claimed = [number for number, byte in enumerate((self.state / "slots").read_bytes()) if byte]
        folders = [str(p.relative_to(self.state)) for p in self.state.rglob("*") if p.name not in ("slots", "records", "scratch", "kept")]
        return folders + claimed + [str(g) for g in self.groups() if g.name.isdigit()]

    def remove_pool(self):
        """What calls start for the next ones, behind their answers: some of it may only come now."""
        for kind in ("warm", "ahead"):
            for place in (self.state / "sandboxes").glob(f"{kind}-*"):
                self.call([str(self.program), "rm", "--force", place.name])

    def close(self, within=60):
        """Commands clear what killed ones left; the groups of this test's state go with it."""
        until = time.monotonic() + within
        while groups := self.groups():
            self.remove_pool()
            self.run("true")
            for group in groups:
                with contextlib.suppress(OSError):
                    group.rmdir()
            if not self.groups():
                break
            assert time.monotonic() < until, f"left over: {self.groups()}"
            time.sleep(0.05)

    def run(self, *arguments, policy=None, options=(), **kwargs):
        return self.call(self.argv(*arguments, policy=policy, options=options), **kwargs)

    def json(self, *arguments, policy=None, options=(), **kwargs):
        done = self.run(*arguments, policy=policy, options=["--json", *options], **kwargs)
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise AssertionError(f"not JSON: {done.stdout!r} {done.stderr!r}") from error

    def python(self, source, *arguments, **kwargs):
        """Runs Python source inside; the JSON result of the run."""
        return self.json("/usr/bin/python3", "-c", source, *arguments, **kwargs)


def make_home(tmp_path):
    for path in [tmp_path, *tmp_path.parents]:
        if path == pathlib.Path("/tmp"):
            break
        os.chmod(path, 0o755)
    home = tmp_path / "home"
    home.mkdir()
    return home


def opened(pinfold):
    yield pinfold
    pinfold.close()


@pytest.fixture(params=["root", "user"])
def pinfold(request, programs, tmp_path):
    """The command as root and as an ordinary user."""
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    uid = 0 if request.param == "root" else USER
    if os.geteuid() != 0:
        uid = os.geteuid()
    yield from opened(Pinfold(programs, make_home(tmp_path), uid))


@pytest.fixture
def as_root(programs, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    yield from opened(Pinfold(programs, make_home(tmp_path)))


@pytest.fixture(params=["uring", "epoll"])
def each_io(request, programs, tmp_path):
    """The command as whoever runs the tests, on both loops."""
    yield from opened(Pinfold(programs, make_home(tmp_path), os.geteuid(), io=request.param))
