"""Kernels with an older Landlock: a test that answers landlock_create_ruleset(2) as they would. At each ABI the strongest
rule set is built that it knows, nothing is asked of it that it doesn't know, and the mounts stay as they are.

The answers come by seccomp's user notification: unlike a filter alone it can return a version, and look at the attributes.
"""
import array
import ctypes
import errno
import fcntl
import json
import os
import platform
import select
import socket
import struct
import threading

import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter knows the numbers of x86_64")

CREATE_RULESET, SECCOMP = 444, 317
SET_MODE_FILTER, NEW_LISTENER, USER_NOTIF, ALLOW, CONTINUE = 1, 1 << 3, 0x7fc00000, 0x7fff0000, 1
NOTIF_RECV, NOTIF_SEND = 0xc0502100, 0xc0182101  # _IOWR('!', 0, struct seccomp_notif) and 1, struct seccomp_notif_resp
VERSION_FLAG = 1

# Documentation/userspace-api/landlock.rst, "Previous limitations": the rights of files and the scopes that each ABI knows, and
# the size of its struct landlock_ruleset_attr
FILES_1, REFER, TRUNCATE, IOCTL_DEV = 2**13 - 1, 2**13, 2**14, 2**15
KNOWS = {
    1: (FILES_1, 0, 8),
    2: (FILES_1 | REFER, 0, 8),
    3: (FILES_1 | REFER | TRUNCATE, 0, 8),
    4: (FILES_1 | REFER | TRUNCATE, 0, 16),
    5: (FILES_1 | REFER | TRUNCATE | IOCTL_DEV, 0, 16),
    6: (FILES_1 | REFER | TRUNCATE | IOCTL_DEV, 3, 24),
    7: (FILES_1 | REFER | TRUNCATE | IOCTL_DEV, 3, 24),
}
LOOK = r"""
import json, os
def attempt(action, *arguments):
    try: action(*arguments)
    except OSError as error: return error.errno
    return 0
os.mkdir("/workspace/a"), os.mkdir("/workspace/b"), open("/workspace/a/f", "w").close()
print(json.dumps({"usr": attempt(open, "/usr/x", "w"), "etc": attempt(open, "/etc/hosts", "w"), "write": attempt(open, "/workspace/w", "w"),
    "tmp": attempt(open, "/tmp/w", "w"), "null": attempt(open, "/dev/null", "w"),
    "moved": attempt(os.rename, "/workspace/a/f", "/workspace/b/f")}))
"""


def best_abi():
    return ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, VERSION_FLAG)


class Kernel:
    """Answers for a kernel of `abi`, and remembers what it was asked to handle."""

    def __init__(self, abi):
        self.abi, self.asked, self.faults = abi, [], []
        self.ours, self.theirs = socket.socketpair()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def load(self):
        """In the process that is to live on it: for preexec_fn."""
        code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, CREATE_RULESET) + \
            struct.pack("HBBI", 0x06, 0, 0, USER_NOTIF) + struct.pack("HBBI", 0x06, 0, 0, ALLOW)
        buffer = ctypes.create_string_buffer(code, len(code))
        header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        listener = libc.syscall(SECCOMP, SET_MODE_FILTER, NEW_LISTENER, header)
        assert listener >= 0
        self.theirs.sendmsg([b"l"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
        os.close(listener)

    def judge(self, pid, attributes, size, flags):
        """(value, error, flags) as seccomp_notif_resp has them."""
        if attributes == 0 and flags == VERSION_FLAG:
            return self.abi, 0, 0
        files, scopes, known_size = KNOWS[self.abi]
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(attributes)
            given = memory.read(size).ljust(24, b"\0")
        handled, network, scoped = struct.unpack("QQQ", given)
        self.asked.append((handled, network, scoped, size))
        if any(given[known_size:]):
            return 0, -errno.E2BIG, 0
        if handled & ~files or scoped & ~scopes:
            return 0, -errno.EINVAL, 0
        return 0, 0, CONTINUE

    def serve(self):
        _, control, _, _ = self.ours.recvmsg(1, socket.CMSG_SPACE(4))
        listener = struct.unpack("i", control[0][2][:4])[0]
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while not any(event & select.POLLHUP for _, event in poll.poll()):  # until the last that lives on it has ended
            try:
                request = fcntl.ioctl(listener, NOTIF_RECV, bytes(80))
                cookie, pid, _, _, _, _, attributes, size, flags = struct.unpack_from("=QIIiIQQQQ", request)
                fcntl.ioctl(listener, NOTIF_SEND, struct.pack("=QqiI", cookie, *self.judge(pid, attributes, size, flags)))
            except OSError as error:  # it has died meanwhile
                self.faults.append(error)
        os.close(listener)


def run_on(pinfold, abi, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, pinfold.uid, pinfold.uid)
    kernel = Kernel(abi)
    argv = pinfold.argv("python3", "-c", LOOK, options=["--json", "--workspace", str(work)])
    done = pinfold.call(argv, preexec_fn=kernel.load)
    kernel.theirs.close()
    kernel.thread.join(10)
    return kernel, json.loads(done.stdout)


@pytest.mark.parametrize("abi", sorted(KNOWS))
def test_at_each_abi_the_strongest_rule_set_that_it_knows_is_built(as_root, abi, tmp_path):
    if best_abi() < abi:
        pytest.skip(f"Landlock of this kernel has ABI {best_abi()}")
    kernel, result = run_on(as_root, abi, tmp_path)
    files, scopes, size = KNOWS[abi]
    assert result["status"] == "success", result
    assert kernel.asked == [(files, 0, scopes, size)] and result["missing"] == []
    seen = json.loads(result["stdout"])
    moved = 0 if abi >= 2 else errno.EXDEV  # without REFER nothing moves between folders: mv(1) copies then
    assert seen == {"usr": errno.EROFS, "etc": errno.EROFS, "write": 0, "tmp": 0, "null": 0, "moved": moved}


def test_a_kernel_that_is_asked_for_more_than_it_knows_would_refuse(as_root, tmp_path):
    """The control: what ABI 6 is asked for, ABI 1 refuses, so that the rows above would see a right too many."""
    if best_abi() < 6:
        pytest.skip("needs ABI 6")
    kernel, _ = run_on(as_root, 6, tmp_path)
    handled, network, scoped, size = kernel.asked[0]
    old = Kernel.__new__(Kernel)
    old.abi, old.asked = 1, []
    memory = ctypes.create_string_buffer(struct.pack("QQQ", handled, network, scoped), 24)
    assert old.judge(os.getpid(), ctypes.addressof(memory), size, 0) == (0, -errno.E2BIG, 0)
    assert old.judge(os.getpid(), ctypes.addressof(memory), 8, 0) == (0, -errno.EINVAL, 0)


@pytest.mark.parametrize("optional", [False, True])
def test_a_landlock_that_is_off_is_a_refusal_or_said_to_be_missing(as_root, optional, tmp_path):
    """Built in, but not among the host's `lsm=`: EOPNOTSUPP, where a kernel without it says ENOSYS."""
    policy = as_root.policy(optional=["landlock"] if optional else [])

    class Off(Kernel):
        def judge(self, pid, attributes, size, flags):
            return 0, -errno.EOPNOTSUPP, 0
    kernel = Off(0)
    done = as_root.call(as_root.argv("echo", "on", policy=policy, options=["--json"]), preexec_fn=kernel.load)
    kernel.theirs.close()
    result = json.loads(done.stdout)
    if optional:
        assert (result["status"], result["stdout"], result["missing"]) == ("success", "on\n", ["landlock"])
    else:
        assert done.returncode == 125 and "landlock" in result["error"]["message"] and result["error"]["hint"]
