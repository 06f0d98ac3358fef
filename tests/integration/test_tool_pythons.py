"""The Python runners on every Python that is here besides the system's: cold, as forks of a process that waits, and code contexts."""
import glob
import json
import os
import pathlib
import re
import subprocess

import pytest

from test_tool_warm import Server, clear, pool, prepare
from tool_sources import BAD, HOSTILE, PYTHON

PLACES = [os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")) + "/versions/*", os.path.expanduser("~/.local/share/uv/python/*"), "/opt/python/*", "/usr/local"]
COLD = ["csv", "asyncio", "multiprocessing", "dataclass in", "enum", "what JSON can't say", "exit is there", "where packages are", "nested in itself",
        "keyword-only and positional-only", "from __future__", "closed descriptors", "megabytes"]
SINCE = {"zoneinfo": (3, 9)}
# what was worded otherwise before
OLDER = {"raises deep inside", "syntax", "an exception without text"}


def found():
    """Of each version from 3.8 to 3.14 the first one that runs and has what the tools need."""
    interpreters = {}
    for prefix in sorted(path for place in PLACES for path in glob.glob(place)):
        program = pathlib.Path(prefix) / "bin/python3"
        if not program.exists():
            continue
        asked = subprocess.run([program, "-Sc", "import sys, ssl, sqlite3, _ctypes; print(*sys.version_info[:2])"], capture_output=True, text=True)
        version = tuple(map(int, asked.stdout.split())) if re.fullmatch(r"\d+ \d+\n", asked.stdout) else (0, 0)
        if (3, 8) <= version <= (3, 14):
            interpreters.setdefault(version, prefix)
    return interpreters


FOUND = found()
VERSIONS = [pytest.param(version, id="%d.%d" % version,
                         marks=() if version in FOUND else pytest.mark.skip(reason="this host has no Python %d.%d besides the system's" % version))
            for version in [(3, minor) for minor in range(8, 15)]]


@pytest.fixture
def policy(as_root, request):
    prefix = FOUND[request.param]  # its libraries are found by this path
    path = {"PATH": f"{prefix}/bin:/usr/bin:/bin"}
    mounts = [{"source": prefix, "target": prefix, "access": "read-only"}]
    made = as_root.policy(filesystem={"mounts": mounts}, environment={"set": path})
    yield as_root, made, request.param
    clear(as_root)


def call(pinfold, made, source, args, **fields):
    request = {"language": "python", "name": "f", "source": source, "args": args, **fields}
    done = pinfold.call([str(pinfold.program), "tool", "call", "--policy", made], input=json.dumps(request).encode())
    return json.loads(done.stdout)


def fits(got, expected):
    return expected(got) if callable(expected) else got == expected


@pytest.mark.parametrize("policy", VERSIONS, indirect=True)
def test_cold_calls_on_another_python(policy):
    pinfold, made, version = policy
    seen = call(pinfold, made, "import sys\ndef f(): return [list(sys.version_info[:2]), sys.prefix]", {})
    assert seen["func_return"] == [list(version), FOUND[version]], seen
    for name in COLD:
        source, args, expected = PYTHON[name]
        result = call(pinfold, made, source, args)
        assert result["status"] == "success" and fits(result["func_return"], expected), (name, result)
    state = call(pinfold, made, "def f(agent_state): agent_state.n += 1", {}, agent_state={"n": 1})
    assert state["agent_state"] == {"n": 2}, state


@pytest.mark.parametrize("policy", VERSIONS, indirect=True)
def test_warm_calls_on_another_python(policy):
    pinfold, made, version = policy
    prepare(pinfold, options=["--policy", made])
    server = Server(pinfold, "--policy", made)
    for name, (source, args, expected) in PYTHON.items():
        if version < SINCE.get(name, (3, 8)):
            continue
        answer = server.call(source, args)
        assert answer["result"]["status"] == "success" and fits(answer["result"]["func_return"], expected), (name, answer)
    for name, (source, args, kind, message, line) in BAD.items():
        fault = server.call(source, args)["result"]["func_return"]
        assert fault["type"] == kind, (name, fault)
        assert name in OLDER or message in fault["message"] and line in (fault["traceback"] or ""), (name, fault)
    for name in ("a guessed nonce on stdout", "a letta frame on stdout"):
        assert server.call(HOSTILE[name][0])["result"]["func_return"] == "true result", name
    assert [place["kind"] for place in pool(pinfold)["sandboxes"]] == ["warm"]
    server.close()


@pytest.mark.parametrize("policy", VERSIONS, indirect=True)
def test_code_contexts_on_another_python(policy):
    pinfold, made, version = policy

    def run(*arguments):
        return pinfold.call([str(pinfold.program), *arguments])
    assert run("up", "notes", "--policy", made).returncode == 0
    cells = [("import sys, asyncio\nx = await asyncio.sleep(0.01, 20)\nlist(sys.version_info[:2])", "success", list(version)),
             ("class Rich:\n    def _repr_html_(self): return '<b>'\ndisplay(Rich())\n{'n': x + 1}", "success", {"n": 21}),
             ("def f():\n    1 / 0\nf()", "error", None)]
    for cell, status, expected in cells:
        done = json.loads(run("code", "notes", "--json", "-c", cell).stdout)
        assert done["status"] == status, done
        assert expected is None or done["results"][-1]["application/json"] == expected, done
    assert done["error"]["type"] == "ZeroDivisionError" and 'File "cell-3", line 2, in f' in done["error"]["traceback"]
    assert run("rm", "--force", "notes").returncode == 0
