"""Programs as they are, against servers as they are: each reaches what a rule names, and nothing without one.

The servers run in the namespace of the test's internet; what isn't installed is skipped by name.
"""
import glob
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import time
import urllib.parse

import pytest

from conftest import USER, has_module, make_home, needs, opened
from egress_world import NEEDS_ROOT, PYTHON, Inside, Internet, ZONE, https

pytestmark = NEEDS_ROOT

NODE = shutil.which("node")
POSTGRES = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"))), None)
HOST, LITERAL = "git.example.com", "192.0.2.10"


@pytest.fixture(scope="module")
def outside(tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    for path in [folder, *folder.parents]:
        if path == pathlib.Path("/tmp"):
            break
        os.chmod(path, 0o755)
    internet = Internet(folder, "80", "443")
    internet.ask(zone={**ZONE, HOST: [LITERAL], "db.example.com": [LITERAL], "ssh.example.com": [LITERAL]})
    internet.folder, internet.started = folder, []
    yield internet
    for process in internet.started:
        process.terminate()
        process.wait(60)
    internet.close()


def serve(internet, argv, port, **kwargs):
    """Starts a server out there, and waits until it listens."""
    log = internet.folder / f"{port}.log"
    with open(log, "w") as out:
        process = subprocess.Popen(["nsenter", f"--net=/run/netns/{internet.net}", *argv], stdout=out, stderr=out,
                                   stdin=subprocess.DEVNULL, **kwargs)
    internet.started.append(process)
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        listening = subprocess.run(["nsenter", f"--net=/run/netns/{internet.net}", "ss", "-Hltn", f"sport = :{port}"],
                                   capture_output=True, text=True).stdout
        if listening.strip():
            return
        time.sleep(0.05)
    raise AssertionError(log.read_text()[-2000:])


def make_repository(folder):
    bare, work = folder / "www/repo.git", folder / "work"
    (folder / "www").mkdir()
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", work], check=True)
    (work / "hello").write_text("from the repository\n")
    subprocess.run([*git, "-C", work, "add", "hello"], check=True)
    subprocess.run([*git, "-C", work, "commit", "-q", "-m", "one"], check=True)
    subprocess.run([*git, "clone", "-q", "--bare", work, bare], check=True)
    subprocess.run([*git, "-C", bare, "update-server-info"], check=True)
    return bare


@pytest.fixture(scope="module")
def web(outside):
    """nginx with TLS from a certificate of our own, and a repository to clone."""
    make_repository(outside.folder)
    (outside.folder / "www/page").write_text("a page\n")
    conf = outside.folder / "nginx.conf"
    conf.write_text(f"""
daemon off; master_process off; pid {outside.folder}/nginx.pid; error_log {outside.folder}/error.log;
events {{}}
http {{
  access_log {outside.folder}/access.log; client_body_temp_path {outside.folder}/b; proxy_temp_path {outside.folder}/p;
  fastcgi_temp_path {outside.folder}/f; uwsgi_temp_path {outside.folder}/u; scgi_temp_path {outside.folder}/s;
  server {{ listen 80; root {outside.folder}/www; }}
  server {{ listen 443 ssl http2; root {outside.folder}/www; ssl_certificate {outside.certificate};
            ssl_certificate_key {outside.key}; }}
}}""")
    serve(outside, ["nginx", "-c", str(conf), "-e", str(outside.folder / "start.log")], 443)
    return outside


@pytest.fixture(params=["root", "user"])
def client(request, outside, programs, tmp_path):
    home = make_home(tmp_path)
    inside = Inside(outside, programs, home, 0 if request.param == "root" else USER)
    inside.certificate = outside.certificate.read_text()
    yield from opened(inside)


def run(client, script, *rules, calls=()):
    """A shell script inside, with the authority's certificate in /tmp/ca.pem."""
    options = ["--env", f"CA={client.certificate}"]
    policy = client.policy(extends=["tool"], network={"egress": list(rules)}, syscalls={"allow": list(calls)})
    return client.json("sh", "-c", 'printf "%s" "$CA" >/tmp/ca.pem; ' + script, policy=policy, options=options)


def both_ways(client, script, rule, expected, other=None):
    """With the rule it works; with another host's it doesn't, and nothing leaves."""
    done = run(client, script, rule)
    assert expected in done["stdout"], done
    client.internet.seen()
    refused = run(client, script, other or https("www.example.com", [9]))
    assert expected not in refused["stdout"] and refused["exit_code"] != 0, refused
    assert client.internet.bytes_to(client.internet.seen()) == 0


@needs("nginx", "curl")
def test_curl_over_tls_and_http_2(client, web):
    both_ways(client, f"curl -sS --fail --cacert /tmp/ca.pem -w '%{{http_version}}' https://{HOST}/page", https(HOST), "a page\n2")


@needs("nginx", "curl")
def test_curl_without_tls(client, web):
    both_ways(client, f"curl -sS --fail http://{HOST}/page", https(HOST, [80]), "a page")


@needs("nginx", "git")
def test_git_clones_over_https(client, web):
    both_ways(client, f"cd /tmp && GIT_SSL_CAINFO=/tmp/ca.pem git clone -q https://{HOST}/repo.git r && cat r/hello", https(HOST),
              "from the repository")


@needs("nginx")
@pytest.mark.skipif(not has_module("requests"), reason="not installed: python3-requests")
def test_python_requests(client, web):
    both_ways(client, f"{PYTHON} -c 'import requests; print(requests.get(\"https://{HOST}/page\", verify=\"/tmp/ca.pem\").text)'",
              https(HOST), "a page")


@needs("nginx")
@pytest.mark.skipif(not has_module("aiohttp"), reason="not installed: python3-aiohttp")
def test_python_aiohttp(client, web):
    code = ("import aiohttp, asyncio, ssl\nasync def main():\n  async with aiohttp.ClientSession() as s:\n"
            f"    async with s.get('https://{HOST}/page', ssl=ssl.create_default_context(cafile='/tmp/ca.pem')) as r:\n"
            "      print(await r.text())\nasyncio.run(main())")
    both_ways(client, f"cat >/tmp/a.py <<'E'\n{code}\nE\n{PYTHON} /tmp/a.py", https(HOST), "a page")


@needs("nginx", NODE)
@pytest.mark.skipif(NODE is not None and not NODE.startswith("/usr/"), reason="node isn't below /usr: not in the host image")
def test_node_fetch(client, web):
    both_ways(client, f"NODE_EXTRA_CA_CERTS=/tmp/ca.pem {NODE} -e 'fetch(\"https://{HOST}/page\").then(r => r.text())"
                      ".then(t => console.log(t))'", https(HOST), "a page")


@needs("dig")
def test_dig_over_udp_and_tcp(client):
    rule, calls = https("*.example.com"), ["rt_sigtimedwait"]  # which dig's main thread spends its life in
    for way in ("+notcp", "+tcp"):
        for server in ("9.9.9.9", "2620:fe::fe"):
            out = run(client, f"dig {way} +short @{server} {HOST} A; dig {way} @{server} nope.test A | grep -o 'status: [A-Z]*'", rule, calls=calls)
            assert out["stdout"].splitlines()[0].startswith("198.1") and out["stdout"].splitlines()[1] == "status: NXDOMAIN", out
            out = run(client, f"dig {way} +short @{server} {HOST} AAAA; dig {way} +short @{server} -x $(dig +short {HOST} A)", rule, calls=calls)
            assert out["stdout"].splitlines() == [out["stdout"].splitlines()[0], f"{HOST}."], out
    assert [f for f in client.internet.seen() if f["kind"] == "question"] == []


@pytest.fixture(scope="module")
def database(outside):
    user = pwd.getpwnam("postgres")
    folder = outside.folder / "pg"
    folder.mkdir()
    os.chown(folder, user.pw_uid, user.pw_gid)
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": folder}
    password = folder / "password"
    password.write_text("sesame")
    subprocess.run([f"{POSTGRES}/initdb", "-D", folder / "data", "-U", "tester", "-A", "scram-sha-256", "--pwfile", password, "-N"],
                   check=True, capture_output=True, **identity)
    with open(folder / "data/pg_hba.conf", "a") as rules:
        rules.write("host all all 0.0.0.0/0 scram-sha-256\n")
    certificate, key = folder / "data/server.crt", folder / "data/server.key"
    shutil.copy(outside.certificate, certificate)
    shutil.copy(outside.key, key)
    for path in (certificate, key):
        os.chown(path, user.pw_uid, user.pw_gid)
        os.chmod(path, 0o600)
    become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
    serve(outside, [*become, f"{POSTGRES}/postgres", "-D", str(folder / "data"), "-k", str(folder), "-c", "listen_addresses=*", "-c", "ssl=on",
                    "-c", "fsync=off"], 5432, cwd=folder)
    return outside


@needs(POSTGRES and f"{POSTGRES}/postgres", POSTGRES and f"{POSTGRES}/psql")
@pytest.mark.parametrize("mode", ["disable", "require"])
def test_psql_to_a_postgresql_server(client, database, mode):
    script = f"PGPASSWORD=sesame {POSTGRES}/psql -At 'host=db.example.com user=tester dbname=postgres connect_timeout=60 " \
             f"sslmode={mode}' -c 'select 6*7, count(*) from generate_series(1, 20000)'"
    both_ways(client, script, https("db.example.com", [5432]), "42|20000")


@pytest.fixture(scope="module")
def shell(outside):
    folder = outside.folder / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    if not (outside.folder / "www/repo.git").exists():
        make_repository(outside.folder)
    conf = folder / "conf"
    conf.write_text(f"""
Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
""")
    os.makedirs("/run/sshd", exist_ok=True)
    serve(outside, ["/usr/sbin/sshd", "-D", "-e", "-f", str(conf)], 22)
    outside.key_of_user = (folder / "user").read_text()
    return outside


SSH = "umask 077; printf '%s' \"$KEY\" >/tmp/key; " \
      "ssh='ssh -F none -i /tmp/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/known -o BatchMode=yes'; "


@needs("/usr/sbin/sshd", "ssh", "git")
def test_ssh_and_git_over_ssh(client, shell):
    environment = ["--env", f"KEY={shell.key_of_user}"]
    script = SSH + f"$ssh root@ssh.example.com echo over there; cd /tmp; GIT_SSH_COMMAND=\"$ssh\" git clone -q " \
                   f"root@ssh.example.com:{shell.folder}/www/repo.git r && cat r/hello"
    done = client.json("sh", "-c", script, policy=client.reach(https("ssh.example.com", [22])), options=environment)
    assert done["stdout"] == "over there\nfrom the repository\n", done
    client.internet.seen()
    refused = client.json("sh", "-c", script, policy=client.reach(https("ssh.example.com", [2222])), options=environment)
    assert refused["exit_code"] != 0 and client.internet.bytes_to(client.internet.seen()) == 0


# --- package managers, with the registry that this machine's client is configured for ---------------------------------------


def place_of(url):
    parts = urllib.parse.urlsplit(url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def rules_for(urls):
    """Only these hosts; and where their addresses are private, the addresses too, as a site would."""
    rules = []
    for host, port in sorted({place_of(url) for url in urls}):
        rules.append(https(host, [port]))
        for entry in socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP):
            rules.append({"cidr": entry[4][0].split("%")[0], "ports": [port]})
    return rules


def reachable(url):
    try:
        done = subprocess.run(["curl", "-sS", "-m", "10", "--fail", "-o", "/dev/null", url], capture_output=True, timeout=15)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False


def authority(variable):
    """The certificates that this machine's client trusts, if it is told which."""
    path = os.environ.get(variable) or os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt"
    return pathlib.Path(path).read_text() if os.path.exists(path) else None


def workspace(pinfold, variable):
    folder = pinfold.home / "work"
    folder.mkdir()
    text = authority(variable)
    if text:
        (folder / "ca.pem").write_text(text)
    os.chown(folder, pinfold.uid, pinfold.uid)
    return folder


def install(pinfold, programs, script, urls, variable, wanted):
    """What the script says with these hosts listed, and with another. Skips the test where it doesn't come to the end on this machine
    either: then the registry has failed, and not the wall."""
    env = pinfold.environment()
    policy = {"extends": ["build"], "resources": {"wall_time": "3m", "memory": "2GiB", "pids": 256}}
    folder = workspace(pinfold, variable)
    allowed = pinfold.policy(**policy, network={"egress": rules_for(urls)})
    done = pinfold.json("sh", "-c", script, policy=allowed, options=["--workspace", str(folder)], env=env, timeout=200)
    if wanted not in done["stdout"]:
        control = pinfold.call(["sh", "-c", script.replace("/workspace/", f"{folder}/").replace("/tmp", str(folder))], timeout=300)
        if wanted.encode() not in control.stdout:
            pytest.skip(f"the registry doesn't serve this machine either: {control.stderr.decode()[-300:]}")
    other = pinfold.policy(**policy, network={"egress": [https("api.example.com")]})
    refused = pinfold.json("sh", "-c", script, policy=other, options=["--workspace", str(folder)], env=env, timeout=200)
    return done, refused


def pip_index():
    """As pip itself has it: configured, or its own default."""
    code = "from pip._internal.cli.main_parser import create_main_parser\nfrom pip._internal.commands import create_command\n" \
           "print(create_command('download').parser.get_default_values().index_url)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def test_pip_installs_with_only_its_index_listed(pinfold, programs):
    index = pip_index()
    if not index or not reachable(f"{index.rstrip('/')}/six/"):
        pytest.skip("no index of pip's configuration can be reached from here")
    page = subprocess.run(["curl", "-sS", "-m", "20", f"{index.rstrip('/')}/six/"], capture_output=True, text=True).stdout
    files = [urllib.parse.urljoin(f"{index.rstrip('/')}/six/", part.split('"')[0]) for part in page.split('href="')[1:]]
    script = f"cd /tmp && PIP_CERT=/workspace/ca.pem PIP_INDEX_URL={index} {PYTHON} -m pip install -q --no-input --retries 0 --timeout 20 " \
             f"--no-cache-dir --target /tmp/t six && ls /tmp/t"
    done, refused = install(pinfold, programs, script, [index, *files], "PIP_CERT", "six.py")
    assert "six.py" in done["stdout"], done
    assert "six.py" not in refused["stdout"] and refused["usage"]["egress"]["allowed"] == 0


@needs("npm")
def test_npm_installs_with_only_its_registry_listed(pinfold, programs):
    registry = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True).stdout.strip()
    if not registry or not reachable(f"{registry.rstrip('/')}/ms"):
        pytest.skip("no registry of npm's configuration can be reached from here")
    script = f"cd /tmp && NODE_EXTRA_CA_CERTS=/workspace/ca.pem npm install --silent --no-audit --no-fund --fetch-retries 0 --registry {registry} " \
             f"--cache /tmp/c --prefix /tmp/t ms && ls /tmp/t/node_modules"
    done, refused = install(pinfold, programs, script, [registry], "NODE_EXTRA_CA_CERTS", "ms")
    assert "ms" in done["stdout"].split(), done
    assert "ms" not in refused["stdout"].split() and refused["usage"]["egress"]["allowed"] == 0
