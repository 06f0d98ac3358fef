"""A denial carries its verdict: what denied it, the line that says so, and the smallest edit that would allow it."""
import json

import pytest



@pytest.fixture
def policies(tmp_path):
    """A base that grants one host, and a policy that extends it: the rule stands in another file than its policy."""
    base, top = tmp_path / "base.json", tmp_path / "top.json"
    base.write_text('{"pinfold": 1,\n "network": {"egress": [\n  {"host": "api.test", "ports": [443]}]}}\n')
    top.write_text('{"pinfold": 1, "name": "top",\n "extends": ["tool", "base.json"],\n'
                   ' "resources": {"wall_time": "2s",\n               "stdout": "1KiB"},\n'
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
    ("import time; time.sleep(30)", "time", "/resources/wall_time", "3:29", {"resources": {"wall_time": "4s"}}),
    ("print('x' * 5000)", "stdout", "/resources/stdout", "4:26", {"resources": {"stdout": "2KiB"}}),
    ("x = bytearray(1 << 30)", "memory", "/resources/memory", None, {"resources": {"memory": "1GiB"}}),
])
def test_a_limit_that_is_hit_names_its_line_and_what_would_do(run, policies, script, limit, pointer, place, mend):
    result, records = run(policies[1], script)
    denial, = result["denials"]
    assert (denial["denied"], denial["limit"], denial["pointer"]) == ("limit", limit, pointer)
    assert denial["place"] == (f"{policies[1]}:{place}" if place else "built-in:tool:15:15") and denial["mend"] == mend
    event, = [r["data"] for r in records if r["event"] == "limit"]
    assert event == {key: denial[key] for key in ("limit", "pointer", "place", "value", "mend")}


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
