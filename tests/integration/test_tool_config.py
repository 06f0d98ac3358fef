"""pinfold tool call with stored configurations: layers of environment, secrets, limits, policies, fingerprints."""
import itertools
import json
import sqlite3

import pytest

from test_config import SECRET, Store
from test_tool import ROOT, failure, python, value

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
            "pip_index": "https://index.example/simple", "npm_registry": "https://registry.example/", "index_hosts": ["f.example:443"]}
    assert set(good) == set(schema["properties"])
    jsonschema.validate(good, schema)
    assert root_store("config", "create", "all", "-", content=good)["configuration"] == good
    bad = {"policy": "../x", "privileged_policy": "", "egress": "x", "memory": 1, "cpus": "-1", "pids": 0, "timeout": "soon",
           "pip_requirements": [1], "npm_requirements": {}, "pip_index": "file:///x", "npm_registry": "x", "index_hosts": [1],
           "description": 1, "image": None}
    for key, content in bad.items():
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({key: content}, schema)
        assert root_store.refused("config", "update", "--replace", "all", "-", content={key: content})["pointer"], key
