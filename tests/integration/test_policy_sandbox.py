"""The auditor on a kept sandbox by its name: it answers by what the sandbox was made with, file and line."""
import json

import pytest


@pytest.fixture
def kept(pinfold, tmp_path):
    """A sandbox whose policy file is gone by the time it is asked about."""
    policy = tmp_path / "gone.json"
    policy.write_text('{"pinfold": 1, "name": "gone",\n "syscalls": {"deny": ["socket"]},\n "secrets": [],\n'
                      ' "optional": ["memory", "swap", "cpus", "pids"],\n'
                      ' "network": {"egress": []}}\n')
    policy.chmod(0o644)
    up = pinfold.call([str(pinfold.program), "up", "box", "--policy", str(policy), "--memory", "100MiB"])
    assert up.returncode == 0, up.stderr
    policy.unlink()
    yield lambda *words: pinfold.call([str(pinfold.program), "policy", *words])
    assert pinfold.call([str(pinfold.program), "rm", "--force", "box"]).returncode == 0


def test_why_names_the_line_that_the_sandbox_was_made_with(kept, tmp_path):
    done = kept("why", "--json", "sandbox:box", "syscall", "socket")
    answer = json.loads(done.stdout)
    assert done.returncode == 1
    assert (answer["rule"], answer["place"]) == ("/syscalls/deny/0", f"{tmp_path}/gone.json:2:24")
    memory = json.loads(kept("why", "--json", "sandbox:box", "limit", "memory", "1GiB").stdout)
    assert memory["place"] == "command line" and memory["verdict"] == "deny"


def test_every_verb_answers(kept, tmp_path):
    assert kept("lint", "--fail-on", "never", "sandbox:box").returncode == 0
    assert 0 < json.loads(kept("score", "--json", "sandbox:box").stdout)["score"] < 2
    assert b"100MiB" in kept("show", "sandbox:box").stdout
    assert b"command line" in kept("show", "--effective", "sandbox:box").stdout
    assert b"100MiB" in kept("explain", "sandbox:box").stdout
    assert kept("diff", "tool", "sandbox:box").returncode == 1  # optional protections make it wider
    assert kept("diff", "sandbox:box", "sandbox:box").returncode == 0
    assert b"socket" not in kept("syscalls", "sandbox:box").stdout.replace(b"socketpair", b"")
    cases = tmp_path / "cases.json"
    cases.write_text('[{"errno": ["EPERM", "syscall socket"]}, {"deny": "limit memory 101MiB"}]')
    assert kept("test", "sandbox:box", str(cases)).returncode == 0
    assert kept("test", "--live", "sandbox:box", str(cases)).returncode == 2


@pytest.mark.parametrize("name", ["sandbox:", "sandbox:none", "sandbox:../x"])
def test_a_sandbox_that_isnt_there_is_an_error(pinfold, name):
    done = pinfold.call([str(pinfold.program), "policy", "lint", name])
    assert done.returncode == 2 and b"sandbox" in done.stderr
