"""All TCP of a sandbox leaves through the proxy that the policy names, and nothing past it."""
import json
import os
import subprocess

import pytest

from egress_world import HERE, NEEDS_ROOT, PUBLIC, PYTHON, ZONE, https
from egress_world import inside, internet, world  # noqa: F401 (fixtures)

pytestmark = NEEDS_ROOT

PROXY, HTTP, SOCKS, LOGIN = "203.0.113.5", 3128, 1080, "someone:opensesame"
PLACES = {"only.behind.example.net": [PUBLIC, 7002], "api.example.com": [PUBLIC, 443]}
TALK = """
import socket, sys
for host in sys.argv[1:]:
    try: print(host, socket.create_connection((host, 7002), timeout=60).recv(100).decode().strip() or "closed")
    except OSError as error: print(host, "refused")
"""


class Proxy:
    def __init__(self, internet, login):
        self.process = subprocess.Popen(["nsenter", f"--net=/run/netns/{internet.net}", PYTHON, HERE / "egress_proxy.py", str(HTTP),
                                         str(SOCKS), login, json.dumps(PLACES)], stdout=subprocess.PIPE, text=True)
        for _ in range(2):
            assert "listening" in self.process.stdout.readline()

    def close(self):
        self.process.kill()
        return [json.loads(line)["asked"] for line in self.process.stdout.read().splitlines()]


@pytest.fixture(params=["", LOGIN], ids=["open", "login"])
def proxy(request, internet):
    made = Proxy(internet, request.param)
    made.login = request.param
    yield made
    made.close()


def policy(inside, url, proxy, rules):
    network = {"egress": rules, "upstream_proxy": {"url": url}}
    if proxy.login:
        network["upstream_proxy"]["secret"] = "PROXY_LOGIN"
        folder = inside.home / "secrets"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "PROXY_LOGIN").write_text(proxy.login)
        for path in (folder, folder / "PROXY_LOGIN"):
            os.chown(path, inside.uid, inside.uid)
        (folder / "PROXY_LOGIN").chmod(0o600)
    return inside.policy(extends=["tool"], network=network)


def run(inside, policy, *arguments):
    env = inside.environment(PINFOLD_SECRETS=str(inside.home / "secrets"))
    done = inside.call(inside.argv(*arguments, policy=policy, options=["--json"]), env=env)
    return json.loads(done.stdout)


@pytest.mark.parametrize("url", [f"http://{PROXY}:{HTTP}", f"socks5://{PROXY}:{SOCKS}", f"http://proxy.example.com:{HTTP}"])
def test_names_are_left_to_the_proxy_and_nothing_goes_past_it(inside, proxy, url):
    inside.internet.ask(zone={**ZONE, "proxy.example.com": [PROXY]})
    rules = [https("only.behind.example.net", [7002]), {"cidr": f"{PUBLIC}/32", "ports": [7002]}]
    inside.internet.seen()
    done = run(inside, policy(inside, url, proxy, rules), PYTHON, "-c", TALK, "only.behind.example.net", PUBLIC, "api.example.com")
    assert done["stdout"].splitlines() == ["only.behind.example.net hello", f"{PUBLIC} hello", "api.example.com refused"], done
    seen = inside.internet.seen()
    assert not any(f["kind"] == "question" and "behind" in f["name"] for f in seen)
    assert {f["to"] for f in seen if f["kind"] == "packet"} <= {PROXY, "192.0.2.53"}
    assert proxy.close() == ["only.behind.example.net:7002", f"{PUBLIC}:7002"]
    assert done["usage"]["egress"]["allowed"] == 2 and LOGIN.split(":")[1] not in json.dumps(done)


def test_tls_goes_through_and_is_still_looked_at(inside, proxy):
    code = """
import socket, ssl
for name in ("api.example.com", "www.example.com"):
    context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(("api.example.com", 443), timeout=60) as raw, context.wrap_socket(raw, server_hostname=name) as s:
            s.sendall(b"GET /x HTTP/1.1\\r\\nHost: api.example.com\\r\\n\\r\\n")
            print(name, s.recv(1000).split(b"\\r\\n\\r\\n")[1].decode())
    except OSError: print(name, "refused")
"""
    done = run(inside, policy(inside, f"http://{PROXY}:{HTTP}", proxy, [https("api.example.com")]), PYTHON, "-c", code)
    assert done["stdout"].splitlines() == ["api.example.com /x", "www.example.com refused"]


def test_a_proxy_that_is_not_there_or_lets_nobody_in_is_no_way_out(inside, proxy):
    rules = [https("only.behind.example.net", [7002])]
    gone = run(inside, policy(inside, f"http://{PROXY}:9", proxy, rules), PYTHON, "-c", TALK, "only.behind.example.net")
    assert gone["stdout"] == "only.behind.example.net refused\n"
    if proxy.login:
        proxy.login = "someone:wrong-one"
        for url in (f"http://{PROXY}:{HTTP}", f"socks5://{PROXY}:{SOCKS}"):
            refused = run(inside, policy(inside, url, proxy, rules), PYTHON, "-c", TALK, "only.behind.example.net")
            assert refused["stdout"] == "only.behind.example.net refused\n"
        assert proxy.close() == []


def test_udp_does_not_go_past_the_proxy(inside, proxy):
    code = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)\n" \
           "try: s.sendto(b'x', ('api.example.com', 7003)); print(s.recv(10))\nexcept OSError: print('nothing')"
    rules = [{**https("api.example.com", [7003]), "protocol": "udp"}]
    done = run(inside, policy(inside, f"http://{PROXY}:{HTTP}", proxy, rules), PYTHON, "-c", code)
    assert done["stdout"] == "nothing\n"
    assert inside.internet.bytes_to(inside.internet.seen()) == 0


def test_a_login_that_is_nowhere_refuses_the_run(inside, proxy):
    path = inside.policy(extends=["tool"], network={"egress": [https("api.example.com")], "upstream_proxy": {
        "url": f"http://{PROXY}:{HTTP}", "secret": "NOWHERE"}})
    done = inside.call(inside.argv("true", policy=path, options=["--json"]), env=inside.environment(PINFOLD_SECRETS=str(inside.home / "none")))
    assert done.returncode == 125 and "NOWHERE" in done.stdout.decode()


HOSTILE = """
import socket, sys, threading, time
OK = b"HTTP/1.1 200 OK\\r\\n\\r\\n"
HTTP = {"good": OK + b"hello", "garbage": bytes(range(256)) * 4, "endless": b"HTTP/1.1 200 OK\\r\\n" + b"X: y\\r\\n" * 100000, "forbidden":
        b"HTTP/1.1 403 No\\r\\n\\r\\nhello", "half": b"HTTP/1.1 2", "other": b"ICY 200 OK\\r\\n\\r\\nhello", "redirect":
        b"HTTP/1.1 302 x\\r\\nLocation: http://evil.test/\\r\\n\\r\\nhello", "nul": b"HTTP/1.1 \\x00200 OK\\r\\n\\r\\nhello", "nothing": b""}
SOCKS = {"good": b"\\5\\0\\0\\1\\0\\0\\0\\0\\0\\0hello", "garbage": b"\\4\\0\\0\\1\\0\\0\\0\\0\\0\\0hello", "endless": b"\\5\\0\\0\\x09" + bytes(70000),
         "forbidden": b"\\5\\2\\0\\1\\0\\0\\0\\0\\0\\0hello", "half": b"\\5\\0\\0", "other": b"HTTP/1.1 200 OK\\r\\n\\r\\nhello", "redirect":
         b"\\5\\0\\1\\3\\xffshort", "nul": b"\\0" * 30, "nothing": b""}
def one(client, answers, is_socks):
    if is_socks:
        client.recv(16); client.sendall(b"\\5\\0")
    asked = client.recv(2000)
    for word, answer in answers.items():
        if word.encode() in asked:
            try:
                client.sendall(answer)
                if word in ("good", "silent"): client.recv(1)
            except OSError: pass
            client.close()
            return
    if b"drip" in asked:
        for i in answers["good"]:
            client.sendall(bytes([i])); time.sleep(0.005)
    time.sleep(20)
def serve(port, answers):
    server = socket.create_server(("", port))
    sys.stdout.write("listening\\n"); sys.stdout.flush()
    while True: threading.Thread(target=one, args=(server.accept()[0], answers, answers is SOCKS), daemon=True).start()
threading.Thread(target=serve, args=(3129, HTTP), daemon=True).start()
serve(1081, SOCKS)
"""
ASK = """
import errno, socket, sys
for word in sys.argv[1:]:
    s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1 if word == "silent" else 5)
    try:
        s.connect((socket.gethostbyname(word + ".example.net"), 7002)); s.settimeout(60); print(word, s.makefile("rb").read(5).decode() or "ended")
    except OSError as error: print(word, errno.errorcode.get(error.errno, "?"))
"""


@pytest.mark.parametrize("url", [f"http://{PROXY}:3129", f"socks5://{PROXY}:1081"])
def test_what_a_hostile_proxy_says_is_no_connection(inside, url):
    server = subprocess.Popen(["nsenter", f"--net=/run/netns/{inside.internet.net}", PYTHON, "-c", HOSTILE], stdout=subprocess.PIPE, text=True)
    try:
        assert [server.stdout.readline(), server.stdout.readline()] == ["listening\n"] * 2
        bad = ["garbage", "endless", "forbidden", "half", "other", "redirect", "nul", "nothing"]
        path = inside.policy(extends=["tool"], network={"egress": [https("*.example.net", [7002])], "upstream_proxy": {"url": url}})
        done = run(inside, path, PYTHON, "-c", ASK, "good", *bad, "silent", "drip")
    finally:
        server.kill()
        server.wait()
    lines = dict(line.split() for line in done["stdout"].splitlines())
    assert lines.pop("good") == lines.pop("drip") == "hello" and lines.pop("silent") == "ETIMEDOUT", done
    assert set(lines) == set(bad) and "hello" not in lines.values() and "ended" not in lines.values(), lines
    assert done["usage"]["egress"]["allowed"] == 2
