"""What the attacks on pinfold-oci share: a folder that nobody may touch, races of two names, naive tools for controls."""
import ctypes
import json
import os
import pathlib
import stat
import subprocess
import sys
import traceback

import pytest

ROUNDS = int(os.environ.get("PINFOLD_RACE_ROUNDS", "250"))
PROC = {"destination": "/proc", "type": "proc", "source": "proc"}
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x1000, 0x4000, 0x40000, 2


def tree_of(path):
    """Names, kinds, modes and contents below a directory."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            at = os.path.join(folder, name)
            mode = os.lstat(at).st_mode
            found[at] = mode, pathlib.Path(at).read_bytes() if stat.S_ISREG(mode) else b""
    return found


@pytest.fixture
def outside(tmp_path):
    """What no container may see or change."""
    folder = tmp_path / "outside"
    (folder / "x").mkdir(parents=True)
    (folder / "canary").write_text("alive")
    before = tree_of(folder)
    yield folder
    assert tree_of(folder) == before


class Exchange:
    """Another process that exchanges two names without end."""
    SOURCE = ("import ctypes, sys, time\nlibc = ctypes.CDLL(None)\none, other = (word.encode() for word in sys.argv[1:])\ncount = 0\n"
              "while True:\n    libc.renameat2(-100, one, -100, other, 2)\n    count += 1\n    if count % 16 == 0: time.sleep(0.0003)\n")

    def __init__(self, one, other):
        self.argv = [sys.executable, "-c", self.SOURCE, str(one), str(other)]

    def __enter__(self):
        self.process = subprocess.Popen(self.argv)
        return self

    def __exit__(self, *_):
        assert self.process.poll() is None
        self.process.kill()
        self.process.wait()


def in_a_child(function):
    """True when the function said so; in a process and a mount namespace of its own."""
    pid = os.fork()
    if pid == 0:
        code = 3
        try:
            assert libc.unshare(CLONE_NEWNS) == 0 and libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0
            code = 0 if function() else 1
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 1), "the control itself failed"
    return code == 0


def edit(folder, change):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def with_python(config):
    """The host's /usr, read-only, so that a probe can be written in Python."""
    config["mounts"] += [{"destination": f"/{name}", "type": "bind", "source": os.path.realpath(f"/{name}"), "options": ["rbind", "ro"]}
                         for name in ("usr", "lib", "lib64") if os.path.isdir(f"/{name}")]
