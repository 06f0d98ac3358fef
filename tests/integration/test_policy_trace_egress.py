"""`pinfold policy trace --egress-any`, in front of real servers: what was reached is what is learned, and no more."""
import json

import pytest

from egress_world import CONNECT, NEEDS_ROOT, PYTHON, inside, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT

TALK = CONNECT.replace('b"GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n"', 'f"GET / HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n".encode()')
assert "{host}" in TALK

REACHED = ["api.example.com:80", "api.example.com:7002", "a.files.example.org:7002"]
VAIN = ["private.example.com:80", "meta.example.com:80", "nobody.example.com:443", "10.66.0.1:80"]


class Traced:
    def __init__(self, inside, base):
        self.inside, self.base = inside, base
        argv = inside.argv("x", policy="x")  # how a command comes into the network of the test
        self.start = argv[:argv.index("run")]

    def call(self, *arguments):
        return self.inside.call([*self.start, *map(str, arguments)])

    def trace(self, *places, mode="learn", policy=None, options=("--egress-any",)):
        done = self.call("policy", "trace", "--json", "--mode", mode, "--policy", policy or self.base, *options, "--",
                         PYTHON, "-c", TALK, *places)
        assert done.returncode in (0, 1), done.stderr.decode()
        return done.returncode, json.loads(done.stdout), done.stderr.decode()

    def learn(self, folder, *places, **kwargs):
        """The patch, in a file as its reader would put it."""
        told = self.trace(*places, **kwargs)[1]
        path = self.inside.home / "learned.json"
        path.write_text(json.dumps(told["policy"]))
        path.chmod(0o644)
        return told, path


@pytest.fixture
def traced(inside):
    return Traced(inside, inside.policy(extends=["tool"]))


def rules(told):
    return {rule.get("host", rule.get("cidr")): rule["ports"] for rule in told["policy"]["network"]["egress"]}


def test_names_and_ports_that_were_reached_are_the_patch_and_the_program_runs_under_it(traced, tmp_path):
    told, learned = traced.learn(tmp_path, *REACHED)
    assert rules(told) == {"api.example.com": [80, 7002], "a.files.example.org": [7002]}
    done = traced.inside.run(PYTHON, "-c", TALK, *REACHED, policy=str(learned), options=["--json"])
    result = json.loads(done.stdout)
    assert result["status"] == "success" and "denials" not in result, result
    assert "api.example.com:80 answered" in result["stdout"]
    code, held, _ = traced.trace(*REACHED, mode="would-deny", policy=learned)
    assert (code, held["would_deny"]) == (0, [])


def test_what_was_not_reached_is_named_with_an_edit_that_is_enough(traced, tmp_path):
    told, learned = traced.learn(tmp_path, *REACHED, *VAIN)
    assert set(rules(told)) == {"api.example.com", "a.files.example.org"}
    wanted = {item["what"]: item for item in told["wanted"]}
    for what in ("connect private.example.com:80 10.66.0.1", "connect meta.example.com:80 169.254.169.254",
                 "connect 10.66.0.1:80"):
        edit = json.dumps(wanted[what]["edit"])
        assert '"cidr"' in edit, what  # a name's own rule would open no such address
    assert "connect nobody.example.com:443" in wanted
    edited = traced.inside.policy(extends=[str(learned)],
                                  **wanted["connect private.example.com:80 10.66.0.1"]["edit"])
    done = traced.inside.run(PYTHON, "-c", TALK, "private.example.com:80", policy=edited)
    assert b"private.example.com:80 answered" in done.stdout, done


def test_what_is_no_tls_where_it_should_be_is_told_with_the_edit(traced, tmp_path):
    told, learned = traced.learn(tmp_path, "api.example.com:443")  # the script speaks HTTP there
    item, = told["wanted"]
    assert item["what"].startswith("connect api.example.com:443") and "TLS" in item["note"]
    assert item["edit"]["network"]["egress"]["add"][0]["inspect"] == "none"
    assert told["recorded"]["destinations"][-1]["refused"] == "not-tls"


def test_a_trace_reaches_no_private_address_and_no_metadata(traced, internet):
    _, told, printed = traced.trace(*VAIN)
    assert "answered" not in printed and all(not t["reached"] for t in told["recorded"]["destinations"])
    assert internet.bytes_to(internet.seen(), ("10.66.0.1", 80), ("169.254.169.254", 80)) == 0


def test_without_the_option_nothing_leaves(traced, internet):
    _, told, printed = traced.trace(*REACHED, options=())
    assert "answered" not in printed and rules(told) == {}
    assert {item["what"].split(" ")[1].split(":")[0] for item in told["wanted"]} == {p.split(":")[0] for p in REACHED}
    assert internet.bytes_to(internet.seen()) == 0


def test_terms_and_denials_of_the_base_stay(traced, tmp_path):
    base = traced.inside.policy(extends=["tool"], network={
        "egress": [{"host": "*.example.com", "ports": [80, 7002], "budget": "few"}],
        "deny": [{"host": "a.files.example.org"}], "budgets": [{"name": "few", "connections": 5}]})
    told, learned = traced.learn(tmp_path, *REACHED, policy=base)
    by_host = {rule["host"]: rule for rule in told["policy"]["network"]["egress"]}
    assert by_host["api.example.com"]["budget"] == "few" and "budget" not in by_host["a.files.example.org"]
    assert any(item["what"].startswith("connect a.files.example.org:7002") for item in told["withheld"])
    assert traced.call("policy", "diff", base, learned).returncode == 1  # the one that its base denies, and says so
    run = traced.inside.run(PYTHON, "-c", TALK, *REACHED[:2], policy=str(learned))
    assert b"api.example.com:80 answered" in run.stdout, run


def test_a_report_says_which_destinations_were_never_used(traced):
    base = traced.inside.policy(extends=["tool"], network={"egress": [
        {"host": "api.example.com", "ports": [80]}, {"host": "www.example.com", "ports": [80]}]})
    code, told, _ = traced.trace("api.example.com:80", mode="report", policy=base)
    unused = {item["rule"] for item in told["unused"]}
    assert code == 1 and "/network/egress/1" in unused and "/network/egress/0" not in unused


def test_would_deny_names_destinations_that_the_policy_lacks(traced):
    base = traced.inside.policy(extends=["tool"], network={"egress": [{"host": "api.example.com", "ports": [80]}]})
    code, told, printed = traced.trace("api.example.com:80", "www.example.com:80", mode="would-deny", policy=base)
    assert "www.example.com:80 answered" in printed  # recorded, and not applied
    denial, = [d for d in told["would_deny"] if d["question"].startswith("connect")]
    assert code == 1 and denial["question"].startswith("connect www.example.com:80") and denial["edit"]


def test_the_sites_list_holds_for_a_trace_too(traced, internet):
    site = traced.inside.policy(network={"egress": [{"host": "api.example.com", "ports": [80]}]})
    done = traced.call("policy", "trace", "--json", "--egress-any", "--site", site, "--policy", traced.base, "--",
                       PYTHON, "-c", TALK, "api.example.com:80", "www.example.com:80")
    assert done.returncode == 2 and b"/network/egress" in done.stdout + done.stderr
    assert internet.bytes_to(internet.seen()) == 0


def test_peaks_are_in_the_patch_and_what_nobody_counted_is_not_made_up(traced):
    _, told, _ = traced.trace(*REACHED)
    resources, peaks = told["policy"]["resources"], told["recorded"]["peaks"]
    withheld = {item["what"] for item in told["withheld"]}
    assert ("pids" in resources) == (peaks["pids"] > 0) and ("limit pids" in withheld) == (peaks["pids"] == 0)
    assert ("memory" in resources) == (peaks["memory_bytes"] > 0)
    assert resources["stdout"] == "64KiB" and resources["wall_time"].endswith("s")
