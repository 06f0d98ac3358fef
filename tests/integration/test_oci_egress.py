"""pinfold-oci under a policy: its audit log, and egress by host name."""
import json
import os
import pathlib
import subprocess
import time

import pytest

from egress_world import internet, world  # noqa: F401 (fixtures)
from oci_world import governed, without  # noqa: F401 (fixture)


# the audit log

def test_the_log_tells_of_the_life_of_a_container(governed):  # noqa: F811
    governed.under(audit={"record": ["lifecycle"], "require_labels": ["tenant"]})
    label = {"annotations": {"io.pinfold.labels": '{"tenant": "a"}'}}
    name = governed.start("sh", "-c", "sleep 60; exit 5", **label)
    governed.ok("exec", name, "true")
    governed.ok("kill", name, "KILL")
    governed.wait(name)
    refused = governed.run("true", hooks={"prestart": [{"path": "/bin/true"}]})
    assert refused.returncode == 1 and b"tenant" in refused.stderr
    deadline = time.monotonic() + 60
    while "end" not in governed.events(name):
        assert time.monotonic() < deadline, governed.log()
        time.sleep(0.05)
    assert governed.events(name) == ["create", "start", "exec", "end"]
    log = governed.log()
    assert all(line["labels"] == {"tenant": "a"} for line in log if line["event"] in ("create", "exec", "end"))
    refusal = next(line for line in log if line["event"] == "refusal")
    assert {finding["pointer"] for finding in refusal["data"]["findings"]} >= {"/engine/hooks/0"}


def test_a_container_whose_start_can_not_be_recorded_is_not_made(governed):  # noqa: F811
    governed.under(audit={"record": ["lifecycle"]})
    governed.env["PINFOLD_AUDIT"] = "/proc/audit.jsonl"
    done = governed.run("true")
    assert done.returncode == 1 and b"audit log" in done.stderr


# egress

@pytest.fixture
def online(governed, internet):  # noqa: F811
    governed.more = ["nsenter", f"--net=/run/netns/{internet.host}"]
    governed.env["PINFOLD_RESOLV_CONF"] = str(internet.resolv)
    governed.under(network={"egress": [{"host": "api.example.com", "ports": [80]}, {"host": "www.example.com", "ports": [80]}]},
                   audit={"record": ["lifecycle", "egress"]})
    return governed


def asks(*hosts):
    rules = [{"to": host, "ports": ["80"], "protocol": "tcp"} for host in hosts]
    return {"annotations": {"io.pinfold.egress": json.dumps(rules)}}


def fetch(host):
    """A busybox that is linked statically finds no resolver library: it asks by nslookup."""
    return (f"a=$(nslookup {host} | sed -n 's/^Address: *\\([0-9.]*\\)$/\\1/p' | tail -n 1);"
            f"printf 'GET / HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n' | nc -w 5 ${{a:-{host}}} 80 2>&1 | grep -q ^HTTP"
            f" && echo {host} reached || echo {host} not;")


def online_bundle(online, script, **changes):
    folder = online.bundle("sh", "-c", script, **changes)
    for tool in ("nc", "nslookup", "sed", "tail", "printf", "grep"):
        os.symlink("busybox", folder / "rootfs/bin" / tool)
    (folder / "rootfs/etc/resolv.conf").write_text("nameserver 192.0.2.1\n")
    return folder


def test_egress_reaches_the_asked_host_alone_and_is_recorded(online, internet):  # noqa: F811
    name = online.name()
    script = fetch("api.example.com") + fetch("www.example.com") + fetch("192.0.2.10")
    done = online.call("run", "--bundle", online_bundle(online, script, **asks("api.example.com")), name)
    assert done.stdout.splitlines() == [b"api.example.com reached", b"www.example.com not", b"192.0.2.10 not"], done.stderr
    deadline = time.monotonic() + 60
    while "end" not in online.events(name):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    facts = [line["data"] for line in online.log() if line["event"] == "egress"]
    assert any(fact["event"] in ("connect", "open") and fact.get("host") == "api.example.com" for fact in facts), facts
    refused = [fact for fact in facts if fact["event"] == "refuse"]
    assert refused and all(fact["why"]["verdict"] == "deny" and fact["why"]["edit"] for fact in refused), facts
    assert online.log()[-1]["event"] == "end" and online.log()[-1]["data"]["exit_code"] == 0


def started_to_fetch(online):
    """A container that fetches once /tmp/go is there, then sleeps; what it says is in `out`."""
    folder = online_bundle(online, "while ! [ -e /tmp/go ]; do sleep 0.1; done;" + fetch("api.example.com") + "sleep 60",
                           root__readonly=False, **asks("api.example.com"))
    name = online.name()
    with open(online.home / "out", "wb") as out:
        online.ok("create", "--bundle", folder, name, stdout=out, stderr=subprocess.DEVNULL)
    online.ok("start", name)
    return name, folder


def test_a_detached_container_keeps_its_egress_until_its_end(online, internet):  # noqa: F811
    name, folder = started_to_fetch(online)
    (folder / "rootfs/tmp/go").touch()
    deadline = time.monotonic() + 60
    while b"reached" not in (online.home / "out").read_bytes():
        assert time.monotonic() < deadline, (online.home / "out").read_bytes()
        time.sleep(0.05)
    online.ok("delete", "--force", name)
    deadline = time.monotonic() + 60
    while brokers_of(online):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def brokers_of(runtime):
    """Processes of ours that are left: the keeper and its broker have this test's log in their environment."""
    mark, left = runtime.env["PINFOLD_AUDIT"].encode(), []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                left.append(entry.name)
        except OSError:
            continue
    return left


def test_the_network_closes_when_its_keeper_is_killed(online, internet):  # noqa: F811
    name, folder = started_to_fetch(online)
    keepers = [pid for pid in brokers_of(online)
               if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "pinfold-keeper"]
    assert len(keepers) == 1
    os.kill(int(keepers[0]), 9)
    (folder / "rootfs/tmp/go").touch()
    deadline = time.monotonic() + 60
    while b"api.example.com" not in (online.home / "out").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert b"not" in (online.home / "out").read_bytes()


def test_a_dead_broker_closes_the_network_and_the_record_of_the_end_says_so(online, internet):  # noqa: F811
    folder = online_bundle(online, "while ! [ -e /tmp/go ]; do sleep 0.1; done;" + fetch("api.example.com"),
                           root__readonly=False, **asks("api.example.com"))
    name = online.name()
    with open(online.home / "out", "wb") as out:
        online.ok("create", "--bundle", folder, name, stdout=out, stderr=subprocess.DEVNULL)
    online.ok("start", name)
    keeper, = [pid for pid in brokers_of(online) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "pinfold-keeper"]
    broker, = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    os.kill(int(broker), 9)
    (folder / "rootfs/tmp/go").touch()
    deadline = time.monotonic() + 60
    while "end" not in online.events(name):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert b"not" in (online.home / "out").read_bytes() and online.log()[-1]["data"]["missing"] == ["egress"]
    online.ok("delete", "--force", name)


def test_the_record_of_the_end_says_what_was_sent_and_is_lost(online, internet):  # noqa: F811
    online.under(network={"egress": [{"host": "api.example.com", "ports": [7001]}], "limits": {"rate": 1024, "drain": "0s"}},
                 audit={"record": ["lifecycle"]})
    sends = (f"{fetch('api.example.com').split(';')[0]};"  # what the pipe doesn't hold nc has sent; the rate holds it back
             "(head -c 150000 /dev/zero; touch /tmp/sent; sleep 600) | nc $a 7001 > /dev/null")
    rule = [{"to": "api.example.com", "ports": ["7001"], "protocol": "tcp"}]
    folder = online_bundle(online, sends, root__readonly=False, annotations={"io.pinfold.egress": json.dumps(rule)})
    os.symlink("busybox", folder / "rootfs/bin/head")
    name = online.name()
    with open(online.home / "errors", "wb") as errors:
        done = online.call("create", "--bundle", folder, name, stdout=subprocess.DEVNULL, stderr=errors)
    assert done.returncode == 0, (online.home / "errors").read_text()
    online.ok("start", name)
    deadline = time.monotonic() + 30
    while not (folder / "rootfs/tmp/sent").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    online.ok("delete", "--force", name)
    deadline = time.monotonic() + 20
    while "end" not in online.events(name):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    egress = online.log()[-1]["data"]["egress"]
    assert egress["allowed"] == 1 and 0 < egress["undelivered"] <= 150000 - egress["bytes_out"] and egress["cpu_ms"] >= 0


def test_an_engine_publishes_ports_by_itself(governed):  # noqa: F811
    governed.under(network={"publish": ["8080=127.0.0.1:0", "8080=unix:x"]}, audit={"record": ["lifecycle", "egress"]})
    name = governed.name()
    done = governed.call("run", "--bundle", governed.bundle("sh", "-c", "echo ran"), name)
    assert done.returncode == 0 and done.stdout == b"ran\n" and b"published" not in done.stderr, done.stderr
    assert not [line for line in governed.log() if line["event"] == "egress"]
    asked = governed.bundle("true", annotations={"io.pinfold.publish": '["8080=127.0.0.1:0"]'})
    refused = governed.call("run", "--bundle", asked, governed.name())
    assert refused.returncode == 1 and b"io.pinfold" in refused.stderr


def test_egress_needs_an_empty_network_and_a_broker(online, internet):  # noqa: F811
    refused = online.run("true", **asks("api.example.com"), **without("network"))
    assert b"io.pinfold.egress" in refused.stderr and refused.returncode == 1
    done = online.call("run", "--bundle", online.bundle("true", **asks("api.example.com")), online.name(),
                       env={**os.environ, **online.env, "PINFOLD_LIBEXEC": "/nonexistent"})
    assert done.returncode == 1 and b"broker" in done.stderr
    assert b"/network/egress" in online.run("true", **asks("other.example.com")).stderr
