"""pinfold tool call: functions of tools, in and out."""
import json
import os
import pathlib
import re

import pytest

from tool_serve import Server
from tool_sources import BAD, HOSTILE, NODE, PYTHON

RESULT_KEYS = ["status", "func_return", "agent_state", "stdout", "stderr", "sandbox_config_fingerprint", "usage", "notes"]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def call(pinfold, request, *options, policy=None, env=None):
    """The exit code and what was printed: a result, or an error."""
    text = request if isinstance(request, bytes) else json.dumps(request).encode()
    argv = [str(pinfold.program), "tool", "call", "--policy", policy or pinfold.policy(), *options]
    done = pinfold.call(argv, input=text, env=env)
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise AssertionError(f"not JSON: {done.stdout[:500]!r} {done.stderr[:500]!r}") from error


def python(pinfold, source, *options, name="f", policy=None, **fields):
    return call(pinfold, {"language": "python", "source": source, "name": name, **fields}, *options, policy=policy)


def value(answer):
    code, result = answer
    assert (code, result["status"]) == (0, "success"), result
    return result["func_return"]


def failure(answer, status="error"):
    code, result = answer
    assert result["status"] == status and code != 0, result
    return result["func_return"]


def schema(**properties):
    required = [name for name, kind in properties.items() if "default" not in kind]
    return {"name": "f", "parameters": {"type": "object", "properties": properties, "required": required}}


def test_the_result_has_exactly_the_documented_keys(pinfold):
    code, result = python(pinfold, "import sys\ndef f(a):\n  print('one\\ntwo'); print('err', file=sys.stderr)\n  return a", args={"a": [1]})
    assert code == 0 and list(result) == RESULT_KEYS
    assert result["func_return"] == [1] and result["agent_state"] is None
    assert all(pinfold.rootless and note.startswith("the sandbox went without") for note in result["notes"])
    assert (result["stdout"], result["stderr"]) == (["one", "two"], ["err"])
    assert re.fullmatch("sha256:[0-9a-f]{64}", result["sandbox_config_fingerprint"])
    assert list(result["usage"]) == ["wall_ms", "cpu_ms", "memory_peak_bytes", "pids_peak", "egress"]


@pytest.mark.parametrize("name", PYTHON)
def test_python_tools(as_root, name):
    source, args, expected = PYTHON[name]
    got = value(python(as_root, source, args=args))
    assert got == expected if not callable(expected) else expected(got)


@pytest.mark.parametrize("name", NODE)
def test_javascript_tools(as_root, name):
    source, args, expected = NODE[name]
    properties = {key: {} for key in args}
    assert value(call(as_root, {"language": "javascript", "source": source, "name": "f", "args": args,
                                "json_schema": schema(**properties)})) == expected


@pytest.mark.parametrize("name", BAD)
def test_tools_that_fail_say_type_message_and_their_own_line(as_root, name):
    source, args, kind, message, line = BAD[name]
    fault = failure(python(as_root, source, args=args))
    assert (fault["type"], list(fault)) == (kind, ["type", "message", "traceback"])
    assert message in fault["message"] and line in (fault["traceback"] or "")
    assert "pinfold" not in (fault["traceback"] or "")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tools_cant_forge_or_break_more_than_their_own_call(as_root, name):
    source, status, kind = HOSTILE[name]
    code, result = python(as_root, source, args={})
    assert result["status"] == status and list(result) == RESULT_KEYS, result
    if kind:
        assert result["func_return"]["type"] == kind, result
    else:
        assert result["func_return"] == "true result", result


# arguments

KINDS = {bool: ("boolean", "maybe"), int: ("integer", "x1"), float: ("number", "x1"), str: ("string", ["no text"]), list: ("array", 5), dict: ("object", 5)}


def bad_arguments():
    """Of each tool the arguments that it can't take: each one missing, each one of another type, and one too many."""
    for language, tools in (("python", PYTHON), ("javascript", NODE)):
        for name, (source, args, _) in tools.items():
            properties = {key: {"type": KINDS[type(given)][0]} for key, given in args.items()}
            request = {"language": language, "source": source, "name": "f", "json_schema": schema(**properties)}
            yield f"{name}: one too many", {**request, "args": {**args, "nosuch": 1}}, "/args/nosuch"
            for key, given in args.items():
                yield f"{name}: no {key}", {**request, "args": {k: v for k, v in args.items() if k != key}}, f"/args/{key}"
                yield f"{name}: another {key}", {**request, "args": {**args, key: KINDS[type(given)][1]}}, f"/args/{key}"


def test_there_are_sixty_tools_and_each_refuses_bad_arguments(as_root):
    assert len(PYTHON) + len(NODE) >= 70
    server = Server(as_root)
    for name, request, pointer in bad_arguments():
        server.send({"id": name, "call": request})
        answer = server.receive()
        assert answer["exit_code"] == 125 and answer["error"]["pointer"] == pointer, (name, answer)
    server.close()


TYPED = schema(count={"type": "integer", "minimum": 1, "maximum": 10}, ratio={"type": "number", "default": 0.5},
               name={"type": "string", "minLength": 2, "default": "none"}, deep={"type": "boolean", "default": False},
               kind={"enum": ["a", "b"], "default": "a"},
               points={"type": "array", "maxItems": 2, "default": [],
                       "items": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
               more={"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None})
ECHO = "def f(**args): return args"
DEFAULTS = {"ratio": 0.5, "name": "none", "deep": False, "kind": "a", "points": [], "more": None}


@pytest.mark.parametrize("given, expected", [
    ({"count": 3}, {"count": 3, **DEFAULTS}), ({"count": "3"}, {"count": 3, **DEFAULTS}), ({"count": 3.0}, {"count": 3, **DEFAULTS}),
    ({"count": 1, "deep": "true"}, {"count": 1, **DEFAULTS, "deep": True}),
    ({"count": 1, "ratio": "1e-3"}, {"count": 1, **DEFAULTS, "ratio": 0.001}),
    ({"count": 1, "name": 12345}, {"count": 1, **DEFAULTS, "name": "12345"}),
    ({"count": 1, "name": None}, {"count": 1, **DEFAULTS}),
    ({"count": 1, "points": '[{"x": "2"}]'}, {"count": 1, **DEFAULTS, "points": [{"x": 2}]}),
    ({"count": 1, "more": "7"}, {"count": 1, **DEFAULTS, "more": 7})])
def test_arguments_are_converted_by_the_schema(as_root, given, expected):
    assert value(python(as_root, ECHO, args=given, json_schema=TYPED)) == expected


@pytest.mark.parametrize("given, pointer", [
    ({}, "/args/count"), ({"count": "x"}, "/args/count"), ({"count": 0}, "/args/count"), ({"count": 11}, "/args/count"),
    ({"count": 1.5}, "/args/count"), ({"count": None}, "/args/count"), ({"count": 1, "kind": "c"}, "/args/kind"),
    ({"count": 1, "name": "x"}, "/args/name"), ({"count": 1, "name": ["x"]}, "/args/name"), ({"count": 1, "deep": "maybe"}, "/args/deep"),
    ({"count": 1, "points": [{"x": 1}, {}]}, "/args/points/1/x"), ({"count": 1, "points": [{"x": []}]}, "/args/points/0/x"),
    ({"count": 1, "points": [{"x": 1}] * 3}, "/args/points"), ({"count": 1, "more": "x"}, "/args/more"), ({"cuont": 1, "count": 1}, "/args/cuont")])
def test_an_argument_that_does_not_fit_is_refused_with_its_pointer(as_root, given, pointer):
    code, answer = python(as_root, ECHO, args=given, json_schema=TYPED)
    assert code == 125 and list(answer) == ["error"]
    assert pointer in [answer["error"]["pointer"]] + [e["pointer"] for e in answer["error"]["others"]]
    assert not any(p.name != "slots" for p in as_root.state.iterdir()), "something was built"


def test_all_faults_of_the_arguments_are_named_at_once(as_root):
    _, answer = python(as_root, ECHO, args={"count": 0, "kind": "z", "nope": 1}, json_schema=TYPED)
    assert {answer["error"]["pointer"], *(e["pointer"] for e in answer["error"]["others"])} == {"/args/count", "/args/kind", "/args/nope"}


# requests

@pytest.mark.parametrize("change, kind, pointer", [
    ({"pip_requirements": ["x", "-r y"]}, "invalid", "/pip_requirements/1"), ({"npm_requirements": ["file:x"]}, "invalid", "/npm_requirements/0"),
    ({"configuration": "nope"}, "not_found", "/configuration"), ({"reuse": "always"}, "invalid", "/reuse"),
    ({"privileged": True}, "refused", "/privileged"), ({"language": "ruby"}, "invalid", "/language"), ({"source": 1}, "invalid", "/source"),
    ({"name": "a b"}, "invalid", "/name"), ({"args": []}, "invalid", "/args"), ({"env": {"host": {}}}, "invalid", "/env"),
    ({"env": {"call": {"A": 1}}}, "invalid", "/env/call/A"), ({"env": {"agent": {"A=B": None}}}, "invalid", "/env/agent/A=B"),
    ({"timeout": "soon"}, "invalid", "/timeout"), ({"timeout": 0}, "invalid", "/timeout"),
    ({"policy": "/tmp/own.json"}, "invalid", "/policy"), ({"policy": "strict"}, "refused", "/policy"), ({"labels": {"a": 1}}, "invalid", "/labels"),
    ({"wish": 1}, "invalid", ""), ({"call": "named"}, "invalid", "/call"), ({"agent_state": 1, "agent_state_encoding": "pickle"}, "invalid", "/agent_state"),
    ({"json_schema": {"type": "object", "properties": {"a": {"pattern": "x"}}}, "args": {"a": "y"}}, "unsupported", "/args/a")])
def test_what_a_request_asks_for_is_done_or_refused(as_root, change, kind, pointer):
    code, answer = call(as_root, {"language": "python", "source": "def f(): pass", "name": "f", **change})
    assert code == 125 and (answer["error"]["kind"], answer["error"]["pointer"]) == (kind, pointer), answer


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"null", b"\xff", b'{"language": "python", "language": "python"}', b"[" * 100000])
def test_what_is_no_request_gets_one_error(as_root, text):
    code, answer = call(as_root, text)
    assert code == 125 and answer["error"]["kind"] == "syntax"


def test_a_request_is_read_from_a_file_too(as_root, tmp_path):
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"language": "python", "source": "def f(): return 7", "name": "f"}))
    done = as_root.call([str(as_root.program), "tool", "call", "--policy", as_root.policy(), str(path)])
    assert json.loads(done.stdout)["func_return"] == 7


# what a tool is given

def test_agent_state_and_agent_id_go_to_who_asks(as_root):
    source = "def f(agent_state, agent_id, n=2):\n  agent_state.count += n\n  agent_state['seen'] = [agent_id, agent_state.inner.x]\n  return client"
    code, result = python(as_root, source, agent_id="agent-1", agent_state={"count": 1, "inner": {"x": 5}})
    assert code == 0 and result["func_return"] is None
    assert result["agent_state"] == {"count": 3, "inner": {"x": 5}, "seen": ["agent-1", 5]}
    assert python(as_root, "def f(): return 1", agent_state={"count": 1})[1]["agent_state"] is None


def test_a_pickled_state_is_opened_inside_alone(as_root):
    import base64
    import pickle
    given = base64.b64encode(pickle.dumps({"n": 1})).decode()
    code, result = python(as_root, "def f(agent_state): agent_state['n'] += 1", agent_state=given, agent_state_encoding="pickle")
    assert code == 0 and pickle.loads(base64.b64decode(result["agent_state"])) == {"n": 2}


ENV = "import os\ndef f(): return dict(os.environ)"


@pytest.mark.parametrize("low, high", [("runner", "policy"), ("policy", "sandbox"), ("sandbox", "agent"), ("agent", "call"), ("runner", "call"),
                                       ("policy", "call"), ("sandbox", "call"), ("runner", "sandbox"), ("policy", "agent"), ("runner", "agent")])
def test_a_layer_of_the_environment_is_over_those_below(as_root, low, high):
    layers, policy = {}, {}
    for layer in (low, high):
        if layer == "policy":
            policy = {"environment": {"set": {"TERM": "policy"}}}
        elif layer != "runner":
            layers[layer] = {"TERM": layer}
    got = value(python(as_root, ENV, env=layers, policy=as_root.policy(**policy)))
    assert got["TERM"] == high
    taken = value(python(as_root, ENV, env={**layers, "call": {"TERM": None}}, policy=as_root.policy(**policy)))
    assert "TERM" not in taken


def test_the_environment_has_our_settings_and_ids_and_nothing_of_the_host_or_the_channel(as_root):
    text = json.dumps({"language": "python", "source": ENV, "name": "f", "agent_id": "a", "tool_id": "t",
                       "env": {"call": {"LETTA_AGENT_ID": "forged", "LETTA_PROJECT_ID": "forged", "X": "1"}}}).encode()
    code, result = call(as_root, text, env=as_root.environment(SECRET_TOKEN="host"))
    got = result["func_return"]
    assert (got["NO_COLOR"], got["TERM"], got["PYTHONUNBUFFERED"], got["X"]) == ("1", "dumb", "1", "1")
    assert (got["LETTA_AGENT_ID"], got["LETTA_TOOL_ID"]) == ("a", "t") and "LETTA_PROJECT_ID" not in got
    assert not [name for name in got if name.startswith(("PINFOLD", "SECRET"))]


def test_a_refused_variable_refuses_the_call(as_root):
    code, answer = python(as_root, ENV, env={"call": {"LD_PRELOAD": "/tmp/x.so"}})
    assert code == 125 and answer["error"]["kind"] == "refused" and "LD_PRELOAD" in answer["error"]["message"]


# limits

def test_limits_have_a_status_each(as_root):
    code, result = python(as_root, "import time\ndef f():\n  print('before')\n  time.sleep(60)", timeout="700ms")
    assert (code, result["status"], result["func_return"]["type"], result["stdout"]) == (124, "timeout", "Timeout", ["before"])
    code, result = python(as_root, "def f(): return len(bytearray(1 << 30))", policy=as_root.policy(resources={"memory": "64MiB"}))
    assert (code, result["status"]) == (137, "memory") or result["func_return"]["type"] == "MemoryError", result
    code, result = python(as_root, "def f(): return 'x' * 3000000", policy=as_root.policy(resources={"frame": "1MiB"}))
    assert (code, result["status"], result["func_return"]["type"]) == (1, "error", "ResultTooLarge")
    code, result = python(as_root, "def f(): print('y' * 3000000)", policy=as_root.policy(resources={"stdout": "1MiB"}))
    assert code == 0 and any(note.startswith("stdout: cut") for note in result["notes"])


def test_labels_must_be_those_that_the_policy_asks_for(as_root):
    policy = as_root.policy(audit={"require_labels": ["tenant"]})
    assert python(as_root, "def f(): return 1", policy=policy)[0] == 125
    assert value(python(as_root, "def f(): return 1", policy=policy, labels={"tenant": "t1"})) == 1


def test_nothing_is_left_over(pinfold):
    value(python(pinfold, "def f(): return 1"))
    failure(python(pinfold, "import os\ndef f(): os._exit(3)"))
    assert pinfold.leftovers() == []


# TypeScript and JavaScript

TYPED_SOURCE = "interface P { x: number }\nexport async function f<T extends P>(p: T, n: number = 2): Promise<number> { return p.x * n; }"


def test_typescript_is_stripped_by_what_the_image_has_or_refused_clearly(as_root):
    request = {"language": "typescript", "source": TYPED_SOURCE, "name": "f", "args": {"p": {"x": 4}}, "json_schema": schema(p={"type": "object"}, n={"default": 2})}
    code, result = call(as_root, request)
    if code != 0:
        assert result["func_return"]["type"] == "Unsupported" and "strips types" in result["func_return"]["message"]
    else:
        assert result["func_return"] == 8


def test_typescript_with_an_installed_transpiler(as_root, tmp_path):
    """A stand-in for esbuild in the workspace: which one is found first, and how it is called, is what is tested."""
    package = tmp_path / "work/node_modules/esbuild"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "esbuild", "main": "index.js"}')
    (package / "index.js").write_text(
        "exports.transform = async (source, o) => { if (o.loader !== 'ts' || o.format !== 'esm') throw new Error('options');\n"
        "  return {code: source.replace(/interface.*\\n/, '').replace(/<T.*?>/, '').replace(/: (T|number|Promise<number>)/g, '')}; };")
    request = {"language": "typescript", "source": TYPED_SOURCE, "name": "f", "args": {"p": {"x": "4"}}, "json_schema": schema(p={"type": "object"}, n={"default": 2})}
    request["args"] = {"p": {"x": 4}}
    assert value(call(as_root, request, "--workspace", f"{tmp_path / 'work'}:ro")) == 8


def test_typescript_with_esbuild_as_a_program(as_root, tmp_path):
    program = tmp_path / "work/esbuild"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntest \"$1 $2\" = '--loader=ts --format=esm' || exit 9\nexec sed 's/: number//g'\n")
    program.chmod(0o755)
    request = {"language": "typescript", "source": "export function f(n: number): number { return n + 1; }", "name": "f", "args": {"n": 1},
               "json_schema": schema(n={"type": "integer"}), "env": {"call": {"PATH": "/workspace:/usr/bin:/bin"}}}
    assert value(call(as_root, request, "--workspace", f"{program.parent}:ro")) == 2
    program.write_text("#!/bin/sh\necho 'line 1: bad' >&2; exit 1\n")
    fault = failure(call(as_root, request, "--workspace", f"{program.parent}:ro"))
    assert fault["type"] == "SyntaxError" and "line 1: bad" in fault["message"]


def test_a_call_is_in_the_audit_log(as_root, tmp_path):
    (tmp_path / "log").mkdir(mode=0o700)
    path = tmp_path / "log/audit.jsonl"
    request = {"language": "python", "source": "def f(): return 1", "name": "f", "labels": {"tenant": "t1"}}
    value(call(as_root, request, policy=as_root.policy(audit={"record": ["lifecycle"]}), env=as_root.environment(PINFOLD_AUDIT=str(path))))
    log = path.read_text()
    assert '"start"' in log and '"end"' in log and "t1" in log and "def f" not in log


def test_a_secret_is_handed_in_and_masked_in_the_result(as_root):
    request = {"language": "python", "source": "import os\ndef f():\n  print(os.environ['KEY'])\n  return [len(os.environ['KEY']), os.environ['KEY']]", "name": "f"}
    code, result = call(as_root, request, "--secret", "KEY", "--secret-from-env", "KEY=CI_TOKEN", policy=as_root.policy(secrets=["KEY"]),
                        env=as_root.environment(CI_TOKEN="correct-horse-battery"))
    assert code == 0 and result["func_return"][0] == 21 and "correct-horse" not in json.dumps(result)


def test_javascript_values_that_are_not_made_of_properties_have_a_note(as_root):
    source = "class P { a = 1 }\nfunction f() { return [Promise.resolve(1), (function* () {})(), new P(), { [Symbol.toStringTag]: 7 }]; }"
    code, result = call(as_root, {"language": "javascript", "source": source, "name": "f"})
    assert (code, result["func_return"]) == (0, [{}, {}, {"a": 1}, {}]), result
    assert result["notes"] == ["/0: Promise became an object", "/1: Generator became an object"], result


def test_javascript_takes_named_arguments_where_the_request_says_so(as_root):
    request = {"language": "javascript", "source": "const f = ({a, b = 3}) => a * b;", "name": "f", "args": {"a": 2}}
    assert value(call(as_root, {**request, "call": "named"})) == 6
    assert value(call(as_root, request)) == 6


@pytest.mark.parametrize("source, kind, message", [
    ("function f() { null.x }", "TypeError", "Cannot read"), ("function g() {}", "ReferenceError", "no function 'f'"),
    ("async function f() { throw new RangeError('far') }", "RangeError", "far"), ("function f() { throw 'text' }", "string", "text"),
    ("function f() { process.exit(0) }", "Exit", "process.exit(0)"), ("function f() { return new Promise(() => {}) }", "Unsettled", "never kept"),
    ("function f( {", "SyntaxError", ""), ("function f() { setTimeout(() => { throw new Error('later') }, 1); return new Promise(() => {}) }", "Error", "later"),
    ("export default 1; const f = 3;", "TypeError", "no function"), ("function f() { throw Object.create(null) }", "object", "without a text] was thrown"),
    ("function f() { const e = new Error('m'); Object.defineProperty(e, 'stack', { get() { throw 1 } }); throw e }", "Error", "m"),
    ("function f() { const e = new Error('m'); e.message = { toString() { throw 1 } }; e.name = 5; throw e }", "5", "without a text"),
    ("function f() { throw new Proxy({}, { getPrototypeOf() { throw 1 }, get() { throw 2 } }) }", "object", "without a text] was thrown")])
def test_javascript_that_fails(as_root, source, kind, message):
    fault = failure(call(as_root, {"language": "javascript", "source": source, "name": "f"}))
    assert fault["type"] == kind and message in fault["message"]


@pytest.mark.parametrize("source, line", [
    ("const a = 1;\nfunction f() { return a b }", "tool:2\nfunction f() { return a b }\n                        ^\nSyntaxError: "),
    ("import 'path';\nimport { nothing } from 'fs';\nconst f = () => 1", "tool:2\nimport { nothing } from 'fs';\n         ^"),
    ("const f = () => 1;\nJSON.parse('{')", "at tool:2:6"), ("const f = () => 1;\nthrow Object.freeze(new SyntaxError('mine'))", "at tool:2:21")])
def test_javascript_that_is_no_module_is_told_where(as_root, source, line):
    fault = failure(call(as_root, {"language": "javascript", "source": source, "name": "f"}))
    assert fault["type"] == "SyntaxError" and line in fault["traceback"], fault


# the published schemas

def test_schemas_name_what_is_taken_and_given():
    request = json.loads((ROOT / "tools/schema/tool-request.schema.json").read_text())
    source = (ROOT / "runtime/tool/request.c").read_text()
    table = source[source.index("static const struct field fields[]"):]
    assert set(request["properties"]) == set(re.findall(r'\{"(\w+)",', table[:table.index("};")]))
    result = json.loads((ROOT / "tools/schema/tool-result.schema.json").read_text())
    assert result["required"] == RESULT_KEYS and list(result["properties"]) == [*RESULT_KEYS, "denials", "dependencies"]


@pytest.mark.parametrize("source", ["def f(): return {'a': [1]}", "def f(): return 1 / 0", "import os\ndef f(): os._exit(1)"])
def test_results_are_what_their_schema_says(as_root, source):
    jsonschema = pytest.importorskip("jsonschema")
    request = {"language": "python", "source": source, "name": "f", "env": {"call": {"A": None}}, "timeout": "5s"}
    folder = ROOT / "tools/schema"
    jsonschema.validate(request, json.loads((folder / "tool-request.schema.json").read_text()))
    jsonschema.validate(call(as_root, request)[1], json.loads((folder / "tool-result.schema.json").read_text()))
