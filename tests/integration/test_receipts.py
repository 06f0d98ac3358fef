"""Receipts: what the kernel says was enforced, signed, and checked offline."""
import json
import os

import pytest

from test_commit import BUSYBOX, box  # noqa: F401 (fixture)



class Desk:
    def __init__(self, pinfold, programs):
        self.pinfold, self.file = pinfold, pinfold.home / "receipt.json"
        self.log = pinfold.home / "log" / "audit.jsonl"
        self.env = pinfold.environment(PINFOLD_KEYS=str(pinfold.home / "keys"), PINFOLD_AUDIT=str(self.log))

    def run(self, *command, policy=None, options=()):
        return self.pinfold.call(self.pinfold.argv(*command, policy=policy or self.pinfold.policy(),
                                                   options=["--receipt", str(self.file), *options]), env=self.env)

    def receipt(self, *command, **kwargs):
        done = self.run(*(command or ("true",)), **kwargs)
        assert self.file.exists(), done.stderr
        return json.loads(self.file.read_text())["receipt"]

    def audit(self, *arguments):
        return self.pinfold.call([str(self.pinfold.program), "audit", "receipt", *arguments], env=self.env)


@pytest.fixture
def desk(pinfold, programs):
    return Desk(pinfold, programs)


def test_a_receipt_tells_what_the_kernel_enforces(desk):
    source = ("import hashlib, os; s = dict(l.split(':', 1) for l in open('/proc/1/status')); "
              "print(s['NoNewPrivs'].strip(), s['Seccomp'].strip(), s['CapBnd'].strip(), "
              "os.readlink('/proc/self/ns/mnt'), os.readlink('/proc/self/ns/net'), "
              "'sha256:' + hashlib.sha256(open('/proc/1/mountinfo', 'rb').read()).hexdigest())")
    done = desk.run("/usr/bin/python3", "-c", source)
    enforced = json.loads(desk.file.read_text())["receipt"]["enforced"]
    inside = done.stdout.decode().split()
    assert inside == [enforced["status"]["NoNewPrivs"], enforced["status"]["Seccomp"], enforced["status"]["CapBnd"],
                      enforced["namespaces"]["mnt"], enforced["namespaces"]["net"], enforced["mounts_digest"]], done.stderr
    assert enforced["status"]["Seccomp"] == "2" and enforced["namespaces"]["net"] != os.readlink("/proc/self/ns/net")
    root = [line.split() for line in enforced["mounts"] if line.split()[4] == "/"]
    assert len(root) == 1 and "ro" in root[0][5].split(",")
    if not desk.pinfold.rootless:
        assert enforced["filters"] and enforced["filters"][0]["instructions"] > 10
        values = {k: v for group in enforced["cgroups"] for k, v in group["values"].items()}
        assert str(512 << 20) in values.values()


def test_a_looser_policy_gives_another_receipt(as_root, programs):
    desk = Desk(as_root, programs)
    tight = desk.receipt()["enforced"]
    desk.file.unlink()
    loose = desk.receipt(policy=as_root.policy(resources={"memory": "64MiB"}, syscalls={"baseline": "build"}))["enforced"]
    assert tight["filters"] != loose["filters"] and tight["cgroups"] != loose["cgroups"]


def test_a_receipt_holds_policy_result_and_the_head_of_the_log(desk):
    receipt = desk.receipt("sh", "-c", "exit 4", policy=desk.pinfold.policy(audit={"record": ["lifecycle"]}))
    last = json.loads(desk.log.read_text().splitlines()[-1])
    assert receipt["result"]["exit_code"] == 4
    assert receipt["audit"] == {"seq": last["seq"], "hash": last["hash"]}
    start = json.loads(desk.log.read_text().splitlines()[0])
    assert receipt["policy"]["digest"] == start["data"]["policy_digest"]
    assert receipt["fingerprint"] == start["data"]["fingerprint"]


def test_verify_accepts_the_hosts_own_and_nothing_that_was_changed(desk):
    desk.receipt()
    assert desk.audit("verify", str(desk.file)).returncode == 0
    key = desk.audit("key").stdout.decode().strip()
    assert desk.audit("verify", str(desk.file), ).returncode == 0
    whole = json.loads(desk.file.read_text())
    assert whole["signature"]["key"] == key
    other = desk.pinfold.home / "other.json"
    other.write_text(json.dumps(whole))
    assert desk.audit("verify", str(other)).returncode == 0, "the layout of the file doesn't matter"
    whole["receipt"]["result"]["exit_code"] = 99
    other.write_text(json.dumps(whole))
    assert desk.audit("verify", str(other)).returncode == 1


def test_what_is_no_file_is_no_receipt_and_nobody_waits_for_it(as_root, programs):
    desk, pipe = Desk(as_root, programs), as_root.home / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, as_root.home, "/dev/zero"):
        done = desk.audit("verify", str(place))
        assert done.returncode == 2 and b"a receipt is a regular file" in done.stderr, done.stderr


def test_what_a_signed_receipt_says_reaches_no_terminal_raw(as_root, programs):
    desk = Desk(as_root, programs)
    argv = [str(as_root.program), "audit", "receipt", "sign", str(desk.file)]
    assert as_root.call(argv, input=b'{"sandbox": "\\u001b[2J\\n", "policy": {"digest": 5}}', env=desk.env).returncode == 0
    done = desk.audit("verify", str(desk.file))
    assert done.returncode == 0 and done.stdout.startswith(b"the receipt of \\x1b[2J\\n, policy ?, "), done


STRIDE = int(os.environ.get("PINFOLD_SWEEP_STRIDE", "151"))  # 1: every byte


def signed(text):
    """What counts of a receipt file: all but the layout, and what the file says of its own key, which proves nothing."""
    try:
        whole = json.loads(text)
        return whole["receipt"], whole["signature"]["algorithm"], whole["signature"]["value"]
    except (ValueError, KeyError, TypeError):
        return None


@pytest.mark.parametrize("edit", ["changed", "removed", "doubled", "ended before it"])
def test_a_single_edit_anywhere_in_a_receipt_is_found(as_root, programs, edit):
    desk = Desk(as_root, programs)
    desk.receipt()
    text, other = desk.file.read_bytes(), as_root.home / "edited.json"
    tried = harmless = 0
    for at in range(0, len(text), STRIDE):
        byte = text[at:at + 1]
        changed = {"changed": text[:at] + bytes([byte[0] ^ 1]) + text[at + 1:], "removed": text[:at] + text[at + 1:],
                   "doubled": text[:at] + byte + text[at:], "ended before it": text[:at]}[edit]
        other.write_bytes(changed)
        accepted = desk.audit("verify", str(other)).returncode == 0
        same = signed(changed) == signed(text)
        assert accepted == same, (at, text[max(0, at - 20):at + 20])
        tried, harmless = tried + 1, harmless + same
    assert tried > 25 and harmless < tried // 4  # of layout, and of the key in the file


def test_a_receipt_of_another_key_is_not_accepted(desk):
    desk.receipt()
    key = desk.audit("key").stdout.decode().strip()
    desk.env["PINFOLD_KEYS"] = str(desk.pinfold.home / "other-keys")
    assert desk.audit("verify", str(desk.file)).returncode == 2, "there is no key to compare with"
    desk.audit("key")
    assert desk.audit("verify", str(desk.file)).returncode == 1
    assert desk.audit("verify", "--key", key, str(desk.file)).returncode == 0
    assert desk.audit("verify", "--key", "ff" * 32, str(desk.file)).returncode == 1
    assert desk.audit("verify", "--key", "short", str(desk.file)).returncode == 2


def test_the_key_is_the_users_alone(desk):
    desk.receipt()
    folder = desk.pinfold.home / "keys"
    assert folder.stat().st_mode & 0o7777 == 0o700
    assert (folder / "receipt.key").stat().st_mode & 0o7777 == 0o600
    (folder / "receipt.key").chmod(0o644)
    desk.file.unlink()
    done = desk.run("sh", "-c", "echo ran")
    assert done.returncode == 125 and b"ran" not in done.stdout


def test_a_file_that_is_there_is_never_written_over(desk):
    desk.file.write_text("mine")
    done = desk.run("sh", "-c", "echo ran")
    assert done.returncode == 125 and b"ran" not in done.stdout and desk.file.read_text() == "mine"


def test_what_keeps_a_receipt_from_being_made_is_told_in_one_line(desk):
    for place, cause in ((desk.file, b"is there already"), (desk.pinfold.home / "no/folder", b"No such file")):
        desk.file.write_text("mine")
        argv = desk.pinfold.argv("echo", "ran", options=["--receipt", str(place)])
        done = desk.pinfold.call(argv, env=desk.env)
        assert done.stdout == b"" and done.returncode == 125 and cause in done.stderr and done.stderr.count(b"\n") == 1, done.stderr
        told = json.loads(desk.pinfold.call([*argv[:2], "--json", *argv[2:]], env=desk.env).stdout)
        assert cause.decode() in told["error"]["message"]


@pytest.mark.parametrize("place", ["", "signature"])
def test_nothing_stands_beside_what_is_signed(desk, place):
    """A reader could take it for a part of it."""
    desk.receipt()
    whole = json.loads(desk.file.read_text())
    (whole[place] if place else whole)["result"] = {"status": "success"}
    desk.file.write_text(json.dumps(whole))
    assert desk.audit("verify", str(desk.file)).returncode == 1


@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static")
def test_a_receipt_names_the_image_by_its_digest(box):
    """Its name may mean another image by now."""
    box.build("base:1")
    digest = json.loads(box.image("show", "--json", "base:1"))["digest"]
    policy, keys = box.policy(images=["host", "base:*"]), box.pinfold.home / "receipt-keys"

    def receipt_of(*options, verb=("run",), command=("--", "true")):
        file = box.pinfold.home / f"receipt{len(list(box.pinfold.home.glob('receipt*.json')))}.json"
        env = {**box.environment(), "PINFOLD_KEYS": str(keys)}
        argv = [str(box.pinfold.program), *verb, "--policy", policy, "--receipt", str(file), *options, *command]
        done = box.pinfold.call(argv, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text())["receipt"]
    for found in (receipt_of("--image", "base:1", command=("--", "/bin/true")),
                  receipt_of("--image", "base:1", verb=("up", "work"), command=())):
        assert (found["image"], found["image_digest"]) == ("base:1", digest)
    assert receipt_of()["image_digest"] is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "{\"receipt\": {}}", "{\"receipt\": {}, \"signature\": {\"algorithm\": "
                                  "\"none\", \"value\": \"\"}}", "\x00"])
def test_what_is_no_receipt_is_not_accepted(desk, text):
    desk.audit("key")
    desk.file.write_text(text)
    assert desk.audit("verify", str(desk.file)).returncode in (1, 2)


def test_the_rules_of_the_network_are_read_back(as_root, programs):
    desk = Desk(as_root, programs)

    def facts(**policy):
        desk.file.unlink(missing_ok=True)
        return desk.receipt(policy=as_root.policy(**policy))["enforced"]
    egress = {"network": {"egress": [{"host": "a.example.com", "ports": [443]}]}}
    first, again, none = facts(**egress), facts(**egress), facts()
    assert first["nftables"]["digest"] == again["nftables"]["digest"] != none["nftables"]["digest"]
    assert none["nftables"]["chains"] == none["nftables"]["rules"] == [] and none["interfaces"] == ["lo"]
    chain, = first["nftables"]["chains"]
    assert (chain["table"], chain["chain"], chain["policy"]) == ("pinfold", "leaving", 0)  # 0: what no rule takes is dropped
    assert len(first["nftables"]["rules"]) > 4 and all("sha256" in rule for rule in first["nftables"]["rules"])


def test_what_landlock_was_asked_for_is_said_apart_from_what_was_read(desk):
    whole = desk.receipt(policy=desk.pinfold.policy(filesystem={"write": ["/tmp"]}))
    assert whole["landlock"]["asked"] is True and "/tmp" in whole["landlock"]["write"]
    assert whole["landlock"]["missing"] is ("landlock" in whole["result"]["missing"]) and "landlock" not in whole["enforced"]
