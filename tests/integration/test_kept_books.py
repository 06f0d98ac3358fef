"""Kept sandboxes with secrets, an audit log, receipts and what each command used."""
import json
import os
import shutil
import subprocess
import time

import pytest

from kept_sandbox import Kept, eventually, message, reply

VALUE = "tok-5fKq81\"x/Zp9"
NEW = "rotated-3Vd0wQ/a+b"


class Books(Kept):
    """A kept sandbox whose secrets, log and keys are the test's own."""

    def __init__(self, pinfold):
        super().__init__(pinfold)
        self.folder = pinfold.home / "secrets"
        self.folder.mkdir(mode=0o700)
        os.chown(self.folder, pinfold.uid, pinfold.uid)
        self.log = pinfold.home / "log" / "audit.jsonl"
        self.receipt = pinfold.home / "receipt.json"
        self.env = pinfold.environment(PINFOLD_SECRETS=str(self.folder), PINFOLD_AUDIT=str(self.log),
                                       PINFOLD_KEYS=str(pinfold.home / "keys"))
        self.put("KEY", VALUE + "\n")

    def call(self, verb, *arguments, **kwargs):
        return self.pinfold.call(self.argv(verb, *arguments), env=self.env, **kwargs)

    def put(self, name, value):
        path = self.folder / name
        path.write_text(value)
        os.chown(path, self.pinfold.uid, self.pinfold.uid)
        path.chmod(0o600)

    def audit(self):
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def events(self):
        return [record["event"] for record in self.audit()]


@pytest.fixture
def books(pinfold):
    books = Books(pinfold)
    yield books
    books.close()


@pytest.fixture
def root_books(as_root):
    books = Books(as_root)
    yield books
    books.close()


PROOF = "printf %s \"$KEY\" | sha256sum"


def digest_of(value):
    return subprocess.run("sha256sum", input=value.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()


def test_a_secret_of_the_sandbox_is_a_variable_of_every_command(books):
    books.up("work", "--secret", "KEY", secrets=["KEY"])
    for _ in range(2):
        assert books.json("work", "sh", "-c", PROOF)["stdout"] == digest_of(VALUE)


def test_a_command_may_ask_for_what_every_command_has(books):
    books.up("work", "--secret", "KEY", "--secret", "KEY:file", secrets=["KEY"])
    seen = books.json("work", "sh", "-c", PROOF + "; sha256sum < /run/secrets/KEY", options=["--secret", "KEY", "--secret", "KEY:file"])
    assert seen["stdout"] == digest_of(VALUE) * 2, seen
    assert books.json("work", "ls", "/run/secrets")["stdout"] == "KEY\n"
    assert "both become" in books.json("work", "true", options=["--secret", "KEY:env=A", "--secret", "KEY:env=A"])["error"]["message"]


def test_a_secret_of_one_command_is_not_another_ones(books):
    books.up("work", secrets=["KEY"])
    assert books.json("work", "sh", "-c", PROOF, options=["--secret", "KEY"])["stdout"] == digest_of(VALUE)
    assert books.json("work", "sh", "-c", PROOF, options=["--secret", "KEY:env=OTHER"])["stdout"] == digest_of("")
    assert books.json("work", "sh", "-c", PROOF)["stdout"] == digest_of("")


def test_what_the_policy_does_not_list_is_not_handed_to_a_command(books):
    books.put("OTHER", "a value of another")
    books.up("work", secrets=["KEY"])
    done = books.exec("work", "env", options=["--secret", "OTHER"])
    assert done.returncode == 125 and b"OTHER" in done.stderr and b"value of another" not in done.stderr + done.stdout
    assert books.exec("work", "env", options=["--secret", "OTHER:file"]).returncode == 125


def test_a_secret_of_one_command_can_be_a_file_that_goes_with_it(books):
    books.put("OTHER", "a value of another")
    books.up("work", secrets=["KEY", "OTHER"])
    look = "sha256sum < /run/secrets/token; stat -c %a%u%g /run/secrets/token; (: > /run/secrets/x); grep ' /run/secrets ' /proc/mounts"
    seen = books.json("work", "sh", "-c", look, options=["--secret", "KEY:file=token"])
    assert seen["stdout"].startswith(digest_of(VALUE) + "40010001000\n") and "Read-only" in seen["stderr"], seen
    assert " ramfs ro" in seen["stdout"]
    assert books.json("work", "ls", "/run/secrets")["stdout"] == ""
    for end in ("exit 3", "kill -9 $$", "setsid sleep 100 & exit 0"):
        assert books.json("work", "sh", "-c", end, options=["--secret", "KEY:file"])["status"] != "refused"
        assert books.json("work", "ls", "/run/secrets")["stdout"] == "", end
    assert books.exec("work", "/no/such", options=["--secret", "KEY:file"]).returncode == 127
    assert books.json("work", "ls", "/run/secrets")["stdout"] == ""
    # two at once share one that is the same, and never one name for two
    first = books.pinfold.spawn(books.argv("exec", "work", "--stdin", "-", "--secret", "KEY:file", "--", "sh", "-c", "echo ready; cat; cat /run/secrets/KEY"),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout.readline() == b"ready\n"
    assert books.json("work", "cat", "/run/secrets/KEY", options=["--secret", "KEY:file"])["stdout"] == "***"
    refused = books.json("work", "true", options=["--secret", "OTHER:file=KEY"])
    assert refused.get("error", {}).get("kind") == "busy" and "another secret" in refused["error"]["message"], refused
    both = ["--secret", "OTHER:file=a", "--secret", "KEY:file=a"]
    assert books.json("work", "true", options=both)["error"]["kind"] == "busy"
    assert first.communicate(b"")[0] == b"***"
    assert books.json("work", "ls", "/run/secrets")["stdout"] == ""


def test_a_sandbox_whose_policy_lists_no_secret_has_no_folder_for_them(books):
    books.up("work")
    assert books.exec("work", "ls", "/run/secrets").returncode == 2


def test_rotation_is_seen_by_the_next_command_in_variables_and_files(books):
    books.up("work", "--secret", "KEY", "--secret", "KEY:file", secrets=["KEY"])
    look = PROOF + "; sha256sum < /run/secrets/KEY; stat -c %a%u /run/secrets/KEY; : > /run/secrets/x"
    before = books.json("work", "sh", "-c", look)
    assert before["stdout"] == digest_of(VALUE) * 2 + "4001000\n" and "Read-only" in before["stderr"]
    books.put("KEY", NEW)
    after = books.json("work", "sh", "-c", look)
    assert after["stdout"] == digest_of(NEW) * 2 + "4001000\n" and "Read-only" in after["stderr"]


def test_a_secret_that_has_gone_refuses_the_command_and_not_the_sandbox(books):
    books.up("work", "--secret", "KEY", secrets=["KEY"])
    (books.folder / "KEY").unlink()
    refused = books.json("work", "true")
    assert refused["status"] == "refused" and "KEY" in refused["error"]["message"]
    books.put("KEY", NEW)
    assert books.exec("work", "true").returncode == 0


def test_output_is_masked_across_writes_in_results_streams_and_logs(books):
    books.up("work", "--secret", "KEY", secrets=["KEY"])
    source = ("import os, sys, time\nfor c in os.environ['KEY']:\n"
              "    sys.stdout.write(c); sys.stdout.flush(); time.sleep(0.002)\nprint('|'); print(os.environ['KEY'], file=sys.stderr)")
    result = books.python("work", source)
    assert (result["stdout"], result["stderr"]) == ("***|\n", "***\n")
    streamed = books.exec("work", "/usr/bin/python3", "-c", source, options=["--stream"]).stdout
    plain = books.exec("work", "/usr/bin/python3", "-c", source)
    everything = streamed + plain.stdout + plain.stderr + books.ok("logs", "work", "--json").encode()
    assert VALUE.encode() not in everything and json.dumps(VALUE)[1:-1].encode() not in everything
    assert plain.stdout == b"***|\n"


def test_a_value_of_before_a_rotation_is_still_masked(books):
    books.up("work", "--secret", "KEY", secrets=["KEY"])
    assert books.exec("work", "sh", "-c", "printf %s \"$KEY\" > /tmp/kept").returncode == 0
    books.put("KEY", NEW)
    assert books.json("work", "sh", "-c", "cat /tmp/kept; printf '|%s' \"$KEY\"")["stdout"] == "***|***"


def test_an_argument_that_holds_a_value_is_masked_in_log_and_list(books):
    books.up("work", "--secret", "KEY", secrets=["KEY"], audit={"record": ["lifecycle"]})
    assert books.exec("work", "echo", VALUE).stdout == b"***\n"
    start = next(record for record in books.records("work") if record["kind"] == "start")
    assert start["facts"]["args"] == ["echo", "***"]
    assert [record["data"]["argv"] for record in books.audit() if record["event"] == "exec"] == [["echo", "***"]]


def test_an_error_that_quotes_a_value_is_masked_in_result_and_log(books):
    value = "Plain0Value0Of0Letters"
    books.put("KEY", value)
    policy = dict(secrets=["KEY"], audit={"record": ["lifecycle"]})
    books.up("work", **policy)
    for argv in (["--secret", "KEY", "--", f"/no/{value}"], ["--secret", "KEY", "--cwd", f"/no/{value}", "--", "true"]):
        done = books.call("exec", "work", *argv)
        assert done.returncode in (125, 127) and b"'/no/***'" in done.stderr
    done = books.call("run", "--policy", books.pinfold.policy(**policy), "--secret", "KEY", "--", f"/no/{value}")
    assert done.returncode == 127 and b"'/no/***'" in done.stderr
    errors = [record["data"]["error"]["message"] for record in books.audit() if "error" in record["data"]]
    assert len(errors) == 3 and all("***" in error and value not in error for error in errors)


def test_the_value_is_nowhere_on_the_host_while_and_after_it_is_used(root_books, tmp_path):
    """State, log, audit log, receipts, facts, argument lists, environments and dumpable memory of our processes."""
    books = root_books
    token = "needle-" + os.urandom(16).hex()
    books.put("KEY", token)
    books.up("work", "--secret", "KEY", "--secret", "KEY:file", "--receipt", str(books.receipt), secrets=["KEY"],
             audit={"record": ["lifecycle"]})
    for number in range(8):
        assert books.json("work", "sh", "-c", PROOF + "; cat /run/secrets/KEY > /tmp/x; exit $1", "sh", str(number))["exit_code"] == number
    texts = [books.ok("show", "work", "--json"), books.ok("ls", "--json"), books.ok("stats", "work"), books.ok("logs", "work", "--json")]
    assert not any(token in text for text in texts)
    supervisor = books.show("work")["supervisor"]
    children = open(f"/proc/{supervisor}/task/{supervisor}/children", encoding="ascii").read().split()
    for pid in [str(supervisor), *children]:
        for name in ("cmdline", "environ"):
            assert token.encode() not in open(f"/proc/{pid}/{name}", "rb").read(), (pid, name)
    assert find_in_unlocked(supervisor, token.encode()) == []
    assert os.stat(f"/proc/{supervisor}/environ").st_uid == 0 and "CoreDumping:\t0" in open(f"/proc/{supervisor}/status").read()
    assert books.exec("work", "sh", "-c", "echo \"$KEY\"; cat /run/secrets/KEY; no-such-program \"$KEY\"").returncode == 127
    books.ok("stop", "work")
    found = subprocess.run(["grep", "-rlF", token, str(books.pinfold.home), "/run/pinfold", "/var/lib/pinfold"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.split()
    assert found == [str(books.folder / "KEY")]


def find_in_unlocked(pid, token):
    """Mappings of a process that hold the token and could be swapped out or dumped."""
    found, mappings = [], []
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as file:
        for line in file:
            if "-" in line.split()[0] and line.split()[0][-1] != ":":
                start, end = (int(part, 16) for part in line.split()[0].split("-"))
                mappings.append([start, end, line.strip(), True])
            elif line.startswith("VmFlags:"):
                mappings[-1][3] = not {"lo", "dd"} <= set(line.split())
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end, name, bare in mappings:
            if not bare or " r" not in name:
                continue
            try:
                memory.seek(start)
                if token in memory.read(end - start):
                    found.append(name)
            except (OSError, ValueError):  # [vvar] and the like can't be read
                pass
    return found


def test_a_life_is_recorded_from_its_start_to_its_removal(books):
    books.up("work", "--secret", "KEY", "--label", "tenant=a", secrets=["KEY"], audit={"record": ["lifecycle"]})
    assert books.exec("work", "sh", "-c", "exit 3").returncode == 3
    books.ok("stop", "work")
    books.ok("rm", "work")
    assert books.events() == ["start", "exec", "secret", "exec-end", "end", "remove"]
    records = {record["event"]: record for record in books.audit()}
    assert all(record["sandbox"] == "work" and record["labels"] == {"tenant": "a"} for record in records.values())
    assert records["start"]["data"]["kept"] is True and records["start"]["data"]["policy_digest"].startswith("sha256:")
    assert records["exec"]["data"] == {"argv": ["sh", "-c", "exit 3"], "exec": 1}
    assert (records["secret"]["data"]["secret"], records["secret"]["data"]["exec"]) == ("KEY", 1)
    assert (records["exec-end"]["data"]["exit_code"], records["exec-end"]["data"]["exec"]) == (3, 1)
    assert records["end"]["data"]["why"] == "stopped"
    assert books.call("audit", "verify").returncode == 0


def test_a_refused_command_and_a_limit_are_recorded(books):
    books.up("work", audit={"record": ["lifecycle"]}, environment={"refuse": ["BAD_*"]})
    assert books.exec("work", "true", options=["--env", "BAD_X=1"]).returncode == 125
    assert books.exec("work", "sleep", "60", options=["--timeout", "50ms"]).returncode == 124
    assert books.events()[:5] == ["start", "refusal", "exec", "limit", "exec-end"]
    refusal = books.audit()[1]["data"]
    assert "BAD_X" in refusal["findings"][0]["message"] and refusal["argv"] == ["true"]
    assert books.audit()[3]["data"]["exec"] == 1


def test_a_request_that_is_refused_is_recorded(books):
    policy = books.pinfold.policy(audit={"record": ["lifecycle"]}, resources={"pids": 10})
    assert books.call("up", "work", "--policy", policy, "--pids", "11").returncode == 125
    assert books.events() == ["refusal"]


def test_a_sandbox_that_ends_by_itself_is_recorded(books):
    books.up("work", "--lifetime", "100ms", audit={"record": ["lifecycle"]})
    eventually(lambda: "end" in books.events(), "the lifetime is over")
    assert books.audit()[-1]["data"]["why"] == "lifetime"


def test_a_log_that_is_damaged_refuses_commands_until_it_is_mended(books):
    books.up("work", audit={"record": ["lifecycle"]})
    size = books.log.stat().st_size
    with open(books.log, "r+b") as file:
        file.truncate(size - 10)
    done = books.json("work", "touch", "/tmp/ran")
    assert done["status"] == "refused" and "audit" in done["error"]["message"]
    for path in list(books.log.parent.iterdir()):
        path.unlink()  # put aside: the chain begins anew
    assert books.json("work", "ls", "/tmp/ran")["status"] == "error"


def test_many_commands_at_once_share_one_chain(books):
    books.up("work", audit={"record": ["lifecycle"]})
    running = [books.pinfold.spawn(books.argv("exec", "work", "--", "true"), env=books.env) for _ in range(12)]
    assert [process.wait() for process in running] == [0] * 12
    assert books.call("audit", "verify").returncode == 0
    assert sorted(r["data"]["exec"] for r in books.audit() if r["event"] == "exec-end") == list(range(1, 13))


def test_a_receipt_is_given_when_the_sandbox_is_up(root_books):
    books = root_books
    books.up("work", "--receipt", str(books.receipt), audit={"record": ["lifecycle"]})
    receipt = json.loads(books.receipt.read_text())["receipt"]
    assert receipt["sandbox"] == "work" and receipt["result"] is None and receipt["audit"]["seq"] == 1
    assert receipt["enforced"]["status"]["NoNewPrivs"] == "1"
    assert books.call("audit", "receipt", "verify", str(books.receipt)).returncode == 0
    again = books.call("up", "other", "--receipt", str(books.receipt))
    assert again.returncode == 125 and [sandbox["name"] for sandbox in books.list()] == ["work"]


def test_each_command_has_its_own_usage(root_books):
    books = root_books
    books.up("work", resources={"memory": "256MiB"})
    burn = "import time\nx = bytearray(40 << 20)\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    heavy, light = books.python("work", burn)["usage"], books.json("work", "true")["usage"]
    assert heavy["cpu_ms"] >= 290 and heavy["memory_peak_bytes"] > 40 << 20 and heavy["pids_peak"] >= 1
    assert light["cpu_ms"] < 150 and 0 < light["memory_peak_bytes"] < 20 << 20


def test_a_limit_of_cpu_time_ends_one_command_and_not_the_sandbox(root_books):
    books = root_books
    books.up("work", resources={"cpu_time": "200ms", "wall_time": "30s"})
    started = time.monotonic()
    spent = books.json("work", "sh", "-c", "while :; do :; done")
    assert spent["status"] == "timeout" and spent["exit_code"] == 124 and 150 < spent["usage"]["cpu_ms"] < 2000
    assert time.monotonic() - started < 25
    assert books.json("work", "true")["status"] == "success"


def test_the_user_of_a_command_is_the_policys(books):
    books.up("work", identity={"user": 1000, "group": 1000})
    for user in ("1000", "1000:1000"):
        assert books.exec("work", "id", "-u", options=["--user", user]).stdout == b"1000\n"
    for user in ("0", "1000:0"):
        done = books.exec("work", "id", "-u", options=["--user", user])
        assert done.returncode == 125 and b"policy grants the user 1000:1000" in done.stderr
    for user in ("nobody-of-that-name", "", "1000:", ":0", "-1", "0x0", "4294967295", "4294967296", "1000:1000:0", "1e3"):
        done = books.exec("work", "id", "-u", options=[f"--user={user}"])
        assert done.returncode == 125 and b"is no user" in done.stderr, (user, done.stderr)


BECOMING = {"extends": ["build"], "audit": {"record": ["lifecycle"]}, "identity": {"user": 0, "group": 0, "ids": 65536}, "capabilities": ["CAP_SETUID", "CAP_SETGID"],
            "syscalls": {"baseline": "build", "allow": ["capset"]},
            "resources": {"wall_time": "60s"}}


@pytest.fixture
def becoming(books):
    if books.pinfold.uid != 0 and shutil.which("newuidmap") is None:
        pytest.skip("an ordinary user's sandbox has several ids only by newuidmap")
    done = books.call("up", "work", "--policy", books.pinfold.policy(**BECOMING))
    if books.pinfold.uid != 0 and b"subordinate" in done.stderr:
        pytest.skip("the user has no subordinate ids here")
    assert done.returncode == 0, done.stderr
    return books


def test_a_command_has_another_user_where_the_policy_lets_commands_become_one(becoming):
    look = "id -u; id -g; id -G; grep -E '^Cap(Prm|Eff|Amb|Inh)' /proc/self/status; grep NoNewPrivs /proc/self/status; echo x > /dev/stdout"
    seen = becoming.json("work", "sh", "-c", look, options=["--user", "33:34"])
    lines = seen["stdout"].split("\n")
    assert lines[:3] == ["33", "34", "34"], seen
    assert all(int(line.split()[1], 16) == 0 for line in lines[4:7]), seen
    assert "NoNewPrivs:\t1" in seen["stdout"]
    assert becoming.json("work", "id", "-u")["stdout"] == "0\n"
    assert becoming.json("work", "id", "-g", options=["--user", "33"])["stdout"] == "0\n"
    started = [record["facts"].get("user") for record in becoming.records("work") if record["kind"] == "start"]
    assert started == ["33:34", None, "33:0"]
    assert [record["data"].get("user") for record in becoming.audit() if record["event"] == "exec"] == started
    refused = becoming.call("up", "strict", "--policy", becoming.pinfold.policy(**{**BECOMING, "syscalls": {"baseline": "build"}}))
    assert refused.returncode == 0
    seen = becoming.json("strict", "true", options=["--user", "33"])
    assert "capset" in seen["error"]["hint"] and seen["status"] == "refused", seen
    assert becoming.exec("work", "true", options=["--user", "65536"]).returncode == 125
    assert becoming.exec("work", "true", options=["--user", "0:65536"]).returncode == 125


def test_a_command_of_another_user_can_be_signalled_and_ended(becoming):
    for to_all in (False, True):
        number = becoming.ok("exec", "work", "--detach", "--user", "33", "--", "sleep", "1000").strip()
        client = becoming.connect("work")
        client.sendall(message(verb="signal", signal=15, **({} if to_all else {"exec": int(number)})))
        assert "ok" in reply(client)
        client.close()
        for _ in range(2):  # while it may still run, and when it has ended
            assert json.loads(becoming.call("wait", "--json", "work", number).stdout)["signal"] == "SIGTERM"
    left = ["sh", "-c", "trap '' TERM; setsid sleep 1000 & sleep 1000"]
    assert becoming.json("work", *left, options=["--user", "34", "--timeout", "300ms"])["status"] == "timeout"
    assert becoming.json("work", "sh", "-c", "ps -e | grep -c sleep")["stdout"] == "0\n"
    eyes = becoming.json("work", "sh", "-c", "for p in /proc/1/mem /proc/1/environ; do cat $p; done; kill -9 1; kill -0 1",
                         options=["--user", "33"])
    assert eyes["stdout"] == "" and eyes["exit_code"] != 0
    assert becoming.exec("work", "true").returncode == 0


def test_capabilities_alone_give_no_other_user_and_neither_do_ids(books):
    for i, policy in enumerate([{**BECOMING, "capabilities": ["CAP_SETUID"]}, {**BECOMING, "capabilities": []},
                                {**BECOMING, "identity": {"user": 0, "group": 0}}]):
        done = books.call("up", f"w{i}", "--policy", books.pinfold.policy(**policy))
        if b"subordinate" in done.stderr:
            continue
        refused = books.json(f"w{i}", "true", options=["--user", "33"])
        assert refused["error"]["kind"] == "refused" and refused["error"]["pointer"] in ("/capabilities", "/identity/ids")


def test_frames_are_read_where_they_are_asked_for(books):
    books.up("work")
    source = ("import os, struct, zlib\n"
              "nonce = bytes.fromhex(os.environ['PINFOLD_FRAME_NONCE']); data = b'{\"a\": 1}'\n"
              "def crc(b):\n    c = 0xffffffff\n    for x in b:\n        c ^= x\n        for _ in range(8): c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)\n"
              "    return c ^ 0xffffffff\n"
              "os.write(int(os.environ['PINFOLD_FRAME_FD']), nonce + struct.pack('>BBHII', 1, 1, 0, len(data), crc(data)) + data)\nprint('text')")
    done = books.python("work", source, options=["--frames", "fd"])
    assert (done["result"], done["stdout"]) == ({"a": 1}, "text\n")
    assert books.json("work", "env")["stdout"].find("PINFOLD_FRAME") == -1


def test_frames_are_masked(books):
    books.up("work", "--secret", "KEY", secrets=["KEY"])
    source = ("import hashlib, os, struct, sys, uuid, json\ndata = json.dumps({'k': os.environ['KEY']}).encode()\n"
              "mark = uuid.uuid5(uuid.NAMESPACE_DNS, 'local-sandbox-result-start-marker').bytes\n"
              "sys.stdout.buffer.write(mark + struct.pack('>I', len(data)) + hashlib.md5(data).hexdigest().encode() + data)")
    assert books.python("work", source, options=["--frames", "stdout-letta"])["result"] == {"k": "***"}


def test_the_protocol_says_what_is_wrong_with_a_request(books):
    books.up("work")
    client = books.connect("work")
    for fields, pointer in [({"frames": "x"}, "/frames"), ({"secrets": [1]}, "/secrets"), ({"user": 1}, "/user")]:
        client.sendall(message(verb="exec", args=["true"], **fields))
        assert reply(client)["error"]["pointer"] == pointer


def test_a_rotated_secret_is_written_nowhere_but_into_its_own_folder(books, tmp_path):
    """Whoever is root inside can move /run away and lead its name to a read-only folder of the host."""
    data = tmp_path / "data"
    for folder in (tmp_path, data, data / "secrets"):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)
    books.up("work", "--secret", "KEY", "--secret", "KEY:file", secrets=["KEY"], identity={"user": 0, "group": 0},
             filesystem={"root": "overlay", "write": ["/"],
                         "mounts": [{"source": str(data), "target": "/data", "access": "read-only"}]})
    turned = books.json("work", "sh", "-c", "mv /run /away && ln -s /data /run && ls -d /run/secrets/.")
    assert turned["exit_code"] == 0, turned
    books.put("KEY", NEW)
    refused = books.exec("work", "true")
    assert list((data / "secrets").iterdir()) == []
    assert refused.returncode == 125 and b"/run/secrets" in refused.stderr, refused.stderr
