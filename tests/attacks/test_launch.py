"""Launches that try to smuggle: arguments, environments, working directories, identities and descriptors of odd shapes.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest


def clean_refusal(done, *words):
    assert done.returncode == 125 and done.stdout == b"", done
    assert done.stderr.startswith(b"pinfold: ") and done.stderr.count(b"\n") == 1, done
    for word in words:
        assert word in done.stderr, done


# ---- arguments and environment ----------------------------------------------------------------------------------------

def test_a_launch_without_any_argument_is_an_error(as_root):
    """argc 0, where argv[1] is the environment: CVE-2021-4034."""
    source = """
import ctypes, sys
libc = ctypes.CDLL(None)
argv = (ctypes.c_char_p * 1)(None)
env = (ctypes.c_char_p * 3)(b'run', b'PINFOLD_STATE=/nowhere', None)
libc.execve(sys.argv[1].encode(), argv, env)
"""
    done = as_root.call(["/usr/bin/python3", "-c", source, str(as_root.program)])
    assert done.returncode == 125 and done.stdout == b"" and done.stderr


def test_no_command_is_a_refusal(pinfold):
    argv = pinfold.argv()
    clean_refusal(pinfold.call(argv))
    clean_refusal(pinfold.call(argv[:-1]))
    assert pinfold.run("").returncode == 127


def test_a_large_argument_arrives_whole(pinfold):
    text = "x" * 131071  # the kernel's most for one string, with its end
    done = pinfold.run("/usr/bin/python3", "-c", "import sys; print(len(sys.argv[1]), len(sys.argv))", text, policy=pinfold.policy())
    assert done.stdout == f"131071 2\n".replace("131071", str(len(text))).encode()


def test_a_megabyte_of_arguments_arrives_whole_or_is_refused(pinfold):
    arguments = ["y" * 1000] * 1000
    done = pinfold.run("/usr/bin/python3", "-c", "import sys; print(sum(map(len, sys.argv)))", *arguments, policy=pinfold.policy())
    assert done.returncode in (0, 125), done
    if done.returncode == 0:
        assert done.stdout == b"1000002\n"
    else:
        clean_refusal(done)


@pytest.mark.parametrize("variable", ["A=x\ny=2", "A=x\tz", "A=\x7f", "A==b", "A=\u202e", "A=" + "v" * 100000])
def test_a_variable_arrives_as_it_is_or_is_refused(pinfold, variable):
    done = pinfold.run("/usr/bin/python3", "-c", "import os, sys; sys.stdout.buffer.write(os.environb[b'A'])",
                       options=["--env", variable], policy=pinfold.policy())
    if done.returncode == 125:
        clean_refusal(done)
    else:
        assert done.stdout.decode() == variable[2:]


@pytest.mark.parametrize("variable", ["=x", "A", "", "A B=1", "1A=1", "LD_PRELOAD=/x", "LD_AUDIT=/x", "ld_preload\n=1", "A\n=1",
                                      "PINFOLD_FRAME_NONCE=00", "PINFOLD_FRAME_FD=1"])
def test_a_name_that_is_none_or_not_the_callers_is_refused(pinfold, variable):
    done = pinfold.run("env", options=["--env", variable])
    if done.returncode == 125:
        clean_refusal(done)
        return
    name = variable.partition("=")[0]
    assert name in ("1A", "A B", "PINFOLD_FRAME_FD") or variable.encode() + b"\n" not in done.stdout, done  # data, and harmless


def test_pinfolds_own_environment_and_the_loaders_do_nothing(pinfold, tmp_path):
    planted = tmp_path / "planted.so"
    planted.write_bytes(b"not a library")
    env = pinfold.environment(LD_PRELOAD=str(planted), LD_LIBRARY_PATH=str(tmp_path), GCONV_PATH=str(tmp_path), IFS="x",
                              BASH_ENV="/tmp/x", ENV="/tmp/x", PYTHONSTARTUP="/tmp/x", NO_COLOR="1", TMPDIR="/nowhere",
                              MALLOC_PERTURB_="7", GLIBC_TUNABLES="glibc.malloc.check=3")
    done = pinfold.call(pinfold.argv("env"), env=env)
    assert done.returncode == 0
    assert {line.split(b"=")[0] for line in done.stdout.splitlines()} <= {b"PATH", b"HOME", b"USER", b"LOGNAME", b"LANG",
                                                                          b"PINFOLD_FRAME_NONCE", b"PINFOLD_FRAME_FD"}


def test_no_home_no_path_no_variables_at_all(as_root):
    env = {"PINFOLD_STATE": str(as_root.state), "PINFOLD_CACHE": str(as_root.cache)}
    assert as_root.call(as_root.argv("true"), env=env).returncode == 0
    done = as_root.call(as_root.argv("true"), env={"PINFOLD_STATE": "relative"})
    clean_refusal(done, b"relative")
    clean_refusal(as_root.call(as_root.argv("true"), env={"PINFOLD_STATE": "/" + "x" * 5000}))


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_the_callers_umask_changes_nothing(as_root, mask):
    for _ in range(2):
        done = as_root.call(as_root.argv("sh", "-c", "umask; touch /tmp/x && stat -c %a /tmp/x"), preexec_fn=lambda: os.umask(mask))
        assert (done.returncode, done.stdout) == (0, b"0022\n644\n"), done


# ---- working directories ----------------------------------------------------------------------------------------------

@pytest.mark.parametrize("where", ["deleted", "unreadable", "host root"])
def test_the_callers_directory_doesnt_come_in(pinfold, tmp_path, where):
    folder = tmp_path / "cwd"
    folder.mkdir()
    os.chmod(folder, 0o755)
    for path in (tmp_path, folder):
        os.chown(path, pinfold.uid, pinfold.uid)

    def enter():
        if where == "host root":
            os.chdir("/root" if os.geteuid() == 0 else "/")
            return
        os.chdir(folder)
        os.rmdir(folder) if where == "deleted" else os.chmod(folder, 0)
    done = pinfold.call(pinfold.argv("/usr/bin/python3", "-c", "import os; print(os.getcwd(), os.readlink('/proc/self/cwd'))"),
                        preexec_fn=enter)
    assert done.stdout == b"/tmp /tmp\n", done


def test_no_directory_of_the_host_is_reached_by_a_working_directory(pinfold):
    """CVE-2024-21626: a descriptor of the host, left open, as working directory."""
    source = "import os\nfor fd in range(64):\n    try: os.chdir(f'/proc/self/fd/{fd}'); print(fd, os.getcwd())\n" \
             "    except OSError: pass\nfor p in os.listdir('/proc'):\n    if p.isdigit():\n        for l in ('cwd', 'root'):\n" \
             "            try: print(p, l, os.readlink(f'/proc/{p}/{l}'))\n            except OSError: pass"
    held = os.open("/", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        done = pinfold.call(pinfold.argv("/usr/bin/python3", "-c", source), pass_fds=[held])
    finally:
        os.close(held)
    lines = done.stdout.decode().splitlines()
    assert lines and all(line.split()[-1] in ("/tmp", "/") for line in lines), lines
    assert not any(line.startswith("1 ") for line in lines)


# ---- descriptors ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_standard_descriptors_are_always_valid_inside(pinfold, closed):
    with tempfile.NamedTemporaryFile(dir=pinfold.home) as out:
        os.chmod(out.name, 0o666)
        work = pinfold.home / "work"
        work.mkdir()
        os.chown(work, pinfold.uid, pinfold.uid)
        argv = pinfold.argv("sh", "-c", "ls -l /proc/self/fd >/workspace/fds; echo out; echo err >&2; true",
                            options=["--workspace", str(work)])
        done = pinfold.call(["sh", "-c", f'exec "$@" {closed}', "sh", *argv])
        assert done.returncode in (0, 125), done
        if done.returncode == 0:
            fds = (work / "fds").read_text()
            assert all(f" {n} -> " in fds for n in (0, 1, 2))
            assert "/home" not in fds
    for fd, sign in ((0, "<&-"), (1, ">&-"), (2, "2>&-")):  # the control: without a sandbox the command lacks it
        if sign in closed.split():
            argv = ["sh", "-c", f'exec "$@" {closed}', "sh", "/usr/bin/python3", "-c", f"import os; os.fstat({fd})"]
            assert subprocess.run(argv, capture_output=True).returncode != 0


@pytest.mark.parametrize("options", [[], ["--json"], ["--stream"]])
def test_a_full_device_as_output_is_said_and_ends_well(each_io, options):
    with open("/dev/full", "wb") as full:
        process = each_io.spawn(each_io.argv("sh", "-c", "head -c 100000 /dev/zero; exit 0", options=options), stdout=full,
                                stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 125 and b"ENOSPC" in err and err.count(b"\n") == 1, err


@pytest.mark.parametrize("options", [[], ["--json"], ["--stream"]])
def test_a_broken_pipe_as_output_ends_the_run(each_io, options):
    read, write = os.pipe()
    process = each_io.spawn(each_io.argv("yes", options=["--timeout", "3s", *options]), stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    os.close(read)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and err.count(b"\n") <= 1, (process.returncode, err)


@pytest.mark.parametrize("source", ["/dev/zero", "/dev/full", "/dev/null", "/etc", "/proc/self/mem", "/no/such", "fifo"])
def test_odd_files_as_input_end_or_are_refused(each_io, source, tmp_path):
    if source == "fifo":
        source = str(tmp_path / "fifo")
        os.mkfifo(source)
        writer = os.open(source, os.O_RDWR)  # or opening it for reading would wait
        os.write(writer, b"x\n")
    done = each_io.run("head", "-c", "1", options=["--stdin", source, "--timeout", "25s"])
    assert done.returncode in (0, 1, 125), done
    if done.returncode == 125:
        clean_refusal(done)


def test_a_fifo_without_a_writer_as_input_is_waited_for_within_the_time_limit(each_io, tmp_path):
    """Opening it waits for nobody: the command runs, waits in its read, and the limit ends it."""
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    done = each_io.run("sh", "-c", "echo runs; cat", options=["--stdin", fifo, "--timeout", "1s"])
    assert (done.returncode, done.stdout) == (124, b"runs\n"), done


def test_a_fifo_as_input_is_read_once_it_has_a_writer_and_ends_with_the_last_one(each_io, tmp_path):
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    process = each_io.spawn(each_io.argv("sh", "-c", "echo ready; cat", options=["--stdin", fifo]),
                            stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    with open(fifo, "wb") as writer:
        writer.write(b"x" * 300000)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and said == b"x" * 300000


def test_a_thousand_descriptors_of_the_caller_stay_out(as_root):
    pairs = [socket.socketpair() for _ in range(200)]
    keep = [s.fileno() for pair in pairs for s in pair]
    done = as_root.call(as_root.argv("sh", "-c", "ls /proc/self/fd | wc -l"), pass_fds=keep)
    for pair in pairs:
        pair[0].close(), pair[1].close()
    assert done.stdout.strip() == b"4", done  # 0, 1, 2 and ls's own


# ---- identities -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("user", [2147483648, 4294967296, 4294967295, -1, "0x0", "root", "1000:0", 1.5, 65536, None, [0], True])
def test_an_identity_that_is_none_is_refused(as_root, user):
    policy = as_root.policy(identity={"user": user})
    clean_refusal(as_root.run("id", policy=policy), b"user")


@pytest.mark.parametrize("user", [0, 1, 65533])
def test_an_identity_is_never_the_hosts(as_root, user):
    policy = as_root.policy(identity={"user": user, "group": user})
    process = as_root.spawn(as_root.argv("sh", "-c", "id -u; read x", policy=policy, options=["--stdin", "-"]), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)
    assert process.stdout.readline() == f"{user}\n".encode()
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
        init = children.read().split()[0]
    with open(f"/proc/{init}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    process.communicate(b"\n")
    assert all(int(i) >= 0x70000000 for i in fields["Uid"].split() + fields["Gid"].split())
    assert fields["Groups"].split() == [] or all(int(g) >= 0x70000000 for g in fields["Groups"].split())
    assert int(fields["CapEff"], 16) == 0 and int(fields["CapBnd"], 16) == 0


def test_two_sandboxes_share_no_id(as_root):
    runs = [as_root.spawn(as_root.argv("sh", "-c", "cat /proc/self/uid_map; read x", options=["--stdin", "-"]), stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) for _ in range(8)]
    bases = [process.stdout.readline().split()[1] for process in runs]
    for process in runs:
        process.communicate(b"\n")
    assert len(set(bases)) == 8 and all(int(b) >= 0x70000000 for b in bases)


# ---- what the host lacks ----------------------------------------------------------------------------------------------

WRAPPER = r"""
import ctypes, os, struct, sys
# A filter that lets listed calls fail: what a container engine, or an older kernel, would say.
def deny(numbers, error):
    code = [struct.pack('HBBI', 0x20, 0, 0, 0)]
    for n in numbers:
        code += [struct.pack('HBBI', 0x15, 0, 1, n), struct.pack('HBBI', 0x06, 0, 0, 0x00050000 | error)]
    code += [struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000)]
    program = ctypes.create_string_buffer(b''.join(code))
    fprog = struct.pack('HxxxxxxQ', len(code), ctypes.addressof(program))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0:
        assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.create_string_buffer(fprog), 0, 0) == 0, ctypes.get_errno()
deny([int(n) for n in sys.argv[1].split(',')], int(sys.argv[2]))
os.execv(sys.argv[3], sys.argv[3:])
"""
LACKING = {  # numbers of x86-64; the error; whether it goes on (None: refused), and words of the refusal
    "io_uring (ENOSYS)": ("425,426,427", 38, True, ()),
    "io_uring (EPERM)": ("425,426,427", 1, True, ()),
    "Landlock": ("444,445,446", 38, False, (b"andlock",)),
    "seccomp": ("317", 38, False, ()),
    "namespaces": ("56,435", 1, False, (b"namespace",)),
    "clone3": ("435", 38, False, ()),
    "the new mount API": ("428,429,430,431,432,442", 38, False, ()),
    "pivot_root": ("155", 1, False, ()),
    "no_new_privs and the like": ("157", 22, False, ()),
    "memfd": ("319", 38, False, ()),
    "openat2": ("437", 38, False, ()),
    "close_range": ("436", 38, False, ()),
    "setsid": ("112", 1, False, ()),
    "pidfd_send_signal": ("424", 38, True, ()),
}


@pytest.mark.parametrize("what", LACKING)
def test_a_host_that_lacks_something_runs_it_behind_all_walls_or_refuses(pinfold, what):
    numbers, error, goes_on, words = LACKING[what]
    probe = "grep -E '^(Seccomp|NoNewPrivs|CapBnd):' /proc/self/status | tr -d '\\n\\t '"
    argv = pinfold.argv("sh", "-c", probe)
    argv[argv.index("--io") + 1] = "auto"
    done = pinfold.call(["/usr/bin/python3", "-c", WRAPPER, numbers, str(error), *argv])
    if goes_on:
        assert done.returncode == 0 and b"NoNewPrivs:1" in done.stdout and b"Seccomp:2" in done.stdout, done
    else:
        clean_refusal(done, *words)
    pinfold.run("true")
    assert pinfold.leftovers() == []


def test_io_uring_that_is_asked_for_and_refused_is_an_error(pinfold):
    argv = pinfold.argv("true")
    argv[argv.index("--io") + 1] = "uring"
    done = pinfold.call(["/usr/bin/python3", "-c", WRAPPER, "425,426,427", "1", *argv])
    clean_refusal(done, b"io_uring", b"epoll")


def test_user_namespaces_that_are_used_up_are_said_with_their_remedy(pinfold):
    source = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.geteuid(), os.getegid()
assert libc.unshare(0x10000000) == 0
open('/proc/self/setgroups', 'w').write('deny')
open('/proc/self/uid_map', 'w').write(f'{uid} {uid} 1')
open('/proc/self/gid_map', 'w').write(f'{gid} {gid} 1')
open('/proc/sys/user/max_user_namespaces', 'w').write('0')
os.execv(sys.argv[1], sys.argv[1:])
"""
    policy = pinfold.policy(optional=["memory", "swap", "cpus", "pids"])
    done = pinfold.call(["/usr/bin/python3", "-c", source, *pinfold.argv("true", policy=policy)])
    clean_refusal(done)


@pytest.mark.parametrize("limit", [3, 5, 8, 12, 16, 20, 24, 28, 32, 40])
def test_few_descriptors_are_enough_or_a_refusal(pinfold, limit):
    import resource
    argv = pinfold.argv("sh", "-c", "grep Seccomp: /proc/self/status")
    done = pinfold.call(argv, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
    assert done.returncode in (0, 125, 127), (limit, done)
    if done.returncode == 0:
        assert done.stdout == b"Seccomp:\t2\n"
    else:
        assert done.stderr and done.stdout == b""
    pinfold.run("true")
    assert pinfold.leftovers() == []


@pytest.mark.parametrize("free", [8, 16, 24])
def test_a_caller_with_hardly_a_descriptor_left_below_its_soft_limit_is_served(pinfold, free, tmp_path):
    """What the caller holds open stays out, and takes nothing from the set-up as long as the hard limit has room."""
    import resource
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
    limit = max(held) + 1 + free
    argv = pinfold.argv("sh", "-c", "ls /proc/self/fd | wc -l", policy=pinfold.policy(resources={"files": 256}))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        done = pinfold.call(argv, pass_fds=held, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard)))
    finally:
        for fd in held:
            os.close(fd)
    assert (done.returncode, done.stdout.strip()) == (0, b"4"), done  # 0, 1, 2 and ls's own


@pytest.mark.parametrize("options", [[], ["--json"], ["--audit-sync"]])
def test_a_caller_whose_files_may_not_grow_is_told(pinfold, options, tmp_path):
    """SIGXFSZ would end pinfold without a word, in the middle of its books."""
    import resource
    none = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    done = pinfold.call(pinfold.argv("true", options=options), preexec_fn=none)
    told = done.stdout + done.stderr
    assert done.returncode == 125 and b"EFBIG" in told and b"ulimit -f" in told and told.count(b"\n") == 1, done
    with open(tmp_path / "out", "wb") as out:  # enough for all but what the command writes
        assert pinfold.run("true").returncode == 0
        few = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        argv = pinfold.argv("sh", "-c", "head -c 3000000 /dev/zero; exit 0", policy=pinfold.policy(resources={"stdout": "8MiB"}))
        process = pinfold.spawn(argv, stdout=out, stderr=subprocess.PIPE, preexec_fn=few)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 125 and b"EFBIG" in err and (tmp_path / "out").stat().st_size == 1 << 20, (process.returncode, err)
    assert pinfold.leftovers() == []


def test_a_name_that_is_relative_to_nothing_is_told(pinfold):
    where = pinfold.home / "gone"
    where.mkdir()
    argv = pinfold.argv("true", options=["--workspace", "."])
    done = pinfold.call(["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(where), *argv])
    clean_refusal(done, b"ENOENT", b"by a path from /")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_can_not_be_said_is_no_success(programs, option):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([str(programs / "pinfold"), option], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 125 and done.stderr == b"pinfold: standard output could not be written\n"


@pytest.mark.parametrize("mib", [1, 2, 4, 8, 16, 64])
def test_little_memory_is_enough_or_a_refusal(pinfold, mib):
    import resource
    argv = pinfold.argv("true")
    done = pinfold.call(argv, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (mib << 20, mib << 20)))
    assert done.returncode in (0, 125, 126, 127, 139, 134, -11, -6, -9), (mib, done)
    pinfold.run("true")
    assert pinfold.leftovers() == []


@pytest.mark.parametrize("pages", [1, 2, 3, 8, 64])
def test_a_full_state_directory_is_a_refusal(as_root, pages):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={pages * 4096},nr_inodes={pages + 1},mode=700", "none", str(as_root.state)],
                   check=True)
    try:
        done = as_root.run("true")
        if done.returncode != 0:
            clean_refusal(done)
        json.loads(as_root.run("true", options=["--json"]).stdout)
        for group in as_root.groups():
            assert not group.name.isdigit()
    finally:
        as_root.close()
        subprocess.run(["umount", str(as_root.state)], check=True)


def test_a_read_only_state_directory_is_a_refusal(as_root):
    as_root.run("true")
    subprocess.run(["mount", "--bind", str(as_root.state), str(as_root.state)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(as_root.state)], check=True)
        clean_refusal(as_root.run("true"))
    finally:
        subprocess.run(["umount", str(as_root.state)], check=True)


@pytest.mark.parametrize("shape", ["a link", "a file", "another's", "open to all", "a fifo"])
def test_a_state_directory_of_the_wrong_shape_is_refused(as_root, shape, tmp_path):
    place = tmp_path / "odd"
    if shape == "a link":
        place.symlink_to(as_root.state)
    elif shape == "a file":
        place.write_text("")
    elif shape == "a fifo":
        os.mkfifo(place)
    else:
        place.mkdir(mode=0o700)
        os.chmod(place, 0o777 if shape == "open to all" else 0o700)
        if shape == "another's":
            os.chown(place, 12345, 12345)
    done = as_root.call(as_root.argv("true"), env=as_root.environment(PINFOLD_STATE=str(place)))
    clean_refusal(done)


@pytest.mark.parametrize("damage", [b"", b"\1", b"\1" * 64, os.urandom(8192), b"\xff" * 4096],
                         ids=["empty", "short", "claimed", "random", "full"])
def test_a_damaged_table_of_slots_is_repaired_or_refused(as_root, damage):
    as_root.run("true")
    (as_root.state / "slots").write_bytes(damage)
    done = as_root.run("true")
    assert done.returncode == 0 or done.stderr.count(b"\n") >= 1
    assert as_root.run("true").returncode in (0, 125)


def test_a_policy_that_is_no_file_is_refused(as_root, tmp_path):
    link, fifo, folder = tmp_path / "l.json", tmp_path / "f.json", tmp_path / "d.json"
    link.symlink_to("/dev/zero")
    os.mkfifo(fifo)
    folder.mkdir()
    for path in (link, fifo, folder, "/dev/zero", "/proc/self/mem", "/dev/stdin"):
        clean_refusal(as_root.run("true", policy=str(path), timeout=60))


def builder_of(pid):
    """A pidfd of the child of this supervisor while it builds; None before and after."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            child = children.read().split()[0]
        pidfd = os.pidfd_open(int(child))
        if len(os.listdir(f"/proc/{child}/fd")) > 8:  # then it still has what it mounts
            return pidfd
        os.close(pidfd)
        return None
    except (OSError, IndexError):
        return None


def test_a_builder_doesnt_look_like_its_supervisor(as_root):
    """A lock that it held would keep the next command from clearing what a dead supervisor left, until it is dead as well: so it is
    stopped, and its supervisor killed."""
    for _ in range(200):
        shutil.rmtree(as_root.cache, ignore_errors=True)  # to make a filter anew takes the builder's time
        as_root.cache.mkdir(mode=0o700)
        process = as_root.spawn(as_root.argv("true"), stdout=subprocess.DEVNULL)
        while process.poll() is None:
            builder = builder_of(process.pid)
            if builder is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(builder, signal.SIGSTOP)
            process.kill()
            process.wait()
            deadline = time.monotonic() + 60
            while as_root.run("true").returncode != 0 or as_root.leftovers() != []:
                assert time.monotonic() < deadline, as_root.leftovers()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(builder, signal.SIGKILL)
            os.close(builder)
            return
    raise AssertionError("no builder was seen")


def test_a_termination_during_set_up_leaves_nothing(as_root):
    argv = as_root.argv("sleep", "100")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        for delay in range(8):
            process = as_root.spawn(argv, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            try:
                process.wait(timeout=delay / 1000)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            assert process.wait(timeout=60) in (-number, 128 + number)
    deadline = time.monotonic() + 60  # a child that waits for a processor since its birth is still to learn that it shall die
    while as_root.run("true").returncode != 0 or as_root.leftovers() != []:
        assert time.monotonic() < deadline, as_root.leftovers()
