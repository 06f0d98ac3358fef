"""Programs whose output floods, lies, forges or stalls: what comes out is data, up to its cap, and the cause is the kernel's.
"""
import base64
import hashlib
import json
import os
import pickle
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid

import pytest

LETTA = uuid.uuid5(uuid.NAMESPACE_DNS, "local-sandbox-result-start-marker").bytes
FLOOD_MIB = int(os.environ.get("PINFOLD_FLOOD_MIB", "3072"))
RSS_MIB = 32  # beyond what an idle supervisor has


def memory_kib(pid, field="VmRSS"):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith(field)).split()[1])


def letta(payload):
    return LETTA + struct.pack(">I", len(payload)) + hashlib.md5(payload).hexdigest().encode() + payload


# ---- floods -----------------------------------------------------------------------------------------------------------

def flooded(pinfold, count_mib, stream=1):
    """The peak memory of the supervisor through a flood beyond an idle one's, in MiB, and its result."""
    idle = pinfold.spawn(pinfold.argv("sh", "-c", "echo on; read x", options=["--stdin", "-"]),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert idle.stdout.readline() == b"on\n"
    rest = memory_kib(idle.pid)
    idle.communicate(b"\n")
    policy = pinfold.policy(resources={"cpus": 2, "wall_time": "10m"})
    argv = pinfold.argv("sh", "-c", f"head -c {count_mib}M /dev/zero >&{stream}", policy=policy, options=["--json"])
    with tempfile.TemporaryFile() as out:
        process = pinfold.spawn(argv, stdout=out)
        peak = rest
        while process.poll() is None:
            try:
                peak = max(peak, memory_kib(process.pid, "VmHWM"))
            except (StopIteration, FileNotFoundError, ProcessLookupError):
                break  # it has just ended
            time.sleep(0.01)
        assert process.wait(timeout=600) == 0
        out.seek(0)
        return (peak - rest) / 1024, json.loads(out.read())


def test_memory_stays_flat_through_a_flood(each_io):
    used, result = flooded(each_io, FLOOD_MIB)
    assert result["truncated"]["stdout"] and len(result["stdout"]) == 1 << 20
    assert used <= RSS_MIB, f"{used} MiB"


def test_memory_stays_flat_through_a_flood_of_errors(each_io):
    used, result = flooded(each_io, 256, stream=2)
    assert result["truncated"]["stderr"] and used <= RSS_MIB


@pytest.mark.parametrize("options", [[], ["--stream"]])
def test_a_reader_that_stalls_costs_no_memory(each_io, options):
    policy = each_io.policy(resources={"stdout": "1GiB", "wall_time": "1m", "grace": "100ms"})
    process = each_io.spawn(each_io.argv("head", "-c", "500M", "/dev/zero", policy=policy, options=options),
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    time.sleep(1.5)  # nobody reads
    assert memory_kib(process.pid) < (RSS_MIB + 8) << 10
    process.stdout.close()
    assert process.wait(timeout=120) in (124, 125, 137, 128 + signal.SIGPIPE)


def test_a_flood_of_frames_is_kept_within_bounds(each_io):
    source = """
import os, struct, zlib
nonce = bytes.fromhex(os.environ['PINFOLD_FRAME_NONCE'])
def frame(kind, payload): return nonce + struct.pack('>BBHII', 1, kind, 0, len(payload), crc(payload)) + payload
def crc(data):
    c = 0xffffffff
    for b in data:
        c ^= b
        for _ in range(8): c = (c >> 1) ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff
one = frame(4, b'x' * 1000)
out = os.fdopen(int(os.environ['PINFOLD_FRAME_FD']), 'wb')
for _ in range(60): out.write(one * 1000)
out.write(frame(1, b'"the result"')); out.close()
"""
    result = each_io.python(source, options=["--frames", "fd"])
    assert result["result"] == "the result", result["frames"][:2]
    assert len(result["frames"]) <= 1026  # 1024, the result, and how many were dropped


def test_endless_output_without_a_newline_in_drips_is_exact_up_to_its_cap(each_io):
    policy = each_io.policy(resources={"stdout": "4KiB"})
    source = "import os\nfor i in range(20000): os.write(1, b'%d' % (i % 10))"
    result = each_io.python(source, policy=policy)
    assert result["stdout"] == ("0123456789" * 410)[:4096] and result["truncated"]["stdout"]


def test_both_streams_at_once_are_whole_and_never_mixed(each_io):
    policy = each_io.policy(resources={"stdout": "8MiB", "stderr": "8MiB"})
    source = """
import os, threading
def flood(fd, byte):
    for i in range(3000): os.write(fd, byte * 999 + b'\\n')
t = [threading.Thread(target=flood, args=a) for a in ((1, b'o'), (2, b'e'))]
[x.start() for x in t]; [x.join() for x in t]
"""
    result = each_io.python(source, policy=policy)
    assert result["stdout"] == ("o" * 999 + "\n") * 3000 and result["stderr"] == ("e" * 999 + "\n") * 3000


def test_streams_of_many_runs_at_once_stay_apart(each_io):
    policy = each_io.policy(resources={"stdout": "8MiB"})
    runs = []
    for i in range(24):
        script = f"i=0; while [ $i -lt 200 ]; do printf '%01000d' {i}; i=$((i+1)); done"
        runs.append(each_io.spawn(each_io.argv("sh", "-c", script, policy=policy), stdout=subprocess.PIPE))
    for i, process in enumerate(runs):
        out, _ = process.communicate(timeout=120)
        assert out == (f"{i:01000d}" * 200).encode() and process.returncode == 0


# ---- frames -----------------------------------------------------------------------------------------------------------

def test_text_never_waits_behind_what_might_become_a_frame(pinfold):
    """The first byte of the nonce is in no text, so that no prompt ends with it."""
    policy = pinfold.policy()
    for _ in range(12):
        result = pinfold.run("printenv", "PINFOLD_FRAME_NONCE", policy=policy)
        assert int(result.stdout[:2], 16) >= 0xf8


FRAME_CASES = {
    "a right one": (letta(b'{"a": 1}'), 1),
    "a wrong sum": (LETTA + struct.pack(">I", 2) + b"0" * 32 + b"{}", 0),
    "a length beyond everything": (LETTA + b"\xff\xff\xff\xff" + b"0" * 32 + b"{}", 0),
    "torn in the marker": (LETTA[:9], 0),
    "torn in the head": (LETTA + b"\0\0", 0),
    "torn in the payload": (letta(b"x" * 100)[:-1], 0),
    "empty": (letta(b""), 1),
    "markers in a marker": (LETTA[:8] + LETTA * 3 + letta(b"[]"), 1),
    "two": (letta(b"1") + letta(b"2"), 1),
}


@pytest.mark.parametrize("case", FRAME_CASES)
def test_frames_are_taken_whole_or_stay_text(each_io, case):
    data, _ = FRAME_CASES[case]
    source = f"import os, sys\ndata = bytes.fromhex('{data.hex()}')\nos.write(1, b'before ')\n" \
             "for b in data: os.write(1, bytes([b]))\nos.write(1, b' after')"
    drips = each_io.python(source)
    whole = each_io.python(source.replace("for b in data: os.write(1, bytes([b]))", "os.write(1, data)"))
    for key in ("stdout", "encoding", "frames", "result"):
        assert drips[key] == whole[key]
    assert [f["verdict"] for f in whole["frames"]].count("whole") == FRAME_CASES[case][1], whole["frames"]
    text = whole["stdout"] if whole["encoding"] == "utf-8" else base64.b64decode(whole["stdout"]).decode("latin-1")
    assert text.startswith("before ") and text.endswith(" after")


def test_an_old_nonce_is_only_text(each_io):
    source = "import os, struct, zlib\nprint(os.environ['PINFOLD_FRAME_NONCE'], flush=True)"
    nonce = each_io.python(source)["stdout"].strip()
    replay = f"import sys; sys.stdout.buffer.write(bytes.fromhex('{nonce}') + b'\\1\\1\\0\\0' + b'\\0' * 8)"
    result = each_io.python(replay)
    assert result["result"] is None and result["frames"] == []


# ---- lies about the end -----------------------------------------------------------------------------------------------

LIES = [
    ("exit 137", "error", 137, None), ("exit 124", "error", 124, None), ("exit 125", "error", 125, None),
    ("kill -KILL $$", "killed", 137, "SIGKILL"), ("kill -TERM $$", "killed", 143, "SIGTERM"), ("kill -ABRT $$", "killed", 134, "SIGABRT"),
    ("exit 256", "success", 0, None), ("echo '{\"status\": \"success\"}'; exit 3", "error", 3, None),
    ("(kill -KILL $$) & wait; exit 0", "killed", 137, "SIGKILL"),
    ("trap '' TERM; kill -TERM 1; kill -KILL 1; exit 5", "error", 5, None),
]


@pytest.mark.parametrize("script, status, code, number", LIES, ids=[row[0][:20] for row in LIES])
def test_the_cause_of_the_end_is_the_kernels(pinfold, script, status, code, number):
    result = pinfold.json("sh", "-c", script)
    assert (result["status"], result["exit_code"], result["signal"]) == (status, code, number)


def test_a_child_killed_for_memory_is_told_as_memory(as_root):
    source = "import os\nif os.fork() == 0:\n    b = bytearray(200 << 20)\n    os._exit(0)\nos.wait(); print('fine')"
    result = as_root.python(source, policy=as_root.policy(resources={"memory": "64MiB"}))
    assert result["status"] == "memory"


# ---- text that attacks whoever reads it -------------------------------------------------------------------------------

EVIL = ["\x1b[2J\x1b]0;title\x07", "a\rb", "line\nforged: line", "\x9b31m", "\u202egnp.exe", "\x7f", "\t\b"]


@pytest.mark.parametrize("evil", EVIL, ids=[repr(e)[:12] for e in EVIL])
def test_control_characters_never_reach_a_terminal_through_an_error(pinfold, evil, tmp_path):
    policy = pinfold.policy()
    folder = tmp_path / f"x{evil}".replace("/", "")
    attempts = [
        [[evil], []],
        [["/no/" + evil], []],
        [["true"], ["--workspace", f"/no/such{evil}"]],
        [["true"], ["--env", f"{evil}"]],
        [["true"], ["--env", f"LD_{evil}=1"]],
        [["true"], ["--label", evil]],
        [["true"], ["--memory", evil]],
        [["true"], ["--stdin", str(folder)]],
        [["true"], ["--image", evil]],
        [["true"], ["--egress", evil]],
        [["true"], ["--secret", evil]],
        [["true"], [f"--no{evil}"]],
        [["true"], ["--frames", evil]],
    ]
    for command, options in attempts:
        done = pinfold.run(*command, policy=policy, options=options)
        assert_harmless(done)
        assert done.returncode in (125, 126, 127), (command, options, done)
    done = pinfold.run("true", policy=str(folder))
    assert done.returncode == 125
    assert_harmless(done)
    bad = pinfold.policy(**{f"un{evil}known": 1})
    assert_harmless(pinfold.run("true", policy=bad))


def assert_harmless(done):
    assert done.stdout == b"" and done.stderr.endswith(b"\n"), done
    for line in done.stderr[:-1].decode().split("\n"):  # UTF-8, or it raises
        assert line.startswith("pinfold: "), done  # a line break of the attacker's would begin another one
        assert all(c.isprintable() and c not in "\u202e\x9b" for c in line), done


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80", b"ok\xe2\x82", bytes(range(256))])
def test_what_is_not_utf8_comes_back_exactly(each_io, data):
    source = f"import os; os.write(1, bytes.fromhex('{data.hex()}'))"
    result = each_io.python(source)
    assert result["encoding"] == "base64" and base64.b64decode(result["stdout"]) == data
    done = each_io.run("/usr/bin/python3", "-c", source, options=["--stream"])
    parts = [json.loads(line) for line in done.stdout.splitlines()]
    got = b"".join(base64.b64decode(p["data"]) if p["encoding"] == "base64" else p["data"].encode()
                   for p in parts if p["type"] == "stdout")
    assert got == data


def test_lines_of_a_stream_cant_be_forged(each_io):
    forged = json.dumps({"type": "exit", "seq": 2, "exit_code": 0})
    done = each_io.run("sh", "-c", f"printf '%s\\n' '{forged}'; exit 9", options=["--stream"])
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["exit_code"] for e in events if e["type"] == "exit"] == [9] and events[-1]["type"] == "exit"


# ---- who holds what open ----------------------------------------------------------------------------------------------

def test_an_output_pipe_passed_to_a_process_of_the_host_doesnt_hold_the_run_up(pinfold, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.chmod(work, 0o777)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(work / "s"))
        os.chmod(work / "s", 0o777)
        listener.listen()
        source = "import array, os, socket\ns = socket.socket(socket.AF_UNIX); s.connect('/workspace/s')\n" \
                 "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1, 2]))]); print('sent', flush=True)"
        process = pinfold.spawn(pinfold.argv("/usr/bin/python3", "-c", source, policy=pinfold.policy(resources={"wall_time": "10m"}),
                                             options=["--workspace", str(work)]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        peer, _ = listener.accept()
        with peer:
            _, fds, _, _ = socket.recv_fds(peer, 1, 2)
            out, _ = process.communicate(timeout=60)  # with `fds` open, and before its time is over
            assert out == b"sent\n"
            for fd in fds:
                os.close(fd)


TRICKS = {
    "packets": "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT | os.O_WRONLY); os.write(1, b'x' * 5000); os.write(1, b'end')",
    "a reader of its own": "import os; r = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK); os.write(1, b'x' * 5000); os.write(1, b'end')",
    "one page": "import fcntl, os; fcntl.fcntl(1, 1031, 4096); os.write(1, b'x' * 5000); os.write(1, b'end')",
    "not waiting": "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK | os.O_WRONLY); os.write(1, b'x' * 5000); os.write(1, b'end')",
    "closed before the end": "import os, time; os.write(1, b'x' * 5000 + b'end'); os.close(1); os.close(2); os.closerange(3, 64); time.sleep(0.1)",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_tricks_with_the_pipe_lose_nothing_and_hang_nobody(each_io, trick):
    result = each_io.python(TRICKS[trick])  # what hangs ends with the status "timeout"
    assert result["status"] == "success" and result["stdout"] == "x" * 5000 + "end", result


def test_input_and_output_can_flood_each_other(each_io):
    policy = each_io.policy(resources={"stdout": "64MiB"})
    data = os.urandom(8 << 20)
    done = each_io.run("cat", policy=policy, options=["--stdin", "-"], input=data)
    assert done.stdout == data and done.returncode == 0


def test_output_at_the_very_end_is_never_lost(each_io):
    policy = each_io.policy()
    for i in range(40):
        done = each_io.run("sh", "-c", "head -c 60000 /dev/zero; echo last; kill -KILL $$", policy=policy)
        assert done.stdout.endswith(b"\0last\n") and len(done.stdout) == 60005


# ---- the same without pinfold ----------------------------------------------------------------------------------------

def test_who_waits_for_the_end_of_output_waits_for_a_grandchild(each_io):
    """The control of the grandchild that holds stdout: a caller of subprocess hangs, where a run has ended."""
    script = "(setsid sleep 60 & echo $! >&2); echo done"
    hanging = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = int(hanging.stderr.readline())
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            hanging.communicate(timeout=1)
    finally:
        os.kill(pid, signal.SIGKILL)
        hanging.communicate(timeout=60)
    start = time.monotonic()
    assert each_io.run("sh", "-c", script).stdout == b"done\n" and time.monotonic() - start < 50


def test_the_same_name_reaches_the_terminal_through_who_doesnt_escape(pinfold):
    """The control of the errors above: a shell's own message about it."""
    evil = "/no/such\x1b]0;title\a\x9b2J"
    assert b"\x1b" in subprocess.run(["sh", "-c", '"$0"', evil], capture_output=True).stderr
    done = pinfold.run("true", options=["--workspace", evil])
    assert done.returncode == 125 and b"\x1b" not in done.stderr and b"\x9b" not in done.stderr, done


class Acts:
    """What a pickle does that a tool has made, wherever it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_in_a_frame_stays_closed_and_would_act(pinfold):
    canary = str(pinfold.home / "opened")
    payload = pickle.dumps(Acts(canary))
    result = pinfold.python(f"import sys; sys.stdout.buffer.write({letta(payload)!r})")
    assert base64.b64decode(result["result"]) == payload and result["frames"][0]["encoding"] == "base64", result
    assert not os.path.exists(canary)
    pickle.loads(payload)  # the control
    assert os.path.isdir(canary)
