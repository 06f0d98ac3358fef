"""What may leave a kept sandbox is looked at and changed while it runs."""
import json
import select
import subprocess
import time

import pytest

from egress_world import NEEDS_ROOT, PUBLIC, PYTHON, https
from egress_world import inside, internet, world  # noqa: F401 (fixtures)
from kept_sandbox import eventually

pytestmark = NEEDS_ROOT

HELD = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7002), timeout=60)
print(s.recv(100).decode().strip(), flush=True)
try: print("ended" if s.recv(1) == b"" else "?", flush=True)
except ConnectionResetError: print("reset", flush=True)
except TimeoutError: print("still there", flush=True)
"""
ONCE = """
import socket, sys
for host in sys.argv[1:]:
    try: print(host, socket.create_connection((host, 7002), timeout=60).recv(100).decode().strip())
    except OSError as error: print(host, "refused")
"""


class Kept:
    def __init__(self, inside, policy, *options):
        self.inside, self.name = inside, "live"
        done = self.verb("up", self.name, "--policy", policy, *options)
        assert done.returncode == 0, done.stderr

    def argv(self, verb, *arguments):
        network = ["nsenter", f"--net=/run/netns/{self.inside.internet.host}"]
        return [*network, *self.inside.identity(), self.inside.program, verb, *arguments]

    def verb(self, verb, *arguments):
        return self.inside.call(self.argv(verb, *arguments))

    def egress(self, *options):
        done = self.verb("egress", "--json", *options, self.name)
        return done.returncode, json.loads(done.stdout)

    def settled(self, condition):
        """What `egress` shows once it is so: the end of a connection comes to the broker after its program has gone."""
        shown = []
        eventually(lambda: shown.insert(0, self.egress()[1]) or condition(shown[0]), "it never comes to be so")
        return shown[0]

    def python(self, code, *arguments):
        return self.verb("exec", self.name, "--", PYTHON, "-c", code, *arguments).stdout.decode()

    def hold(self, host):
        process = self.inside.spawn(self.argv("exec", self.name, "--", PYTHON, "-c", HELD, host), stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "hello\n"
        return process


@pytest.fixture
def kept(inside):
    made = []

    def make(*rules, options=(), **network):
        policy = inside.policy(extends=["tool"], network={"egress": list(rules), **network})
        made.append(Kept(inside, policy, *options))
        return made[0]

    yield make
    for one in made:
        one.verb("rm", "--force", one.name)


def wide():
    return https("*.example.com", [7002, 80])


def test_rules_counters_and_open_connections_are_shown(kept):
    one = kept(https("api.example.com", [7002]), {**https("www.example.com", [7002]), "budget": "b"},
               budgets=[{"name": "b", "connections": 3}])
    held = one.hold("api.example.com")
    one.python(ONCE, "www.example.com", "www.example.com", "nope.example.com")
    seen = one.settled(lambda seen: seen["rules"][1]["open"] == 0)
    first, second = seen["rules"]
    assert first["rule"] == "api.example.com:7002" and first["open"] == 1 and first["total"] == 1 and first["bytes_in"] == 6
    assert second["total"] == 2 and second["open"] == 0 and second["budget"] == "b" and seen["budgets"]["b"]["total"] == 2
    connection, = seen["connections"]
    assert connection["host"] == "api.example.com" and connection["address"] == PUBLIC and connection["port"] == 7002
    assert connection["rule"] == "api.example.com:7002" and seen["sandbox"]["open"] == 1
    text = one.verb("egress", one.name).stdout.decode()
    assert "api.example.com:7002" in text and PUBLIC in text
    held.kill()
    held.wait()


def test_a_new_list_holds_at_once_and_cuts_what_it_forbids(kept, tmp_path):
    one = kept(wide(), options=["--egress", "api.example.com:7002", "--egress", "www.example.com:7002"])
    held, other = one.hold("api.example.com"), one.hold("www.example.com")
    file = one.inside.home / "rules.json"
    file.write_text(json.dumps([https("www.example.com", [7002]), https("chain.example.com", [7002])]))
    code, seen = one.egress("--set", file)
    assert code == 0 and [rule["rule"] for rule in seen["rules"]] == ["www.example.com:7002", "chain.example.com:7002"]
    assert held.communicate(timeout=60)[0] == "reset\n"
    assert one.python(ONCE, "api.example.com", "chain.example.com") == "api.example.com refused\nchain.example.com hello\n"
    seen = one.settled(lambda seen: [c["host"] for c in seen["connections"]] == ["www.example.com"])
    assert seen["rules"][0]["total"] == 1 and other.poll() is None
    other.kill()
    other.wait()


def test_rules_are_added_and_removed_one_by_one(kept):
    one = kept(wide(), options=["--egress", "api.example.com:7002"])
    assert one.python(ONCE, "www.example.com") == "www.example.com refused\n"
    assert one.egress("--add", "www.example.com:7002")[0] == 0
    assert one.python(ONCE, "www.example.com", "api.example.com") == "www.example.com hello\napi.example.com hello\n"
    assert one.egress("--remove", "api.example.com:7002")[0] == 0
    assert one.python(ONCE, "www.example.com", "api.example.com") == "www.example.com hello\napi.example.com refused\n"
    for _ in range(5):
        assert one.egress("--add", "api.example.com:7002")[0] == 0
        assert one.egress("--remove", "api.example.com:7002")[0] == 0


@pytest.mark.parametrize("options, kind", [
    (["--add", "evil.test:7002"], "refused"), (["--add", "api.example.com:443"], "refused"), (["--add", "*.com:7002"], "invalid"),
    (["--remove", "chain.example.com:7002"], "not_found"), (["--add", "nonsense"], "usage")])
def test_no_list_goes_beyond_the_policy(kept, options, kind):
    one = kept(wide(), options=["--egress", "api.example.com:7002"])
    code, answer = one.egress(*options)
    assert code != 0 and answer["error"]["kind"] == kind, answer
    assert [rule["rule"] for rule in one.egress()[1]["rules"]] == ["api.example.com:7002"]


@pytest.mark.parametrize("text", ["", "[", "{}x", "[1]", '[{"host": "api.example.com"}]', '{"egress": [], "resources": {}}',
                                  '[{"host": "api.example.com", "ports": [7002], "inspect": "none", "budget": "nope"}]',
                                  '{"egress": [{"host": "evil.test", "ports": [7002]}]}', '{"deny": 5}', "null", '{"egress": [], "limits": {"connections": 1}}', '{"publish": []}'])
def test_a_file_that_is_no_list_changes_nothing(kept, text):
    one = kept(wide())
    file = one.inside.home / "rules.json"
    file.write_text(text)
    code, answer = one.egress("--set", file)
    assert code != 0 and answer["error"]["message"], answer
    assert [rule["rule"] for rule in one.egress()[1]["rules"]] == ["*.example.com:80,7002"]


def test_budgets_and_refusals_can_come_and_counting_goes_on(kept):
    one = kept(wide())
    assert one.python(ONCE, "api.example.com", "www.example.com").count("hello") == 2
    file = one.inside.home / "rules.json"
    file.write_text(json.dumps({"egress": [{**wide(), "budget": "few"}], "budgets": [{"name": "few", "connections_total": 1}],
                                "deny": [{"host": "www.example.com"}]}))
    assert one.egress("--set", file)[0] == 0
    assert one.python(ONCE, "www.example.com", "api.example.com", "chain.example.com") == \
        "www.example.com refused\napi.example.com hello\nchain.example.com refused\n"
    _, seen = one.egress()
    assert seen["rules"][0]["total"] == 3 and seen["budgets"]["few"]["total"] == 1


def test_one_rule_more_takes_back_no_refusal(kept):
    one = kept(wide())
    file = one.inside.home / "rules.json"
    file.write_text(json.dumps({"egress": [https("api.example.com", [7002])], "deny": [{"host": "www.example.com"}]}))
    assert one.egress("--set", file)[0] == 0
    assert one.egress("--add", "*.example.com:7002")[0] == 0
    assert one.python(ONCE, "www.example.com", "api.example.com") == "www.example.com refused\napi.example.com hello\n"


def test_an_empty_list_closes_the_network_and_a_list_opens_it_again(kept):
    one = kept(wide())
    file = one.inside.home / "rules.json"
    file.write_text("[]")
    held = one.hold("api.example.com")
    assert one.egress("--set", file)[1]["rules"] == []
    assert held.communicate(timeout=60)[0] == "reset\n"
    assert one.python(ONCE, "api.example.com") == "api.example.com refused\n"
    assert one.egress("--add", "api.example.com:7002")[0] == 0
    assert one.python(ONCE, "api.example.com") == "api.example.com hello\n"


def test_a_sandbox_without_egress_says_so(kept):
    code, answer = kept().egress("--add", "api.example.com:7002")
    assert code != 0 and answer["error"]["kind"] == "unsupported"


def test_rules_of_other_kinds_than_the_first_ones_can_come(kept):
    one = kept(wide(), {"cidr": "10.66.0.0/24", "ports": [7002]}, {**https("ntp.example.com", [7003]), "protocol": "udp"},
               options=["--egress", "api.example.com:7002"])
    assert one.python(ONCE, "10.66.0.1") == "10.66.0.1 refused\n"
    assert one.egress("--add", "10.66.0.0/24:7002")[0] == 0
    assert one.python(ONCE, "10.66.0.1") == "10.66.0.1 hello\n"


FLOW = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((socket.getaddrinfo("api.example.com", 7003, socket.AF_INET)[0][4]))
for word in sys.stdin:  # sends it, and waits for its answer: what is late is of another
    s.settimeout(0.3 if word.strip() == "cut" else 60)
    try:
        s.send(word.encode())
        while (answer := s.recv(100)) != b"echo:" + word.encode(): pass
        print("answered", flush=True)
    except OSError as error: print("silence", flush=True)
"""


def test_a_flow_of_udp_is_cut_and_opened_like_a_connection(kept):
    udp = {**https("api.example.com", [7003]), "protocol": "udp"}
    one = kept(udp, wide())
    process = one.inside.spawn(one.argv("exec", one.name, "--stdin", "-", "--", PYTHON, "-c", FLOW), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def asks(word):
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
        return process.stdout.readline()
    assert asks("one") == "answered\n"
    flow, = one.egress()[1]["connections"]
    assert flow["protocol"] == "udp" and flow["port"] == 7003
    file = one.inside.home / "rules.json"
    file.write_text(json.dumps([wide()]))
    shown = one.egress("--set", file)[1]
    assert shown["connections"] == [] and shown["sandbox"]["refused"] == 1  # as a connection that is cut
    one.inside.internet.seen()
    assert [asks("cut") for _ in range(3)] == ["silence\n"] * 3
    assert one.inside.internet.bytes_to(one.inside.internet.seen(), (PUBLIC, 7003)) == 0  # not one datagram more
    file.write_text(json.dumps([wide(), udp]))
    assert one.egress("--set", file)[0] == 0
    eventually(lambda: asks("again") == "answered\n", "it isn't opened again")  # the first may still hear of an earlier refusal
    process.kill()
    process.wait(60)


STORM = """
import socket, sys, threading, time
goes_on, counts = [True], {"api.example.com": [0, 0], "www.example.com": [0, 0]}
def storm(host):
    while goes_on:
        try:
            with socket.create_connection((host, 7002), timeout=60) as s:
                good = s.recv(10) == b"hello\\n"
        except OSError: good = False
        counts[host][good] += 1
threads = [threading.Thread(target=storm, args=(host,)) for host in counts for _ in range(8)]
for t in threads: t.start()
while not (all(counts["api.example.com"]) and counts["www.example.com"][1]): time.sleep(0.01)
print("both", flush=True)  # have been seen: refused, and let through
sys.stdin.read()
goes_on.clear()
for t in threads: t.join()
print(counts["www.example.com"][0], flush=True)
"""


def test_lists_that_change_under_load_neither_leak_nor_break_what_stays(kept):
    """One name comes and goes while both are connected to without a pause; the other is never refused."""
    one = kept(wide())
    file = one.inside.home / "rules.json"
    process = one.inside.spawn(one.argv("exec", one.name, "--stdin", "-", "--", PYTHON, "-c", STORM), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    changes, seen_both = 0, False
    while changes < 40 or not seen_both:
        seen_both = seen_both or bool(select.select([process.stdout], [], [], 0)[0])
        names = ["www.example.com"] if changes % 2 == 0 else ["www.example.com", "api.example.com"]
        file.write_text(json.dumps([https(name, [7002]) for name in names]))
        changes += one.egress("--set", file)[0] == 0
    file.write_text(json.dumps([https("www.example.com", [7002])]))
    eventually(lambda: one.egress("--set", file)[0] == 0, "the last list isn't taken")
    assert process.communicate("", timeout=120)[0] == "both\n0\n"
    one.inside.internet.seen()
    assert one.python(ONCE, "api.example.com", "www.example.com") == "api.example.com refused\nwww.example.com hello\n"
    one.settled(lambda seen: seen["connections"] == [] and seen["sandbox"]["open"] == 0)


def test_a_dead_broker_is_told_of(kept):
    one = kept(wide())
    held = one.hold("api.example.com")
    supervisor = json.loads(one.verb("show", "--json", one.name).stdout)["supervisor"]
    mine = subprocess.run(["pgrep", "-x", "-P", str(supervisor), "pinfold-broker"], capture_output=True, text=True).stdout.split()
    assert len(mine) == 1, mine
    subprocess.run(["kill", "-KILL", mine[0]], check=True)
    assert held.communicate(timeout=60)[0] in ("reset\n", "ended\n")
    until = time.monotonic() + 60
    while one.egress()[0] == 0 and time.monotonic() < until:
        time.sleep(0.05)
    result = json.loads(one.verb("exec", one.name, "--json", "--", "true").stdout)
    assert "egress" in result["missing"] and "egress" in json.loads(one.verb("show", "--json", one.name).stdout)["missing"]
    code, answer = one.egress()
    assert code != 0 and answer["error"]["kind"] in ("unsupported", "system", "busy")
    assert one.python(ONCE, "api.example.com") == "api.example.com refused\n"
