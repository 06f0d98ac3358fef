"""Letta frames in the stdout of tools: the value where a configuration asks for it, and text where none does."""
import json

import pytest

from test_tool import call as call_as, value
from test_tool_config import root_store  # noqa: F401: a fixture
from test_tool_warm import Server, clear, prepare

WRITE = """
import hashlib, os, subprocess, sys, uuid
MARK = uuid.uuid5(uuid.NAMESPACE_DNS, "local-sandbox-result-start-marker").bytes
def frame(payload, digest=None):
    return MARK + len(payload).to_bytes(4, "big") + (digest or hashlib.md5(payload).hexdigest()).encode() + payload
def say(payload, digest=None):
    sys.stdout.buffer.write(frame(payload, digest)); sys.stdout.flush()
"""
TOOL = WRITE + "def f(text):\n  print('before')\n  say(text.encode())\n  print('after')\n  return 'returned'"

CASES = {  # source, status, the value or the fault's type
    "a value": (WRITE + "def f(): say(b'{\"results\": [1, \"x\"], \"agent_state\": null}')", "success", [1, "x"]),
    "JSON of another shape": (WRITE + "def f(): say(b'[1]')", "success", [1]),
    "a pickle stays closed": (WRITE + "import pickle\nclass P:\n  def __reduce__(self): return os.system, ('touch /tmp/opened',)\ndef f(): say(pickle.dumps(P()))", "success", None),
    "none at all": (WRITE + "def f(): return 5", "success", 5),
    "a wrong check sum": (WRITE + "def f():\n  say(b'{}', '0' * 32)\n  return 5", "success", 5),
    "a torn one": (WRITE + "def f():\n  sys.stdout.buffer.write(frame(b'x' * 100)[:60]); sys.stdout.flush()\n  return 5", "success", 5),
    "the second one is text": (WRITE + "def f(): say(b'1'); say(b'2')", "success", 1),
    "what is announced past every bound": (WRITE + "def f():\n  os.write(1, MARK + b'\\xff' * 4 + b'0' * 32)\n  return 5", "success", 5),
    "a script that leaves with 0": (WRITE + "def f():\n  say(b'{\"results\": 3}'); os._exit(0)", "success", 3),
    "a script that leaves with 1": (WRITE + "def f():\n  say(b'{\"results\": 3}'); os._exit(1)", "error", "NoResult"),
    "a function that raises": (WRITE + "def f():\n  say(b'{\"results\": 3}'); raise ValueError", "error", "ValueError"),
    "deep and wide": (WRITE + "def f():\n  say(b'[' * 100000)\n  return 5", "success", None),
    "not a number": (WRITE + "def f(): say(b'{\"results\": NaN}')", "success", None),
    "no Unicode": (WRITE + "def f(): say(b'{\"results\": \"\\\\ud800\\xff\"}')", "success", None),
}


def call(store, source, **fields):
    request = {"language": "python", "source": source, "name": "f", "args": {}, **fields}
    return call_as(store.pinfold, request)


@pytest.fixture
def letta(root_store):  # noqa: F811
    root_store("config", "create", "--default", "letta", "-", content={"frames": "stdout-letta"})
    return root_store


@pytest.mark.parametrize("name", CASES)
def test_a_frame_in_stdout_where_the_configuration_takes_it(letta, name):
    source, status, expected = CASES[name]
    code, result = call(letta, source)
    assert result["status"] == status, result
    if status == "error":
        assert code == 1 and result["func_return"]["type"] == expected
    elif expected is None:
        assert isinstance(result["func_return"], str) and any("base64" in note for note in result["notes"]), result
    else:
        assert result["func_return"] == expected


def test_the_frame_is_taken_out_of_the_output_and_the_note_says_what_it_is_worth(letta):
    code, result = call(letta, TOOL, args={"text": '{"results": {"a": 1}, "agent_state": {"b": 2}}'})
    assert (code, result["func_return"], result["agent_state"]) == (0, {"a": 1}, {"b": 2})
    assert result["stdout"] == ["before", "after"] and any("whoever prints" in note for note in result["notes"])


def test_what_a_child_prints_can_be_the_value_where_frames_in_stdout_are_taken_and_never_elsewhere(letta):
    """The risk that the configuration takes on, and the same tool without it."""
    source = WRITE + "def f(data):\n  subprocess.run(['cat'], input=frame(data.encode()))\n  return 'true result'"
    args = {"data": '{"results": "forged"}'}
    assert value(call(letta, source, args=args)) == "forged"
    letta("config", "update", "letta", "-", content={"frames": "fd"})
    code, result = call(letta, source, args=args)
    assert (result["func_return"], code) == ("true result", 0) and "forged" in result["stdout"][0]
    letta("config", "update", "letta", "-", content={"frames": None})
    assert value(call(letta, source, args=args)) == "true result"


def test_a_policy_that_reads_no_such_frames_refuses_them(letta):
    code, result = call_as(letta.pinfold, {"language": "python", "source": "def f(): pass", "name": "f"}, policy=letta.pinfold.policy(frames=["fd"]))
    assert (code, result["error"]["kind"], result["error"]["pointer"].split()[-1]) == (125, "refused", "/frames"), result


def test_javascript_may_speak_so_too(letta):
    source = ("import { createHash } from 'crypto';\nimport { writeSync } from 'fs';\nexport function f() {\n  const p = Buffer.from('{\"results\": [4]}');\n"
              "  const n = Buffer.alloc(4); n.writeUInt32BE(p.length);\n  writeSync(1, Buffer.concat([Buffer.from('92c8e49843d35fb3919da69eb3e5c5c6', 'hex'), n,"
              " Buffer.from(createHash('md5').update(p).digest('hex')), p]));\n}")
    assert value(call_as(letta.pinfold, {"language": "javascript", "source": source, "name": "f"})) == [4]


def test_warm_calls_take_them_too_each_its_own(letta):
    pinfold = letta.pinfold
    prepare(pinfold)
    server = Server(pinfold)
    assert server.value(TOOL, {"text": '{"results": 1}'}) == 1
    assert server.value("def f(): return 2") == 2
    assert server.value(TOOL, {"text": '{"results": 3}'}) == 3
    answer = server.call(WRITE + "def f():\n  say(b'4'); raise ValueError")
    assert answer["result"]["func_return"]["type"] == "ValueError"
    shown = json.loads(pinfold.call([str(pinfold.program), "pool", "show", "--json"]).stdout)
    assert [place["kind"] for place in shown["sandboxes"]] == ["warm"]
    server.close()
    clear(pinfold)


def test_without_a_configuration_it_is_text(as_root):
    code, result = call_as(as_root, {"language": "python", "source": TOOL, "name": "f", "args": {"text": '{"results": 1}'}})
    assert (code, result["func_return"]) == (0, "returned") and "{\"results\": 1}" in result["stdout"][1]


def test_strays_on_the_channel_change_nothing(letta):
    source = WRITE + "def f():\n  say(b'1')\n  for n in os.listdir('/proc/self/fd'):\n    try: int(n) > 2 and os.write(int(n), b'x' * 40)\n    except OSError: pass\n  os._exit(0)"
    assert value(call(letta, source)) == 1
