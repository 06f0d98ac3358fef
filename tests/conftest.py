"""What the tests of whole commands share: the built programs, run as root and as an ordinary user.

PINFOLD_BUILD names the build directory (build/ci, else build/release). The programs are copied where an ordinary user can
reach them; state and cache are the test's own, so that a run of the tests never meets the sandboxes of the host.
"""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
USER = 61234  # an id that owns nothing
VM = pathlib.Path(os.environ.get("PINFOLD_VM", ROOT.parent / "shared/vm/run-in-cgroup2-vm"))


def build_directory():
    named = os.environ.get("PINFOLD_BUILD")
    candidates = [pathlib.Path(named)] if named else [ROOT / "build/ci", ROOT / "build/release"]
    for path in candidates:
        if (path / "tools/pinfold/pinfold").exists():
            return path
    pytest.exit(f"no build in {', '.join(map(str, candidates))}: run tools/test", returncode=1)


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
                "PINFOLD_STATE": str(self.state), "PINFOLD_CACHE": str(self.cache), "LANG": "C.UTF-8", **extra}

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


@pytest.fixture(params=["root", "user"])
def pinfold(request, programs, tmp_path):
    """The command as root and as an ordinary user."""
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    uid = 0 if request.param == "root" else USER
    if os.geteuid() != 0:
        uid = os.geteuid()
    return Pinfold(programs, make_home(tmp_path), uid)


@pytest.fixture
def as_root(programs, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    return Pinfold(programs, make_home(tmp_path))


@pytest.fixture(params=["uring", "epoll"])
def each_io(request, programs, tmp_path):
    """The command as whoever runs the tests, on both loops."""
    return Pinfold(programs, make_home(tmp_path), os.geteuid(), io=request.param)
