"""pinfold tool call with stored configurations: layers of environment, secrets, limits, policies, fingerprints."""
import hashlib
import itertools
import json
import os
import shutil
import sqlite3
import time

import pytest

from test_config import SECRET, Store
from test_tool import ROOT, failure, python, value
from test_tool_warm import clear, pool, prepare
from tool_serve import Server

ENV = "import os\ndef f():\n  return dict(os.environ)"


@pytest.fixture
def store(pinfold, monkeypatch):
    """The store, and calls that know it."""
    opened = Store(pinfold)
    monkeypatch.setattr(pinfold, "environment", opened.env)
    return opened


@pytest.fixture
def root_store(as_root, monkeypatch):
    opened = Store(as_root)
    monkeypatch.setattr(as_root, "environment", opened.env)
    return opened


def call(store, source, *options, **fields):
    return python(store.pinfold, source, *options, **fields)


def environment(store, **fields):
    return value(call(store, ENV, **fields))


def fingerprint(store, **fields):
    return call(store, "def f(): pass", **fields)[1]["sandbox_config_fingerprint"]


LEVELS = ["policy", "configuration", "sandbox", "agent", "call"]


def set_level(store, level, text):
    """The fields of a call that has X at that level."""
    if level == "policy":
        return {"policy": store.pinfold.policy(environment={"set": {"X": text, "PATH": "/usr/bin"}})}
    if level == "configuration":
        store("env", "set", *(["--null", "X"] if text is None else [f"X={text}"]))
        return {}
    return {"env": {level: {"X": text}}}


def merged(low, high):
    fields = {**low, **high}
    if "env" in low and "env" in high:
        fields["env"] = {**low["env"], **high["env"]}
    return fields


@pytest.mark.parametrize("low, high", itertools.combinations(LEVELS, 2))
def test_of_two_levels_the_higher_wins_and_its_null_removes(root_store, low, high):
    below = set_level(root_store, low, "low")
    assert environment(root_store, **merged(below, set_level(root_store, high, "high")))["X"] == "high"
    assert "X" not in environment(root_store, **merged(below, set_level(root_store, high, None)))
    if low != "policy":  # a policy has no nulls
        below = set_level(root_store, low, None)
        assert environment(root_store, **merged(below, set_level(root_store, high, "high")))["X"] == "high"


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_is_above_the_runners_own_settings(root_store, level):
    if level == "policy":
        fields = {"policy": root_store.pinfold.policy(environment={"set": {"TERM": "xterm", "PATH": "/usr/bin"}})}
    elif level == "configuration":
        root_store("env", "set", "TERM=xterm")
        fields = {}
    else:
        fields = {"env": {level: {"TERM": "xterm"}}}
    seen = environment(root_store, **fields)
    assert (seen["TERM"], seen["NO_COLOR"], seen["PYTHONUNBUFFERED"]) == ("xterm", "1", "1")


def test_the_ids_are_the_requests_whatever_the_configuration_says(root_store):
    root_store("env", "set", "LETTA_AGENT_ID=forged", "LETTA_TOOL_ID=forged")
    seen = environment(root_store, agent_id="a1")
    assert seen["LETTA_AGENT_ID"] == "a1" and "LETTA_TOOL_ID" not in seen


def test_a_variable_that_the_policy_refuses_refuses_the_call(root_store):
    root_store("env", "set", "LD_PRELOAD=/tmp/x.so")
    code, result = call(root_store, ENV)
    assert code == 125 and "LD_PRELOAD" in result["error"]["message"]
    root_store("env", "unset", "LD_PRELOAD")
    root_store("env", "set", "--secret", "LD_AUDIT", input=b"/tmp/x.so")
    code, result = call(root_store, ENV)
    assert code == 125 and "LD_AUDIT" in result["error"]["message"]


def test_a_secret_reaches_the_tool_and_nothing_else(store):
    store("env", "set", "--secret", "KEY", input=SECRET.encode())
    code, result = call(store, "import os\ndef f():\n  print('x', os.environ['KEY'])\n  return len(os.environ['KEY'])")
    assert (code, result["func_return"], result["stdout"]) == (0, len(SECRET), ["x ***"])
    code, result = call(store, "import os\ndef f():\n  return [os.environ['KEY'], 1]")
    assert result["func_return"] == ["***", 1]


SEES = "import os\ndef f():\n  print(os.environ['KEY'])\n  return [os.environ['KEY'], len(os.environ['KEY']), os.environ.get('OTHER'), sorted(n for n in os.environ if n.startswith('SAMPLE')), open('/proc/1/stat').read().split()[21]]"
SEES_NODE = "import fs from 'fs';\nconst f = () => { console.log(process.env.KEY); return [process.env.KEY, process.env.KEY.length, process.env.OTHER ?? null, Object.keys(process.env).filter((n) => n.startsWith('SAMPLE')), fs.readFileSync('/proc/1/stat', 'utf8').split(' ')[21]]; };"
HAS_NODE = shutil.which("node", path="/usr/bin:/usr/local/bin") is not None


def holds(pid, text):
    """Whether a process has these bytes in memory that it can write."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if "w" in line.split()[1]:
                memory.seek(start)
                try:
                    if text in memory.read(end - start):
                        return True
                except OSError:
                    pass
    return False


@pytest.mark.parametrize("language, source, reuse", [
    ("python", SEES, "never"), ("python", SEES, "fingerprint"),
    pytest.param("javascript", SEES_NODE, "never", marks=pytest.mark.skipif(not HAS_NODE, reason="the host has no node"))])
def test_a_secret_is_handed_to_a_sandbox_that_waited_and_ends_with_the_call(root_store, language, source, reuse):
    root_store.pinfold.call([str(root_store.pinfold.program), "pool", "set", "--ahead", "1"])
    root_store("env", "set", "--secret", "KEY", input=SECRET.encode())
    root_store("env", "set", "OTHER=open")
    server = Server(root_store.pinfold)
    seen = []
    for _ in range(2):
        prepare(root_store.pinfold, language=language, reuse=reuse)
        assert all(place["kind"] == "ahead" for place in pool(root_store.pinfold)["sandboxes"])
        waited_until = time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")
        result = server.call(source, language=language, reuse=reuse)["result"]
        assert (result["status"], result["stdout"], result["notes"]) == ("success", ["***"], []), result
        assert result["func_return"][:4] == ["***", len(SECRET), "open", []], result
        seen.append(int(result["func_return"][4]))
        assert seen[-1] < int(waited_until)
    assert seen[0] != seen[1]  # each its own
    found = [place for place in root_store.pinfold.home.rglob("*") if place.is_file() and not place.is_relative_to(root_store.keys) and SECRET.encode() in place.read_bytes()]
    assert not found and not holds(server.process.pid, SECRET.encode())
    plain = server.call(f"def f(): return {SECRET!r}", reuse="cold", env={"call": {"KEY": None}})["result"]  # the control: what a call brings itself is there
    assert plain["func_return"] == SECRET and holds(server.process.pid, SECRET.encode())
    server.close()
    clear(root_store.pinfold)


def supervisors(pinfold):
    shown = [json.loads(pinfold.call([str(pinfold.program), "show", place["name"], "--json"]).stdout) for place in pool(pinfold)["sandboxes"] if place["state"] == "idle"]
    return [place["supervisor"] for place in shown]


@pytest.mark.parametrize("server", [False, True], ids=["command", "server"])
def test_a_secret_of_the_command_line_is_handed_to_a_sandbox_that_waited(root_store, monkeypatch, server):
    """By the process that ends with the call; the sandbox was built without it, and so is the next one, which that process starts."""
    pinfold = root_store.pinfold
    pinfold.call([str(pinfold.program), "pool", "set", "--ahead", "1"])
    policy = pinfold.policy(extends=["tool"], secrets=["KEY"])
    handed = ["--secret", "KEY", "--secret-from-env", "KEY=HELD_HERE"]
    options = ["--policy", policy, *handed]
    known = pinfold.environment
    monkeypatch.setattr(pinfold, "environment", lambda **extra: known(HELD_HERE=SECRET, **extra))
    root_store("env", "set", "--secret", "OTHER", input=b"sealed-and-below")
    root_store("env", "set", "--secret", "KEY", input=b"sealed-and-hidden")
    source = SEES.replace("os.environ.get('OTHER')", "len(os.environ['OTHER'])").replace("os.environ.get(", "(")
    client = Server(pinfold, *options) if server else None
    seen = []
    for _ in range(2):
        prepare(pinfold, reuse="never", options=options)
        idle = supervisors(pinfold)
        assert idle and not any(holds(pid, SECRET.encode()) for pid in idle)
        if server:
            result = client.call(source, reuse="never")["result"]
        else:
            _, result = call(root_store, source, *handed, policy=policy, reuse="never")
        assert (result["status"], result["stdout"], result["notes"]) == ("success", ["***"], []), result
        assert result["func_return"][:4] == ["***", len(SECRET), len("sealed-and-below"), []], result
        seen.append(result["func_return"][4])
    assert seen[0] != seen[1]
    prepare(pinfold, reuse="never", options=options)
    assert not any(holds(pid, SECRET.encode()) for pid in supervisors(pinfold))
    if server:
        client.close()
    clear(pinfold)


def test_a_secret_that_a_sandbox_that_waited_cannot_take_has_a_cold_call(root_store, monkeypatch):
    pinfold = root_store.pinfold
    secrets = pinfold.home / "secrets"
    secrets.mkdir(mode=0o700)
    for name, text in (("KEY", SECRET), ("LONG", "y" * 40000)):
        (secrets / name).write_text(text)
        (secrets / name).chmod(0o600)
    known = pinfold.environment
    monkeypatch.setattr(pinfold, "environment", lambda **extra: known(PINFOLD_SECRETS=str(secrets), **extra))
    policy = pinfold.policy(extends=["tool"], secrets=["KEY", "LONG", "NOWHERE"])
    prepare(pinfold, reuse="never", options=["--policy", policy])
    _, result = call(root_store, "def f(): return len(open('/run/secrets/KEY').read())", "--secret", "KEY:file", policy=policy, reuse="never")
    assert result["func_return"] == len(SECRET) and "as a file" in result["notes"][-1]
    _, result = call(root_store, "def f(): return 1", "--secret", "KEY:env=PYTHONSTARTUP", policy=policy, reuse="never")
    assert result["func_return"] == 1 and "PYTHONSTARTUP" in result["notes"][-1]
    _, result = call(root_store, "import os\ndef f(): return len(os.environ['LONG'])", "--secret", "LONG", policy=policy, reuse="never")
    assert result["func_return"] == 40000
    prepare(pinfold, reuse="never", options=["--policy", policy])
    absent = [call(root_store, "def f(): return 1", "--secret", "NOWHERE", policy=policy, reuse=reuse) for reuse in ("never", "cold")]
    assert absent[0] == absent[1] and absent[0][0] == 125 and "NOWHERE" in absent[0][1]["error"]["message"]
    clear(pinfold)


def test_a_sandbox_that_waited_gets_a_secret_only_at_its_level_and_whole(root_store):
    root_store.pinfold.call([str(root_store.pinfold.program), "pool", "set", "--ahead", "1"])
    source = "import hashlib, os\ndef f(): return {n: hashlib.md5(os.environb[n.encode()]).hexdigest() for n in ('A', 'B', 'C') if n in os.environ}"
    values = {"A": "a=b\n=\tü" * 9, "B": "b" * 9000, "C": "covered by the call"}
    for name, text in values.items():
        root_store("env", "set", "--secret", name, input=text.encode())

    def call_now():
        prepare(root_store.pinfold, reuse="never")
        code, result = call(root_store, source, reuse="never", env={"agent": {"B": "plain"}, "call": {"C": None}})
        return result["func_return"] if code == 0 else result
    assert call_now() == {"A": hashlib.md5(values["A"].encode()).hexdigest(), "B": hashlib.md5(b"plain").hexdigest()}
    root_store("env", "set", "--secret", "A", input=b"x" * 40000)
    code, result = call(root_store, source, reuse="never")  # more than a pipe takes at once
    assert code == 0 and "32768 bytes" in result["notes"][-1] and result["func_return"]["A"] == hashlib.md5(b"x" * 40000).hexdigest()
    root_store("env", "set", "--secret", "A", input=b"short again")
    root_store("env", "set", "--secret", "PYTHONHASHSEED", input=b"1234")
    code, result = call(root_store, source, reuse="never")
    assert code == 0 and "PYTHONHASHSEED" in result["notes"][-1]
    root_store("env", "unset", "PYTHONHASHSEED")
    prepare(root_store.pinfold, reuse="never")
    (key,) = root_store.keys.iterdir()
    key.unlink()
    code, result = call(root_store, source, reuse="never")
    assert code == 125 and "sealed" in result["error"]["message"], result
    clear(root_store.pinfold)


def test_a_secret_is_one_level_among_the_others(root_store):
    source = "import os\ndef f():\n  v = os.environ.get('KEY')\n  return v if v is None else v[::-1]"
    policy = root_store.pinfold.policy(environment={"set": {"KEY": "of the policy", "PATH": "/usr/bin"}})
    root_store("env", "set", "--secret", "KEY", input=SECRET.encode())
    assert value(call(root_store, source, policy=policy)) == SECRET[::-1]
    assert value(call(root_store, source, env={"agent": {"KEY": "covered"}})) == "derevoc"
    assert value(call(root_store, source, env={"call": {"KEY": None}})) is None


def test_a_secret_that_can_not_be_opened_is_no_call(root_store):
    root_store("env", "set", "--secret", "KEY", input=SECRET.encode())
    (root_store.keys / "environment.key").unlink()
    code, result = call(root_store, ENV)
    assert code == 125 and "can't be opened" in result["error"]["message"]
    assert value(call(root_store, "def f(): return 1", env={"call": {"KEY": None}})) == 1  # nobody needs it


def test_the_fingerprint_follows_the_configuration(root_store):
    policy = root_store.pinfold.policy()

    def now(**fields):
        return fingerprint(root_store, policy=policy, **fields)

    none = now()
    assert not root_store.folder.exists()  # nobody has named one: nothing is written
    root_store("config", "get")
    first = now()
    assert first != none and now() == first
    root_store("config", "update", "default", "-", content={"description": "changed"})
    second = now()
    root_store("config", "update", "default", "-", content={"description": None})
    assert second != first and now() == first
    root_store("env", "set", "A=1")
    third = now()
    root_store("env", "set", "A=2")
    assert len({first, third, now()}) == 3
    root_store("env", "unset", "A")
    root_store("env", "set", "--secret", "A", input=SECRET.encode())
    sealed = now()
    root_store("env", "set", "--secret", "A", input=SECRET.encode())
    assert now() == sealed  # sealed anew, and the same value
    root_store("env", "set", "--secret", "A", input=SECRET[::-1].encode())
    assert now() != sealed
    root_store("config", "create", "other")
    assert now(configuration="other") != first


def test_configurations_are_found_by_name_and_organisation(root_store):
    root_store("config", "create", "--organisation", "acme", "web")
    root_store("env", "set", "--organisation", "acme", "--configuration", "web", "W=acme")
    assert environment(root_store, organisation="acme", configuration="web")["W"] == "acme"
    assert "W" not in environment(root_store, organisation="acme")
    assert value(call(root_store, ENV, "--organisation", "acme", "--configuration", "web"))["W"] == "acme"
    for fields in ({"configuration": "web"}, {"organisation": "other", "configuration": "web"}):
        code, result = call(root_store, ENV, **fields)
        assert (code, result["error"]["kind"], result["error"]["pointer"]) == (125, "not_found", "/configuration")
    code, result = call(root_store, ENV, "--organisation", "acme", organisation="other")
    assert code == 125 and result["error"]["pointer"] == "/organisation"
    for name in ("../x", "a b", 5, ["a"]):
        code, result = call(root_store, ENV, configuration=name)
        assert (code, result["error"]["pointer"]) == (125, "/configuration")


def test_an_organisation_that_is_named_gets_a_default(root_store):
    value(call(root_store, "def f(): return 1", organisation="acme"))
    with sqlite3.connect(root_store.file) as base:
        assert base.execute("SELECT organisation, name, is_default FROM configuration").fetchall() == [("acme", "default", 1)]


def test_limits_of_the_configuration_count_below_the_requests(root_store):
    root_store("config", "create", "--default", "default", "-", content={"timeout": "300ms", "memory": "200MiB"})
    slow = "import time\ndef f():\n  time.sleep(1)\n  return 1"
    assert failure(call(root_store, slow), "timeout")["type"] == "Timeout"
    assert value(call(root_store, slow, timeout="20s")) == 1
    big = "def f():\n  return len(bytearray(300 << 20))"
    assert failure(call(root_store, big, timeout="20s"), "memory")["type"] == "MemoryLimit"
    assert value(call(root_store, big, "--memory", "450MiB", timeout="20s")) == 300 << 20
    root_store("config", "update", "default", "-", content={"memory": "1TiB"})
    code, result = call(root_store, big)
    assert code == 125 and "memory" in result["error"]["pointer"]  # the policy is the ceiling


def run(store, request, *options):
    done = store.pinfold.call([str(store.pinfold.program), "tool", "call", *options], input=json.dumps(request).encode())
    return done.returncode, json.loads(done.stdout)


def test_the_policy_is_the_configurations_where_nobody_names_another(root_store):
    small, large = (root_store.pinfold.policy(environment={"set": {"P": name, "PATH": "/usr/bin"}}) for name in ("small", "large"))
    root_store("config", "create", "--default", "c", "-", content={"policy": small})
    request = {"language": "python", "source": "import os\ndef f(): return os.environ.get('P')", "name": "f"}
    assert run(root_store, request)[1]["func_return"] == "small"
    assert run(root_store, request, "--policy", large)[1]["func_return"] == "large"
    assert run(root_store, {**request, "policy": "tool"})[1]["func_return"] is None


def test_a_privileged_tool_runs_by_the_privileged_policy_and_never_without_a_sandbox(root_store):
    privileged = root_store.pinfold.policy(environment={"set": {"P": "privileged", "PATH": "/usr/bin"}})
    request = {"language": "python", "source": "import os\ndef f(): return [os.environ.get('P'), os.getuid(), os.listdir('/proc')]",
               "name": "f", "privileged": True}
    code, result = run(root_store, request)
    assert (code, result["error"]["kind"], result["error"]["pointer"]) == (125, "refused", "/privileged")
    root_store("config", "create", "--default", "c", "-", content={"privileged_policy": privileged})
    code, result = run(root_store, request)
    assert code == 0 and result["func_return"][0] == "privileged"
    assert result["func_return"][1] != 0 and len([p for p in result["func_return"][2] if p.isdigit()]) < 5
    plain = run(root_store, {**request, "privileged": False})[1]
    assert plain["func_return"][0] is None
    assert plain["sandbox_config_fingerprint"] != result["sandbox_config_fingerprint"]
    for options, fields in ((["--policy", privileged], {}), ([], {"policy": "tool"})):
        code, result = run(root_store, {**request, **fields}, *options)
        assert (code, result["error"]["pointer"]) == (125, "/privileged")
    root_store("config", "update", "c", "-", content={"privileged_policy": "/nowhere.json"})
    assert run(root_store, request)[0] == 125  # and not some other way


def test_what_waits_with_an_earlier_configuration_is_replaced(root_store):
    def names():
        return sorted(place["name"] for place in pool(root_store.pinfold)["sandboxes"])
    root_store("config", "create", "--default", "c", "-", content={"pids": 40})
    root_store("config", "create", "other", "-", content={"pids": 41})
    prepare(root_store.pinfold)
    prepare(root_store.pinfold, configuration="other")
    prepare(root_store.pinfold, env={"call": {"A": "1"}})
    before = names()
    assert len(before) == 3  # variables of a call's own are another fingerprint of the same configuration: both stay
    for change in (lambda: root_store("config", "update", "c", "-", content={"pids": 42}), lambda: root_store("env", "set", "X=1"),
                   lambda: root_store("env", "set", "X=2")):
        change()
        prepare(root_store.pinfold)
        after = names()
        assert len(after) == 2 and len(set(after) & set(before)) == 1, (before, after)  # the other configuration's
        before = after
    clear(root_store.pinfold)


def test_a_damaged_store_is_no_call(root_store):
    root_store("config", "get")
    root_store.file.write_bytes(b"x" * 8192)
    code, result = call(root_store, ENV)
    assert code == 125 and "damaged" in result["error"]["message"]


def test_the_published_schema_names_every_key(root_store):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "tools/schema/tool-config.schema.json").read_text())
    good = {"description": "d", "policy": "tool", "privileged_policy": "/etc/p.json", "image": "host", "egress": ["h.example:1"],
            "memory": "64MiB", "cpus": "0.5", "pids": 8, "timeout": "3s", "pip_requirements": ["a==1"], "npm_requirements": ["a@1"],
            "pip_index": "https://index.example/simple", "npm_registry": "https://registry.example/", "index_hosts": ["f.example:443"], "frames": "stdout-letta"}
    assert set(good) == set(schema["properties"])
    jsonschema.validate(good, schema)
    assert root_store("config", "create", "all", "-", content=good)["configuration"] == good
    bad = {"policy": "../x", "privileged_policy": "", "egress": "x", "memory": 1, "cpus": "-1", "pids": 0, "timeout": "soon",
           "pip_requirements": [1], "npm_requirements": {}, "pip_index": "file:///x", "npm_registry": "x", "index_hosts": [1],
           "description": 1, "image": None, "frames": "stdout"}
    for key, content in bad.items():
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: content}, schema)
        assert root_store.refused("config", "update", "--replace", "all", "-", content={key: content})["pointer"], key
