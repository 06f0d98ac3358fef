"""A denial carries its verdict: what denied it, the line that says so, and the smallest edit that would allow it."""
import json
import shlex
import subprocess

import pytest

from kept_sandbox import Kept, kept_by_root  # noqa: F401 (fixtures)

@pytest.fixture
def policies(tmp_path):
    """A base that grants one host, and a policy that extends it: the rule stands in another file than its policy."""
    base, top = tmp_path / "base.json", tmp_path / "top.json"
    base.write_text('{"pinfold": 1,\n "network": {"egress": [\n  {"host": "api.test", "ports": [443]}]}}\n')
    top.write_text('{"pinfold": 1, "name": "top",\n "extends": ["tool", "base.json"],\n'
                   ' "resources": {"wall_time": "5s",\n               "stdout": "1KiB"},\n'
                   ' "audit": {"record": ["lifecycle", "egress"]}}\n')
    for path in (base, top):
        path.chmod(0o644)
    return base, top


@pytest.fixture
def run(pinfold):
    if pinfold.rootless:
        pytest.skip("the policies ask for limits by cgroup")
    log = pinfold.home / "log" / "audit.jsonl"
    environment = pinfold.environment(PINFOLD_AUDIT=str(log))

    def call(policy, script, *options):
        done = pinfold.call(pinfold.argv("python3", "-c", script, policy=str(policy), options=["--json", *options]),
                            env=environment)
        records = [json.loads(line) for line in log.read_text().splitlines()]
        return json.loads(done.stdout), records
    return call


CONNECT = """
import socket
for name, port in (("api.test", 80), ("other.test", 443)):
    try: socket.create_connection((name, port), 2)
    except OSError: pass
"""


def test_a_refused_connection_names_the_line_of_its_rule_or_of_the_list(run, policies):
    base, top = policies
    result, records = run(top, CONNECT)
    rule, listed = [d for d in result["denials"] if d["denied"] == "connect"][:2]
    assert (rule["reason"], rule["place"]) == ("port", f"{base}:3:3")
    assert rule["mend"] == {"host": "api.test", "ports": [80]}
    assert (listed["reason"], listed["pointer"], listed["place"]) == ("not-listed", "/network/egress", f"{base}:2:24")
    told = [r["data"] for r in records if r["event"] == "egress" and r["data"]["event"] == "refuse"]
    assert {(t["reason"], t["place"]) for t in told} >= {("port", f"{base}:3:3"), ("not-listed", f"{base}:2:24")}


def test_a_request_that_narrowed_the_list_is_what_decides_then(run, policies):
    result, _ = run(policies[1], CONNECT, "--egress", "api.test:443")
    assert {d["place"] for d in result["denials"]} == {"command line"}


@pytest.mark.parametrize("script, limit, pointer, place, mend", [
    ("import time; time.sleep(30)", "time", "/resources/wall_time", "3:29", {"resources": {"wall_time": "10s"}}),
    ("print('x' * 5000)", "stdout", "/resources/stdout", "4:26", {"resources": {"stdout": "2KiB"}}),
    ("x = bytearray(1 << 30)", "memory", "/resources/memory", None, {"resources": {"memory": "1GiB"}}),
])
def test_a_limit_that_is_hit_names_its_line_and_what_would_do(run, policies, script, limit, pointer, place, mend):
    result, records = run(policies[1], script)
    denial, = result["denials"]
    assert (denial["denied"], denial["limit"], denial["pointer"]) == ("limit", limit, pointer)
    assert denial["place"] == (f"{policies[1]}:{place}" if place else "built-in:tool:15:15") and denial["mend"] == mend
    event, = [r["data"] for r in records if r["event"] == "limit"]
    assert event == {key: denial[key] for key in ("limit", "pointer", "place", "value", "mend", "why")}


def test_a_run_without_denials_has_no_such_key(run, policies):
    result, _ = run(policies[1], "pass")
    assert "denials" not in result


def test_a_refused_request_says_in_the_log_how_to_mend_it(run, policies, pinfold):
    log = pinfold.home / "log" / "audit.jsonl"
    done = pinfold.call(pinfold.argv("true", policy=str(policies[1]), options=["--memory", "900GiB"]),
                        env=pinfold.environment(PINFOLD_AUDIT=str(log)))
    assert done.returncode == 125
    finding, = json.loads(log.read_text().splitlines()[-1])["data"]["findings"]
    assert "built-in:tool:15:15" in finding["pointer"] and "ask for at most 512MiB" in finding["hint"]


# --- "why": the whole answer, the same as the auditor's ---

CALLS = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name): assert getattr(libc, name)(0x10000000) == -1 and ctypes.get_errno() == 1
for name in sys.argv[1:]: call(name)
try: socket.socket(17, 3, 0)
except PermissionError: pass
"""

EVERYTHING = CALLS + CONNECT.replace("import socket", "")


@pytest.fixture
def recording(policies, tmp_path):
    """The second policy, which has system calls recorded too."""
    path = tmp_path / "recording.json"
    path.write_text(json.dumps({"pinfold": 1, "name": "recording", "extends": ["top.json"], "secrets": ["GIVEN"],
                                "audit": {"record": ["lifecycle", "egress", "syscalls"]}}))
    path.chmod(0o644)
    return path


def asked(pinfold, policy, question, *options):
    done = pinfold.call([str(pinfold.program), "policy", "why", "--json", *options, str(policy), *shlex.split(question)])
    return json.loads(done.stdout)


def records_of(pinfold, event):
    log = pinfold.home / "log" / "audit.jsonl"
    return [r for r in map(json.loads, log.read_text().splitlines()) if r["event"] == event]


def test_every_denial_has_the_answer_of_policy_why(run, recording, pinfold):
    result, records = run(recording, EVERYTHING.replace("sys.argv[1:]", "('unshare',)"))
    whys = [d["why"] for d in result["denials"]]
    assert {w["question"].split()[0] for w in whys} == {"connect", "syscall"}
    assert {w["question"] for w in whys} >= {"connect api.test:80", "connect other.test:443", "syscall unshare",
                                            "syscall socket 0x11 0x80003 0x0"}
    for why in whys:
        assert why == asked(pinfold, recording, why["question"]), why["question"]
    told = [r["data"]["why"] for r in records if r["event"] == "syscall" or r["data"].get("event") == "refuse"]
    assert {w["question"] for w in told} == {w["question"] for w in whys}


def test_no_denial_offers_an_edit_that_the_site_would_refuse(run, recording, pinfold, tmp_path):
    site = tmp_path / "site.json"
    site.write_text('{"pinfold": 1, "network": {"egress": [{"host": "api.test", "ports": ["1-65535"]}]}}')
    site.chmod(0o644)
    below = ["--site", str(site)]
    result, records = run(recording, CONNECT, *below)
    denials = {d["why"]["question"]: d for d in result["denials"]}
    assert denials.keys() == {"connect api.test:80", "connect other.test:443"}
    for question, denial in denials.items():
        assert denial["why"] == asked(pinfold, recording, question, *below), question
    assert denials["connect api.test:80"]["why"]["edit"] and denials["connect api.test:80"]["mend"]
    held = denials["connect other.test:443"]
    assert held["why"]["edit"] is None and f"{site}:1:" in held["why"]["note"] and "mend" not in held
    told = [r["data"] for r in records if r["data"].get("event") == "refuse" and r["data"].get("host") == "other.test"]
    assert told and all(t["why"]["edit"] is None and "mend" not in t for t in told)


def test_what_the_policy_would_allow_says_what_else_stood_in_the_way(run, policies, tmp_path):
    policy = tmp_path / "tight.json"
    policy.write_text(json.dumps({"pinfold": 1, "extends": ["tool"], "network": {
        "egress": [{"host": "*.invalid", "ports": [80]}], "limits": {"connections": 1}}}))
    policy.chmod(0o644)
    result, _ = run(policies[1], "pass")  # the log is there
    script = "import socket\ntry: socket.create_connection(('nowhere.invalid', 80), 2)\nexcept OSError: pass"
    result, _ = run(policy, script)
    for denial in result.get("denials", []):  # whether a name that nobody has is refused is the resolver's matter
        assert denial["why"]["verdict"] == "deny" and denial["why"]["edit"] is None


def test_a_refused_request_has_the_answers_to_all_that_it_asked_for(pinfold, recording):
    environment = pinfold.environment(PINFOLD_AUDIT=str(pinfold.home / "log" / "audit.jsonl"))
    options = ["--json", "--memory", "900GiB", "--pids", "100000", "--secret", "OTHER", "--egress", "evil.test:443",
               "--timeout", "1s"]
    done = pinfold.call(pinfold.argv("true", policy=str(recording), options=options), env=environment)
    denials = json.loads(done.stdout)["error"]["denials"]
    assert [d["question"] for d in denials] == ["limit memory 900GiB", "limit pids 100000", "connect evil.test:443",
                                                "secret OTHER"]
    for why in denials:
        assert why == asked(pinfold, recording, why["question"]) and why["edit"]
    assert records_of(pinfold, "refusal")[-1]["data"]["denials"] == denials


# --- kept sandboxes and tool calls: the same ---

@pytest.fixture
def recorded(kept_by_root, recording):
    kept = kept_by_root
    environment = kept.pinfold.environment(PINFOLD_AUDIT=str(kept.pinfold.home / "log" / "audit.jsonl"))
    kept.ok("up", "work", "--policy", str(recording), env=environment)
    return kept


def script(*calls):
    return ["/usr/bin/python3", "-c", CALLS, *calls]


def test_each_command_of_a_kept_sandbox_is_told_its_own_denials(recorded):
    argv = [recorded.argv("exec", "work", "--json", "--", *script(name)) for name in ("unshare", "chroot", "swapoff")]
    running = [subprocess.Popen(a, stdout=subprocess.PIPE, env=recorded.pinfold.environment()) for a in argv]
    results = [json.loads(p.communicate(timeout=60)[0]) for p in running]
    for name, result in zip(("unshare", "chroot", "swapoff"), results):
        assert [d["call"] for d in result["denials"]] == [name, "socket"], result
    assert "denials" not in recorded.json("work", "true")
    told = [r["data"] for r in records_of(recorded.pinfold, "syscall")]
    assert sorted(t["call"] for t in told if t["call"] != "socket") == ["chroot", "swapoff", "unshare"]
    assert sorted(t["exec"] for t in told if t["call"] != "socket") == [1, 2, 3]
    assert all(t["why"]["verdict"] == "errno" for t in told)


def test_refused_connections_and_limits_are_in_the_result_of_the_command(recorded, recording):
    result = recorded.python("work", CONNECT)
    whys = {d["why"]["question"]: d["why"] for d in result["denials"]}
    assert set(whys) >= {"connect api.test:80", "connect other.test:443"}
    for question, why in whys.items():
        assert why == asked(recorded.pinfold, recording, question)
    again = recorded.python("work", CONNECT)  # at once: the broker tells it anew, and doesn't add it to the first
    assert {d["why"]["question"] for d in again["denials"]} == set(whys)
    assert "denials" not in recorded.json("work", "true")
    late = recorded.json("work", "sleep", "60", options=["--timeout", "200ms"])
    denial, = late["denials"]
    assert (denial["value"], denial["place"]) == ("200ms", "the command's own timeout")
    assert denial["why"]["verdict"] == "deny" and denial["why"]["edit"] is None and "mend" not in denial
    limit, = recorded.json("work", "sleep", "60")["denials"]
    assert limit["value"] == "5s" and limit["why"] == asked(recorded.pinfold, recording, "limit wall_time 10s")


def test_a_refused_command_is_recorded_with_the_answer(recorded, recording):
    assert recorded.exec("work", "true", options=["--secret", "OTHER"]).returncode == 125
    why, = records_of(recorded.pinfold, "refusal")[-1]["data"]["denials"]
    assert why == asked(recorded.pinfold, recording, "secret OTHER")


def test_a_command_cant_fill_the_log_with_denials(recorded):
    many = "import ctypes\nlibc = ctypes.CDLL(None)\nfor i in range(5000): libc.socket(17, i, 0)"
    result = recorded.python("work", many)
    assert len(result["denials"]) == 257 and result["denials"][-1]["dropped"] > 700
    told = [r["data"] for r in records_of(recorded.pinfold, "syscall")]
    assert len(told) == 1001 and told[-1]["dropped"] == 4000


def test_a_process_that_ends_while_it_is_denied_leaves_the_sandbox_as_it_was(recorded):
    crowd = ("import ctypes, os\nlibc, (read, write) = ctypes.CDLL(None), os.pipe()\n"
             "for i in range(40):\n  if os.fork() == 0:\n    libc.unshare(0); os.write(write, b'x')\n    while True: libc.unshare(0)\n"
             "for i in range(40): os.read(read, 1)")
    for _ in range(3):
        result = recorded.python("work", crowd)
        assert result["exit_code"] == 0 and result["denials"][0]["call"] == "unshare"
    assert recorded.exec("work", "true").returncode == 0
    recorded.ok("stop", "work")
    assert recorded.list()[0]["state"] != "running"


def call_tool(pinfold, policy, source, **fields):
    environment = pinfold.environment(PINFOLD_AUDIT=str(pinfold.home / "log" / "audit.jsonl"))
    request = {"language": "python", "name": "f", "source": source, "args": {}, **fields}
    return json.loads(pinfold.call([str(pinfold.program), "tool", "call", "--policy", str(policy)],
                                   input=json.dumps(request).encode(), env=environment).stdout)


TOOL = """
def f():
  import ctypes, socket
  ctypes.CDLL(None).unshare(0)
  try: socket.create_connection(("other.test", 443), 2)
  except OSError: return 1
"""


def test_a_tool_call_has_its_denials_in_its_result_and_in_the_log(as_root, recording):
    result = call_tool(as_root, recording, TOOL)
    assert result["func_return"] == 1
    assert {d["why"]["question"] for d in result["denials"]} >= {"syscall unshare", "connect other.test:443"}
    assert [r["data"]["call"] for r in records_of(as_root, "syscall")] == ["unshare"]


def test_a_warm_tool_call_has_its_denials_too(kept_by_root, policies, tmp_path):
    policy = tmp_path / "warm.json"
    policy.write_text('{"pinfold": 1, "extends": ["top.json"], "resources": {"memory": "1GiB"}, "audit": {"record": []}}')
    policy.chmod(0o644)
    warm = [call_tool(kept_by_root.pinfold, policy, TOOL, reuse="fingerprint") for _ in range(3)]
    for result in warm:
        assert result["func_return"] == 1, result
        assert "connect other.test:443" in {d["why"]["question"] for d in result["denials"]}


def test_a_label_that_the_policy_requires_is_required(pinfold):
    policy = pinfold.policy(extends=["tool"], audit={"require_labels": ["tenant"]})
    refused = pinfold.run("true", policy=policy)
    assert refused.returncode == 125 and b"tenant" in refused.stderr
    assert pinfold.run("true", policy=policy, options=["--label", "tenant=a"]).returncode == 0


def test_the_sites_condition_on_secrets_holds_for_a_command_of_a_kept_sandbox(kept_by_root, tmp_path):
    """The sandbox is made without a secret, and so without the label that only runs with secrets need."""
    site, policy = tmp_path / "site.json", tmp_path / "policy.json"
    site.write_text('{"pinfold": 1, "secrets": ["*"], "audit": {"require_labels_for": {"secrets": ["tenant"]}}}')
    policy.write_text('{"pinfold": 1, "extends": ["tool"], "secrets": ["KEY"]}')
    for path in (site, policy):
        path.chmod(0o644)
    environment = kept_by_root.pinfold.environment(VALUE="long-enough")
    for name, labels in (("bare", []), ("labelled", ["--label", "tenant=a"])):
        kept_by_root.ok("up", name, "--site", str(site), "--policy", str(policy), "--secret-from-env", "KEY=VALUE", *labels,
                        env=environment)
    refused = kept_by_root.exec("bare", "true", options=["--secret", "KEY"])
    assert refused.returncode == 125 and b"tenant" in refused.stderr, refused
    assert kept_by_root.exec("labelled", "true", options=["--secret", "KEY"]).returncode == 0
    assert kept_by_root.exec("bare", "true").returncode == 0
