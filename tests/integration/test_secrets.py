"""Secrets: handed in where the policy and the caller say so, and found nowhere else."""
import json
import os
import shutil
import subprocess

import pytest

VALUE = "tok-5fKq81\"x/Zp9"


class Vault:
    def __init__(self, pinfold):
        self.pinfold = pinfold
        self.folder = pinfold.home / "secrets"
        self.folder.mkdir(mode=0o700)
        os.chown(self.folder, pinfold.uid, pinfold.uid)
        self.log = pinfold.home / "log" / "audit.jsonl"
        self.env = pinfold.environment(PINFOLD_SECRETS=str(self.folder), PINFOLD_AUDIT=str(self.log))
        self.put("KEY", VALUE + "\n")

    def put(self, name, value, mode=0o600):
        path = self.folder / name
        path.write_text(value)
        os.chown(path, self.pinfold.uid, self.pinfold.uid)
        path.chmod(mode)

    def policy(self, *secrets, **fields):
        return self.pinfold.policy(secrets=list(secrets or ("KEY", "OTHER")), **fields)

    def run(self, *command, policy=None, options=("--secret", "KEY"), **extra):
        policy = policy or self.policy()
        return self.pinfold.call(self.pinfold.argv(*command, policy=policy, options=options), env={**self.env, **extra})

    def json(self, *command, options=("--secret", "KEY"), **kwargs):
        return json.loads(self.run(*command, options=[*options, "--json"], **kwargs).stdout)


@pytest.fixture
def vault(pinfold):
    return Vault(pinfold)


PROOF = "printf %s \"$KEY\" | sha256sum"


def digest_of(value):
    return subprocess.run("sha256sum", input=value.encode(), stdout=subprocess.PIPE).stdout


def test_a_secret_becomes_a_variable(vault):
    assert vault.run("sh", "-c", PROOF).stdout == digest_of(VALUE)
    done = vault.run("sh", "-c", PROOF.replace("KEY", "TOKEN"), options=["--secret", "KEY:env=TOKEN", "--env", "TOKEN=mine"])
    assert done.stdout == digest_of(VALUE)


def test_a_secret_becomes_a_file_that_only_the_command_can_read(vault):
    done = vault.run("sh", "-c", "sha256sum </run/secrets/KEY; stat -c '%a %u' /run/secrets/KEY; id -u; "
                     "touch /run/secrets/x 2>&1 || echo no; echo >>/run/secrets/KEY || echo no; echo \"${KEY-unset}\"; "
                     "grep ' /run/secrets ' /proc/mounts", options=["--secret", "KEY:file"])
    lines = done.stdout.decode().splitlines()
    assert lines[0] == digest_of(VALUE).decode().strip()
    assert lines[1] == f"400 {lines[2]}"
    assert "no" in lines and "unset" in lines
    assert lines[-1].split()[2] == "ramfs" and "ro" in lines[-1].split()[3].split(",")


def test_what_is_not_asked_for_is_not_there(vault):
    assert vault.run("sh", "-c", "echo \"${KEY-unset}\"", options=[]).stdout == b"unset\n"


def test_undeclared_and_missing_ones_are_refused(vault):
    vault.put("HIDDEN", "the hidden value")
    policy = vault.policy()
    done = vault.run("true", policy=policy, options=["--secret", "HIDDEN"])
    assert done.returncode == 125 and b"/secrets" in done.stderr and b"hidden value" not in done.stderr
    absent = vault.run("true", policy=policy, options=["--secret", "ABSENT"])
    assert absent.returncode == 125
    assert absent.stderr.replace(b"ABSENT", b"HIDDEN") == done.stderr, "the same answer, whether there is one or not"
    done = vault.run("true", options=["--secret", "OTHER"])
    assert done.returncode == 125 and b"nobody has it" in done.stderr
    for name in ("../KEY", "key", "KEY/", "K" * 4096):
        assert vault.run("true", options=["--secret", name]).returncode == 125


def test_a_refused_variable_cant_come_from_a_secret(vault):
    done = vault.run("true", options=["--secret", "KEY:env=LD_PRELOAD"])
    assert done.returncode == 125 and b"LD_PRELOAD" in done.stderr


def test_a_file_that_others_can_read_is_refused(vault):
    vault.put("KEY", VALUE, mode=0o644)
    done = vault.run("true")
    assert done.returncode == 125 and b"open to others" in done.stderr and VALUE.encode() not in done.stderr


def test_a_variable_of_the_caller_is_used_only_where_it_is_named(vault):
    done = vault.run("sh", "-c", "printf %s \"$OTHER\" | sha256sum", options=["--secret", "OTHER", "--secret-from-env", "OTHER=CI_TOKEN"],
                     CI_TOKEN="from the environment")
    assert done.stdout == digest_of("from the environment")
    assert vault.run("true", options=["--secret", "OTHER"], OTHER="from the environment").returncode == 125


def test_output_is_masked_in_every_form(vault):
    show = "printf '<%s>' \"$KEY\"; printf '<%s>' \"$KEY\" >&2"
    assert (vault.run("sh", "-c", show).stdout, vault.run("sh", "-c", show).stderr) == (b"<***>", b"<***>")
    result = vault.json("sh", "-c", show)
    assert (result["stdout"], result["stderr"]) == ("<***>", "<***>")
    done = vault.run("sh", "-c", show, options=["--secret", "KEY", "--stream"])
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "<***>"
    assert VALUE.encode() not in done.stdout and json.dumps(VALUE).encode() not in done.stdout


def test_output_is_masked_across_writes(vault):
    source = ("import os, time\n"
              "for byte in os.environb[b'KEY'] + b'.':\n"
              "    os.write(1, bytes([byte])); time.sleep(0.002)\n")
    assert vault.run("/usr/bin/python3", "-c", source).stdout == b"***."


def test_a_cut_never_shows_the_start_of_a_secret(vault):
    policy = vault.policy(resources={"stdout": 10})
    done = vault.json("sh", "-c", "printf 12345678; printf %s \"$KEY\"", policy=policy)
    assert done["stdout"].startswith("12345678*") and VALUE[:2] not in done["stdout"]


def test_a_terminal_is_masked(vault):
    policy = vault.policy(tty=True)
    done = vault.run("sh", "-c", "echo \"<$KEY>\"", policy=policy, options=["--secret", "KEY", "--tty"])
    assert b"<***>" in done.stdout and VALUE.encode() not in done.stdout


def test_frames_are_masked(vault):
    source = ("import os, zlib, struct\n"
              "crc = []\n"
              "for i in range(256):\n"
              "    c = i\n"
              "    for _ in range(8): c = c >> 1 ^ 0x82F63B78 * (c & 1)\n"
              "    crc.append(c)\n"
              "def crc32c(b):\n"
              "    c = 0xffffffff\n"
              "    for x in b: c = c >> 8 ^ crc[(c ^ x) & 255]\n"
              "    return c ^ 0xffffffff\n"
              "p = ('{\"k\": \"' + os.environ['KEY'].replace('\"', '\\\\\"') + '\"}').encode()\n"
              "f = bytes.fromhex(os.environ['PINFOLD_FRAME_NONCE']) + struct.pack('>BBHII', 1, 1, 0, len(p), crc32c(p)) + p\n"
              "os.write(int(os.environ['PINFOLD_FRAME_FD']), f)\n")
    policy = vault.policy(frames=["fd"])
    done = vault.run("/usr/bin/python3", "-c", source, policy=policy, options=["--secret", "KEY", "--frames", "fd", "--json"])
    result = json.loads(done.stdout)
    assert result["frames"] and VALUE[:6].encode() not in done.stdout, done
    assert result["result"] == {"k": "***"} or "***" in json.dumps(result), result


def test_the_fingerprint_follows_the_value(vault):
    policy = vault.policy()
    before = vault.json("true", policy=policy)["fingerprint"]
    assert vault.json("true", policy=policy)["fingerprint"] == before
    vault.put("KEY", "another value")
    assert vault.json("true", policy=policy)["fingerprint"] != before


def test_rotation_is_seen_at_the_next_run(vault):
    vault.put("KEY", "the new value")
    assert vault.run("sh", "-c", PROOF).stdout == digest_of("the new value")


def test_plans_and_bundles_hold_names_only(vault, tmp_path):
    policy = vault.policy()
    options = ["--policy", policy, "--secret", "KEY:file"]
    program = str(vault.pinfold.program)
    for form in ([], ["--json"]):
        done = vault.pinfold.call([program, "plan", *options, *form, "--", "true"], env=vault.env)
        assert done.returncode == 0 and b"run/secrets/KEY" in done.stdout and VALUE[:8].encode() not in done.stdout
    target = vault.pinfold.home / "bundle"
    done = vault.pinfold.call([program, "bundle", "export", *options, str(target), "--", "true"], env=vault.env)
    assert done.returncode == 0, done.stderr
    text = (target / "config.json").read_text()
    assert json.loads(text)["pinfold"]["secrets"] == ["KEY:file"] and VALUE[:8] not in text


def test_an_exported_bundle_gets_its_secret_where_the_policy_grants_it(vault):
    target = vault.pinfold.home / "bundle"
    program = str(vault.pinfold.program)
    vault.pinfold.call([program, "bundle", "export", "--policy", vault.policy(), "--secret", "KEY", str(target), "--",
                        "sh", "-c", PROOF], env=vault.env)
    granted = vault.pinfold.call([program, "run", "--policy", vault.policy(), "--bundle", str(target)], env=vault.env)
    assert granted.stdout == digest_of(VALUE), granted.stderr
    refused = vault.pinfold.call([program, "run", "--policy", vault.policy("OTHER"), "--bundle", str(target)], env=vault.env)
    assert refused.returncode == 125 and b"KEY" in refused.stderr


def test_the_value_is_found_nowhere_on_the_host(vault):
    policy = vault.policy(audit={"record": ["lifecycle"]})
    script = ("printf '%s' \"$KEY\"; for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$p; done")
    for form in ([], ["--json"], ["--stream"]):
        done = vault.run("sh", "-c", script, policy=policy, options=["--secret", "KEY", "--secret", "KEY:file", *form])
        assert done.returncode == 0 and VALUE[:8].encode() not in done.stdout + done.stderr
    vault.run("echo", VALUE, policy=policy)
    found = subprocess.run(["grep", "-rlF", "--devices=skip", VALUE[:10], str(vault.pinfold.home)], stdout=subprocess.PIPE, text=True)
    assert found.stdout.split() == [str(vault.folder / "KEY")]
    records = [json.loads(line) for line in vault.log.read_text().splitlines()]
    secrets = [r["data"] for r in records if r["event"] == "secret"]
    assert {"secret": "KEY", "as": "variable", "target": "KEY", "from": "directory"} in secrets
    assert {"secret": "KEY", "as": "file", "target": "KEY", "from": "directory"} in secrets
    assert records[-2]["event"] != "start" or records[-2]["data"]["argv"] == ["echo", "***"]


def test_the_memory_that_holds_it_is_locked_and_not_dumped(as_root):
    vault = Vault(as_root)
    policy = vault.policy()
    run = subprocess.Popen([str(as_root.program), "run", "--policy", policy, "--secret", "KEY", "--", "sh", "-c", "echo on; sleep 30"],
                           env=vault.env, stdout=subprocess.PIPE)
    try:
        assert run.stdout.readline() == b"on\n"
        holding = []
        with open(f"/proc/{run.pid}/maps") as maps, open(f"/proc/{run.pid}/mem", "rb") as memory:
            for line in maps:
                span, access = line.split()[:2]
                start, end = (int(part, 16) for part in span.split("-"))
                if "r" not in access or "[v" in line:
                    continue
                memory.seek(start)
                if VALUE.encode() in memory.read(end - start):
                    holding.append(span)
        assert holding, "the runner holds the value while the command runs"
        smaps = open(f"/proc/{run.pid}/smaps").read()
        for span in holding:
            flags = smaps.split(span)[1].split("VmFlags:")[1].splitlines()[0].split()
            assert "lo" in flags and "dd" in flags, f"{span}: {flags}"
    finally:
        run.terminate()
        run.wait()


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_on_a_host_that_swaps_secrets_need_memory_that_never_is(vault):
    """A host whose swap isn't known counts as one that swaps. cgroup v1 can't keep a command out of it, nor can a user who may
    lock but little: the run is refused, or says so where the policy has it so. Without a secret it is a run like any other."""
    swaps = ["strace", "-f", "-o", "/dev/null", "-e", "trace=sysinfo", "-e", "inject=sysinfo:error=EPERM"]
    given = ["swap", *(["memory", "cpus", "pids"] if vault.pinfold.rootless else [])]
    assured = not vault.pinfold.rootless and os.path.exists("/sys/fs/cgroup/cgroup.controllers")

    def run(options, **policy):
        argv = vault.pinfold.argv("true", options=["--json", *options], policy=vault.pinfold.policy(secrets=["KEY"], **policy))
        return json.loads(vault.pinfold.call([*swaps, *argv], env=vault.env).stdout)
    asked = run(["--secret", "KEY"], optional=given)
    if assured:
        assert asked["exit_code"] == 0
        asked = run(["--secret", "KEY"], optional=given, resources={"swap": "1MiB"})
    assert asked["error"]["pointer"] == "/optional" and "secret-memory" in asked["error"]["message"], asked
    assert run([], optional=given)["exit_code"] == 0
    said = run(["--secret", "KEY"], optional=[*given, "secret-memory"], resources={"swap": "1MiB"})
    assert said["exit_code"] == 0 and "secret-memory" in said["missing"]
