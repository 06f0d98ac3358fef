"""The audit log: every run of a policy that asks for it, whoever runs it and however it ends."""
import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest


ZEROS = "sha256:" + "0" * 64


class Log:
    def __init__(self, pinfold):
        self.pinfold = pinfold
        self.path = pinfold.home / "log" / "audit.jsonl"
        self.head = self.path.with_name("audit.jsonl.head")
        self.env = pinfold.environment(PINFOLD_AUDIT=str(self.path))

    def policy(self, *record, **fields):
        return self.pinfold.policy(audit={"record": list(record)}, **fields)

    def run(self, *command, record=("lifecycle",), options=(), policy=None):
        policy = policy or self.policy(*record)
        return self.pinfold.call(self.pinfold.argv(*command, policy=policy, options=options), env=self.env)

    def records(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def events(self):
        return [record["event"] for record in self.records()]

    def audit(self, *arguments):
        return self.pinfold.call([str(self.pinfold.program), "audit", *arguments], env=self.env)


@pytest.fixture
def log(pinfold):
    return Log(pinfold)


def test_without_audit_record_nothing_is_written(log):
    assert log.run("true", record=()).returncode == 0
    assert not log.path.parent.exists()


def test_a_run_has_a_start_and_an_end_in_one_chain(log):
    done = log.run("sh", "-c", "exit 3", options=["--label", "tenant=a", "--json"])
    result = json.loads(done.stdout)
    start, end = log.records()
    assert (start["event"], end["event"]) == ("start", "end")
    assert (start["seq"], end["seq"], start["prev"], end["prev"]) == (1, 2, ZEROS, start["hash"])
    assert start["sandbox"] == end["sandbox"] == result["sandbox"]
    assert start["labels"] == {"tenant": "a"}
    assert start["data"]["argv"] == ["sh", "-c", "exit 3"]
    assert start["data"]["fingerprint"] == result["fingerprint"]
    assert end["data"]["exit_code"] == 3 and end["data"]["status"] == "error"
    assert log.path.stat().st_mode & 0o7777 == 0o600 and log.path.parent.stat().st_mode & 0o7777 == 0o700


def test_arguments_cant_forge_records(log):
    log.run("true", 'x"}\n{"seq":2,"event":"end"}', "\x1b[2J\u202e", b"\xff\xfe")
    lines = log.path.read_bytes().splitlines()
    assert len(lines) == 2 and all(line.isascii() for line in lines)
    assert log.records()[0]["data"]["argv"] == ["true", 'x"}\\n{"seq":2,"event":"end"}', "\\x1b[2J\\u{202e}", "\\xff\\xfe"]
    assert log.audit("verify").returncode == 0


def test_a_refusal_is_recorded_with_every_finding(log):
    assert log.run("true", options=["--memory", "900GiB", "--env", "LD_PRELOAD=x"]).returncode == 125
    record, = log.records()
    assert record["event"] == "refusal" and len(record["data"]["findings"]) == 2


def test_a_limit_that_is_hit_is_recorded(log):
    assert log.run("sleep", "60", options=["--timeout", "100ms"]).returncode == 124
    assert log.events() == ["start", "limit", "end"]
    data = log.records()[1]["data"]
    assert data.pop("why")["reason"] == 'the limit is "100ms"'
    assert data == {"limit": "time", "pointer": "/resources/wall_time", "place": "command line",
                                        "value": "100ms", "mend": {"resources": {"wall_time": "200ms"}}}


def test_a_run_that_is_killed_leaves_its_start(log):
    policy = log.policy("lifecycle")
    run = subprocess.Popen([str(log.pinfold.program), "run", "--policy", policy, "--", "sleep", "60"], env=log.env,
                           user=log.pinfold.uid, group=log.pinfold.uid, cwd="/")
    deadline = time.monotonic() + 60
    while not (log.path.exists() and log.path.stat().st_size > 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert log.run("true").returncode == 0
    assert log.events() == ["start", "start", "end"]
    assert log.audit("verify").returncode == 0


def test_parallel_runs_share_one_chain(log):
    policy = log.policy("lifecycle")
    argv = [str(log.pinfold.program), "run", "--policy", policy, "--", "true"]
    runs = [subprocess.Popen(argv, env=log.env, user=log.pinfold.uid, group=log.pinfold.uid, cwd="/") for _ in range(12)]
    assert [run.wait() for run in runs] == [0] * 12
    assert [record["seq"] for record in log.records()] == list(range(1, 25))
    assert log.audit("verify").returncode == 0


@pytest.mark.parametrize("damage", ["truncate", "remove", "remove head", "open directory"])
def test_a_damaged_log_refuses_new_runs(log, damage):
    assert log.run("true").returncode == 0
    if damage == "truncate":
        os.truncate(log.path, log.path.stat().st_size - 7)
    elif damage == "remove":
        log.path.unlink()
    elif damage == "remove head":
        log.head.unlink()
    else:
        log.path.parent.chmod(0o755)
    done = log.run("sh", "-c", "echo ran")
    assert done.returncode == 125 and b"ran" not in done.stdout and b"audit" in done.stderr
    done = log.run("sh", "-c", "echo ran", record=())
    assert done.returncode == 0, "a policy that records nothing doesn't need the log"


def test_a_full_sink_refuses_new_runs(as_root):
    log = Log(as_root)
    log.path.parent.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k,mode=0700", "tmpfs", str(log.path.parent)], check=True)
    try:
        done = log.run("sh", "-c", "echo ran")
        assert done.returncode == 125 and b"ran" not in done.stdout and b"ENOSPC" in done.stderr
    finally:
        subprocess.run(["umount", str(log.path.parent)], check=True)


def test_verify_names_what_was_done_to_the_log(log):
    for _ in range(3):
        log.run("true")
    whole = log.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for damaged, words in [
            (whole.replace(b'"true"', b'"trux"', 1), "edited record 1:"),
            (b"".join(lines[:2] + lines[3:]), "removed record 3:"),
            (b"".join(lines[:2] + [lines[3], lines[2]] + lines[4:]), "misplaced record 3:"),
            (b"".join(lines[:4]), "truncated records 5 to 6:"),
            (whole[:-1], "truncated record 6:")]:
        log.path.write_bytes(damaged)
        done = log.audit("verify")
        assert done.returncode == 1 and words in done.stdout.decode(), done.stdout
    log.path.write_bytes(whole)
    head, last = log.head.read_bytes(), json.loads(lines[-1])
    for seq, found in ((6, "replaced record 6:"), (5, "replaced record 5:")):  # one behind is a writer that was killed
        log.head.write_bytes(head.replace(b'"seq":6', b'"seq":%d' % seq).replace(last["hash"].encode(), b"sha256:" + b"0" * 64))
        done = log.audit("verify")
        assert done.returncode == 1 and found in done.stdout.decode(), done.stdout
    log.head.write_bytes(head)
    assert log.audit("verify").returncode == 0
    assert json.loads(log.audit("verify", "--json").stdout)["records"] == 6


def test_a_writer_that_is_killed_at_any_byte_of_a_record_hides_nothing_and_stops_nobody(as_root):
    """The head is written after the record: a kill between leaves the log of before, and some of the record's bytes, or all."""
    log, stride = Log(as_root), int(os.environ.get("PINFOLD_SWEEP_STRIDE", "37"))
    policy = log.policy("lifecycle")
    log.run("true", policy=policy)
    before, head = log.path.read_bytes(), log.head.read_bytes()
    log.run("true", policy=policy)
    record = log.path.read_bytes()[len(before):].splitlines(keepends=True)[0]
    cuts = sorted({*range(0, len(record), stride), 1, len(record) - 1, len(record)})
    for cut in cuts:
        log.path.write_bytes(before + record[:cut])
        log.head.write_bytes(head)
        assert log.run("true", policy=policy).returncode == 0, cut
        assert log.audit("verify").returncode == 0, cut
        assert log.path.read_bytes().startswith(before), cut
        repaired = [r["data"]["dropped_bytes"] for r in log.records() if r["event"] == "repair"]
        assert repaired == ([cut] if 0 < cut < len(record) else []), (cut, repaired)
    assert len(cuts) > 10


def test_show_filters(log):
    log.run("true", options=["--label", "tenant=a"])
    log.run("true", options=["--label", "tenant=b"])
    log.run("true", options=["--memory", "900GiB"])

    def shown(*options):
        return [json.loads(line)["seq"] for line in log.audit("show", "--json", *options).stdout.splitlines()]
    assert shown() == [1, 2, 3, 4, 5]
    assert shown("--event", "refusal") == [5]
    assert shown("--label", "tenant=b") == [3, 4]
    assert shown("--tail", "2") == [4, 5]
    assert shown("--since", "1h") == [1, 2, 3, 4, 5] and shown("--until", "2020-01-01") == []
    assert shown("--sandbox", log.records()[0]["sandbox"]) == [1, 2]
    assert log.audit("show", "--since", "yesterday").returncode == 2


def test_show_names_an_event_that_there_is_not(log):
    log.run("true")
    done = log.audit("show", "--event", "refusals\x1b[2J")
    assert (done.returncode, done.stdout) == (2, b"") and done.stderr.isascii() and b"\x1b" not in done.stderr
    assert b"only create, dropped, egress, end, exec, exec-end, limit, refusal, remove, repair, secret, start, syscall" in done.stderr
    assert b"did you mean 'refusal'?" in log.audit("show", "--event", "refusals").stderr
    assert log.audit("show", "--event", "repair").returncode == 0


CALLS = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
for _ in range(3):
    assert libc.unshare(0x10000000) == -1 and ctypes.get_errno() == 1
try: socket.socket(socket.AF_INET, socket.SOCK_STREAM); raise SystemExit("denied calls pass")
except PermissionError: pass
assert libc.syscall(ctypes.c_long(9999)) == -1 and ctypes.get_errno() == 38  # no kernel has it
assert os.getpid() > 0
"""


def test_denied_system_calls_are_recorded_once_each_with_the_line_that_denies(log):
    policy = log.policy("lifecycle", "syscalls", syscalls={"deny": ["socket"]})
    done = log.run("python3", "-c", CALLS, policy=policy, options=["--json"])
    result = json.loads(done.stdout)
    assert result["exit_code"] == 0, result
    calls = {record["data"]["call"]: record["data"] for record in log.records() if record["event"] == "syscall"}
    assert calls["unshare"]["times"] == 3 and calls["unshare"]["args"] == {}
    assert calls["unshare"]["pointer"] == "/syscalls/baseline" and "unprivileged" in calls["unshare"]["reason"]
    assert "mend" not in calls["unshare"]
    socket = calls["socket"]
    assert socket["pointer"] == "/syscalls/deny/0" and socket["place"].startswith(policy + ":1:")
    assert socket["mend"] == {"syscalls": {"deny": {"remove": ["socket"]}}}
    assert {d["call"] for d in result["denials"]} == set(calls)
    assert "getpid" not in calls and log.audit("verify").returncode == 0


def test_a_filter_that_kills_cant_be_recorded(log):
    policy = log.policy("syscalls", syscalls={"on_deny": "kill"})
    done = log.run("true", policy=policy)
    assert done.returncode == 125 and b"/syscalls/on_deny" in done.stderr


def test_refused_egress_is_recorded_with_name_and_reason(log, programs):
    policy = log.policy("egress", network={"egress": [{"host": "allowed.example", "ports": [443]}]})
    source = "import socket\ntry: socket.create_connection(('other.example', 443), 3)\nexcept OSError as e: print('refused')"
    done = log.run("/usr/bin/python3", "-c", source, policy=policy)
    assert (done.returncode, done.stdout) == (0, b"refused\n"), done.stderr
    refused = [r["data"] for r in log.records() if r["event"] == "egress" and r["data"]["event"] == "refuse"]
    assert refused and refused[0]["host"] == "other.example" and refused[0]["reason"], done
    assert log.audit("verify").returncode == 0


def listen(log, name):
    sink = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    path = log.pinfold.home / name
    sink.bind(str(path))
    os.chmod(path, 0o777)
    sink.settimeout(60)
    return sink, str(path)


def test_records_go_to_syslog_whole_and_once(log):
    sink, path = listen(log, "devlog")
    cursor = str(log.pinfold.home / "cursor")
    log.run("true", options=["--label", "tenant=a"])
    assert log.audit("export", "--syslog", "--socket", path, "--cursor", cursor).returncode == 0
    lines = log.path.read_bytes().splitlines()
    for line in lines:
        message = sink.recv(65536)
        assert message.startswith(b"<86>1 20") and message.endswith(b" - " + line)
    log.run("true")
    assert json.loads(log.audit("export", "--syslog", "--socket", path, "--cursor", cursor, "--json").stdout) == {"sent": 2, "last": 4, "strange": 0}
    assert b'"seq":3,' in sink.recv(65536) and b'"seq":4,' in sink.recv(65536)
    assert json.loads(log.audit("export", "--syslog", "--socket", path, "--cursor", cursor, "--json").stdout)["sent"] == 0


def test_records_go_to_the_journal_with_fields_and_large_ones_in_a_file(log):
    sink, path = listen(log, "journal")
    log.run("true", *["x" * 500] * 250, options=["--label", "tenant=a"])
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    log.run("--no-such-option", options=["--memory", "1000GiB"])
    assert log.audit("export", "--journald", "--socket", path).returncode == 0
    fields = []
    for _ in log.records():
        data, files, _, _ = socket.recv_fds(sink, 1 << 20, 1)
        if files:
            with os.fdopen(files[0], "rb") as file:
                file.seek(0)
                data = file.read()
        fields.append(dict(line.split("=", 1) for line in data.decode().splitlines()))
    assert [f["PINFOLD_EVENT"] for f in fields] == ["start", "end", "refusal"] and fields[2]["PRIORITY"] == "4"
    assert fields[0]["PINFOLD_LABEL_TENANT"] == "a" and fields[0]["PINFOLD_SEQ"] == "1" and fields[0]["PRIORITY"] == "6"
    assert [f["MESSAGE"] for f in fields] == log.path.read_text().splitlines()


def test_a_log_that_does_not_go_on_from_the_cursor_is_not_exported(log):
    sink, path = listen(log, "devlog")
    cursor = str(log.pinfold.home / "cursor")
    log.run("true")
    assert log.audit("export", "--syslog", "--socket", path, "--cursor", cursor).returncode == 0
    for file in list(log.path.parent.iterdir()):
        file.unlink()
    for _ in range(2):
        log.run("true")
    done = log.audit("export", "--syslog", "--socket", path, "--cursor", cursor)
    assert done.returncode == 2 and b"isn't the one that was exported" in done.stderr


def test_a_sink_that_is_not_there_is_said_to_be(log):
    log.run("true")
    done = log.audit("export", "--journald", "--socket", str(log.pinfold.home / "nothing"))
    assert done.returncode == 2 and b"journald" in done.stderr
    assert log.audit("export").returncode == 2 and log.audit("export", "--syslog", "--journald").returncode == 2


def test_a_policy_may_have_what_cant_be_written_counted(log):
    policy = log.pinfold.policy(audit={"record": ["lifecycle"], "on_failure": "count"})
    assert log.run("true", policy=policy).returncode == 0
    good = log.path.read_bytes()
    log.path.write_bytes(good[:-20])  # a sink that takes nothing
    done = log.run("sh", "-c", "exit 3", policy=policy, options=["--json"])
    result = json.loads(done.stdout)
    assert done.returncode == 3 and result["missing"].count("audit") == 1
    log.path.write_bytes(good)
    assert log.run("true", policy=policy).returncode == 0 and log.events() == ["start", "end"] * 2


def test_a_kept_sandbox_tells_how_many_records_are_missing(log):
    policy = log.pinfold.policy(audit={"record": ["lifecycle"], "on_failure": "count"})
    def call(*arguments):
        return log.pinfold.call([str(log.pinfold.program), *arguments], env=log.env)
    call("up", "work", "--policy", policy)
    good = log.path.read_bytes()
    log.path.write_bytes(good[:-20])
    result = json.loads(call("exec", "work", "--json", "--", "true").stdout)
    assert result["status"] == "success" and "audit" in result["missing"]
    log.path.write_bytes(good)
    assert json.loads(call("exec", "work", "--json", "--", "true").stdout)["missing"].count("audit") == 0
    call("rm", "--force", "work")
    assert log.events() == ["start", "dropped", "exec", "exec-end", "end", "remove"]
    assert log.records()[1]["data"] == {"records": 2} and log.audit("verify").returncode == 0


def test_a_policy_that_counts_is_wider_than_one_that_refuses(log):
    refuse, count = (log.pinfold.policy(audit={"record": ["lifecycle"], **more}) for more in ({}, {"on_failure": "count"}))
    assert log.pinfold.call([str(log.pinfold.program), "policy", "diff", refuse, count]).returncode == 1
    assert log.pinfold.call([str(log.pinfold.program), "policy", "diff", count, refuse]).returncode == 0


def test_a_policy_may_have_each_record_on_the_disk(as_root):
    log = Log(as_root)
    policy = as_root.policy(audit={"record": ["lifecycle"], "sync": True})
    trace = as_root.home / "trace"
    argv = ["strace", "-f", "-e", "trace=fdatasync", "-o", str(trace), *as_root.argv("true", policy=policy)]
    if shutil.which("strace") is None:
        pytest.skip("strace isn't here")
    assert as_root.call(argv, env=log.env).returncode == 0
    assert trace.read_text().count("fdatasync(") >= 4  # the log and its head, twice
