"""Ports inside that the host can reach: network.publish and --publish, as root and as an ordinary user.

Names of sandboxes and sockets are short: a path of a socket has at most 107 bytes, and the folders of tests are long.
"""
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

from conftest import USER
from kept_sandbox import eventually, kept, kept_by_root  # noqa: F401 (fixtures)

PYTHON = "/usr/bin/python3"
NODE = shutil.which("node") or "/usr/bin/node"
DEADLINE = 10

ECHO = """
import socketserver, sys
class One(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536): self.request.sendall(data)
        self.request.sendall(b" that was all")
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True; allow_reuse_address = True; request_queue_size = 256
Server(("127.0.0.1", int(sys.argv[1])), One).serve_forever()
"""
NODE_SERVER = """
const http = require("http");
http.createServer((request, answer) => answer.end("node at " + request.url)).listen(3000, "localhost");
"""
LISTENS = """
import sys
port = f":{int(sys.argv[1]):04X}"
print("true" if any(line.split()[1].endswith(port) and line.split()[3] == "0A" for line in open("/proc/net/tcp").readlines()[1:]) else "false")
"""
SIX = """
import http.server, socket
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
Server(("::1", 8080), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def published(facts):
    """Where each port is, by its number inside."""
    return {one["port"]: one["at"] for one in facts["published"]}


def connect(at):
    """A connected socket to a place as results and `show` tell it."""
    if at.startswith("/"):
        client, to = socket.socket(socket.AF_UNIX), at
    else:
        host, port = at.rsplit(":", 1)
        client = socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET)
        to = (host.strip("[]"), int(port))
    client.settimeout(DEADLINE)
    try:
        client.connect(to)
    except OSError:
        client.close()
        raise
    return client


def get(at, path="/"):
    """One HTTP request; its body."""
    connection = http.client.HTTPConnection("localhost", timeout=DEADLINE)
    connection.sock = connect(at)
    connection.request("GET", path, headers={"Connection": "close"})
    body = connection.getresponse().read()
    connection.close()
    return body


def answers(at):
    """Whether a server inside says anything to a connection."""
    try:
        with connect(at) as client:
            client.sendall(b"x")
            return client.recv(1) == b"x"
    except OSError:
        return False


def refused(at):
    """Nothing is there, or it hangs up without a word."""
    try:
        with connect(at) as client:
            return client.recv(1) == b""
    except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError):
        return True


def serves(at):
    """Whether a web server inside says anything."""
    try:
        with connect(at) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return client.recv(1) != b""
    except OSError:
        return False


def brokers(parent):
    """The brokers of a supervisor."""
    with open(f"/proc/{parent}/task/{parent}/children") as children:
        found = [int(pid) for pid in children.read().split()]
    return [pid for pid in found if open(f"/proc/{pid}/comm").read() == "pinfold-broker\n"]


def lets_in(pid, sandbox):
    """A broker in the network namespace of a process of the sandbox's."""
    return os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat(f"/proc/{sandbox}/ns/net").st_ino


def serve_echo(kept, name, port=8080):
    kept.ok("exec", name, "--detach", "--", PYTHON, "-c", ECHO, str(port))
    at = published(kept.show(name))[port]
    eventually(lambda: answers(at), "the server inside never came up")
    return at


def test_dev_servers_of_a_kept_sandbox_are_reached_and_outlive_commands(kept, tmp_path):
    if not os.path.exists(NODE):
        pytest.skip("no node on this host")
    kept.up("w", extends=["tool"], resources={"memory": "unlimited"},
            network={"publish": ["8000=127.0.0.1:0", "8000=unix:w", "3000=[::1]:0"]})
    kept.ok("exec", "w", "--detach", "--", PYTHON, "-c", "open('/tmp/page','w').write('<p>it works</p>');"
            "import os;os.chdir('/tmp');import http.server;http.server.test(http.server.SimpleHTTPRequestHandler,port=8000)")
    kept.ok("exec", "w", "--detach", "--", NODE, "-e", NODE_SERVER)
    facts = kept.show("w")
    places = [one["at"] for one in facts["published"]]
    assert places[0].startswith("127.0.0.1:") and places[1].endswith("/sandboxes/w/w.sock") and places[2].startswith("[::1]:")
    assert kept.list()[0]["published"] == facts["published"]
    mode = os.stat(places[1])
    assert stat.S_IMODE(mode.st_mode) == 0o600 and mode.st_uid == kept.pinfold.uid

    eventually(lambda: serves(places[0]) and serves(places[2]), "the servers never came up")
    for round in range(3):
        assert get(places[0], "/page") == get(places[1], "/page") == b"<p>it works</p>"
        assert get(places[2], f"/{round}") == b"node at /%d" % round
        assert kept.exec("w", "true").returncode == 0
    counted = json.loads(kept.ok("egress", "w", "--json"))
    assert [one["port"] for one in counted["published"]] == [8000, 8000, 3000] and counted["rules"] == []
    assert counted["published"][1]["total"] == 3 and counted["published"][1]["bytes_out"] > 3 * 15
    assert "8000=127.0.0.1:" in kept.ok("egress", "w")
    kept.ok("stop", "w")
    assert all(refused(at) for at in places) and not os.path.exists(places[1])


def test_a_run_tells_where_its_ports_are_and_leaves_nothing(pinfold):
    policy = pinfold.policy(network={"publish": ["8080=127.0.0.1:0", "8080=unix:echo"]}, audit={"record": ["egress"]})
    process = pinfold.spawn(pinfold.argv(PYTHON, "-c", ECHO, "8080", policy=policy, options=["--stream"]),
                            stdout=subprocess.PIPE, text=True)
    places = []
    while len(places) < 2:
        line = json.loads(process.stdout.readline())
        if line["type"] == "egress" and line["event"] == "published":
            assert line["port"] == 8080
            places.append(line["published"])
    for at in places:
        eventually(lambda: answers(at), "the server never came up")
        with connect(at) as client:
            client.sendall(b"hello")
            assert client.recv(100) == b"hello"
    process.send_signal(signal.SIGTERM)
    lines = [json.loads(line) for line in process.communicate(timeout=DEADLINE)[0].splitlines()]
    closed = [line for line in lines if line["type"] == "egress" and line["event"] == "close" and line["bytes_in"] == 5]
    assert {line["published"] for line in closed} <= set(places) and closed
    exit, = [line for line in lines if line["type"] == "exit"]
    assert exit["published"]["ports"] == [{"port": 8080, "at": at} for at in places]
    assert exit["published"]["allowed"] >= 2 and exit["published"]["bytes_in"] >= 10 and "publish" not in exit["missing"]
    assert all(refused(at) for at in places) and not os.path.exists(places[1])
    assert pinfold.leftovers() == []


def test_both_loops_hand_the_events_on(each_io):
    policy = each_io.policy(network={"publish": ["8080=127.0.0.1:0"]})
    process = each_io.spawn(each_io.argv("sleep", "0.3", policy=policy), stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline().startswith("pinfold: port 8080 is published at 127.0.0.1:")
    assert process.wait(timeout=DEADLINE) == 0
    process.stderr.close()


def test_bytes_and_ends_go_both_ways(kept):
    kept.up("s", resources={"memory": "unlimited"}, network={"publish": ["8080=127.0.0.1:0", "8080=unix:e"]})
    serve_echo(kept, "s")
    for one in kept.show("s")["published"]:
        whole = os.urandom(3 << 20)
        with connect(one["at"]) as client:
            got = []
            reader = threading.Thread(target=lambda: got.append(b"".join(iter(lambda: client.recv(1 << 16), b""))))
            reader.start()
            client.sendall(whole)
            client.shutdown(socket.SHUT_WR)  # its end is passed on; the answer still comes
            reader.join(DEADLINE)
        assert got == [whole + b" that was all"]


LAST_WORDS = """
import os, socket
server = socket.create_server(("127.0.0.1", 8080))
print("up", flush=True)
client, _ = server.accept()
assert client.recv(3) == b"go!"
client.sendall(bytes(2_000_000))
os._exit(0)
"""


def test_what_a_server_has_sent_before_its_end_arrives_and_is_billed_by_itself(pinfold):
    """As from the network of the host: its end is behind what it has sent."""
    policy = pinfold.policy(network={"publish": ["8080=127.0.0.1:0"]})
    process = pinfold.spawn(pinfold.argv(PYTHON, "-c", LAST_WORDS, policy=policy, options=["--stream", "--label", "tenant=a"]),
                            stdout=subprocess.PIPE, text=True)
    at, up = None, False
    while at is None or not up:
        line = json.loads(process.stdout.readline())
        at = line.get("published", at)
        up = up or line["type"] == "stdout"
    with connect(at) as client:
        client.sendall(b"go!")
        assert sum(map(len, iter(lambda: client.recv(1 << 16), b""))) == 2_000_000
    exit = json.loads(process.communicate(timeout=DEADLINE * 3)[0].splitlines()[-1])
    assert exit["published"]["bytes_out"] == 2_000_000 and exit["usage"]["egress"]["bytes_out"] == 0
    done = pinfold.call([str(pinfold.program), "stats", "--by", "tenant", "--json"])
    row, = json.loads(done.stdout)["rows"]
    assert [row[f"{way}_bytes_{to}"] for way in ("egress", "published") for to in ("out", "in")] == [0, 0, 2_000_000, 3]


def test_the_servers_own_end_is_passed_on_and_the_clients_bytes_still_arrive(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0"]}, resources={"memory": "unlimited"})
    kept.ok("exec", "s", "--detach", "--", PYTHON, "-c", """
import socket
listener = socket.create_server(("127.0.0.1", 8080))
while True:
    one, _ = listener.accept()
    one.sendall(b"bye"); one.shutdown(socket.SHUT_WR)
    data = b"".join(iter(lambda: one.recv(65536), b""))
    open("/tmp/got", "w").write(str(len(data)))
""")
    at = published(kept.show("s"))[8080]

    eventually(lambda: json.loads(kept.exec("s", PYTHON, "-c", LISTENS, "8080").stdout), "no server")
    with connect(at) as client:
        assert client.recv(3) == b"bye" and client.recv(1) == b""
        client.sendall(b"x" * 100000)
    eventually(lambda: kept.exec("s", "cat", "/tmp/got").stdout == b"100000", "the client's bytes were lost")


def test_a_port_without_a_server_refuses_at_once_and_either_loopback_will_do(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0", "8080=unix:x", "9=127.0.0.1:0"]}, resources={"memory": "unlimited"})
    places = [one["at"] for one in kept.show("s")["published"]]
    began = time.monotonic()
    assert all(refused(at) for at in places for _ in range(20))
    assert time.monotonic() - began < DEADLINE  # nothing waited for a time limit
    kept.ok("exec", "s", "--detach", "--", PYTHON, "-c", SIX)
    eventually(lambda: serves(places[0]), "a server on ::1 is found, too")
    assert refused(places[2])
    counted = json.loads(kept.ok("egress", "s", "--json"))["published"]
    assert counted[2]["open"] == 0 and counted[2]["total"] >= 20


def test_nobody_answers_for_a_server_that_is_not_there(kept_by_root):
    """A socket can be connected to itself, where it dials a port that the kernel may also pick for it: about one time in 10,000."""
    kept = kept_by_root
    kept.up("s", network={"publish": ["40000=unix:x"], "limits": {"connections": "unlimited"}})
    at, answered = published(kept.show("s"))[40000], 0
    for _ in range(30000):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(DEADLINE)
            try:
                client.connect(at)
                client.send(b"x")
                answered += client.recv(1) != b""
            except (ConnectionResetError, BrokenPipeError):
                pass
    assert answered == 0


def test_connections_past_the_limit_are_reset_and_the_others_go_on(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0"], "limits": {"connections": 8, "idle": "2s"}},
            resources={"memory": "unlimited"}, audit={"record": ["egress"]})
    at = serve_echo(kept, "s")
    eventually(lambda: json.loads(kept.ok("egress", "s", "--json"))["published"][0]["open"] == 0, "none is open")
    held = []
    for _ in range(8):
        held.append(connect(at))
        held[-1].sendall(b"a")
        assert held[-1].recv(1) == b"a"
    for _ in range(50):
        assert refused(at)
    for client in held:
        client.sendall(b"b")
        assert client.recv(1) == b"b"
    counted = json.loads(kept.ok("egress", "s", "--json"))["published"][0]
    assert counted["open"] == 8 and counted["refused"] >= 50
    for client in held:  # who says nothing is cut
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass
        client.close()
    eventually(lambda: answers(at), "there is room again")
    log = kept.call("audit", "show").stdout.decode()
    assert "event=refuse" in log and "reason=budget" in log and f"published={at}" in log


def test_a_client_that_never_reads_holds_nobody_up(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0"]}, resources={"memory": "unlimited"})
    at = serve_echo(kept, "s")
    with connect(at) as deaf:
        deaf.settimeout(1)
        with pytest.raises(TimeoutError):
            while True:
                deaf.sendall(b"x" * (1 << 20))
        for _ in range(10):
            assert answers(at)


@pytest.mark.parametrize("publish, options, words", [
    (["8080=127.0.0.1:0"], ["--publish", "8081"], "publishes no port '8081'"),
    (["8080=127.0.0.1:18080"], ["--publish", "8080=127.0.0.1:18081"], "does not grant"),
    (["8080=127.0.0.1:0"], ["--publish", "8080=[::1]:0"], "does not grant"),
    (["8080=127.0.0.1:0"], ["--publish", "8080=unix:x"], "does not grant"),
    (["8080=127.0.0.1:0"], ["--publish", "8080=0.0.0.0:0"], "a published port is"),
    (["8080=127.0.0.1:0"], ["--publish", "8080=unix:../x"], "a published port is"),
    ([], ["--publish", "8080"], "publishes no port '8080'"),
    (["80=127.0.0.1:5001", "81=127.0.0.1:5001"], [], "where another port is published"),
    (["80=unix:a", "81=unix:a"], [], "where another port is published"),
    ([f"{port}=127.0.0.1:0" for port in range(1, 18)], [], "at most 16 ports"),
])
def test_what_is_not_granted_or_cannot_be_is_refused_by_name(pinfold, publish, options, words):
    done = pinfold.run("true", policy=pinfold.policy(network={"publish": publish}), options=options)
    assert done.returncode == 125 and words in done.stderr.decode(), done.stderr
    assert not list(pinfold.state.rglob("*.sock"))


def test_a_request_takes_some_of_what_is_granted_and_chooses_a_free_port(pinfold):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        policy = pinfold.policy(network={"publish": ["80=127.0.0.1:0", "81=127.0.0.1:0", "81=unix:x", "82=unix:y"]})
        seen = pinfold.json("true", policy=policy, options=["--publish", "81"])["published"]["ports"]
        assert [one["port"] for one in seen] == [81, 81]
        done = pinfold.run("true", policy=policy, options=["--publish", f"80=127.0.0.1:{taken}"])
        assert done.returncode == 125 and b"another program has that port" in done.stderr and b"EADDRINUSE" in done.stderr
    seen = pinfold.json("true", policy=policy, options=["--publish", f"80=127.0.0.1:{taken}"])["published"]["ports"]
    assert seen == [{"port": 80, "at": f"127.0.0.1:{taken}"}]


def test_what_is_published_is_seen_before_it_is(pinfold):
    policy = pinfold.policy(network={"publish": ["80=127.0.0.1:0", "81=unix:x"]})

    def says(*arguments):
        done = pinfold.call([str(pinfold.program), *arguments])
        assert done.returncode in (0, 1), done.stderr
        return done.stdout.decode()
    assert "published     81=unix:x\n" in says("plan", "--policy", policy, "--publish", "81", "--", "true")
    assert json.loads(says("plan", "--json", "--policy", policy, "--", "true"))["publish"] == ["80=127.0.0.1:0", "81=unix:x"]
    assert '/network/publish/0 "80=127.0.0.1:0"' in " ".join(says("policy", "show", "--effective", policy).split())
    explained = says("policy", "explain", policy)
    assert "Every user of the host can connect to its port 80" in explained and "Its owner on the host can connect to its port 81" in explained
    assert "allow" in says("policy", "why", policy, "publish", "80=127.0.0.1:8080")
    assert '{"network":{"publish":{"add":["9=unix:y"]}}}' in says("policy", "why", policy, "publish", "9=unix:y")
    assert "Nobody can connect in." in says("policy", "explain", "tool")
    assert "the host connects in" in says("policy", "diff", "tool", policy)
    assert "PF027" in says("policy", "lint", policy) and "published ports: 2" in says("policy", "score", policy)


def test_a_sites_ceiling_holds_for_published_ports(pinfold):
    site = pinfold.policy(network={"publish": ["8080=unix:web"]})
    for publish, code in (["8080=unix:web"], 0), (["8080=127.0.0.1:0"], 125), (["8080=unix:other"], 125):
        done = pinfold.run("true", policy=pinfold.policy(network={"publish": publish}), options=["--site", site])
        assert done.returncode == code, done.stderr


def test_another_user_of_the_host_cannot_use_the_socket(kept_by_root):
    kept = kept_by_root
    kept.up("s", network={"publish": ["8080=unix:x"]})
    at = published(kept.show("s"))[8080]
    for path in [kept.pinfold.state, kept.pinfold.state / "sandboxes", kept.pinfold.state / "sandboxes/s"]:
        os.chmod(path, 0o755)  # even where its folder lets everybody through
    code = f"import socket; s = socket.socket(socket.AF_UNIX); print(s.connect_ex({at!r}))"
    try:
        tried = subprocess.run([PYTHON, "-c", code], user=USER, group=USER, extra_groups=[], capture_output=True, text=True)
        assert tried.stdout == "13\n", tried  # EACCES
        assert subprocess.run([PYTHON, "-c", code], capture_output=True, text=True).stdout == "0\n"
    finally:
        for path in [kept.pinfold.state, kept.pinfold.state / "sandboxes", kept.pinfold.state / "sandboxes/s"]:
            os.chmod(path, 0o700)


def test_the_process_that_lets_the_host_in_is_behind_walls(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0"]}, resources={"memory": "unlimited"})
    serve_echo(kept, "s")
    facts = kept.show("s")
    broker, = brokers(facts["supervisor"])
    status = dict(line.split(":\t", 1) for line in open(f"/proc/{broker}/status").read().splitlines() if ":\t" in line)
    assert status["CapEff"] == status["CapPrm"] == "0000000000000000" and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert os.stat(f"/proc/{broker}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino
    assert os.listdir(f"/proc/{broker}/root/") == []
    opened = [os.readlink(fd) for fd in glob.glob(f"/proc/{broker}/fd/*")]
    assert not [path for path in opened if path.startswith("/") and path != "/dev/null" and not path.startswith("/memfd:")], opened
    if not kept.pinfold.rootless:
        assert status["Uid"].split() == ["65534"] * 4


def test_its_death_lets_nobody_in_and_the_result_says_so(pinfold):
    policy = pinfold.policy(network={"publish": ["8080=127.0.0.1:0"]})
    process = pinfold.spawn(pinfold.argv(PYTHON, "-c", ECHO, "8080", policy=policy, options=["--json", "--timeout", "20s"]),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    at = process.stderr.readline().split()[-1]
    eventually(lambda: answers(at), "the server never came up")
    with connect(at) as client:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
        os.kill(brokers(process.pid)[0], signal.SIGKILL)
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass
    assert refused(at)
    process.send_signal(signal.SIGTERM)
    assert json.loads(process.communicate(timeout=DEADLINE)[0])["missing"][-1:] == ["publish"]


def test_nothing_is_left_of_a_killed_supervisor(pinfold):
    policy = pinfold.policy(network={"publish": ["8080=127.0.0.1:0", "8080=unix:x"]})
    for moment in (0, 0.005, 0.02, 0.1, 0.3):
        process = pinfold.spawn(pinfold.argv(PYTHON, "-c", ECHO, "8080", policy=policy), stderr=subprocess.PIPE, text=True)
        if moment >= 0.1:
            places = [process.stderr.readline().split()[-1] for _ in range(2)]
        time.sleep(moment)
        process.kill()
        process.communicate()
        if moment >= 0.1:
            eventually(lambda: refused(places[0]), "the port is let go of")
            assert refused(places[1])
    assert pinfold.run("true").returncode == 0
    assert pinfold.leftovers() == []


def test_a_killed_supervisor_of_a_kept_sandbox_lets_nobody_in(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0", "8080=unix:x"]}, resources={"memory": "unlimited"})
    serve_echo(kept, "s")
    facts = kept.show("s")
    os.kill(facts["supervisor"], signal.SIGKILL)
    for one in facts["published"]:
        eventually(lambda: refused(one["at"]), "somebody is let in")
    kept.ok("rm", "s")
    assert not os.path.exists(facts["published"][1]["at"])


LOOK_AROUND = """
import json, os, socket, sys
places, seen = json.loads(sys.argv[1]), {}
def tries(to, family=None):
    family = family or (socket.AF_UNIX if isinstance(to, str) else socket.AF_INET6 if ":" in to[0] else socket.AF_INET)
    try:
        s = socket.socket(family); s.settimeout(2); s.connect(to); s.sendall(b"x"); return s.recv(1).decode() or "ended"
    except OSError as error: return type(error).__name__
for at in places:
    if at.startswith("/"): seen[at] = tries(at); continue
    host, port = at.rsplit(":", 1)
    for own in ("127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "192.0.2.1", "198.18.0.1"): seen[own + " " + port] = tries((own, int(port)))
for name in ("\\0pinfold", "\\0" + os.path.basename(places[-1])): seen[name] = tries(name)
listening = {line.split()[1].split(":")[1] for kind in ("tcp", "tcp6") for line in open("/proc/net/" + kind).readlines()[1:] if line.split()[3] == "0A"}
unix = [line for line in open("/proc/net/unix").read().splitlines()[1:] if len(line.split()) > 7]
names = [open(f"/proc/{pid}/comm").read().strip() for pid in os.listdir("/proc") if pid.isdigit()]
print(json.dumps({"seen": seen, "listening": sorted(listening), "unix": unix, "names": names}))
"""


def test_what_runs_inside_cannot_turn_its_published_port_around(kept):
    for name in ("a", "b"):
        kept.up(name, network={"publish": ["8080=127.0.0.1:0", f"8080=unix:{name}"]}, resources={"memory": "unlimited"})
        serve_echo(kept, name)
    places = [at["at"] for name in ("a", "b") for at in kept.show(name)["published"]]
    for name in ("a", "b"):
        found = kept.python(name, f"import sys; sys.argv = ['', {json.dumps(places)!r}]\n" + LOOK_AROUND)
        told = json.loads(found["stdout"])
        assert set(told["seen"].values()) <= {"ConnectionRefusedError", "FileNotFoundError", "PermissionError", "OSError"}, told["seen"]
        assert told["listening"] == [f"{8080:04X}"] and told["unix"] == [], told  # nothing of ours waits inside
        assert "pinfold-broker" not in told["names"], told["names"]
    for at in places:  # from the host the same places answer
        assert answers(at)


def test_the_way_in_and_the_way_out_live_and_die_apart(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0"], "egress": [{"cidr": "192.0.2.7/32", "ports": [9]}]}, resources={"memory": "unlimited"},
            audit={"record": ["egress"]})
    at = serve_echo(kept, "s")
    kept.python("s", "import socket; socket.socket().connect_ex(('192.0.2.8', 9))")
    seen = json.loads(kept.ok("egress", "s", "--json"))
    assert [one["port"] for one in seen["published"]] == [8080] and len(seen["rules"]) == 1
    log = kept.call("audit", "show").stdout.decode()
    assert "event=connect" in log and "event=refuse" in log
    supervisor = kept.show("s")["supervisor"]
    inside, = kept.show("s")["execs"][:1]
    inner = [pid for pid in brokers(supervisor) if os.stat(f"/proc/{pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino]
    outer = [pid for pid in brokers(supervisor) if pid not in inner]
    assert len(inner) == len(outer) == 1 and inside
    os.kill(outer[0], signal.SIGKILL)
    eventually(lambda: "egress" in kept.json("s", "true")["missing"], "the way out is gone, and nothing says so")
    assert answers(at)  # the way in goes on
    assert "publish" not in kept.show("s")["missing"]
    os.kill(inner[0], signal.SIGKILL)
    eventually(lambda: {"egress", "publish"} <= set(kept.show("s")["missing"]), "the way in is gone, and nothing says so")
    assert refused(at) and kept.call("egress", "s").returncode == 125


def test_a_port_is_closed_while_the_others_go_on(kept):
    kept.up("s", network={"publish": ["8080=127.0.0.1:0", "8080=unix:x", "9090=127.0.0.1:0"]}, resources={"memory": "unlimited"})
    first = serve_echo(kept, "s")
    stays = serve_echo(kept, "s", 9090)
    second = [one["at"] for one in kept.show("s")["published"]][1]
    held = [connect(at) for at in (first, second, stays)]
    for client in held:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    done = kept.call("egress", "s", "--unpublish", "9090", "--unpublish", "7")
    assert done.returncode == 125 and b"port 7 isn't published" in done.stderr and answers(stays)  # all or none
    seen = json.loads(kept.ok("egress", "s", "--json", "--unpublish", "8080"))
    assert [one["port"] for one in seen["published"]] == [9090]
    for client in held[:2]:
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass
    held[2].sendall(b"y")
    assert held[2].recv(1) == b"y" and answers(stays)
    assert refused(first) and refused(second) and not os.path.exists(second)
    assert list(published(kept.show("s"))) == [9090] == list(published(kept.list()[0]))
    assert json.loads(kept.ok("egress", "s", "--json"))["published"][0]["total"] >= 2
    for client in held:
        client.close()
    for _ in range(3):
        done = kept.call("egress", "s", "--unpublish", "8080")
        assert done.returncode == 125 and b"isn't published" in done.stderr
    kept.ok("egress", "s", "--unpublish", "9090")
    eventually(lambda: refused(stays), "the last one is closed, too")
    assert kept.exec("s", "true").returncode == 0


def test_a_tool_call_refuses_a_policy_that_publishes(pinfold):
    policy = pinfold.policy(extends=["tool"], network={"publish": ["8080=127.0.0.1:0"]})
    request = {"language": "python", "source": "def f(): return 1", "name": "f"}
    done = pinfold.call([str(pinfold.program), "tool", "call", "--policy", policy, "-"], input=json.dumps(request).encode())
    assert done.returncode == 125 and b"/network/publish" in done.stdout and b"by this front door" in done.stdout, done
