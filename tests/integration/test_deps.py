"""Requirements of tools: installed in a sandbox of their own, kept as layers, shared; from an index of the test's own."""
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import time

import pytest

from conftest import ROOT
from package_index import Index, sdist, wheel
from test_config import Store


def npm_of_the_host():
    return shutil.which("npm", path="/usr/local/bin:/usr/bin")


needs_npm = pytest.mark.skipif(not npm_of_the_host(), reason="this host has no npm in /usr")
needs_pip = pytest.mark.skipif(subprocess.run(["/usr/bin/python3", "-c", "import ensurepip"], stderr=subprocess.DEVNULL).returncode != 0 and
                               subprocess.run(["/usr/bin/python3", "-c", "import pip"], stderr=subprocess.DEVNULL).returncode != 0,
                               reason="this host's /usr/bin/python3 has neither pip nor ensurepip")
pytestmark = needs_pip


class Deps(Store):
    """Calls whose packages come from the test's index."""

    def __init__(self, pinfold, index):
        super().__init__(pinfold)
        self.index, self.layers = index, pinfold.home / "deps"
        self.call_policy = pinfold.policy()
        self("config", "create", "--default", "default", "-",
             content={"policy": self.call_policy, "pip_index": index.pip_url, "npm_registry": index.npm_url})

    def spawn(self, source, requirements=(), *options, language="python", **fields):
        kind = "pip_requirements" if language == "python" else "npm_requirements"
        request = {"language": language, "source": source, "name": "f", kind: list(requirements), **fields}
        process = self.pinfold.spawn([str(self.pinfold.program), "tool", "call", *options], env=self.env(),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        process.stdin = None
        return process

    def call(self, *args, **fields):
        """The result, or the error; with what went to standard error as "progress"."""
        process = self.spawn(*args, **fields)
        out, err = process.communicate(timeout=120)
        try:
            return {**json.loads(out), "progress": err.decode(), "code": process.returncode}
        except json.JSONDecodeError as error:
            raise AssertionError(f"not JSON: {out[:500]!r} {err[-2000:]!r}") from error

    def value(self, *args, **fields):
        result = self.call(*args, **fields)
        assert result.get("status") == "success", result
        return result["func_return"]

    def failed(self, *args, **fields):
        result = self.call(*args, **fields)
        assert result["code"] == 125 and "error" in result, result
        return result["error"]["message"], result["progress"]

    def kept(self):
        return [path.name for path in self.layers.iterdir() if len(path.name) == 64] if self.layers.exists() else []

    def unfinished(self):
        return list((self.layers / "tmp").iterdir()) if (self.layers / "tmp").exists() else []


@pytest.fixture(scope="module")
def index():
    with Index() as serving:
        for version in ("1.0", "2.0"):
            serving.add(wheel("tooldep", version, scripts={"tooldep-say": "tooldep:say"}, files={
                "tooldep.py": f"VERSION = {version!r}\ndef say(): print('I am', VERSION)\n"}))
        serving.add(wheel("parentdep", "1.0", requires=["tooldep>=1.0,<2"]))
        serving.add(sdist("builtdep", "1.0"))
        serving.add_npm("nodedep", "1.0.0", {"index.js": "module.exports = {version: '1.0.0'};\n"}, main="index.js")
        serving.add_npm("nodedep", "2.0.0", {"index.js": "module.exports = {version: '2.0.0'};\n", "bin/say.js": "#!/usr/bin/env node\nconsole.log('I am 2');\n"},
                        main="index.js", bin={"nodedep-say": "bin/say.js"})
        serving.add_npm("@scope/thing", "0.1.0", {"index.mjs": "export const thing = 42;\n"}, exports="./index.mjs", type="module")
        yield serving


@pytest.fixture
def deps(as_root, index):
    index.asked.clear()
    return Deps(as_root, index)


@pytest.fixture
def each_deps(pinfold, index):
    return Deps(pinfold, index)


SHOW = """import os, subprocess, sys, sysconfig
def f():
  import tooldep
  return {"version": tooldep.VERSION, "prefix": sys.prefix, "base": sys.base_prefix, "executable": sys.executable,
          "venv": os.environ["VIRTUAL_ENV"], "said": subprocess.run(["tooldep-say"], capture_output=True, text=True).stdout,
          "purelib": sysconfig.get_path("purelib"), "file": tooldep.__file__}
"""


def test_a_virtual_environment_behaves_as_tools_expect(each_deps):
    result = each_deps.call(SHOW, ["tooldep==1.0"])
    assert result.get("status") == "success", result
    seen = result["func_return"]
    assert (seen["version"], seen["said"]) == ("1.0", "I am 1.0\n")
    assert seen["prefix"] == seen["venv"] == "/opt/pinfold/python" != seen["base"]
    assert seen["executable"].startswith("/opt/pinfold/python/bin/python3") and seen["file"].startswith(seen["purelib"])
    assert "Successfully installed tooldep-1.0" in result["progress"]
    assert result["dependencies"]["pip"].startswith("sha256:") and len(result["dependencies"]["pip"]) == 71
    jsonschema = pytest.importorskip("jsonschema")
    del result["progress"], result["code"]
    jsonschema.validate(result, json.loads((ROOT / "tools/schema/tool-result.schema.json").read_text()))


def test_the_layer_is_made_once_and_read_only(deps):
    first = deps.call(SHOW, ["tooldep==1.0"])
    asked = len(deps.index.asked)
    second = deps.call(SHOW, [" TOOLDEP == 1.0 "])  # another spelling of the same
    assert second["progress"] == "" and len(deps.index.asked) == asked
    assert second["dependencies"] == first["dependencies"] and len(deps.kept()) == 1
    assert second["sandbox_config_fingerprint"] == first["sandbox_config_fingerprint"]
    for source in ("open('/opt/pinfold/python/bin/x', 'w')", "open(__import__('tooldep').__file__, 'a')",
                   "__import__('os').rename('/opt/pinfold/python/bin', '/opt/pinfold/python/bon')"):
        broken = deps.call(f"def f():\n  {source}", ["tooldep==1.0"])
        assert broken["func_return"]["type"] in ("OSError", "PermissionError"), broken


def test_two_tools_with_conflicting_versions(deps):
    source = "def f():\n  import tooldep\n  return tooldep.VERSION"
    one, two = deps.spawn(source, ["tooldep==1.0"]), deps.spawn(source, ["tooldep==2.0"])
    results = [json.loads(process.communicate(timeout=120)[0]) for process in (one, two)]
    assert [result["func_return"] for result in results] == ["1.0", "2.0"]
    assert results[0]["sandbox_config_fingerprint"] != results[1]["sandbox_config_fingerprint"]
    assert len(deps.kept()) == 2


def test_the_tools_list_goes_over_the_configurations(deps):
    deps("config", "update", "default", "-", content={"pip_requirements": ["tooldep==1.0", "builtdep"]})
    source = "def f():\n  import builtdep, tooldep\n  return tooldep.VERSION"
    assert deps.value(source) == "1.0"
    assert deps.value(source, ["tooldep==2.0"]) == "2.0"
    assert deps.value(source, [{"name": "Tooldep", "version": "2.0"}]) == "2.0"
    assert len(deps.kept()) == 2


def test_dependencies_of_dependencies_and_markers_and_extras(deps):
    source = "def f():\n  import parentdep, tooldep\n  return tooldep.VERSION"
    assert deps.value(source, ["parentdep[none]"]) == "1.0"
    assert deps.value("def f():\n  import tooldep\n  return tooldep.VERSION",
                      ["tooldep==1.0; python_version < '3'", "tooldep==2.0; python_version >= '3'"]) == "2.0"


def test_hashes_are_kept(deps):
    good = deps.index.add(wheel("hashdep", "1.0"))
    source = "def f():\n  import hashdep\n  return hashdep.VERSION"
    result = deps.call(source, [f"hashdep==1.0 --hash=sha256:{good}"])
    assert result["func_return"] == "1.0"
    lock = next(deps.layers.glob("*/layer/pinfold-lock")).read_text()
    assert lock == f"hashdep==1.0 --hash=sha256:{good}\n"
    message, progress = deps.failed(source, [f"hashdep==1.0 --hash=sha256:{'0' * 64}"])
    assert "hash" in (message + progress).lower() and len(deps.kept()) == 1


def test_the_installers_own_error_is_told_and_nothing_is_kept(deps, index):
    message, progress = deps.failed("def f(): pass", ["tooldep==9.9"])
    assert "No matching distribution found for tooldep==9.9" in message + progress
    assert "pip couldn't install" in message
    index.add(wheel("fardep", "1.0"))
    index.elsewhere["fardep"] = "https://files.pinfold.test"
    error = deps.call("def f(): pass", ["fardep"])["error"]
    assert "fardep" in error["message"], error
    assert error["hint"] == "if the index keeps files there, add \"files.pinfold.test:443\" (or its port) to index_hosts of the configuration 'default'", error
    assert deps.kept() == [] and deps.unfinished() == []
    assert deps.pinfold.leftovers() == []


HOSTILE_LISTS = [
    ["--index-url=http://127.0.0.1:1/"], ["-r /etc/passwd"], ["tooldep @ http://127.0.0.1:1/x.whl"], ["/etc"], ["."], ["file:///etc/passwd"],
    ["git+https://127.0.0.1/x"], ["tooldep==1.0 --index-url http://127.0.0.1:1/"], ["tooldep\n--extra-index-url=http://127.0.0.1:1/"],
    ["tooldep==1.0 \\"], ["tooldep; import os"], ["$(id)"], ["`id`"], ["x" * 2000], [""], [None], [{"name": "tooldep", "url": "x"}],
    [{"name": "tooldep --pre"}], [{"name": "tooldep", "version": "1.0 --pre"}], [["tooldep"]], ["tooldep"] * 300, [7], ["töoldep"],
]


@pytest.mark.parametrize("requirements", HOSTILE_LISTS, ids=lambda r: str(r)[:40])
def test_hostile_lists_are_refused_before_anything_is_asked(deps, requirements):
    for language in ("python", "javascript"):
        result = deps.call("def f(): pass", requirements, language=language)
        assert result["code"] == 125 and result["error"]["kind"] == "invalid", result
        assert "_requirements" in result["error"]["pointer"]
    assert deps.index.asked == [] and not deps.layers.exists()


ATTACK = """import os, socket
FOUND = []
def attempt(name, action):
    try:
        FOUND.append((name, repr(action())[:200]))
    except BaseException as error:
        FOUND.append((name, "REFUSED " + type(error).__name__))
def connect(where):
    with socket.create_connection(where, timeout=3) as s:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        return s.recv(100) or 1 / 0
def attack():
    attempt("environment", lambda: {k: v for k, v in os.environ.items() if "SECRET" in k or "PINFOLD" in k})
    attempt("host file", lambda: open("/root/.profile").read())
    attempt("shadow", lambda: open("/etc/shadow").read())
    attempt("home", lambda: os.listdir("/home"))
    attempt("state", lambda: open("@STATE@").read())
    attempt("other port", lambda: connect(("host.pinfold.internal", @OTHER@)))
    attempt("literal", lambda: connect(("127.0.0.1", @OTHER@)))
    attempt("outside", lambda: connect(("192.0.2.1", 80)))
    attempt("name", lambda: socket.getaddrinfo("example.com", 80))
    attempt("write usr", lambda: open("/usr/lib/x", "w"))
    attempt("write opt", lambda: open("/opt/x", "w"))
    attempt("processes", lambda: len([p for p in os.listdir("/proc") if p.isdigit()]) < 30)
    attempt("root", lambda: os.setuid(0))
    os.makedirs("/opt/pinfold/python/planted", exist_ok=True)
    attempt("link", lambda: os.symlink("/etc/shadow", "/opt/pinfold/python/planted/link"))
    attempt("open to all", lambda: os.chmod(os.open("/opt/pinfold/python/planted/file", os.O_CREAT | os.O_WRONLY), 0o777))
    attempt("setuid", lambda: os.chmod("/opt/pinfold/python/planted/file", 0o6777))
    attempt("fifo", lambda: os.mkfifo("/opt/pinfold/python/planted/fifo"))
    attempt("socket", lambda: socket.socket(socket.AF_UNIX).bind("/opt/pinfold/python/planted/socket"))
    os.makedirs("/opt/pinfold/python/planted/closed", exist_ok=True)
    os.chmod("/opt/pinfold/python/planted/closed", 0)
    if os.fork() == 0:
        os.setsid()
        for fd in range(64):
            try:
                os.close(fd)
            except OSError:
                pass
        import time
        time.sleep(300)
def seen():
    return FOUND
"""


def test_a_package_that_attacks_while_it_is_built(deps):
    secret = deps.pinfold.home / "state" / "of-the-host"
    secret.write_text("host secret")
    with Index() as other:
        deps.index.add(sdist("evildep", "1.0", ATTACK.replace("@STATE@", str(secret)).replace("@OTHER@", str(other.port))))
        os.environ["HOST_SECRET"] = "host secret"
        try:
            result = deps.call("def f():\n  import evildep\n  return evildep.SEEN", ["evildep"])
        finally:
            del os.environ["HOST_SECRET"]
        assert other.asked == []
    secret.unlink()
    assert result.get("status") == "success", result
    seen = dict(result["func_return"])
    assert seen["environment"] == "{}" and seen["processes"] == "True" and seen["home"] in ("[]", "REFUSED FileNotFoundError")
    for name in ("host file", "shadow", "state", "other port", "literal", "outside", "name", "write usr", "write opt", "root"):
        assert seen[name].startswith("REFUSED"), (name, seen[name])
    planted = next(deps.layers.glob("*/layer/planted"))
    assert sorted(path.name for path in planted.iterdir()) == ["closed", "file", "link"]  # no fifo, no socket
    assert stat.S_IMODE((planted / "closed").stat().st_mode) == 0o755
    facts = (planted / "file").stat()
    assert facts.st_mode & 0o7000 == 0 and (facts.st_uid, facts.st_mode & 0o022) == (os.geteuid(), 0)
    assert deps.pinfold.leftovers() == []


def test_calls_at_once_build_once(deps):
    source = "def f():\n  import builtdep\n  return builtdep.VERSION"
    running = [deps.spawn(source, ["builtdep"]) for _ in range(5)]
    results = [process.communicate(timeout=120) for process in running]
    assert [json.loads(out)["func_return"] for out, _ in results] == ["1.0"] * 5
    assert sum("Successfully installed" in err.decode() for _, err in results) == 1
    assert len([path for path in deps.index.asked if path.endswith("builtdep-1.0.tar.gz")]) == 1


def wait_until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def test_an_installation_that_is_killed_leaves_nothing_that_the_next_does_not_clear(deps):
    deps.index.gate.clear()
    try:
        process = deps.spawn("def f(): pass", ["tooldep==1.0"])
        wait_until(lambda: deps.index.asked)
        assert len(deps.unfinished()) == 1
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finally:
        deps.index.gate.set()
    wait_until(lambda: not deps.pinfold.run("true").returncode and deps.pinfold.leftovers() == [])
    assert deps.kept() == []
    removed = deps("deps", "gc")
    assert removed["unfinished"] == 1 and deps.unfinished() == []
    assert [path.name for path in deps.layers.iterdir()] == ["tmp"]
    assert deps.value("def f():\n  import tooldep\n  return tooldep.VERSION", ["tooldep==1.0"]) == "1.0"


def test_a_full_disk_is_an_error_and_nothing_is_kept(deps):
    deps.layers.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", deps.layers], check=True)
    try:
        deps.index.add(wheel("bigdep", "1.0", files={"bigdep.py": "VERSION = 1\n", "data.txt": "x" * 400000}))
        message, progress = deps.failed("def f(): pass", ["bigdep"])
        assert "No space left on device" in message + progress
        assert deps.kept() == [] and deps.unfinished() == []
    finally:
        subprocess.run(["umount", deps.layers], check=True)
    assert deps.pinfold.leftovers() == []


def test_force_recreate_installs_anew(deps):
    source = "def f():\n  import tooldep\n  return tooldep.VERSION"
    deps.value(source, ["tooldep"])
    before = (deps.layers / deps.kept()[0]).stat().st_ino
    result = deps.call(source, ["tooldep"], "--force-recreate")
    assert "Successfully installed" in result["progress"] and result["func_return"] == "2.0"
    assert len(deps.kept()) == 1 and (deps.layers / deps.kept()[0]).stat().st_ino != before


def test_what_is_in_use_is_not_installed_anew(deps):
    deps.value("def f(): pass", ["tooldep==1.0"])
    process = deps.spawn("import time\ndef f():\n  time.sleep(25)", ["tooldep==1.0"], timeout="28s")
    wait_until(lambda: [row["in_use"] for row in deps("deps", "ls")["layers"]] == [True])
    before = (deps.layers / deps.kept()[0]).stat().st_ino
    result = deps.call("def f(): pass", ["tooldep==1.0"], "--force-recreate")
    assert (result["code"], result["error"]["kind"]) == (125, "busy"), result
    assert (deps.layers / deps.kept()[0]).stat().st_ino == before
    process.terminate()
    process.communicate(timeout=60)


def test_gc_never_removes_what_is_in_use(deps):
    source = "import os, time\ndef f():\n  while not os.path.exists('/workspace/go'): time.sleep(0.02)\n  import tooldep\n  return tooldep.VERSION"
    work = deps.pinfold.home / "work"
    work.mkdir(mode=0o755)
    deps.value("def f(): pass", ["tooldep==1.0"])
    deps.value("def f(): pass", ["tooldep==2.0"])
    assert deps("deps", "gc")["layers"] == 0  # used a moment ago
    process = deps.spawn(source, ["tooldep==1.0"], "--workspace", f"{work}:ro")
    wait_until(lambda: [row["in_use"] for row in deps("deps", "ls")["layers"] if row["requirements"] == ["tooldep==1.0"]] == [True])
    used = next(row["key"] for row in deps("deps", "ls")["layers"] if row["in_use"])
    assert deps("deps", "gc", "--all")["layers"] == 1
    assert deps.refused("deps", "rm", used)["kind"] == "busy"
    assert deps.kept() == [used]
    (work / "go").touch()
    assert json.loads(process.communicate(timeout=60)[0])["func_return"] == "1.0"
    assert deps("deps", "rm", used[:8])["removed"] == 1
    assert deps("deps", "ls")["layers"] == [] and [path.name for path in deps.layers.iterdir()] == ["tmp"]


def test_the_list_of_layers(deps):
    assert deps("deps", "ls") == {"layers": []} and deps("deps", "gc") == {"layers": 0, "unfinished": 0, "bytes": 0}
    result = deps.call("def f(): pass", ["tooldep==1.0"])
    row, = deps("deps", "ls")["layers"]
    assert (row["installer"], row["image"], row["requirements"], row["in_use"]) == ("pip", "host", ["tooldep==1.0"], False)
    assert row["lock"] == result["dependencies"]["pip"] and row["bytes"] > 1000 and row["entries"] > 10
    assert "tooldep==1.0" in deps.raw("deps", "ls").stdout.decode()
    for words, kind in ((["zzzzzzzz"], "not_found"), (["ab"], "usage"), (["../../etc"], "not_found")):
        assert deps.refused("deps", "rm", *words)["kind"] == kind


def test_a_call_that_the_policy_refuses_installs_nothing(deps):
    result = deps.call("def f(): pass", ["tooldep==1.0"], "--memory", "1TiB")
    assert result["code"] == 125 and deps.index.asked == [] and deps.kept() == []


def test_the_call_itself_has_no_way_to_the_index(deps):
    source = f"import socket\ndef f():\n  import tooldep\n  socket.create_connection(('host.pinfold.internal', {deps.index.port}), timeout=3)"
    result = deps.call(source, ["tooldep==1.0"])
    assert result["status"] == "error" and result["func_return"]["type"] in ("gaierror", "OSError", "ConnectionRefusedError"), result


def test_the_host_configuration_does_not_reach_the_installer(deps):
    hostile = deps.pinfold.home / "pip.conf"
    hostile.write_text("[global]\nindex-url = http://127.0.0.1:1/\nextra-index-url = http://127.0.0.1:1/\nno-index = true\n")
    environment = deps.env
    deps.env = lambda **extra: environment(PIP_CONFIG_FILE=str(hostile), PIP_NO_INDEX="1", PIP_TARGET="/tmp/x", PYTHONPATH="/tmp", **extra)
    assert deps.value("def f():\n  import tooldep\n  return tooldep.VERSION", ["tooldep==1.0"]) == "1.0"


@needs_npm
@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_npm_packages_are_found_by_import_and_require_and_path(deps, language):
    source = ("import pkg from 'nodedep';\nimport { thing } from '@scope/thing';\nimport { spawnSync } from 'child_process';\n"
              "export function f() { return [pkg.version, thing, require('nodedep').version, spawnSync('nodedep-say', {encoding: 'utf8'}).stdout]; }")
    result = deps.call(source, ["nodedep@^2.0.0", "@scope/thing"], language=language)
    if result.get("func_return") and isinstance(result["func_return"], dict) and result["func_return"]["type"] == "Unsupported":
        pytest.skip("this host has nothing that strips types")
    assert result.get("func_return") == ["2.0.0", 42, "2.0.0", "I am 2\n"], result
    assert result["dependencies"]["npm"].startswith("sha256:")


@needs_npm
def test_npm_ranges_errors_and_integrity(deps):
    source = "export function f() { return require('nodedep').version; }"
    assert deps.value(source, ["nodedep@<2"], language="javascript") == "1.0.0"
    integrity = deps.index.npm["nodedep"]["2.0.0"][2]
    assert deps.value(source, [f"nodedep@2.0.0 --integrity={integrity}"], language="javascript") == "2.0.0"
    message, _ = deps.failed(source, [f"nodedep@2.0.0 --integrity={'sha512-' + 'A' * 86 + '=='}"], language="javascript")
    assert "integrity" in message
    message, _ = deps.failed(source, ["nodedep@9"], language="javascript")
    assert "npm couldn't install" in message and "nodedep@9" in message, message
    assert deps.unfinished() == [] and len(deps.kept()) == 2


@needs_npm
def test_an_install_script_of_npm_stays_inside(deps):
    deps.index.add_npm("evilnode", "1.0.0", {"index.js": "module.exports = require('./seen.json');\n", "install.js": (
        "const fs = require('fs'), net = require('net');\nconst seen = {};\n"
        "for (const path of ['/root/.profile', '/etc/shadow', '/usr/lib/x']) try { path.startsWith('/usr') ? fs.writeFileSync(path, '') : fs.readFileSync(path); seen[path] = 'done'; } "
        "catch (e) { seen[path] = e.code; }\n"
        "const s = net.connect(80, '192.0.2.1');\nconst end = (how) => { seen.net = how; fs.writeFileSync('seen.json', JSON.stringify(seen)); process.exit(0); };\n"
        "s.on('connect', () => end('connected'));\ns.on('error', (e) => end(e.code));\nsetTimeout(() => end('timeout'), 5000);\n")},
        main="index.js", scripts={"install": "node install.js"}, hasInstallScript=True)
    seen = deps.value("export function f() { return require('evilnode'); }", ["evilnode"], language="javascript")
    assert seen["/usr/lib/x"] in ("EROFS", "EACCES") and seen["/etc/shadow"] != "done" and seen["/root/.profile"] != "done"
    assert seen["net"] != "connected"


def test_the_clients_configured_index_where_there_is_one(deps):
    """What the host's own pip is configured with; which hosts it needs is asked of it at run time."""
    python = shutil.which("python3") or "/usr/bin/python3"

    def found():
        """Where the host's pip finds it."""
        try:
            asked = subprocess.run([python, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", "six"],
                                   capture_output=True, timeout=40, cwd="/tmp")
            return json.loads(asked.stdout)["install"][0]["download_info"]["url"]
        except (subprocess.TimeoutExpired, ValueError, KeyError, IndexError):
            pytest.skip("this host's pip reaches no index")
    url = found()
    host = url.split("/")[2].rpartition("@")[2]
    if "HTTPS_PROXY" in os.environ or "https_proxy" in os.environ or not url.startswith("http"):
        pytest.skip("this host's pip goes through a proxy or to files")
    deps("config", "update", "default", "-", content={"pip_index": None, "index_hosts": [host]})
    environment, path = deps.env, f"{pathlib.Path(python).parent}:/usr/local/bin:/usr/bin:/bin"
    kept = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    deps.env = lambda **extra: environment(**{**extra, **kept, "PATH": path, "HOME": os.environ.get("HOME", "/root")})
    result = deps.call("def f():\n  import six\n  return six.PY3", ["six"])
    if "error" in result:
        found()  # an index that has failed meanwhile is no fault of ours
        result = deps.call("def f():\n  import six\n  return six.PY3", ["six"])
    assert result.get("func_return") is True, result


@needs_npm
def test_the_clients_configured_registry_where_there_is_one(deps):
    """What the host's own npm is configured with."""

    def found():
        """Where the host's npm finds it."""
        try:
            asked = subprocess.run(["npm", "view", "is-number@7.0.0", "dist.tarball"], capture_output=True, timeout=60, cwd="/tmp", text=True)
            return asked.stdout.strip(), asked.stdout.strip().split("/")[2].rpartition("@")[2]
        except (subprocess.TimeoutExpired, IndexError):
            pytest.skip("this host's npm reaches no registry")
    url, host = found()
    if any(name.lower() in ("https_proxy", "npm_config_proxy", "npm_config_https_proxy") for name in os.environ):
        pytest.skip("this host's npm goes through a proxy")
    host += "" if ":" in host else ":443" if url.startswith("https") else ":80"
    deps("config", "update", "default", "-", content={"npm_registry": None, "index_hosts": [host]})
    environment = deps.env
    kept = {key: value for key, value in os.environ.items() if key.lower().startswith("npm_config_")}
    deps.env = lambda **extra: environment(**{**extra, **kept, "HOME": os.environ.get("HOME", "/root")})
    source = "import isNumber from 'is-number';\nexport function f({ text }) { return [isNumber(text), isNumber('x')]; }"
    result = deps.call(source, ["is-number@7.0.0"], language="javascript", args={"text": "12"})
    if "error" in result:
        found()  # a registry that has failed meanwhile is no fault of ours
        result = deps.call(source, ["is-number@7.0.0"], language="javascript", args={"text": "12"})
    assert result.get("func_return") == [True, False], result


def python_image(programs, pinfold, folder):
    """An image with this host's /usr/bin/python3 and what it needs, imported as "small"."""
    import io
    import tarfile
    from test_run_image import Box
    import image_bytes as hostile
    real = pathlib.Path("/usr/bin/python3").resolve()
    library = pathlib.Path("/usr/lib") / real.name
    made, seen = io.BytesIO(), set()
    listed = subprocess.run(["ldd", real, *library.glob("lib-dynload/*.so")], capture_output=True, text=True, check=True).stdout
    needed = sorted({word for line in listed.splitlines() for word in line.split() if word.startswith("/") and not word.endswith(":")})
    with tarfile.open(fileobj=made, mode="w") as archive:
        def add(source, name):
            if name not in seen:
                seen.add(name)
                archive.add(source, name, recursive=False)
        for name in ("usr", "usr/bin", "usr/lib", "usr/lib64", "usr/share", "tmp"):
            add("/tmp" if name == "tmp" else f"/{name}", name)
        for link in ("bin", "lib", "lib64"):
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, f"usr/{link}"
            archive.addfile(entry)
        add(real, f"usr/bin/{real.name}")
        entry = tarfile.TarInfo("usr/bin/python3")
        entry.type, entry.linkname = tarfile.SYMTYPE, real.name
        archive.addfile(entry)
        for path in [library, *sorted(library.rglob("*"))]:
            if "__pycache__" not in path.parts and "test" not in path.parts:
                add(path, str(path)[1:])
        for wheel_of_pip in [pathlib.Path("/usr/share/python-wheels"), *pathlib.Path("/usr/share/python-wheels").glob("pip-*.whl")]:
            add(wheel_of_pip, str(wheel_of_pip)[1:])
        for path in needed:
            add(os.path.realpath(path), path[1:] if path.startswith("/usr") else f"usr{path}")
    box = Box(pinfold, programs, folder)
    source = hostile.Layout([made.getvalue()], bend_config=lambda value: {**value, "config": {"Env": ["PATH=/usr/bin"]}}).write(folder / "layout")
    box.image("import", source, "small")
    return box.store


@pytest.mark.skipif(not list(pathlib.Path("/usr/share/python-wheels").glob("pip-*.whl")), reason="this host keeps no wheel of pip in /usr/share")
def test_an_image_has_layers_of_its_own(deps, programs, tmp_path):
    folder = tmp_path / "image"
    (folder / "layout").mkdir(parents=True)
    store = python_image(programs, deps.pinfold, folder)
    environment = deps.env
    deps.env = lambda **extra: environment(PINFOLD_IMAGES=str(store), **extra)
    host = deps.call(SHOW, ["tooldep==1.0"])
    inside = deps.call(SHOW, ["tooldep==1.0"], "--image", "small")
    assert inside.get("status") == "success", inside
    assert (inside["func_return"]["version"], inside["func_return"]["said"]) == ("1.0", "I am 1.0\n")
    assert inside["dependencies"] == host["dependencies"] and len(deps.kept()) == 2
    image = {row["image"] for row in deps("deps", "ls")["layers"]}
    assert "host" in image and any(name.startswith("sha256:") for name in image)


def test_warm_calls_have_their_dependencies_and_hold_them(deps):
    source = "import sys\ndef f():\n  import tooldep\n  return [tooldep.VERSION, sys.prefix]"
    request = {"language": "python", "source": source, "name": "f", "pip_requirements": ["tooldep==1.0"], "reuse": "fingerprint"}
    tool = [str(deps.pinfold.program), "tool"]
    try:
        prepared = deps.pinfold.call([*tool, "prepare"], input=json.dumps(request).encode(), env=deps.env(), timeout=120)
        assert prepared.returncode == 0, prepared.stdout
        rows = deps("deps", "ls")["layers"]
        assert [row["in_use"] for row in rows] == [True] and deps("deps", "gc", "--all")["layers"] == 0
        result = json.loads(deps.pinfold.call([*tool, "call"], input=json.dumps(request).encode(), env=deps.env()).stdout)
        assert result["func_return"] == ["1.0", "/opt/pinfold/python"] and result["notes"] == [], result
        assert result["dependencies"]["pip"] == rows[0]["lock"]
    finally:
        deps.raw("pool", "clear")
    wait_until(lambda: deps("deps", "gc", "--all") and deps.kept() == [])


@needs_npm
def test_a_tool_may_ask_for_packages_of_the_other_language(deps):
    deps("config", "update", "default", "-", content={"npm_requirements": ["nodedep@1.0.0"]})
    source = "import subprocess, tooldep\ndef f():\n  return [tooldep.VERSION, subprocess.run(['nodedep-say'], capture_output=True, text=True).stdout]"
    result = deps.call(source, ["tooldep==1.0"], npm_requirements=["nodedep@2.0.0"])
    assert result.get("func_return") == ["1.0", "I am 2\n"], result
    assert set(result["dependencies"]) == {"pip", "npm"}
    assert set(deps.call("def f(): pass", ["tooldep==1.0"])["dependencies"]) == {"pip"}
