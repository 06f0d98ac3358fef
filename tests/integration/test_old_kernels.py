"""Kernels that lack a call: a filter around pinfold answers as they would. The run has all its walls, or there is none.

Linux 5.15 is the oldest that docs/operations.md promises: with nothing that came later everything works. Where a kernel (or
a filter of whoever starts pinfold) lacks more than that, pinfold does without, says what is missing, or refuses by name.
"""
import ctypes
import errno
import json
import os
import platform
import struct

import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter knows the numbers of x86_64")

CALLS = {"memfd_create": 319, "execveat": 322, "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426,
         "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
         "pidfd_open": 434, "clone3": 435, "close_range": 436, "openat2": 437, "faccessat2": 439, "epoll_pwait2": 441,
         "mount_setattr": 442, "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
         "seccomp": 317, "pivot_root": 155, "keyctl": 250, "setns": 308}
FIRST_AFTER_5_15, MFD_NEWER, REGISTER_PBUF_RING = 448, 0x18, 22  # process_mrelease; MFD_NOEXEC_SEAL and MFD_EXEC: 6.3; 5.19
RET_ALLOW, RET_ERRNO, LOAD, JUMP_EQUAL, JUMP_FROM, JUMP_BITS, RETURN = 0x7fff0000, 0x50000, 0x20, 0x15, 0x35, 0x45, 0x06
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def instruction(code, value, yes=0, no=0):
    return struct.pack("HBBI", code, yes, no, value)


def answer(code):
    return instruction(RETURN, RET_ERRNO | code)


def lacking(*names, code=errno.ENOSYS):
    program = [instruction(LOAD, 0)]
    for name in names:
        program += [instruction(JUMP_EQUAL, CALLS[name], 0, 1), answer(code)]
    return program


def as_linux_5_15():
    """No younger call, no younger flag of memfd_create(2), no rings of buffers in io_uring."""
    return [instruction(LOAD, 0), instruction(JUMP_FROM, FIRST_AFTER_5_15, 0, 1), answer(errno.ENOSYS),
            instruction(JUMP_EQUAL, CALLS["memfd_create"], 0, 3), instruction(LOAD, 24), instruction(JUMP_BITS, MFD_NEWER, 0, 1),
            answer(errno.EINVAL), instruction(LOAD, 0),
            instruction(JUMP_EQUAL, CALLS["io_uring_register"], 0, 3), instruction(LOAD, 24),
            instruction(JUMP_EQUAL, REGISTER_PBUF_RING, 0, 1), answer(errno.EINVAL)]


def under(program):
    """For preexec_fn: what is started lives on a kernel like that."""
    code = b"".join([*program, instruction(RETURN, RET_ALLOW)])
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)

    def load():
        assert buffer is not None
        assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0) == 0
    return load


LOOK = r"""
import json, os
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
def fails(attempt, *arguments):
    try: attempt(*arguments)
    except OSError: return True
    return False
print(json.dumps({"filter": status["Seccomp"], "nnp": status["NoNewPrivs"], "capabilities": status["CapEff"], "bounding": status["CapBnd"],
    "processes": sum(name.isdigit() for name in os.listdir("/proc")) < 6, "descriptors": len(os.listdir("/proc/self/fd")) <= 4,
    "usr": fails(open, "/usr/x", "w"), "etc": fails(open, "/etc/x", "w"), "chroot": fails(os.chroot, "/"),
    "host": not os.path.exists("/root/.bashrc") and not os.path.exists("/sys/fs")}))
open("/workspace/made", "w").write("x"); open("/tmp/made", "w").write("x")
"""
WALLS = {"filter": "2", "nnp": "1", "capabilities": "0000000000000000", "bounding": "0000000000000000", "processes": True,
         "descriptors": True, "usr": True, "etc": True, "chroot": True, "host": True}


def run_under(pinfold, program, work, access="", **fields):
    options = ["--workspace", f"{work}{access}", "--json"]
    return pinfold.run("/usr/bin/python3", "-c", LOOK, policy=pinfold.policy(**fields), options=options, preexec_fn=under(program))


@pytest.fixture
def work(pinfold):
    folder = pinfold.home / "work"
    folder.mkdir()
    os.chown(folder, pinfold.uid, pinfold.uid)
    return folder


@pytest.mark.parametrize("access", ["", ":cow"])
@pytest.mark.parametrize("io", ["uring", "epoll"])
def test_with_nothing_younger_than_linux_5_15_everything_works(pinfold, work, io, access):
    pinfold.io = io
    done = run_under(pinfold, as_linux_5_15(), work, access)
    result = json.loads(done.stdout)
    assert result["exit_code"] == 0, (result, done.stderr)
    assert json.loads(result["stdout"]) == WALLS
    if access == "":
        made = (work / "made").stat()
        assert (made.st_uid, made.st_size) == (pinfold.uid, 1)
    else:
        assert [change["path"] for change in result["changes"]["list"]] == ["made"]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EPERM], ids=["ENOSYS", "EPERM"])
def test_a_kernel_that_lacks_a_call_gives_all_the_walls_or_a_refusal(pinfold, work, name, code):
    done = run_under(pinfold, lacking(name, code=code), work)
    answered = json.loads(done.stdout)
    if done.returncode == 0:
        assert json.loads(answered["stdout"]) == WALLS
    else:
        assert done.returncode in (125, 126), answered
        error = answered["error"]
        assert error["message"] and not (work / "made").exists()
        assert errno.errorcode[code] in error["message"] or error["hint"], error


NEEDLESS = ["io_uring_setup", "epoll_pwait2", "keyctl", "faccessat2", "execveat"]  # there is another way


@pytest.mark.parametrize("name", NEEDLESS)
def test_what_there_is_another_way_for_is_not_missed(pinfold, work, name):
    done = run_under(pinfold, lacking(name), work)
    assert done.returncode == 0, done.stdout
    assert json.loads(json.loads(done.stdout)["stdout"]) == WALLS


def test_without_landlock_a_policy_that_calls_it_optional_runs_and_says_so(pinfold, work):
    missing = lacking("landlock_create_ruleset")
    refused = run_under(pinfold, missing, work)
    error = json.loads(refused.stdout)["error"]
    assert refused.returncode == 125 and "landlock" in (error["message"] + error["pointer"]).lower()
    optional = ["landlock", *(["memory", "swap", "cpus", "pids"] if pinfold.rootless else [])]
    result = json.loads(run_under(pinfold, missing, work, optional=optional).stdout)
    assert result["exit_code"] == 0 and "landlock" in result["missing"]
    assert json.loads(result["stdout"]) == WALLS  # the mounts are the first wall
